"""Write a Llama-family model as one GGUF file for llama.cpp: shape, tokenizer and weights.

The layout of the file is the one that llama.cpp's own converter writes (convert_hf_to_gguf.py,
MIT). The rows of the query and key projections are permuted to fit llama.cpp's rotary positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.models.files.gguf_source import check_gguf_package, gguf_path
from specviz.models.files.hub import find_model_folder
from specviz.models.files.survey import Survey, has_draft_vocabulary, survey_model

if TYPE_CHECKING:
    import gguf

# GGUF's name for a type of weights -> GGUF's name for the type of a file that has such weights.
KINDS = {"F32": "ALL_F32", "F16": "MOSTLY_F16", "Q8_0": "MOSTLY_Q8_0", "Q4_0": "MOSTLY_Q4_0"}
_BLOCK = 32  # number of values that share a scale in Q8_0 and Q4_0
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}"
_REST = r"| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# How a tokenizer splits a text into words -> llama.cpp's name for that rule. The bundled tokenizer
# splits numbers into digits and GPT-2's does not. Both rules still give the same tokens, because no
# merge of the bundled tokenizer joins two digits.
_CUTS = {
    (("Split", _WORDS + _REST), ("ByteLevel", False)): "gpt-2",
    (("ByteLevel", True),): "gpt-2",
    (("Digits", True), ("ByteLevel", True)): "smollm",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def export_gguf(source: str, folder: Path, kind: str = "F32", target: str = "") -> Path:
    """Write the model of a folder or a Hub id into `folder`, and return the new file.

    `kind` is one of `KINDS`; norms stay in float32. If the model is a draft, `target` names its
    target. A draft reads token ids only. It may therefore lack a tokenizer (the file then gets the
    target's), and any rule for splitting words is allowed. A source that is already a GGUF file is
    returned unchanged. Raises InputError if a GGUF file cannot contain the model.
    """
    if kind not in KINDS:
        raise InputError(f"weights must be one of {', '.join(KINDS)}, got {short(kind)}")
    found = gguf_path(source)
    if found is not None:
        return found
    check_gguf_package("weights", kind)
    import gguf

    environment = Environment.read()
    codec = survey_model(target, environment).codec if target else None
    survey = survey_model(source, environment, codec)
    _check(survey)
    home = find_model_folder(source, environment)
    texts = home if (home / "tokenizer.json").is_file() or not target else _home(target)
    file = folder / f"{'draft' if target else 'target'}-{kind}.gguf"
    number = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(str(file), "llama")
    try:
        writer.add_file_type(gguf.LlamaFileType[KINDS[kind]])
        _add_shape(writer, survey.config)
        _add_tokenizer(writer, texts, survey, is_draft=bool(target))
        for name, weight in _tensors(home, survey.config):
            plain = weight.ndim == 1 or (kind[0] == "Q" and weight.shape[-1] % _BLOCK)
            to = gguf.GGMLQuantizationType.F32 if plain else number
            writer.add_tensor(name, gguf.quants.quantize(weight, to), raw_dtype=to)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    except OSError as error:
        raise InputError(f"weights cannot be written to {str(file)!r}: {error.strerror}") from None
    finally:
        writer.close()
    return file


def _home(source: str) -> Path:
    return find_model_folder(source, Environment.read())


def _check(survey: Survey) -> None:
    config, refused = survey.config, ""
    if config.model_type != "llama":
        refused = f"of architecture {config.model_type!r}"
    elif has_draft_vocabulary(config):
        refused = "with a draft vocabulary of its own"
    elif config.attention_bias or config.mlp_bias:
        refused = "with biases"
    elif config.rope_parameters.get("rope_type", "default") != "default":
        refused = f"with scaled positions ({config.rope_parameters['rope_type']})"
    if refused:
        raise InputError(
            f"model {survey.source!r} must be a plain Llama to be written as GGUF, got one "
            f"{refused}"
        )


def _add_shape(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, survey: Survey, is_draft: bool) -> None:
    data = _json(folder / "tokenizer.json")
    if data["model"].get("type") != "BPE" or data.get("normalizer"):
        raise InputError(
            f"tokenizer of {survey.source!r} must be a byte-level BPE to be written as GGUF, "
            f"got {short(data['model'].get('type'))}"
        )
    cut = _CUTS.get(_cutting(data.get("pre_tokenizer") or {}))
    if cut is None and not is_draft:
        raise InputError(
            f"tokenizer of {survey.source!r} must split words like GPT-2's or SmolLM's to be "
            "written as GGUF, got another rule"
        )
    ids = {
        **data["model"]["vocab"],
        **{each["content"]: each["id"] for each in data["added_tokens"]},
    }
    from gguf import TokenType as kinds

    special = {each["id"] for each in data["added_tokens"] if each["special"]}
    pieces = {number: piece for piece, number in ids.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut or "default")
    writer.add_token_list([pieces.get(i, f"[PAD{i}]") for i in range(survey.config.vocab_size)])
    writer.add_token_types(
        [
            kinds.UNUSED if i not in pieces else kinds.CONTROL if i in special else kinds.NORMAL
            for i in range(survey.config.vocab_size)
        ]
    )
    merges = data["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    for number in sorted(survey.codec.eos_ids)[:1]:
        writer.add_eos_token_id(number)
    writer.add_add_bos_token(False)
    template = folder / "chat_template.jinja"
    if template.is_file():
        writer.add_chat_template(template.read_text(encoding="utf-8"))


def _cutting(rule: dict[str, Any]) -> tuple[tuple[Any, Any], ...]:
    """Return the type of each step of a pre-tokenizer, and the rule by which the step splits."""
    steps = rule.get("pretokenizers", [rule])
    return tuple((step.get("type"), _goes_by(step)) for step in steps)


def _goes_by(step: dict[str, Any]) -> Any:
    if step.get("type") == "Split":
        return step["pattern"].get("Regex")
    return step.get("use_regex", step.get("individual_digits"))


def _json(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"tokenizer cannot be read from {str(file)!r}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"tokenizer must be a JSON file, got {str(file)!r}") from None
    return found


def _tensors(folder: Path, config: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield each weight of the model in float32, with its name in GGUF files."""
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    if not config.tie_word_embeddings:
        names["lm_head"] = "output"
    for i in range(config.num_hidden_layers):
        names |= {f"model.layers.{i}.{of}": f"blk.{i}.{to}" for to, of in _LAYER.items()}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            for key in weights.keys():  # noqa: SIM118, safe_open returns no dict
                name = names.pop(key.removesuffix(".weight"), None)
                if name is not None:
                    yield f"{name}.weight", _ordered(name, weights.get_tensor(key), config)
    if names:
        raise InputError(f"model must have the weights {min(names)!r}, which {folder} lacks")


def _ordered(name: str, weight: torch.Tensor, config: Any) -> np.ndarray[Any, Any]:
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = heads.get(name.rpartition(".")[2])
    # In the query and key matrices of llama.cpp, rows from the first half of a head alternate with
    # rows from its second half.
    if count:
        halves = weight.view(count, 2, -1, weight.shape[1])
        weight = halves.transpose(1, 2).reshape(weight.shape)
    return np.ascontiguousarray(weight.float().numpy())
