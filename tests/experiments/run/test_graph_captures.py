"""Every graph that a race needs is captured before its lanes' clocks start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models import pair_loading
from specviz.models.files import loading
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.graphs.graph_buffers import GraphBuffers, StepShape
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.records import DecodingConfig, Prefill

PROMPT = "def add(a, b):\n    return a + b\n\ndef add(a, b):\n"


@pytest.fixture
def captured_pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bundled models as on a GPU, except that captured work is simply done again."""
    monkeypatch.setattr(loading, "_own_kind", lambda device: CapturedModel)
    pair_loading._store.clear()
    yield
    pair_loading._store.clear()


# a drawn tree and a greedy one feed the same shapes: the greedy repeats are in make slow
@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("name", [name for name in DRAFTERS if name != "pre-speculation"])
def test_no_graph_is_captured_while_a_lane_runs(
    name: str, temperature: float, captured_pair: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured: list[StepShape] = []
    capture = GraphBuffers.capture

    def counted(self: GraphBuffers, shape: StepShape, *rest: object) -> None:
        captured.append(shape)
        capture(self, shape, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(GraphBuffers, "capture", counted)
    method = DRAFTERS[name]
    config = DecodingConfig(
        method=name,
        branching=method.default_branching,
        tree_kind=method.kinds[0],
        temperature=temperature,
        max_new_tokens=40,
    )
    request = RaceRequest(pair_named(BUNDLED), PROMPT, config, device="cpu")
    for seed in (0, 1):  # the first race of the process, and one that draws otherwise
        race = start_race(replace(request, config=replace(config, seed=seed)))
        started = 0
        for event in race:
            started += isinstance(event.event, Prefill)
            if started < 2:
                captured.clear()  # a lane's cache is made before its clock starts
        race.close()
        del race
        assert captured == []
