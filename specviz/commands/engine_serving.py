"""What `serve --engine` does: a pair in the engine's own format, served until Ctrl+C."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.commands.command import Progress
from specviz.commands.flags import add_flag, chosen_pair
from specviz.decoding.drafters.prompt_lookup import LONGEST
from specviz.engines.engine_facts import server_named
from specviz.engines.engine_rules import problems
from specviz.engines.local_pair import read_local_pair
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.gguf_export import KINDS, export_gguf
from specviz.models.pair_catalog import Pair
from specviz.records import SETTINGS
from specviz.serving.engine_process import ENGINE, RunningEngine, serving

METHODS = (EngineMethod.DRAFT_MODEL, EngineMethod.PROMPT_LOOKUP, EngineMethod.NONE)
_OF_ENGINE = ("pair", "target", "draft", "method", "draft_length", "weights")
_LOOKED_UP = LONGEST.default  # tokens that must have stood before; the engine's own 12 seldom have


def add_engine_flags(parser: ArgumentParser) -> None:
    """Read by `serve_engine`; None where nothing was typed."""
    group = parser.add_argument_group("an engine instead of the web app")
    group.add_argument("--engine", metavar="NAME", help=f"start {ENGINE} with a pair: {ENGINE}")
    add_served_pair_flags(group, draft_length=None)
    add_method_flag(group, METHODS)
    group.add_argument("--weights", help=f"{', '.join(KINDS)} (default {next(iter(KINDS))})")


def add_served_pair_flags(group: _ActionsContainer, **defaults: Any) -> None:
    """Target, draft and K; read by `chosen_pair`. `defaults` are a command's own."""
    for name in ("pair", "target", "draft", "draft_length"):
        usual = SETTINGS[name].default if name == "draft_length" else None
        add_flag(group, SETTINGS[name], default=defaults.get(name, usual))
    group.set_defaults(eagle=None, medusa=None)  # engines started here do not serve them


def add_method_flag(group: _ActionsContainer, methods: Sequence[EngineMethod]) -> None:
    """Read by `chosen_method`; the first is the default."""
    group.add_argument("--method", help=f"{_named(methods)} (default {methods[0].value})")


def chosen_method(
    options: Namespace, methods: Sequence[EngineMethod], of_what: str
) -> EngineMethod:
    """InputError for one that is not among them."""
    method = options.method or methods[0].value
    if method not in [each.value for each in methods]:
        raise InputError(f"method must be one of {_named(methods)} {of_what}, got {method!r}")
    return EngineMethod(method)


def _named(methods: Sequence[EngineMethod]) -> str:
    return ", ".join(each.value for each in methods)


def refuse_engine_flags(options: Namespace) -> None:
    """InputError where one is typed and no engine is."""
    for name in _OF_ENGINE:
        if getattr(options, name) is not None:
            raise InputError(f"{name.replace('_', '-')} must be given with engine, got it alone")


def serve_engine(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Serve a pair by the engine until Ctrl+C; returns where it was."""
    if options.engine != ENGINE:
        raise InputError(f"engine must be {ENGINE}, the one started here, got {options.engine!r}")
    if options.host is not None or options.mcp:
        raise InputError("host and mcp must be left out with engine: it serves this machine alone")
    method = chosen_method(options, METHODS, f"for engine {ENGINE}")
    usual = SETTINGS["draft_length"].default
    length = usual if options.draft_length is None else options.draft_length
    kind = options.weights or next(iter(KINDS))
    served = engine_with(chosen_pair(options), method, length, kind, options.port or None)
    with served as engine:
        if refusal := engine.refusal():
            raise InputError(f"engine {ENGINE} must speculate, but {refusal}")
        progress(f"{ENGINE} ({engine.version}) is at {engine.url} (Ctrl+C ends it)")
        try:
            engine.wait()
        except KeyboardInterrupt:
            return {"url": engine.url}
    raise AssertionError("unreachable")


@contextmanager
def engine_with(
    pair: Pair,
    method: EngineMethod,
    draft_tokens: int,
    kind: str = "F32",
    port: int | None = None,
    in_float32: bool = False,
    **fields: Any,
) -> Iterator[RunningEngine]:
    """The engine on this pair until the block ends; the files it reads are gone then, too.

    `draft_tokens` is K, `kind` how weights are stored (`KINDS`), `in_float32` whether attention
    is computed so, too; `fields` are further ones of ModelDeployment. Raises InputError for a pair
    or setting that the engine cannot serve.
    """
    is_drafted = method is EngineMethod.DRAFT_MODEL
    if is_drafted and not pair.draft:
        raise InputError(f"pair must have a draft for method {method.value}, got {pair.name!r}")
    fields |= {"method": method, "port": port}
    if method is not EngineMethod.NONE:
        fields["draft_tokens"] = draft_tokens
    if method is EngineMethod.PROMPT_LOOKUP:
        fields |= {"lookup_min": _LOOKED_UP, "lookup_max": _LOOKED_UP}
    named = ModelDeployment(target=pair.target, draft=pair.draft if is_drafted else None, **fields)
    for problem in problems(named, server_named(ENGINE), read_local_pair(named)):
        raise InputError(problem)
    with TemporaryDirectory(prefix="specviz-gguf-") as name:
        folder = Path(name)
        target = str(export_gguf(pair.target, folder, kind))
        draft = str(export_gguf(pair.draft, folder, kind, pair.target)) if is_drafted else None
        deployment = ModelDeployment(target=target, draft=draft, **fields)
        threads = Environment.read().threads or 1
        with serving(deployment, threads, in_float32) as engine:
            yield engine
