"""A step of the bundled pair starts few device operations outside of CUDA graphs.

On a fast accelerator these operations take the host longer than the device, so their number must
not grow. The models' steps are captured, as on CUDA; `tests.launches` says what is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from specviz.decoding import autoregressive
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.tree_budget import NODES
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.target import cache_capacity
from specviz.models import pair_loading
from specviz.models.files import loading
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.models.parts import Need
from specviz.records import DecodingConfig
from tests.launches import launches

PROMPT = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n"
ROUNDS = 7
CHAIN = "draft-model"
MOST = {CHAIN: 6, "draft-tree": 12, "dynamic-tree": 13, "eagle": 200}
TEMPERATURES = pytest.mark.parametrize("temperature", [0.0, 1.0])


@pytest.fixture(scope="module")
def captured_pair() -> Iterator[LoadedPair]:
    """Yield the bundled pair, loaded as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_own_kind", lambda device: CapturedModel)
        patch.setattr(pair_loading, "_store", pair_loading.Store(pair_loading.MODELS_IN_MEMORY))
        needs = frozenset({Need.DRAFT, Need.EAGLE})
        yield load_pair(pair_named(BUNDLED), "cpu", "float32", needs)


@TEMPERATURES
def test_a_step_of_the_baseline_starts_few_operations(
    temperature: float, captured_pair: LoadedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DecodingConfig(max_new_tokens=16, temperature=temperature)
    steps = autoregressive.decode(captured_pair.target, captured_pair.codec.encode(PROMPT), config)
    for _ in range(3):
        next(steps)
    with launches(monkeypatch) as counted:
        next(steps)
    assert counted.total <= 2, counted.counts


@TEMPERATURES
@pytest.mark.parametrize("name", MOST)
def test_a_round_starts_few_operations(
    name: str, temperature: float, captured_pair: LoadedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"max_new_tokens": 64, "temperature": temperature}
    options = ((NODES.name, 8),) if NODES in DRAFTERS[name].options else ()
    config = DRAFTERS[name].usual(5 if name == CHAIN else 4, options=options, **usual)
    ids = captured_pair.codec.encode(PROMPT)
    capacity = cache_capacity(ids, config)
    setup = Setup(captured_pair.target, captured_pair.parts, config, capacity)
    run = SpeculativeRun(setup.target, make_drafter(setup), ids, config, ())
    run.prefill()
    counts = []
    for _ in range(ROUNDS):
        with launches(monkeypatch) as counted:
            run.round()
        counts.append(counted.counts)
    # Some rounds also build tables that later rounds reuse, so the median round counts.
    usual = sorted(counts, key=Counter.total)[ROUNDS // 2]
    assert usual.total() <= MOST[name], usual
