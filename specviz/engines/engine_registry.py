"""The engines that specviz knows. Each one has a folder with its facts and its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.engines.engine_facts import EngineFacts, read_facts
from specviz.errors import InputError, short

if TYPE_CHECKING:
    from specviz.engines.engine_adapter import EngineAdapter, ServerAdapter
    from specviz.engines.server_api import ServerApi

# The folders of the engines, in the order in which the app offers the engines. A folder NAME has
# the files NAME.toml (the facts) and NAME_adapter.py with an object ADAPTER.
_FOLDERS = ("vllm", "sglang", "llama_cpp", "tensorrt_llm", "transformers")


@cache
def engines() -> Mapping[str, EngineFacts]:
    """Return all engines, name -> facts, in the order in which the app offers them."""
    here = Path(__file__).parent
    found = (read_facts(here / folder / f"{folder}.toml") for folder in _FOLDERS)
    return {each.name: each for each in found}


@cache
def adapters() -> Mapping[str, EngineAdapter]:
    """Return the adapter of each engine, in the order of `engines`.

    Adapters are imported here and not at the top of this file, because they import this file.
    """
    modules = (import_module(f"{__package__}.{each}.{each}_adapter") for each in _FOLDERS)
    return dict(zip(engines(), (module.ADAPTER for module in modules), strict=True))


@cache
def server_adapters() -> Mapping[str, ServerAdapter]:
    """Return the adapters of the engines for which a configuration can be written."""
    from specviz.engines.engine_adapter import ServerAdapter

    found = adapters().items()
    return {name: each for name, each in found if isinstance(each, ServerAdapter)}


@cache
def server_apis() -> Mapping[str, ServerApi]:
    """Return how each engine's server reports what it does, as a map from the engine's title.

    Engines whose metrics are known only from their source code come last.
    """
    apis = [each.api for each in server_adapters().values() if each.api is not None]
    return {each.title: each for each in sorted(apis, key=lambda x: (bool(x.caveat), x.title))}


def servers() -> tuple[str, ...]:
    """Return the names of the engines for which a configuration can be written."""
    return tuple(name for name, facts in engines().items() if facts.is_server)


def server_named(name: str) -> EngineFacts:
    """Return the engine with this name.

    Raises InputError if no configuration can be written for it.
    """
    if name not in servers():
        raise InputError(f"engine must be one of {', '.join(servers())}, got {short(name)}")
    return engines()[name]


def meaning(field: str) -> str:
    """Return the field of a deployment that a field of one engine only sets.

    Return any other field unchanged.

    >>> meaning("context"), meaning("max_batch")
    ('max_length', 'max_batch')
    """
    meant = (each.meant[field] for each in adapters().values() if field in each.meant)
    return next(meant, field)
