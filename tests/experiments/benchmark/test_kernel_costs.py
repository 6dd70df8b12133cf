"""The matrix kernels of a step are named and timed during the step; a slow baseline is detected."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch

from specviz.cli import main
from specviz.commands.steps_command import steps_text
from specviz.experiments.benchmark import kernel_costs as measuring
from specviz.experiments.benchmark import step_costs
from specviz.experiments.benchmark.kernel_costs import (
    ALLOWED,
    FEW_ROWS,
    FORWARD,
    KINDS,
    STEP,
    BaselineCheck,
    Forward,
    check_baseline,
    kernel_costs,
    seconds_by_kind,
    watched,
)
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.choice import FIRST_ROWS, Choice
from specviz.models.matrix_kernels.kernel_candidates import PLAIN, offered
from specviz.models.pair_catalog import CHAT, pair_named
from specviz.models.pair_loading import load_pair


@pytest.fixture
def model() -> LlamaModel:
    """Return the bundled draft model, with kernel `linear` for one row and `mm` for more rows."""
    draft = load_pair(pair_named("bundled"), "cpu").parts.draft
    assert isinstance(draft, LlamaModel)
    choice = Choice(("linear", *["mm"] * (len(FIRST_ROWS) - 1)), {})

    def copied(projection: Any) -> Any:
        made = type(projection)(projection.weights(), projection.bias, projection.rows)
        made.adopt(choice)
        return made

    layers = [each.converted(copied) for each in draft.layers]
    return draft.with_layers(layers, draft.info, copied(draft.head))


def forward_of(rows: int) -> Forward:
    def forward(model: LlamaModel) -> Callable[[], None]:
        ids, places = torch.zeros((1, rows), dtype=torch.int64), torch.arange(rows)[None]

        def step() -> None:
            model.forward(ids, places, model.new_cache(rows))

        return step

    return forward


def test_the_check_tries_no_kernel_that_needs_a_forbidden_copy(model: LlamaModel) -> None:
    model.head.only_plain = True
    heads: set[str] = set()

    def measure(model: LlamaModel, forward: Forward) -> dict[str, float]:
        assert model.head.choice is not None
        heads.update(model.head.choice.layouts)
        return dict.fromkeys((*KINDS, STEP, FORWARD), 1.0)

    check_baseline(model, forward_of(1), 1, measure=measure)
    assert heads == {PLAIN}


def test_watched_projections_give_the_same_results(model: LlamaModel) -> None:
    calls: list[str] = []

    def watch(kind: str, multiply: Callable[[], torch.Tensor]) -> torch.Tensor:
        calls.append(kind)
        return multiply()

    ids, places = torch.tensor([[3, 1, 4]]), torch.arange(3)[None]
    plain = model.forward(ids, places, model.new_cache(3)).logits
    seen = watched(model, watch).forward(ids, places, model.new_cache(3)).logits
    assert torch.equal(plain, seen)
    assert calls == [*KINDS[:-1]] * model.info.layers + ["head"]


def test_every_kind_has_the_median_of_its_times_and_a_forward_the_median_of_all(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "WARM_UP_STEPS", 1)
    monkeypatch.setattr(measuring, "STEPS", 3)

    def clock() -> Iterator[float]:
        """Yield the readings of a clock: one second apart, or a thousand in a slow step.

        The warm-up and one of the measured steps are slow.
        """
        now, reads = 0.0, 4 + 2 * (len(KINDS[:-1]) * model.info.layers + 1)
        for step in range(4):
            for _ in range(reads):
                now += 1000.0 if step in (0, 2) else 1.0
                yield now

    ticks = clock()
    found = seconds_by_kind(model, forward_of(1), lambda: next(ticks))
    layers = float(model.info.layers)
    kernels = {kind: layers for kind in KINDS[:-1]} | {"head": 1.0}
    assert found == kernels | {STEP: 2 * sum(kernels.values()) + 1, FORWARD: 1.0}


@pytest.mark.parametrize(("rows", "kernel"), [(1, "linear"), (FEW_ROWS, "mm")])
def test_every_kind_of_matrix_names_the_kernel_that_its_number_of_rows_uses(
    model: LlamaModel, rows: int, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {kind: 0.5 * (1 + at) for at, kind in enumerate(KINDS)}
    monkeypatch.setattr(measuring, "seconds_by_kind", lambda model, forward: times)
    found = {each.kind: each for each in kernel_costs(model, forward_of(rows), rows)}
    assert tuple(found) == KINDS and {each.kernel for each in found.values()} == {kernel}
    weights = model.layers[0].down.weight
    down = found["down"]
    assert down.matrices == model.info.layers and down.bytes == down.matrices * weights.nbytes
    assert (down.seconds, down.bytes_per_second) == (2.0, down.bytes / 2.0)


def _check(
    model: LlamaModel,
    speed: Mapping[str, float],
    disturbed: Collection[int] = (),
    whole: float | None = None,
) -> BaselineCheck:
    """Return a check with made-up times.

    `speed` maps a kernel to the seconds that it takes for each kind of matrix; other kernels take
    10 s. Everything else in a step takes half a second. A compiled or captured forward, which does
    not call its operations one by one, takes `whole` seconds (default: the time of such a step).
    Each candidate is measured four times, in the order chosen, candidate, candidate, chosen. The
    measurements with the numbers in `disturbed` take three times as long.
    """
    reading = count()

    def measure(model: LlamaModel, forward: Forward) -> dict[str, float]:
        choice = model.layers[0].down.choice
        assert choice is not None
        longer = 3.0 if next(reading) % 4 in disturbed else 1.0
        each = longer * speed.get(choice.names[0], 10.0)
        step = len(KINDS) * each + 0.5
        return dict.fromkeys(KINDS, each) | {STEP: step, FORWARD: step if whole is None else whole}

    return check_baseline(model, forward_of(1), 2, measure=measure)


def test_a_faster_candidate_makes_the_check_fail_in_one_sentence(model: LlamaModel) -> None:
    check = _check(model, {"linear": 2.0, "mm": 1.0})
    assert (check.seconds, check.best_seconds, check.ratio) == (10.5, 5.5, 10.5 / 5.5)
    assert [each.kind for each in check.better] == list(KINDS)
    for each in check.better:
        assert (each.chosen, each.candidate, each.ratio, each.gain_seconds) == (
            *("linear", "mm"),
            *(0.5, 1.0),
        )
    assert check.shortfall is not None and check.shortfall.count(". ") == 0
    assert "at most 1.1 times" in check.shortfall
    assert "got 10500.00 ms against 5500.00 ms (1.91 times)" in check.shortfall
    assert "mm instead of linear for qkv" in check.shortfall


@pytest.mark.parametrize("faster", [1.99, 1.85])
def test_a_gain_within_the_tolerance_passes(model: LlamaModel, faster: float) -> None:
    check = _check(model, {"linear": 2.0, "mm": faster})
    assert check.ratio < ALLOWED and check.shortfall is None
    assert bool(check.better) == (faster < 1.9)  # a gain of only 0.5 % does not count


@pytest.mark.parametrize("disturbed", [(0,), (3,), (0, 1), (2, 3), (1,)])
def test_other_work_on_the_machine_gives_no_candidate_an_advantage(
    model: LlamaModel, disturbed: tuple[int, ...]
) -> None:
    others = {each.name: 2.0 for each in offered(model.head.shape, model.head.rows)}
    check = _check(model, others, disturbed)
    assert check.shortfall is None and check.better == () and check.seconds == 10.5


def test_every_available_candidate_is_tried_in_the_whole_model(model: LlamaModel) -> None:
    names = [each.name for each in offered(model.head.shape, model.head.rows)]
    assert _check(model, {"linear": 1.0}).candidates == tuple(names) and len(names) > 2


def test_the_candidates_of_the_check_write_the_same_text(model: LlamaModel) -> None:
    ids, places = torch.tensor([[3, 1, 4]]), torch.arange(3)[None]
    plain = model.forward(ids, places, model.new_cache(3)).logits
    for name in measuring._candidates(model):
        variant = measuring._with_candidate(model, name)
        logits = variant.forward(ids, places, variant.new_cache(3)).logits
        assert torch.allclose(plain, logits, atol=1e-3), name


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((step_costs, "WARM_UP_STEPS"), (measuring, "WARM_UP_STEPS")):
        monkeypatch.setattr(module, name, 1)
    for name in ("STEPS", "FORWARDS"):
        monkeypatch.setattr(step_costs, name, 1)
    monkeypatch.setattr(measuring, "STEPS", 1)


COMMAND = ["steps", "--pair", "bundled", "--device", "cpu", "--repeat", "1"]


def test_the_command_names_the_kernels_and_their_speed(
    few_steps: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    found = [(each["kind"], each["rows"]) for each in result["kernels"]]
    assert found == [(kind, rows) for rows in (1, FEW_ROWS) for kind in KINDS]
    assert all(each["bytes_per_second"] > 0 and each["kernel"] for each in result["kernels"])
    assert result["check"] is None


@pytest.mark.parametrize(
    ("own", "format_seconds", "is_above"), [(2, 2, 0), (0.5, 2, 1), (2, 0.5, 1)]
)
def test_a_step_above_the_limit_gets_both_reasons(
    own: float, format_seconds: float, is_above: bool
) -> None:
    of_model = {"model": "m", "bytes": 1, "own_seconds": own, "eager_seconds": None}
    of_model |= {"library_seconds": 1, "ratio": 1, "read_seconds": 1, "shares": {}, "forwards": []}
    of_format = {"weights": "int8", "bytes": 1, "ratio": 1, "read_seconds": 1}
    result = {"models": [of_model], "formats": [of_format | {"seconds": format_seconds}]}
    result |= {"context": 1, "device": "cpu", "dtype": "float32", "threads": 1, "processor": "p"}
    text = steps_text(result | {"version": "1", "bandwidth": 1, "kernels": [], "check": None})
    reasons = "above 100 % of that limit: from the cache, or other work slowed its measurement"
    assert text.count(reasons) == is_above


@pytest.mark.parametrize(("speed", "status"), [(1.0, 1), (1.95, 0)])
def test_the_check_decides_on_the_exit_status(
    speed: float,
    status: int,
    few_steps: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check(model: LlamaModel, forward: Forward, blocks: int, progress: Any) -> BaselineCheck:
        return _check(_linear(model), {"linear": 2.0, "mm": speed})

    monkeypatch.setattr(step_costs, "check_baseline", check)
    assert main([*COMMAND, "--check"]) == status
    out, err = capsys.readouterr()
    assert "matrix kernels were tried for one row: the best would make the step" in out
    last = err.strip().splitlines()[-1]
    assert last.startswith("specviz: the baseline's step must take at most 1.1") == bool(status)


def _linear(model: LlamaModel) -> LlamaModel:
    return measuring._with_candidate(model, "linear")


def test_layers_in_one_call_may_be_faster_than_the_best_kernels_in_separate_calls(
    model: LlamaModel,
) -> None:
    check = _check(model, {"linear": 2.0, "mm": 1.0}, whole=5.0)
    assert (check.seconds, check.best_seconds, check.shortfall) == (5.0, 5.0, None)
    assert {each.candidate for each in check.better} == {"mm"}


def test_a_target_that_chooses_no_kernels_has_nothing_to_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load_pair(pair_named("bundled"), "cpu")

    class Other(LibraryModel):
        info = replace(loaded.target.info, architecture="GPT2LMHeadModel")
        device = torch.device("cpu")

        def __init__(self) -> None:
            pass

    other = replace(loaded, target=Other())
    monkeypatch.setattr(step_costs, "load_pair", lambda *_: other)
    assert main([*COMMAND, "--check"]) == 2
    rule = "'check' must be given only for a target of the Llama family on a CPU"
    assert f"{rule}, got GPT2LMHeadModel on cpu" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bundled", CHAT])
def test_no_other_kernel_makes_the_baseline_clearly_faster(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not pair_named(name).is_here:
        pytest.skip(f"the pair {name} is not on this machine")
    status = main(["steps", "--pair", name, "--device", "cpu", "--repeat", "4", "--check"])
    out, err = capsys.readouterr()
    print(out)
    assert status == 0, err
