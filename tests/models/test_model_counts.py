"""The counted parameters of well-known models equal the published numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from specviz import shape_source
from specviz.errors import InputError
from specviz.models.files.model_counts import counted_config
from specviz.shape_source import LIMITS, shape_of_content, shape_of_counts
from specviz.sizing.forward_time import GPUS, placed
from specviz.sizing.plan_warnings import plan_warnings
from specviz.sizing.serving_plan import read_plan
from specviz.sizing.shape import MODELS, PUBLISHED, ModelShape

# Name of a model -> its class in transformers, the fields of its published config.json, and the
# published billions of parameters.
PUBLISHED_ELSEWHERE: dict[str, tuple[str, dict[str, Any], float]] = {
    "OPT 6.7B": (
        "opt",
        {
            **{"hidden_size": 4096, "word_embed_proj_dim": 4096, "ffn_dim": 16384},
            **{"num_hidden_layers": 32, "num_attention_heads": 32},
        },
        6.66,
    ),
    "Falcon 7B": ("falcon", {}, 6.92),
    "GPT-J 6B": ("gptj", {}, 6.05),
    "Phi-3 mini": ("phi3", {}, 3.82),
    "DeepSeek V3": ("deepseek_v3", {}, 671.0),
    "gpt-oss 120B": ("gpt_oss", {}, 116.8),
    "Mixtral 8x7B": ("mixtral", {}, 46.7),
    "Gemma 2 2B": ("gemma2", {}, 2.61),
}


def counted_shape(content: dict[str, Any], title: str) -> ModelShape:
    """Return the result of `shape_of_content` without starting its separate process."""
    return shape_of_counts(counted_config(content), title)


def shape(kind: str, **fields: Any) -> ModelShape:
    return counted_shape(CONFIG_MAPPING[kind](**fields).to_dict(), kind)


@pytest.mark.parametrize("name", PUBLISHED_ELSEWHERE)
def test_parameter_counts_equal_the_published_numbers(name: str) -> None:
    kind, fields, billions = PUBLISHED_ELSEWHERE[name]
    assert shape(kind, **fields).parameters / 1e9 == pytest.approx(billions, rel=0.002)


PLAIN = [
    name
    for name, model in MODELS.items()
    if not model.expert_size and model.attention_weights is None and not model.positions
]


@pytest.mark.parametrize("name", PLAIN)
def test_presets_have_the_parameters_of_their_class_in_transformers(name: str) -> None:
    model = MODELS[name]
    counted = shape(
        ("llama" if not name.startswith("qwen") else "qwen3" if "qwen3" in name else "qwen2"),
        num_hidden_layers=model.layers,
        hidden_size=model.hidden_size,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads or model.heads,
        head_dim=model.head_dim or model.hidden_size // model.heads,
        intermediate_size=model.intermediate_size,
        vocab_size=model.vocabulary,
        tie_word_embeddings=model.tied,
    )
    assert counted.parameters == pytest.approx(model.parameters, rel=0.002)
    assert counted.parameters / 1e9 == pytest.approx(PUBLISHED[name]["parameters"], rel=0.03)
    assert counted.cache_values_per_token == model.cache_values_per_token
    assert counted.layer_weights.always == pytest.approx(model.layer_weights.always, rel=0.002)


def test_latent_attention_caches_latent_values_and_experts_are_counted_separately() -> None:
    found, preset = shape("deepseek_v3"), MODELS["deepseek-v3"]
    assert found.cache_values_per_token == preset.cache_values_per_token
    assert found.active_parameters == pytest.approx(preset.active_parameters, rel=0.03)


def weights(given: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a quantisation in the format of compressed-tensors; `given` describes its weights."""
    group = {"weights": given, "input_activations": {"num_bits": 8, "type": "float"}}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}} | others


