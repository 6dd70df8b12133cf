"""Parameters, bytes and arithmetic follow from a model's shape."""

from __future__ import annotations

import pytest

from specviz.errors import InputError
from specviz.sizing.shape import (
    MODELS,
    PUBLISHED,
    ModelShape,
    Weights,
    bytes_of,
    eagle_head,
    shape_of_config,
)

TINY = ModelShape(layers=2, hidden_size=8, heads=2, vocabulary=10, intermediate_size=16)


def test_the_numbers_of_a_tiny_model_equal_a_count_by_hand() -> None:
    attention, block, table = 4 * 8 * 8, 3 * 8 * 16, 10 * 8
    assert TINY.parameters == 2 * (attention + block) + 2 * table
    # The embedding is not counted as used, because a forward reads only the rows of its tokens and
    # multiplies nothing with them.
    assert TINY.weights.used == 2 * (attention + block) + table
    assert TINY.cache_values_per_token == 2 * 2 * 8
    # Product of the layers (2), the matrices (2), a multiplication and an addition (2), and the
    # hidden size (8).
    assert TINY.attention_flops == 2 * 2 * 2 * 8


@pytest.mark.parametrize("name", MODELS)
def test_every_preset_has_as_many_parameters_as_its_authors_say(name: str) -> None:
    said = PUBLISHED[name]
    assert MODELS[name].parameters / 1e9 == pytest.approx(said["parameters"], rel=0.0125)
    active = said.get("active_parameters")
    if active:
        assert MODELS[name].active_parameters / 1e9 == pytest.approx(active, rel=0.02)


def test_eagle_heads_are_as_large_as_published() -> None:
    """The values are from the table in the authors' README, in billions.

    Their 33B and 70B heads agree as well.
    """
    published = {"llama-2-7b": 0.24, "llama-2-13b": 0.37, "vicuna-33b": 0.56, "llama-2-70b": 0.99}
    for name, billions in published.items():
        assert eagle_head(MODELS[name]).parameters / 1e9 == pytest.approx(billions, rel=0.15)


def test_more_tokens_use_more_experts_but_never_more_than_all() -> None:
    weights = Weights(100.0, 800.0, 8, 2)
    read = [weights.read(tokens) for tokens in (1, 2, 8, 1000)]
    assert read[0] == weights.used == 300
    assert read == sorted(read) and read[-1] == pytest.approx(900)


def test_a_published_configuration_gives_the_preset() -> None:
    config = {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 32000,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    assert shape_of_config(config, "x").parameters == MODELS["mixtral-8x7b"].parameters
    gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
    assert shape_of_config(gpt2 | {"n_positions": 1024}, "x").parameters == (
        MODELS["gpt2"].parameters
    )


@pytest.mark.parametrize(
    "config, said",
    [
        ({"hidden_size": 8}, "num_hidden_layers"),
        ({"kv_lora_rank": 512}, "latent attention"),
        (
            {"n_layer": 2, "n_embd": 8, "n_head": 3, "vocab_size": 9, "num_key_value_heads": 2}
            | {"intermediate_size": 4},
            "kv_heads must divide heads = 3, got 2",
        ),
        (
            {"n_layer": "two", "n_embd": 8, "n_head": 2, "vocab_size": 9, "n_inner": 4},
            "layers must be a whole number",
        ),
    ],
)
def test_an_invalid_configuration_is_refused_in_one_line(
    config: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        shape_of_config(config, "mine")


def test_the_error_for_an_unknown_precision_names_all_known_ones() -> None:
    with pytest.raises(InputError, match=r"precision must be one of bf16, fp32, .*, got 'int3'"):
        bytes_of("int3")
