"""What there is to choose from, as JSON-able lists: methods, pairs, and the report on a new pair.

Gathers from the registry and the catalog; loads no weights but the bundled ones.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.bias import measured_bias
from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.models.pair_catalog import BUNDLED, Pair, pairs
from specviz.models.pair_check import check_pair_sources, needs_missing
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.models.text.vocabulary import Relation
from specviz.records import ProposalKind

_MODELS = frozenset({Need.DRAFT, Need.MEDUSA, Need.EAGLE, Need.FOREIGN_DRAFT})


def list_methods() -> list[dict[str, Any]]:
    """The registry; `lossy` are the rules of a method that have to be asked for."""
    return [_describe_method(method) for method in DRAFTERS.values()]


def _describe_method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "title": method.title,
        "lossless": method.is_lossless,
        "proposal": [kind.value for kind in method.kinds if kind.is_lossless],
        "lossy": [_describe_bias(method, kind) for kind in method.kinds if not kind.is_lossless],
        "needs": sorted(need.value for need in method.needs),
        "options": [asdict(option) for option in method.options],
    }


def _describe_bias(method: Method, kind: ProposalKind) -> dict[str, Any]:
    bias = measured_bias(method.name, kind.value)
    return {"rule": kind.value} | (asdict(bias) if bias else {})


def list_pairs() -> list[dict[str, Any]]:
    """Every named pair; sizes are known of what lies on this machine."""
    return [_describe_pair(pair) for pair in pairs()]


def methods_of(pair: Pair) -> tuple[str, ...]:
    """The methods whose needs the pair can meet."""
    return tuple(name for name, method in DRAFTERS.items() if not needs_missing(pair, method.needs))


def _describe_pair(pair: Pair) -> dict[str, Any]:
    roles = ("target", "draft", "medusa", "eagle", "foreign_draft")
    described: dict[str, Any] = {
        "name": pair.name,
        "title": pair.title,
        "source": "bundled" if pair.name == BUNDLED else "hub",
        "note": pair.note,
        "claim": pair.claim,
        "methods": list(methods_of(pair)),
    }
    described |= {role: {"name": getattr(pair, role)} for role in roles if getattr(pair, role)}
    if pair.name == BUNDLED:
        _add_sizes(described, pair)
    return described


def _add_sizes(described: dict[str, Any], pair: Pair) -> None:
    offered = _MODELS.difference(needs_missing(pair, _MODELS))
    loaded = load_pair(pair, "cpu", needs=offered)
    parts = loaded.parts
    models = {"target": loaded.target, "draft": parts.draft}
    models["foreign_draft"] = parts.foreign.model if parts.foreign else None
    for role, model in models.items():
        if model is not None:
            described[role] |= {"parameters": model.info.parameters, "bytes": model.info.bytes}
    for role, head in (("medusa", parts.medusa), ("eagle", parts.eagle)):
        if head is not None:
            described[role] |= {"bytes": head.bytes}


def report_pair(pair: Pair, device: str, dtype: str) -> dict[str, Any]:
    """What can be said of the pair before any weights; `relation` is that of the vocabularies."""
    report = check_pair_sources(pair, device, dtype)
    described = asdict(report)
    unfit = {Need.DRAFT} if report.vocabulary is Relation.DIFFERENT else set()
    relation = described.pop("vocabulary")
    return {
        "target": pair.target,
        "draft": pair.draft,
        "relation": relation.value if relation else None,
        **described,
        "methods": [name for name in methods_of(pair) if not DRAFTERS[name].needs & unfit],
    }