METHODS = {
    "fp8": ({"quant_method": "fp8"}, "fp8"),
    "fp8 of compressed-tensors": (weights({"num_bits": 8, "type": "float"}), "fp8"),
    "int8 of compressed-tensors": (weights({"num_bits": 8, "type": "int"}), "int8"),
    "int4 with activations in fp8": (weights({"num_bits": 4, "type": "int"}), "int4"),
    "int4 with a cache in fp8": (
        weights({"num_bits": 4, "type": "int"}, kv_cache_scheme={"num_bits": 8, "type": "float"}),
        "int4",
    ),
    "nvfp4 of compressed-tensors": (
        weights({"num_bits": 4, "type": "float"}, format="nvfp4-pack-quantized"),
        "nvfp4",
    ),
    "two formats": (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {
                "a": {"weights": {"num_bits": 4, "type": "int"}},
                "b": {"weights": {"num_bits": 8, "type": "int"}},
            },
        },
        "",
    ),
    "mxfp4": ({"quant_method": "mxfp4"}, "mxfp4"),
    "nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    "int4 of modelopt": ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "int4"),
    "int8 of modelopt": ({"quant_method": "modelopt", "quant_algo": "INT8_SQ"}, "int8"),
    "mixed of modelopt": ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, ""),
    "awq": ({"quant_method": "awq", "bits": 4}, "int4"),
    "old awq": ({"w_bit": 4, "q_group_size": 128, "zero_point": True}, "int4"),
    "gptq": ({"quant_method": "gptq", "bits": 8}, "int8"),
    "gptq in words": ({"quant_method": "gptq", "bits": "4"}, "int4"),
    "gptq of 3 bits": ({"quant_method": "gptq", "bits": 3}, ""),
    "bitsandbytes": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
    "bitsandbytes without its name": ({"load_in_8bit": True}, "int8"),
    "quark": (
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
        "fp8",
    ),
    "hqq": (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}},
        "int4",
    ),
    "torchao": (
        {
            "quant_method": "torchao",
            "quant_type": {"default": {"_type": "Int8DynamicActivationInt4WeightConfig"}},
        },
        "int4",
    ),
    "quanto": ({"quant_method": "quanto", "weights": "int8", "activations": None}, "int8"),
    "aqlm": ({"quant_method": "aqlm", "nbits_per_codebook": 16}, ""),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_precision_is_that_of_the_quantisation(name: str) -> None:
    given, precision = METHODS[name]
    content = CONFIG_MAPPING["llama"]().to_dict() | {"quantization_config": given}
    assert counted_shape(content, "mine").stored == precision


@pytest.mark.parametrize("name", ["aqlm", "gptq of 3 bits", "mixed of modelopt"])
def test_weights_with_unknown_bits_only_need_a_typed_precision(name: str) -> None:
    content = CONFIG_MAPPING["llama"]().to_dict() | {"quantization_config": METHODS[name][0]}
    unknown = counted_shape(content, "mine")
    with pytest.raises(InputError, match="precision must be given for mine, because its w"):
        read_plan({"draft": "n-gram"}, unknown)
    with pytest.raises(InputError, match="draft_precision must be given for mine"):
        read_plan({}, MODELS["llama-2-7b"], unknown)
    typed = {"precision": "int4", "draft_precision": "int8"}
    plan = read_plan(typed, unknown, unknown)
    assert (plan.precision, plan.draft_precision) == ("int4", "int8")


