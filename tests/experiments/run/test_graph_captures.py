"""Every graph that a run needs is captured before the clocks of its lanes start.

No GPU is needed: on a CPU, "captured" work is simply run again, and a test double counts the
captures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specviz.decoding import autoregressive, batch, forward_times
from specviz.decoding.ahead.executor import InLine
from specviz.decoding.drafters import pre_speculation
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.decoding.speculative import SpeculativeRun
from specviz.experiments.run import warm_up
from specviz.experiments.run.batch_race import run_rows
from specviz.experiments.run.forking import ForkRequest, start_fork
from specviz.experiments.run.profiling import ProfileRequest, Profiling
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Sweep, SweepPlan
from specviz.models.files import loading
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.graphs.graph_buffers import GraphBuffers, StepShape
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.records import BASELINE, SPECULATIVE, Round

PROMPT = "def add(a, b):\n    return a + b\n\ndef add(a, b):\n"
# The number of nodes of the largest trees in these runs. Captures for larger trees would take time
# and be of no use.
LARGEST_TREE = 32
CLOCKED = (  # the functions during which the clock of a lane runs
    (SpeculativeRun, "prefill"),
    (SpeculativeRun, "round"),
    (autoregressive, "first_token"),
    (autoregressive, "_step"),
    (batch.BatchRun, "prefill"),
    (batch.BatchRun, "round"),
    (batch, "_first_tokens"),
    (batch, "_baseline_steps"),
)


class Captures:
    """Lists of captured shapes: those captured while a lane's clock ran, and those at other times.

    The warm-up also runs rounds before the race. No clock counts these rounds.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.timed: list[StepShape] = []
        self.untimed: list[StepShape] = []
        self._clocks = self._rehearsals = 0
        self._monkeypatch = monkeypatch
        for owner, name in CLOCKED:
            self._wrap(owner, name, "_clocks")
        self._wrap(warm_up, "_run_rounds", "_rehearsals")
        capture = GraphBuffers.capture

        def counted(buffers: GraphBuffers, shape: StepShape, *rest: Any) -> None:
            is_timed = self._clocks and not self._rehearsals
            (self.timed if is_timed else self.untimed).append(shape)
            capture(buffers, shape, *rest)

        monkeypatch.setattr(GraphBuffers, "capture", counted)

    def _wrap(self, owner: Any, name: str, depth: str) -> None:
        """Wrap a function, so that the attribute `depth` counts its calls that are running now."""
        function: Callable[..., Any] = getattr(owner, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            setattr(self, depth, getattr(self, depth) + 1)
            try:
                return function(*args, **options)
            finally:
                setattr(self, depth, getattr(self, depth) - 1)

        self._monkeypatch.setattr(owner, name, wrapped)


@pytest.fixture
def captures(empty_memory: None, monkeypatch: pytest.MonkeyPatch) -> Captures:
    """Return a recorder of graph captures; all models capture as on a GPU.

    The work runs in this process, on the CPU.
    """
    monkeypatch.setattr(loading, "_own_kind", lambda device: CapturedModel)
    monkeypatch.setattr(pre_speculation, "executor_for", InLine)
    # The run must try every tree size once. The measured times do not matter, so one repeat of each
    # forward is enough.
    monkeypatch.setattr(forward_times, "REPEATS", 1)
    monkeypatch.setattr(warm_up, "MOST_TOKENS", LARGEST_TREE)
    return Captures(monkeypatch)


def race_request(name: str, **changes: Any) -> RaceRequest:
    usual = {"max_new_tokens": 16, "temperature": 1.0}
    config = DRAFTERS[name].usual(4, **(usual | changes))
    return RaceRequest(pair_named(BUNDLED), PROMPT, config, device="cpu")


# Drawn and greedy trees have the same shapes. These two methods cover every kind of model, cache
# and head; `make slow` runs the others.
QUICK = ("draft-model", "eagle")


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in DRAFTERS],
)
def test_no_graph_is_captured_while_a_lane_of_a_race_runs(
    name: str, temperature: float, captures: Captures
) -> None:
    # With seed 0, the race is the first one in this process. With seed 1, the same race runs again
    # with other draws.
    for seed in (0, 1):
        race = start_race(race_request(name, temperature=temperature, seed=seed))
        for _ in race:
            pass
        race.close()
    assert captures.timed == [] and captures.untimed


@pytest.mark.parametrize(
    "name", ["draft-model", pytest.param("early-exit", marks=pytest.mark.slow)]
)
def test_no_graph_is_captured_while_a_profile_decodes_its_prompts(
    name: str, captures: Captures
) -> None:
    config = race_request(name).config
    for _ in Profiling(ProfileRequest(pair_named(BUNDLED), (PROMPT, 9 * PROMPT), config)):
        pass
    assert captures.timed == [] and captures.untimed


@pytest.mark.parametrize(
    "name", ["draft-tree", pytest.param("pre-speculation", marks=pytest.mark.slow)]
)
def test_no_graph_is_captured_in_the_new_rounds_of_a_fork(name: str, captures: Captures) -> None:
    race = start_race(race_request("prompt-lookup"))
    for _ in race:
        pass
    race.close()
    captures.untimed.clear()
    config = race_request(name).config
    fork = start_fork(ForkRequest(race.trace(), 2, race_request(name).pair, config, device="cpu"))
    rounds = [each for each in fork if isinstance(each.event, Round)]
    fork.close()
    assert len(rounds) > 2 and captures.timed == [] and captures.untimed


@pytest.mark.slow
def test_no_graph_is_captured_in_the_blocks_of_a_sweep(captures: Captures) -> None:
    request = race_request("early-exit")
    setting = SweepSetting(request.pair, request.config, prompts=1, texts=(PROMPT,), device="cpu")
    for _ in Sweep(SweepPlan(setting, (("draft-length", (2, 5)),), repeats=1)):
        pass
    assert captures.timed == [] and captures.untimed


def test_no_graph_is_captured_in_a_batch_whose_rows_have_separate_caches(
    captures: Captures,
) -> None:
    rows = [replace(race_request("early-exit"), prompt=prompt) for prompt in (PROMPT, 9 * PROMPT)]
    for lane in (BASELINE, SPECULATIVE):
        run_rows(rows, lane)
    assert captures.timed == [] and captures.untimed
