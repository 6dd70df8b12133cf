"""What the page offers: menus, bounds, defaults, colours and words, as one JSON-able dict.

Gathers from the registry, the catalog and the records; decides nothing of its own.
"""

from __future__ import annotations

from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.racing import device_name
from specviz.figures.theme import PALETTES
from specviz.glossary import tooltips
from specviz.models.catalog import pairs
from specviz.models.loading import DEVICES, DTYPES, resolve_device
from specviz.prompts import TASKS
from specviz.records import (
    MAX_DRAFT_LENGTH,
    MAX_NEW_TOKENS,
    MAX_SEED,
    MAX_TEMPERATURE,
    DecodingConfig,
    ProposalKind,
)

KIND_TITLES = {
    ProposalKind.IID: "independent draws",
    ProposalKind.WITHOUT_REPLACEMENT: "without replacement",
    ProposalKind.DETERMINISTIC: "most probable (top-k)",
}
# low, high, whole numbers only
BOUNDS = {
    "draft_length": (1, MAX_DRAFT_LENGTH, True),
    "max_new_tokens": (1, MAX_NEW_TOKENS, True),
    "temperature": (0, MAX_TEMPERATURE, False),
    "top_k": (0, 10**9, True),
    "top_p": (0, 1, False),
    "seed": (0, MAX_SEED, True),
}


def page_setup() -> dict[str, Any]:
    """Everything that the page needs to know before a race."""
    return {
        "tasks": [{"name": task, "title": task} for task in TASKS],
        "pairs": [{"name": p.name, "title": p.title, "note": p.note} for p in pairs()],
        "methods": [_method(method) for method in DRAFTERS.values()],
        "kinds": [{"name": kind.value, "title": title} for kind, title in KIND_TITLES.items()],
        "devices": _devices(),
        "dtypes": [{"name": name, "title": name} for name in DTYPES],
        "device": _device_title(),
        "bounds": BOUNDS,
        "defaults": _defaults(),
        "palettes": PALETTES,
        "glossary": tooltips(),
    }


def _method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "title": method.title,
        "summary": method.summary,
        "tree": method.takes_branching,
        "kinds": [kind.value for kind in method.kinds],
        "branching": ",".join(map(str, method.default_branching)),
    }


def _devices() -> list[dict[str, str]]:
    """`auto` alone where there is nothing to choose."""
    if resolve_device("auto").type == "cpu":
        return [{"name": "auto", "title": "CPU"}]
    return [{"name": name, "title": name} for name in DEVICES]


def _defaults() -> dict[str, Any]:
    config = DecodingConfig()
    return {
        "pair": pairs()[0].name,
        "method": config.method,
        "draft_length": config.draft_length,
        "branching": "",
        "tree_kind": config.tree_kind.value,
        "temperature": f"{config.temperature:g}",
        "top_k": config.top_k,
        "top_p": f"{config.top_p:g}",
        "seed": config.seed,
        "max_new_tokens": config.max_new_tokens,
        "device": "auto",
        "dtype": "float32",
    }


def _device_title() -> str:
    """Where `auto` runs; the threads follow from the pair and are told with its race."""
    device = resolve_device("auto")
    return "CPU" if device.type == "cpu" else device_name(device)