_OF_GPT_OSS = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        *("model.layers.*.self_attn", "model.layers.*.mlp.router"),
        *("model.embed_tokens", "lm_head"),
    ],
}
_LLAMA_8B = {
    **{"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
    **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
}
# Name of a model -> its class in transformers, the fields of its configuration, its quantisation,
# and the gigabytes of its published files.
FILES: dict[str, tuple[str, dict[str, Any], dict[str, Any], float]] = {
    "gpt-oss 20B": (
        "gpt_oss",
        {"num_hidden_layers": 24, "num_local_experts": 32},
        _OF_GPT_OSS,
        13.76,
    ),
    "gpt-oss 120B": ("gpt_oss", {}, _OF_GPT_OSS, 65.25),
    "Llama 3.1 8B FP8": (
        "llama",
        _LLAMA_8B,
        weights({"num_bits": 8, "type": "float"}, ignore=["lm_head"]),
        9.08,
    ),
    "Llama 3.1 8B AWQ": ("llama", _LLAMA_8B, {"quant_method": "awq", "bits": 4}, 5.73),
    "Qwen 2.5 7B GPTQ": (
        "qwen2",
        {
            **{"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28},
            **{"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064},
        },
        {"quant_method": "gptq", "bits": 4},
        5.57,
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_quantised_weights_take_as_much_as_the_published_files(name: str) -> None:
    kind, fields, given, gigabytes = FILES[name]
    content = CONFIG_MAPPING[kind](**fields).to_dict() | {"quantization_config": given}
    found = counted_shape(content, name)
    size = placed(found, GPUS["h100-sxm"], 1, found.stored).stored_bytes / 1e9
    assert size == pytest.approx(gigabytes, rel=0.07)


# Name of a model -> its class in transformers, the fields of its configuration, and the published
# billions of parameters that are used for a token.
ACTIVE: dict[str, tuple[str, dict[str, Any], float]] = {
    "DBRX": (
        "dbrx",
        {
            **{"d_model": 6144, "n_layers": 40, "n_heads": 48, "vocab_size": 100352},
            "attn_config": {"kv_n_heads": 8, "rope_theta": 500000},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        36,
    ),
    "ERNIE 4.5 21B": ("ernie4_5_moe", {}, 3.4),
    "Hunyuan A13B": (
        "hunyuan_v1_moe",
        {
            **{"hidden_size": 4096, "head_dim": 128, "intermediate_size": 3072},
            **{"moe_intermediate_size": [3072] * 32, "num_experts": 64, "moe_topk": [8] * 32},
            **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
            **{"vocab_size": 128167, "tie_word_embeddings": True},
        },
        13,
    ),
}


@pytest.mark.parametrize("name", ACTIVE)
def test_experts_are_counted_whatever_the_class_calls_its_fields(name: str) -> None:
    kind, fields, billions = ACTIVE[name]
    found = counted_shape({"model_type": kind} | fields, name)
    assert found.active_parameters / 1e9 == pytest.approx(billions, rel=0.03)
    assert 1 < found.active_experts < found.experts


# Name of a model -> its class in transformers, the fields of its configuration, and the bytes that
# a token takes in the cache with 16-bit numbers. In these models only some layers have a cache, or
# several heads share one.
CACHES: dict[str, tuple[str, dict[str, Any], int]] = {
    "Qwen3 Next": ("qwen3_next", {}, 12 * 2 * 2 * 256 * 2),
    "Jamba": ("jamba", {}, 4 * 2 * 8 * 128 * 2),
    "Falcon 40B": (
        "falcon",
        {
            **{"hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128},
            **{"num_kv_heads": 8, "new_decoder_architecture": True},
        },
        60 * 2 * 8 * 64 * 2,
    ),
    "Falcon 7B": ("falcon", {}, 32 * 2 * 1 * 64 * 2),
}


@pytest.mark.parametrize("name", CACHES)
def test_the_cache_has_the_size_that_engines_use(name: str) -> None:
    kind, fields, size = CACHES[name]
    found = counted_shape({"model_type": kind} | fields, name)
    assert 2 * found.cache_values_per_token == size


def test_a_model_type_unknown_to_transformers_is_counted_by_its_architecture() -> None:
    content = CONFIG_MAPPING["deepseek_v3"]().to_dict() | {
        "model_type": "kimi_k2",
        "architectures": ["DeepseekV3ForCausalLM"],
    }
    assert counted_shape(content, "mine").parameters == shape("deepseek_v3").parameters


def test_a_class_that_transformers_lacks_is_computed_from_its_fields() -> None:
    content = CONFIG_MAPPING["llama"]().to_dict() | {"model_type": "unheard-of"}
    content["architectures"] = None
    found = counted_shape(content, "mine")
    assert found.counted is None
    warnings = plan_warnings(read_plan({"draft": "n-gram"}, found))
    assert any("class, 'unheard-of'. It computed 6.74 billion" in each for each in warnings)


_GPT2_NAMES = {"n_layer": 32, "n_head": 32, "n_embd": 2560, "vocab_size": 51200}
# The model_type of a class that transformers no longer has, the fields of its configuration, and
# the published billions of parameters.
OLD_CLASSES: list[tuple[str, dict[str, Any], float]] = [
    ("qwen", {"intermediate_size": 22016, "vocab_size": 151936}, 7.72),
    ("internlm", {"intermediate_size": 11008, "vocab_size": 103168}, 7.32),
    ("baichuan", {"intermediate_size": 11008, "vocab_size": 125696}, 7.51),
    (
        "chatglm",  # ChatGLM 2
        {"ffn_hidden_size": 13696, "num_hidden_layers": 28, "multi_query_group_num": 2}
        | {"kv_channels": 128, "padded_vocab_size": 65024},
        6.24,
    ),
    ("chatglm", {"inner_hidden_size": 16384, "num_hidden_layers": 28, "vocab_size": 130528}, 6.17),
    ("deci", {"intermediate_size": 14336, "num_key_value_heads_per_layer": [4, 2] * 16}, 7.1),
    (
        "minicpm",
        {"hidden_size": 2304, "intermediate_size": 5760, "num_hidden_layers": 40}
        | {"num_attention_heads": 36, "vocab_size": 122753},
        2.72,
    ),
    ("phi-msft", _GPT2_NAMES | {"n_inner": None, "tie_word_embeddings": False}, 2.78),
    (
        "btlm",
        _GPT2_NAMES | {"n_inner": 6826, "vocab_size": 50257, "activation_function": "swiglu"},
        2.65,
    ),
    (
        "codeshell",
        {"n_embd": 4096, "n_inner": 16384, "n_layer": 42, "n_head": 32, "vocab_size": 70144}
        | {"num_query_groups": 8, "activation_function": "gelu_pytorch_tanh"},
        7.69,
    ),
    (
        "RefinedWeb",
        {"hidden_size": 8192, "n_layer": 60, "n_head": 128, "n_head_kv": 8, "vocab_size": 65024},
        41.3,
    ),
    (
        "RefinedWebModel",
        {"hidden_size": 4544, "n_layer": 32, "n_head": 71, "multi_query": True},
        6.92,
    ),
    (
        "gpt2",  # SantaCoder
        {"n_embd": 2048, "n_inner": 8192, "n_layer": 24, "n_head": 16, "vocab_size": 49280}
        | {"n_positions": 2048, "attention_head_type": "multiquery"},
        1.12,
    ),
]
_LLAMA_SIZES = {
    **{"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"vocab_size": 32000, "tie_word_embeddings": False},
}


@pytest.mark.parametrize(("kind", "fields", "billions"), OLD_CLASSES)
def test_old_classes_have_their_published_parameters(
    kind: str, fields: dict[str, Any], billions: float
) -> None:
    plain = {} if {"n_embd", "n_head"} & {*fields} else _LLAMA_SIZES
    if kind == "minicpm" or "inner_hidden_size" in fields:
        plain = {name: each for name, each in plain.items() if name != "tie_word_embeddings"}
    found = counted_shape({"model_type": kind, "architectures": None} | plain | fields, "mine")
    assert found.parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_a_field_that_an_unknown_class_lacks_is_named_with_the_class() -> None:
    content = {"model_type": "openelm", "model_dim": 3072, "num_transformer_layers": 36}
    with pytest.raises(InputError, match="layers in its configuration, as its class 'openelm' can"):
        counted_shape(content, "mine")


def test_a_process_with_limits_gives_the_same_count() -> None:
    content = CONFIG_MAPPING["opt"](num_hidden_layers=2).to_dict()
    found = shape_of_content(content, "mine")
    assert found == counted_shape(content, "mine") and found.counted is not None


def test_a_configuration_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_source, "LIMITS", replace(LIMITS, wait=0.01))
    with pytest.raises(InputError, match=r"can be counted within 20 s and 2000 MB: choose the n"):
        shape_of_content({"model_type": "llama"}, "mine")


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
def test_code_that_a_configuration_names_on_the_hub_is_not_requested(name: str) -> None:
    content = CONFIG_MAPPING["llama"](num_hidden_layers=1).to_dict() | {name: "someone/kernel"}
    assert counted_shape(content, "mine").counted is not None
