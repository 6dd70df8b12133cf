"""The time of a forward is the longer of its memory reads and its arithmetic, plus fixed costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.sizing.forward_time import GPUS, Hardware, PlacedModel, placed
from specviz.sizing.serving_plan import read_plan
from specviz.sizing.shape import MODELS, ModelShape
from specviz.sizing.sized_plan import SizedPlan

TINY = ModelShape(layers=2, hidden_size=8, heads=2, vocabulary=10, intermediate_size=16)
ROWS, TOKENS, CONTEXTS = st.integers(1, 64), st.integers(1, 16), st.integers(0, 4096)
PLACED = {
    "dense": placed(MODELS["llama-3-1-8b"], GPUS["h100-sxm"], 1, "bf16"),
    "experts": placed(MODELS["mixtral-8x7b"], GPUS["a100-80"], 2, "bf16"),
    "latent": placed(MODELS["deepseek-v3"], GPUS["h200"], 8, "fp8", "fp8"),
}


def test_a_forward_equals_a_calculation_by_hand() -> None:
    weights = TINY.weights.used
    slow_memory = PlacedModel(TINY, Hardware(100.0, 1e12))
    read = 2 * weights + 3 * 50 * 2 * TINY.cache_values_per_token
    assert slow_memory.seconds(3, 1, 50) == pytest.approx(read / 100)
    slow_arithmetic = PlacedModel(TINY, Hardware(1e12, 100.0))
    flops = 6 * (2 * weights + 50 * TINY.attention_flops)
    assert slow_arithmetic.seconds(3, 2, 50) == pytest.approx(flops / 100)


def test_fixed_times_per_layer_forward_and_exchange_are_added() -> None:
    two = Hardware(1e30, 1e30, layer_seconds=1.0, forward_seconds=10.0, gpus=2, link_seconds=0.5)
    # The activations of 4 tokens are 8 numbers of 2 bytes each. The two GPUs add their parts in two
    # exchanges, and in each of them a GPU sends half of these bytes.
    sent = 4 * 8 * 2.0
    assert PlacedModel(TINY, two).seconds(4, 1, 0) == pytest.approx(10 + 2 + 2 * 2 * (0.5 + sent))


@given(ROWS, TOKENS, CONTEXTS, st.sampled_from(sorted(PLACED)))
def test_more_work_never_takes_less_time(rows: int, tokens: int, context: int, name: str) -> None:
    model = PLACED[name]
    seconds = model.seconds(rows, tokens, context)
    assert seconds <= model.seconds(rows + 1, tokens, context)
    assert seconds <= model.seconds(rows, tokens + 1, context)
    assert seconds <= model.seconds(rows, tokens, context + 1)
    assert seconds > model.hardware.roofline(model.model.weights, model.weight_bytes, rows * tokens)


def test_a_long_prompt_is_limited_by_arithmetic_and_one_token_by_memory() -> None:
    model = PLACED["dense"]
    read = model.weight_bytes * model.model.weights.used / model.hardware.bytes_per_second
    assert model.seconds(1, 1, 0) == pytest.approx(read, rel=0.2)
    computed = 2 * 8192 * model.model.weights.used / model.hardware.flops_per_second
    assert model.prefill_seconds(1, 8192) > 0.9 * computed > 10 * read


def test_faster_cards_more_cards_and_fewer_bits_take_less_time() -> None:
    model = MODELS["llama-3-1-70b"]

    def seconds(gpu: str, count: int, precision: str) -> float:
        return placed(model, GPUS[gpu], count, precision).seconds(1, 1, 500)

    slow = seconds("a100-80", 2, "bf16")
    assert slow > seconds("h100-sxm", 2, "bf16") > seconds("h100-sxm", 4, "bf16")
    assert slow > seconds("a100-80", 2, "int8") > seconds("a100-80", 2, "int4")


def test_too_many_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="gpus must be from 1 to 64, got 65"):
        GPUS["t4"].together(65)


def test_a_cache_is_split_by_its_heads_but_every_card_reads_a_latent_one() -> None:
    # With so many tokens, reading the cache takes nearly all of the time.
    cards, context = 16, 10**9
    for name, split in (("llama-3-1-8b", 8), ("llama-2-7b", 16), ("deepseek-v3", 1)):
        model = placed(MODELS[name], GPUS["h100-sxm"], cards, "bf16")
        each = context * model.context_bytes / split / (0.8 * 3350e9)
        assert model.cache_cards == split
        if name != "deepseek-v3":
            assert model.seconds(1, 1, context) == pytest.approx(each, rel=0.01)


def test_an_exchange_over_pcie_and_a_cpu_equal_calculations_by_hand() -> None:
    model = MODELS["llama-3-1-8b"]
    weights = 2 * model.weights.used  # bytes of the weights
    pcie = placed(model, GPUS["h100-pcie"], 2, "bf16").seconds(1, 1, 0)
    sent = 2 * 0.5 * 4096 * 2 / (0.8 * 64e9)
    layers = 32 * (25e-6 + 2 * (30e-6 + sent))
    assert pcie == pytest.approx(weights / (0.8 * 2 * 2039e9) + layers + 100e-6)
    cpu = next(each for each in GPUS.values() if each.kind == "cpu")
    assert placed(model, cpu, 1, "bf16").seconds(1, 1, 0) == pytest.approx(
        weights / (0.7 * cpu.bandwidth * 1e9) + 32 * 2e-6 + 20e-6
    )


def test_reading_the_cache_does_not_overlap_with_the_arithmetic_of_matrices() -> None:
    """Attention and matrix multiplication are separate kernels.

    Each kernel takes the longer of its own times for reading and arithmetic.
    """
    weights, cached = TINY.weights.used, 2 * TINY.cache_values_per_token
    both = PlacedModel(TINY, Hardware(100.0, 100.0))
    rows, tokens, context = 8, 5, 40
    reading = rows * context * cached / 100
    attention = rows * tokens * context * TINY.attention_flops / 100
    products = rows * tokens * 2 * weights / 100
    assert products > 2 * weights / 100  # the arithmetic takes longer than reading the weights
    assert both.seconds(rows, tokens, context) == pytest.approx(products + max(reading, attention))


def test_in_a_large_batch_verifying_takes_the_time_of_its_arithmetic() -> None:
    """For 8B with a 1B draft on an H100 and K = 2, more requests mean a smaller gain per token."""
    fields = {"target": "llama-3-1-8b", "gpus": 1, "prompt": 1000, "output": 300}
    found = SizedPlan(read_plan(fields | {"draft_length": 2, "acceptance": 0.7}))
    gains = [found.speedup(rows, 2) for rows in (64, 100, 150, 200, 244)]
    assert gains == pytest.approx([1.50, 1.49, 1.31, 1.21, 1.16], abs=0.006)
