"""The estimate counts all the memory of a run, and names parts that it cannot count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.run.racing import demand_of
from specviz.models.graphs.graph_buffers import captured_slots
from specviz.models.memory_estimate import (
    DRAFT_PROCESS_BYTES,
    TREE_SLOTS,
    Demand,
    ExtraMemory,
    MemoryEstimate,
    ModelSize,
    estimate,
)
from specviz.records import MAX_TREE_NODES, DecodingConfig

TARGET = ModelSize("t", 4_000_000, True, 1_000_000, 1000, 500, 50_000, 1024)
DRAFT = ModelSize("d", 400_000, True, 100_000, 100, 50, 50_000, 1024)
DEMAND = Demand(max_new_tokens=100)


def found(**changes: object) -> MemoryEstimate:
    return estimate(TARGET, [DRAFT], replace(DEMAND, **changes), 200)  # type: ignore[arg-type]


def test_each_lane_has_a_cache_of_the_target_and_the_draft_has_its_own() -> None:
    slots = 200 + 100 + TREE_SLOTS
    assert found().caches == (2 * 1000 + 100) * slots
    assert found(lanes=3).caches - found().caches == 1000 * slots
    assert found(sequences=4).caches == 4 * found().caches


def test_a_long_prompt_takes_more_than_a_short_one() -> None:
    short, long = (estimate(TARGET, [DRAFT], DEMAND, tokens) for tokens in (10, 900))
    assert long.caches - short.caches == 890 * 2100
    whole = estimate(TARGET, [DRAFT], DEMAND, None)
    assert whole.caches == estimate(TARGET, [DRAFT], DEMAND, 1024 - 100).caches
    assert "prompt's length" in whole.unknown[0]


def test_a_wide_tree_needs_several_copies_of_nodes_times_vocabulary() -> None:
    assert found(rows=65).work >= 8 * 65 * 50_000 * 4


def test_drafting_ahead_needs_a_second_draft_and_a_process_on_a_cpu_only() -> None:
    ahead = replace(DEMAND, extra=ExtraMemory.DRAFT_PROCESS)
    on_cpu = estimate(TARGET, [DRAFT], ahead, 200).copies
    assert on_cpu == DRAFT_PROCESS_BYTES + DRAFT.weights
    assert estimate(TARGET, [DRAFT], ahead, 200, is_on_cpu=False).copies == 0


def test_a_second_layout_of_weights_counts_on_a_cpu_only() -> None:
    packed = replace(TARGET, packed=300_000)
    on_cpu, elsewhere = (
        estimate(packed, [DRAFT], DEMAND, 200, is_on_cpu=place) for place in (True, False)
    )
    assert elsewhere.weights == found().weights
    assert on_cpu.weights - elsewhere.weights == 300_000


def test_on_a_gpu_a_sequence_has_as_many_slots_as_its_graphs() -> None:
    on_gpu = estimate(TARGET, [DRAFT], DEMAND, 200, is_on_cpu=False)
    assert on_gpu.caches == 2100 * captured_slots(200 + 100 + TREE_SLOTS) == 2100 * 1024
    batch = replace(DEMAND, sequences=4)  # a batch of sequences runs without graphs
    assert estimate(TARGET, [DRAFT], batch, 200, is_on_cpu=False).caches == 4 * found().caches


def test_a_self_draft_needs_a_cache_and_a_quantised_one_also_weights() -> None:
    skipping = found(extra=ExtraMemory.TARGET_CACHE)
    assert skipping.copies == 0 and skipping.caches > found().caches
    assert found(extra=ExtraMemory.ROUNDED_TARGET).copies == TARGET.parameters


def test_unknown_parts_are_named() -> None:
    odd = replace(DRAFT, is_counted=False, cache_per_token=None, activations_per_token=None)
    unknown = estimate(TARGET, [odd], DEMAND, 200, head_bytes=None).unknown
    assert [text.split(" (")[0] for text in unknown] == [
        "the weights of d",
        "the cache of d",
        "the activations of d",
        "the weights of the heads",
    ]


@pytest.mark.parametrize("name", DRAFTERS)
def test_every_method_describes_the_needs_of_its_run(name: str) -> None:
    config = DRAFTERS[name].usual(4, max_new_tokens=50)
    demand = demand_of(config, "a prompt")
    assert demand.max_new_tokens == 50
    assert 1 + config.node_count <= demand.rows <= 1 + MAX_TREE_NODES
    holds_more = {"pre-speculation", "quantised-self", "layer-skip"}
    assert (demand.extra is not ExtraMemory.NOTHING) == (name in holds_more)


def test_the_option_nodes_limits_the_size_of_the_tree() -> None:
    wide = DecodingConfig("medusa", drawing=DRAFTERS["medusa"].drawings[0], options=(("nodes", 9),))
    assert demand_of(wide).rows == 10
