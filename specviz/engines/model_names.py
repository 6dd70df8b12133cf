"""What the name of a repository tells of the model in it: its shape, where a preset is made of that
model, and for which target a head was made. A name proves little: most of it is worth a note only.
"""

from __future__ import annotations

import re

from specviz.engines.dialects import is_file
from specviz.sizing.shape import MODELS, PUBLISHED, ModelShape

_HEAD_MARKS = (
    *("eagle", "medusa", "dflash", "dspark", "mtp", "speculator", "accelerator", "draft"),
    *("head", "hass", "hydra"),
)
_FAMILIES = (
    "llama",
    "qwen",
    "mistral",
    "mixtral",
    "vicuna",
    "deepseek",
    "gemma",
    "phi-",
    "gpt-oss",
)
_SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x)?\d+(?:\.\d+)?b(?![a-z0-9])")
_VERSION = re.compile(r"(?:llama|qwen|gemma|phi)-?(\d+(?:\.\d+)?)(?![\d.]*b(?![a-z0-9]))")


def language_model(name: str | None) -> ModelShape | None:
    """The shape of a model that a preset is made of, by its repository's name; None for another."""
    if name is None or is_file(name) or is_head(name):
        return None
    base = _plain(name)
    for preset, said in PUBLISHED.items():
        for source in (said.get("source", ""), *said.get("also", ())):
            known = _plain(str(source))
            if known and re.match(rf"{re.escape(known)}(?![a-z0-9.])", base):
                return MODELS[preset]
    return None


def is_head(name: str) -> bool:
    """Whether it says that it is drafting layers rather than a language model."""
    return any(mark in _plain(name) for mark in _HEAD_MARKS)


def is_mlp_speculator(name: str | None) -> bool:
    """IBM's are called accelerators."""
    plain = _plain(name or "")
    return plain.endswith("-accelerator") or "mlp-speculator" in plain


def other_target(head: str, target: str) -> str | None:
    """What the name of a head tells of its target that the target's name does not; None where the
    names agree, or one of them says nothing of it.
    """
    ours, theirs = _plain(target), _plain(head)
    for kind, of_target, of_head in (
        ("a size of", _SIZE.findall(ours), _SIZE.findall(theirs)),
        ("the family", _families(ours), _families(theirs)),
        ("the version", _VERSION.findall(ours), _VERSION.findall(theirs)),
    ):
        if of_target and of_head and not set(of_target) & set(of_head):
            return f"{kind} {of_head[0]}, the target's {of_target[0]}"
    return None


def _families(plain: str) -> list[str]:
    return [family for family in _FAMILIES if family in plain]


def _plain(name: str) -> str:
    """The last part of a name in small letters, without what its authors add in front or behind."""
    base = name.rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    return base.removeprefix("meta-").removesuffix("-hf")
