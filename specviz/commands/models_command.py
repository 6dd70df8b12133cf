"""The command `models`: it lists, checks and fetches models, or writes a larger one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import facts, table
from specviz.commands.flags import add_machine_flags, named_integers
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.experiments.run.racing import demand_of
from specviz.inflation.inflate import inflate, read_shape
from specviz.inflation.larger_shape import SIZES
from specviz.models.files.chat_model import get_chat_model
from specviz.models.files.hub import find_model_folder, is_on_the_hub, local_folder
from specviz.models.memory import gigabytes
from specviz.models.pair_catalog import BUNDLED, CHAT, Pair, custom_pair, pair_named, pairs
from specviz.models.pair_check import check_pair_sources, needs_missing
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.models.text.vocabulary import Relation
from specviz.records import DecodingConfig

_MODELS = frozenset({Need.DRAFT, Need.MEDUSA, Need.EAGLE, Need.FOREIGN_DRAFT})
_ROLES = ("target", "draft", "medusa", "eagle", "foreign_draft")


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        nargs="+",
        metavar=("TARGET", "DRAFT"),
        help="check whether a target, alone or with a draft, can run here; this downloads their "
        "configurations and tokenizers, but no weights",
    )
    parser.add_argument(
        "--get",
        metavar="PAIR",
        help=f"download the models of the pair with this name, such as {CHAT}",
    )
    parser.add_argument(
        "--inflate",
        metavar="FOLDER",
        help="write to this folder a model that gives the same output as --model but has more "
        "weights to read, in order to measure how the speed depends on the size",
    )
    parser.add_argument(
        "--model",
        metavar="FOLDER",
        help="for --inflate: folder of the original model (default the bundled target)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=INTEGER",
        help="for --inflate: one size of the larger model, such as num_hidden_layers=24; for "
        f"several sizes, repeat the flag; the names are {', '.join(SIZES)} (default the original "
        "size)",
    )
    add_machine_flags(parser)


def models(options: Namespace, progress: Progress) -> list[dict[str, Any]]:
    """List the named pairs, fetch one, check two models, or write a larger model."""
    if options.get is not None:
        return [_got(options.get, progress)]
    if options.inflate is not None:
        return [_inflated(options)]
    if options.shape or options.model:
        raise InputError(
            "'shape' and 'model' must be given together with 'inflate', got no 'inflate'"
        )
    if options.check is None:
        return [_describe_pair(pair) for pair in pairs()]
    if len(options.check) > 2:
        raise InputError(
            f"'check' must name a target and at most one draft, got {len(options.check)} models"
        )
    return [_pair_report(custom_pair(*options.check), options.device, options.dtype)]


def _got(name: str, progress: Progress) -> dict[str, Any]:
    """Download the pair's files that this machine does not have yet."""
    pair, environment = pair_named(name), Environment.read()
    if pair.name == CHAT:
        get_chat_model(environment, progress)
    elif not pair.is_here:
        for source in (pair.target, pair.draft):
            progress(f"fetching {source} from the Hub")
            find_model_folder(source, environment)
    pair = pair_named(name)
    sources = {role: getattr(pair, role) for role in _ROLES if getattr(pair, role)}
    return {"got": pair.name, "title": pair.title, **sources}


def _inflated(options: Namespace) -> dict[str, Any]:
    """Write a larger model that computes the same function as a smaller one."""
    folder = local_folder(options.model or pair_named(BUNDLED).target)
    if folder is None:
        raise InputError(
            f"model must be the folder of the model to be made larger, got {options.model!r}"
        )
    sizes = dict(named_integers("shape", options.shape))
    shape = read_shape(folder).with_sizes(sizes)
    size = inflate(folder, Path(options.inflate), shape)
    return {"inflated": options.inflate, "bytes": size, **asdict(shape)}


def _source(pair: Pair) -> str:
    if pair.name == BUNDLED:
        return "bundled"
    # The chat model is "folder" as well, because `models --get` writes its files to a folder of
    # this machine.
    return "hub" if is_on_the_hub(pair.target) else "folder"


