"""Where a target can draft for itself: the layer it may stop after, and those it may leave out.

Knows nothing of models but how many layers they have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import InputError

FILE = "self_drafting.json"


@dataclass(frozen=True, slots=True)
class SelfDrafting:
    """The first `exit_layer` layers draft early; all but `skipped_layers` (from 0) draft cheaply.

    Early exit: LayerSkip (2404.16710); left-out layers: Draft & Verify (2309.08168).
    """

    exit_layer: int
    skipped_layers: tuple[int, ...]


def self_drafting(folder: Path | None, layers: int) -> SelfDrafting:
    """What `self_drafting.json` of the model's folder says, or the usual choice.

    Raises InputError where the file says what a model of so many layers cannot do, or where it has
    only one.
    """
    if layers < 2:
        raise InputError(
            f"drafting with a part of the target needs at least 2 layers, got {layers}"
        )
    file = folder / FILE if folder else None
    return _read(file, layers) if file and file.is_file() else _usual(layers)


def _usual(layers: int) -> SelfDrafting:
    """A quarter of the layers; every second layer of the middle half left out.

    >>> _usual(12)
    SelfDrafting(exit_layer=3, skipped_layers=(3, 5, 7))
    """
    quarter = layers // 4
    return SelfDrafting(max(1, quarter), tuple(range(quarter, layers - quarter, 2)))


def _read(file: Path, layers: int) -> SelfDrafting:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        exit_layer, skipped = content["exit_layer"], tuple(content["skipped_layers"])
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        raise InputError(
            f"{FILE} must have exit_layer and skipped_layers, got a broken {file}"
        ) from None
    if type(exit_layer) is not int or not 1 <= exit_layer < layers:
        raise InputError(f"exit_layer in {FILE} must be from 1 to {layers - 1}, got {exit_layer!r}")
    allowed = set(range(layers))
    is_plain = all(type(layer) is int for layer in skipped)
    if not is_plain or len(set(skipped)) < len(skipped) or not set(skipped) < allowed:
        raise InputError(
            f"skipped_layers in {FILE} must be some of 0 to {layers - 1}, each once, "
            f"got {list(skipped)!r}"
        )
    return SelfDrafting(exit_layer, skipped)
