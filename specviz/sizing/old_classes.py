"""Read configurations of classes that exist only as code next to their weights.

transformers cannot build such a class, so the number of parameters is computed from the fields of
the configuration. A field of an old class may mean something else than in the classes of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Classes whose feed-forward block has two matrices of four times the hidden size.
_PHI = ("phi-msft", "mixformer-sequential")


def usual_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the field names and meanings of today's classes.

    The field "gated" is added: it says whether the feed-forward block has three matrices instead
    of two.

    >>> usual_fields({"model_type": "qwen", "intermediate_size": 22016})["intermediate_size"]
    11008
    """
    found, kind = dict(config), config.get("model_type")
    found.setdefault("gated", _is_gated(config))
    if kind == "qwen" and type(size := config.get("intermediate_size")) is int:
        # In Qwen 1, `intermediate_size` is the size of two matrices together.
        found["intermediate_size"] = size // 2
    elif kind in _PHI:
        width = config.get("n_embd")
        inner = config.get("n_inner") or (4 * width if type(width) is int else None)
        found |= {"intermediate_size": inner, "gated": False}
    # only the first ChatGLM has this field
    elif kind == "chatglm" and "inner_hidden_size" in config:
        found |= {"intermediate_size": config["inner_hidden_size"], "gated": False}
        found.setdefault("tie_word_embeddings", True)
    elif kind == "codeshell":
        found.setdefault("num_key_value_heads", config.get("num_query_groups"))
    # In GPT-2, tied embeddings are the default. Classes with its field names, and MiniCPM, have the
    # same default.
    if kind == "minicpm" or "n_embd" in config:
        found.setdefault("tie_word_embeddings", True)
    return found


def _is_gated(config: Mapping[str, Any]) -> bool:
    """Return whether the feed-forward block has a gate, as the name of its activation shows.

    The name is read from the field of GPT-2's classes. Without this field, a gate is assumed, as in
    Llama.
    """
    name = str(config.get("activation_function") or "silu").lower()
    return "glu" in name or name in ("silu", "swish")
