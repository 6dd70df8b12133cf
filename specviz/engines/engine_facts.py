"""What each engine accepts: its methods, flags and older spellings, read from a TOML file each."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specviz.engines.model_deployment import MAY_HAVE_DRAFT, EngineMethod
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
    """A spelling that is not accepted, and why: `field` is what it set, `goes_to` a flag that takes
    its value as it is; without both nothing took its place.
    """

    name: str
    why: str
    field: str = ""
    goes_to: str = ""


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
    """How the engine calls a method, its other kinds of it, and the settings that it takes."""

    name: str
    fields: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine at one version. `lacks` says why a field of a deployment has no place in it.

    `weights` are the formats of weights that can be asked for. With `abbreviates` its parser takes
    the beginning of a long flag for that flag, where no other one begins so. `programs` are those
    whose place the server takes, and how each drafts. `several` take all words up to the next flag,
    values of `appended` add up where one is given again, `joined` may have theirs right behind
    them, `short` is a short flag -> its long name, of `objects` a part may be set (--flag.key),
    each of `negatable` has its --no-, `server` are no arguments in Python, `chosen` are values by
    which the engine chooses itself, `general` is meaning -> spellings of flags that others have. A
    variable that sets a flag is `environment` and the flag's name, or what `variables` have for it.
    `presets` are switches that bring their models.
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
    abbreviates: bool
    programs: Mapping[str, str]
    several: frozenset[str]
    appended: frozenset[str]
    negatable: frozenset[str]
    presets: frozenset[str]
    server: frozenset[str]
    joined: Mapping[str, str]
    short: Mapping[str, str]
    objects: frozenset[str]
    chosen: Mapping[str, Sequence[str]]
    general: Mapping[str, Sequence[str]]
    environment: str
    variables: Mapping[str, str]

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
        flag, *key = self.long_name(name).split(".", 1)
        found = self.meant_by(flag)
        return ".".join([found[0] if len(found) == 1 else flag, *key])

    def long_name(self, name: str) -> str:
        """Of a short flag, or of a part of one; any other name as it is."""
        flag, *key = name.split(".", 1)
        return ".".join([self.short.get(flag, flag), *key])

    def knows(self, name: str) -> bool:
        """Whether there is such a flag, or such a part of one."""
        flag, *key = name.split(".", 1)
        return flag in self.objects if key else flag in self.known

    def positive(self, name: str) -> str:
        """The switch that a --no-… switches off; any other name as it is."""
        plain = f"--{name.removeprefix('--no-')}"
        return plain if name.startswith("--no-") and plain in self.negatable else name

    def flag_of(self, variable: str) -> str:
        """The flag that a variable of the environment sets; "" where it sets none.

        >>> [engines()["llama.cpp"].flag_of(f"LLAMA_ARG_{end}") for end in ("CTX_SIZE", "BATCH")]
        ['--ctx-size', '--batch-size']
        """
        end = variable.removeprefix(self.environment)
        if end == variable:
            return ""
        name = self.variables.get(end, f"--{end.lower().replace('_', '-')}")
        return name if name in self.known | self.older.keys() else ""

    def same_as(self, name: str, source: EngineFacts) -> str:
        """The flag that means what another engine's does; "" where none is known to."""
        meant = (meaning for meaning, names in source.general.items() if name in names)
        return self.general.get(next(meant, ""), ("",))[0]

    def speculative_fields(self) -> frozenset[str]:
        """Every setting of speculation that some method takes."""
        return self.shared_fields.union(*(each.fields for each in self.methods.values()))


def spelling(name: str) -> str:
    """A name as tables have it: long flags with hyphens."""
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key if name.startswith("--") else name


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


_TEXTS = ("name", "title", "version", "image", "config_file", "environment")
_TABLES = ("lacks", "programs", "joined", "short", "variables")
_KINDS = ("several", "appended", "negatable", "presets", "server", "objects")


def _read(path: Path) -> EngineFacts:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    flags = tuple(_flag(*map(str.split, entry)) for entry in data.get("flags", {}).items())
    old = tuple(_old_flags(data))
    checked = tuple(CheckedFlag(**_tuples(each)) for each in data.get("checked", ()))
    known: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for kind, names in data["known"].items():
        known[kind] = frozenset(map(_flag_name, names.split()))
    negatable = known["negatable"]
    methods, shared = dict(_methods(data)), frozenset(data["shared"]["fields"].split())
    fields = shared.union(*(each.fields for each in methods.values()))
    switches = known["switches"] | negatable | {f"--no-{name[2:]}" for name in negatable}
    switches |= known["presets"]
    current = {name: flag for flag in flags for name in _spellings(flag)}
    elsewhere = {*current, *fields, *(name for each in checked for name in each.names)}
    plain: dict[str, Any] = {name: data.get(name, "") for name in _TEXTS}
    plain |= {name: data.get(name, {}) for name in _TABLES}
    return EngineFacts(
        **plain | {name: known[name] for name in _KINDS},
        sources=tuple(data["sources"]),
        words=tuple(data["words"]),
        methods=methods,
        shared_fields=shared,
        weights=tuple(data.get("weights", {}).get("formats", "").split()),
        flags=flags,
        old=old,
        switches=switches,
        known=switches.union(*known.values(), (name for name in elsewhere if name[0] == "-")),
        current=current,
        older={spelling(flag.name): flag for flag in old},
        checked={spelling(name): flag for flag in checked for name in flag.names},
        abbreviates=data.get("abbreviates", False),
        chosen=_lists(data.get("chosen", {})),
        general=_lists(data.get("general", {})),
    )


def _methods(data: Mapping[str, Any]) -> Iterator[tuple[EngineMethod, ServedMethod]]:
    for value, each in data["methods"].items():
        method, fields = EngineMethod(value), each.get("fields", "")
        drafted = data["shared"]["drafted"] if method in MAY_HAVE_DRAFT else ""
        also = tuple(each.get("also", "").split())
        yield method, ServedMethod(each["name"], (*drafted.split(), *fields.split()), also)


def _flag(names: Sequence[str], sets: Sequence[str]) -> EngineFlag:
    return EngineFlag(names[0], sets[0], tuple(names[1:]), " ".join(sets[1:]))


def _flag_name(name: str) -> str:
    """In lists long ones have no hyphens."""
    return name if name.startswith("-") else f"--{name}"


def _old_flags(data: Mapping[str, Any]) -> Iterator[OldFlag]:
    """Those that nothing took the place of, and, by their reason, those that something did."""
    for why, names in _lists(data.get("gone", {})).items():
        yield from (OldFlag(name, why) for name in names)
    for entry in data["old"]:
        for sets, names in _lists(entry.get("fields", {})).items():
            yield from (OldFlag(name, entry["why"], field=sets) for name in names)
        for flag, names in _lists(entry.get("flags", {})).items():
            yield from (OldFlag(name, entry["why"], goes_to=flag) for name in names)


def _lists(table: Mapping[str, str]) -> dict[str, list[str]]:
    return {key: names.split() for key, names in table.items()}


def _spellings(flag: EngineFlag) -> tuple[str, ...]:
    return tuple(map(spelling, (flag.name, *flag.aliases)))


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
