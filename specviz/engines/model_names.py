"""Guess facts from the name of a model repository: its shape, or the target of a head.

A name is weak evidence, so most of these facts only lead to a note for the user.
"""

from __future__ import annotations

import re

from specviz.engines.shell_text import is_windows_path
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
# 3, 3.1 and 3-1 are versions. In llama-2-7b, qwen3-0.6b and qwen3-4b-2507 only the first number is
# a version.
_NO_SIZE = r"(?![\d.]*b(?![a-z0-9]))"
_VERSION = re.compile(rf"(?:llama|qwen|gemma|phi)-?(\d+(?:\.\d+|-\d(?!\d){_NO_SIZE})?){_NO_SIZE}")


def language_model(name: str | None) -> ModelShape | None:
    """Return the shape of the preset with this repository name, or None if there is none."""
    if name is None or is_file(name) or is_head(name):
        return None
    base = _plain(name)
    for preset, said in PUBLISHED.items():
        for source in (said.get("source", ""), *said.get("also", ())):
            known = _plain(str(source))
            if known and re.match(rf"{re.escape(known)}(?![a-z0-9.])", base):
                return MODELS[preset]
    return None


def is_file(name: str) -> bool:
    """Return whether a model's name means a file or folder, and not a repository on the Hub."""
    is_path = name.startswith((".", "/", "~")) or is_windows_path(name)
    return name.endswith(".gguf") or is_path


def is_head(name: str) -> bool:
    """Return whether the name belongs to a drafting head, and not to a language model."""
    return any(mark in _plain(name) for mark in _HEAD_MARKS)


def is_speculator(name: str) -> bool:
    """Return whether the name is that of a repository in the format of the library speculators.

    Such a repository contains the method, the target and K.
    """
    return "speculator" in _plain(name)


def is_mlp_speculator(name: str | None) -> bool:
    """Return whether the name belongs to an MLP speculator.

    IBM calls MLP speculators accelerators.
    """
    plain = _plain(name or "")
    return plain.endswith("-accelerator") or "mlp-speculator" in plain


def other_target(head: str, target: str) -> str | None:
    """Describe how the target in a head's name differs from the given target, or return None.

    The result None means that the two names agree, or that one name says nothing about the target.
    """
    ours, theirs = _plain(target), _plain(head)
    for kind, of_target, of_head in (
        ("a size of", _SIZE.findall(ours), _SIZE.findall(theirs)),
        ("the family", _families(ours), _families(theirs)),
        ("the version", _versions(ours), _versions(theirs)),
    ):
        if of_target and of_head and not set(of_target) & set(of_head):
            return f"{kind} {of_head[0]}, the target's {of_target[0]}"
    return None


def _versions(plain: str) -> list[str]:
    return [found.replace("-", ".") for found in _VERSION.findall(plain)]


def _families(plain: str) -> list[str]:
    return [family for family in _FAMILIES if family in plain]


def _plain(name: str) -> str:
    """Return the last part of a name in lower case, without common prefixes and suffixes."""
    base = name.rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    return base.removeprefix("meta-").removesuffix("-hf")
