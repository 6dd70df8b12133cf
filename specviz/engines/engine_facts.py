"""What each engine accepts: its methods, flags and older spellings, read from a TOML file each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from specviz.engines.model_deployment import EngineMethod
from specviz.errors import InputError

SPECULATIVE = "speculative_config."  # before a key of vLLM's one value for all of speculation


@dataclass(frozen=True, slots=True)
class EngineFlag:
    """A flag that is accepted now; `field` is what it sets, `python` its name in Python."""

    name: str
    field: str
    aliases: tuple[str, ...] = ()
    python: str = ""

    @property
    def python_name(self) -> str:
        return self.python or self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class OldFlag:
    """A spelling that is not accepted: what took its place ("" nothing), and why.

    `field` is what it set. `goes_to` is a flag that takes its value as it is; `becomes` names a
    value that has to be computed.
    """

    names: tuple[str, ...]
    why: str
    now: str = ""
    field: str = ""
    goes_to: str = ""
    becomes: str = ""


@dataclass(frozen=True, slots=True)
class CheckedFlag:
    """A flag that goes in as it is where its value fits the pattern; `values` says what does.

    `bare` is the value of one that stood alone once and must not now; "" where there is none.
    """

    names: tuple[str, ...]
    pattern: str
    values: str
    bare: str = ""


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """How the engine calls a method, and the settings that this method takes."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine at one version. `lacks` says why a field of a deployment has no place in it.

    `weights` are the formats of weights that can be asked for. With `abbreviates` its parser takes
    the beginning of a long flag for that flag, where no other one begins so. `programs` says of a
    program's word what takes its place.
    """

    name: str
    title: str
    version: str
    sources: tuple[str, ...]
    words: tuple[str, ...]
    image: str
    config_file: str
    methods: Mapping[EngineMethod, ServedMethod]
    shared_fields: frozenset[str]
    lacks: Mapping[str, str]
    weights: tuple[str, ...]
    flags: tuple[EngineFlag, ...]
    old: tuple[OldFlag, ...]
    switches: frozenset[str]
    known: frozenset[str]
    current: Mapping[str, EngineFlag]  # by every spelling
    older: Mapping[str, OldFlag]  # by every spelling
    checked: Mapping[str, CheckedFlag]  # by every spelling
    abbreviates: bool = False
    programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_server(self) -> bool:
        return bool(self.methods)

    def has_weights(self, name: str) -> bool:
        """Whether it has the format; llama.cpp's may be written in small letters."""
        return name in self.weights or name.upper() in self.weights

    def meant_by(self, name: str) -> tuple[str, ...]:
        """The flags that a name stands for: itself, or those that it is the beginning of.

        >>> engines()["sglang"].meant_by("--mem-fraction")
        ('--mem-fraction-static',)
        """
        flags = self.known | self.current.keys()
        if name in flags or name in self.older:
            return (name,)
        if not self.abbreviates or not name.startswith("--") or name == "--":
            return ()
        found = {
            self.current[each].name if each in self.current else each
            for each in flags
            if each.startswith(name)
        }
        return tuple(sorted(found))

    def full_name(self, name: str) -> str:
        """The flag that a shortened name stands for; the name itself where it is no such."""
        found = self.meant_by(name)
        return found[0] if len(found) == 1 else name

    def speculative_fields(self) -> frozenset[str]:
        """Every setting of speculation that some method takes."""
        return self.shared_fields.union(*(each.fields for each in self.methods.values()))


def spelling(name: str) -> str:
    """A name as tables have it: flags with hyphens, and in small letters but for short ones."""
    return name.replace("_", "-") if name.startswith("--") else name


@cache
def engines() -> Mapping[str, EngineFacts]:
    """By name, in the order in which they are offered."""
    files = ("vllm", "sglang", "llama_cpp", "transformers")
    found = (_read(Path(__file__).with_name(f"{file}.toml")) for file in files)
    return {each.name: each for each in found}


def servers() -> tuple[str, ...]:
    """The engines that can be configured."""
    return tuple(name for name, facts in engines().items() if facts.is_server)


def server_named(name: str) -> EngineFacts:
    """InputError for an engine that cannot be configured here."""
    if name not in servers():
        raise InputError(f"engine must be one of {', '.join(servers())}, got {name!r}")
    return engines()[name]


def _read(path: Path) -> EngineFacts:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    flags = tuple(EngineFlag(**_tuples(each)) for each in data.get("flags", ()))
    old = tuple(OldFlag(**_tuples(each)) for each in data.get("old", ()))
    checked = tuple(CheckedFlag(**_tuples(each)) for each in data.get("checked", ()))
    return EngineFacts(
        name=data["name"],
        title=data["title"],
        version=data["version"],
        sources=tuple(data["sources"]),
        words=tuple(data["words"]),
        image=data.get("image", ""),
        config_file=data.get("config_file", ""),
        methods={
            EngineMethod(name): ServedMethod(each["name"], tuple(each["fields"]))
            for name, each in data["methods"].items()
        },
        shared_fields=frozenset(data["shared"]["fields"]),
        lacks=data["lacks"],
        weights=tuple(data.get("weights", {}).get("formats", ())),
        flags=flags,
        old=old,
        switches=frozenset(data["known"]["switches"]),
        known=frozenset(data["known"]["switches"]) | frozenset(data["known"]["flags"]),
        current={name: flag for flag in flags for name in _spellings(flag)},
        older={spelling(name): flag for flag in old for name in flag.names},
        checked={spelling(name): flag for flag in checked for name in flag.names},
        abbreviates=data.get("abbreviates", False),
        programs=data.get("programs", {}),
    )


def _spellings(flag: EngineFlag) -> tuple[str, ...]:
    return tuple(map(spelling, (flag.name, *flag.aliases)))


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