def _describe_pair(pair: Pair) -> dict[str, Any]:
    """Return a description of a pair, with sizes only for the bundled pair."""
    described: dict[str, Any] = {
        "name": pair.name,
        "title": pair.title,
        "source": _source(pair),
        "note": pair.note,
        "claim": pair.claim,
        "methods": _methods_of(pair),
    }
    described |= {role: {"name": getattr(pair, role)} for role in _ROLES if getattr(pair, role)}
    if pair.name == BUNDLED:
        _add_sizes(described, pair)
    return described


def _methods_of(pair: Pair) -> list[str]:
    """Return the methods for which the pair has all models and heads."""
    return [name for name, method in DRAFTERS.items() if not needs_missing(pair, method.needs)]


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


def _pair_report(pair: Pair, device: str, dtype: str) -> dict[str, Any]:
    """Return the facts about a pair that are known without its weights.

    `relation` says how the two vocabularies compare.
    """
    demand = demand_of(DecodingConfig())
    needs = frozenset({Need.DRAFT}) if pair.draft else frozenset[Need]()
    report = check_pair_sources(pair, device, dtype, needs, demand)
    described = asdict(report)
    unfit = {Need.DRAFT} if report.vocabulary is Relation.DIFFERENT else set()
    relation = described.pop("vocabulary")
    return {
        "target": pair.target,
        "draft": pair.draft or None,
        "relation": relation.value if relation else None,
        **described,
        "methods": [name for name in _methods_of(pair) if not DRAFTERS[name].needs & unfit],
    }


def models_text(result: Sequence[dict[str, Any]]) -> str:
    if "inflated" in result[0] or "got" in result[0]:
        return facts(result[0])
    if "relation" in result[0]:
        return _report_text(result[0])
    return table(
        [
            {
                "pair": pair["name"],
                "source": pair["source"],
                "target": pair["target"]["name"],
                "draft": pair.get("draft", {}).get("name"),
                "parameters (M)": _millions(pair),
            }
            for pair in result
        ]
    )


def _report_text(report: dict[str, Any]) -> str:
    """Return a table of the facts, with memory in gigabytes, then the warnings and problems."""
    shares = ("weights", "copies", "caches", "work")
    memory = ", ".join(f"{name} {gigabytes(report['memory'][name])}" for name in shares)
    free, shared = report["bytes_free"], report["shared_tokens"]
    rows = {
        "target": report["target"],
        "draft": report["draft"],
        "device": report["device"],
        "precision": report["dtype"],
        "vocabularies": report["relation"],
        "tokens shared": None if shared is None else f"{shared:.0%}",
        "memory needed": f"{gigabytes(report['bytes_needed'])} ({memory})",
        "not known": ", ".join(report["memory"]["unknown"]) or None,
        "memory free": None if free is None else gigabytes(free),
        "to download": gigabytes(report["download_bytes"]) if report["download_bytes"] else None,
        "gated": "yes" if report["gated"] else "no",
        "chat template": "yes" if report["instruct"] else "no",
        "methods": ", ".join(report["methods"]),
    }
    lines = [f"{kind[:-1]}: {text}" for kind in ("warnings", "problems") for text in report[kind]]
    return "\n\n".join([facts(rows), "\n".join(lines)] if lines else [facts(rows)])


def shortfall(result: Sequence[dict[str, Any]]) -> str | None:
    """Return one line if the two models of `--check` cannot run as a pair."""
    count = len(result[0].get("problems", ()))
    if not count:
        return None
    return f"this pair cannot run: {'1 problem' if count == 1 else f'{count} problems'}"


def _millions(pair: dict[str, Any]) -> str:
    sizes = [pair.get(role, {}).get("parameters") for role in ("target", "draft")]
    return " and ".join(f"{size / 1e6:.1f}" for size in sizes if size) or "-"


COMMAND = Command(
    models,
    models_text,
    _add_flags,
    shortfall,
    example="--check TARGET DRAFT",
)
