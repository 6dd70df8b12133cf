"""The work of `serve --engine`: convert a pair's weights and serve them until Ctrl+C."""

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
from specviz.engines.engine_registry import server_named
from specviz.engines.engine_rules import problems
from specviz.engines.local_pair import read_local_pair
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.gguf_export import KINDS, export_gguf
from specviz.models.pair_catalog import Pair
from specviz.records import SETTINGS
from specviz.serving.llama_cpp.llama_cpp_process import (
    ENGINE,
    RunningEngine,
    check_installed,
    serving,
)

METHODS = (EngineMethod.DRAFT_MODEL, EngineMethod.PROMPT_LOOKUP, EngineMethod.NONE)
_OF_ENGINE = ("pair", "target", "draft", "method", "draft_length", "weights")
# The number of tokens of the repeated n-gram that prompt lookup searches for. It drafts the tokens
# after the n-gram. The engine's default is 12 tokens, but a repeated n-gram is rarely that long.
_LOOKED_UP = LONGEST.default


def add_engine_flags(parser: ArgumentParser) -> None:
    """Add the flags that `serve_engine` reads. Flags that the user leaves out are None."""
    group = parser.add_argument_group("an engine instead of the web app")
    group.add_argument(
        "--engine",
        metavar="NAME",
        help="start this engine with a pair of models, instead of the web app: "
        f"{ENGINE} (default none)",
    )
    add_served_pair_flags(group, draft_length=None)
    add_method_flag(group, METHODS)
    group.add_argument(
        "--weights",
        metavar="FORMAT",
        help=f"format of the weights: {', '.join(KINDS)} (default {next(iter(KINDS))})",
    )


_OWN_LENGTH = f"{SETTINGS['draft_length'].flag_help} (default the engine's own)"


def add_served_pair_flags(group: _ActionsContainer, **defaults: Any) -> None:
    """Add the flags for target, draft and draft length, which `chosen_pair` reads.

    `defaults` holds the command's own default values by flag name.
    """
    for name in ("pair", "target", "draft", "draft_length"):
        usual = SETTINGS[name].default if name == "draft_length" else None
        default = defaults.get(name, usual)
        words = {} if name != "draft_length" or default else {"help": _OWN_LENGTH}
        add_flag(group, SETTINGS[name], default=default, **words)
    # `chosen_pair` reads these two flags as well, but specviz cannot start llama.cpp with heads.
    group.set_defaults(eagle=None, medusa=None)


def add_method_flag(group: _ActionsContainer, methods: Sequence[EngineMethod]) -> None:
    """Add `--method`, which `chosen_method` reads; its default is the first of `methods`."""
    group.add_argument(
        "--method",
        metavar="NAME",
        help=f"drafting method: {_named(methods)} (default {methods[0].value})",
    )


def chosen_method(
    options: Namespace, methods: Sequence[EngineMethod], of_what: str
) -> EngineMethod:
    """Return the method that the user chose. Raises InputError if it is not one of `methods`."""
    method = options.method or methods[0].value
    if method not in [each.value for each in methods]:
        raise InputError(f"method must be one of {_named(methods)} {of_what}, got {method!r}")
    return EngineMethod(method)


def _named(methods: Sequence[EngineMethod]) -> str:
    return ", ".join(each.value for each in methods)


def refuse_engine_flags(options: Namespace) -> None:
    """Raise InputError if the user gave an engine's flag without `--engine`."""
    for name in _OF_ENGINE:
        if getattr(options, name) is not None:
            raise InputError(
                f"{name.replace('_', '-')} must be given together with 'engine', got it alone"
            )


def serve_engine(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Serve a pair with the engine until Ctrl+C, then return the URL that it had."""
    if options.engine != ENGINE:
        raise InputError(
            f"engine must be {ENGINE}, the only engine that specviz can start, got "
            f"{options.engine!r}"
        )
    if options.host is not None:
        raise InputError(
            "host must not be given with 'engine', because specviz starts the engine only for "
            "this machine"
        )
    if options.mcp:
        raise InputError(
            "mcp must not be given with 'engine', because the engine does not serve the app's tools"
        )
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
    threads: int | None = None,
    **fields: Any,
) -> Iterator[RunningEngine]:
    """Run the engine on this pair until the `with` block ends, then delete the exported weights.

    `draft_tokens` is K, and `kind` is the format of the weights (`KINDS`). With `in_float32` the
    engine also computes attention in 32 bits. `fields` are further fields of ModelDeployment.
    Raises InputError for a pair or a setting that the engine cannot serve.
    """
    is_drafted = method is EngineMethod.DRAFT_MODEL
    if is_drafted and not pair.draft:
        raise InputError(f"pair must have a draft for method {method.value}, got {pair.name!r}")
    check_installed()
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
        count = threads or Environment.read().threads or 1
        with serving(deployment, count, in_float32) as engine:
            yield engine
