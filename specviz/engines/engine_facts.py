"""The methods, flags and older spellings that an engine accepts, read from its TOML file."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specviz.engines.model_deployment import MAY_HAVE_DRAFT, EngineMethod

# Prefix of the keys of an engine's single object for speculation.
SPECULATIVE = "speculative_config."


@dataclass(frozen=True, slots=True)
class EngineFlag:
    """A flag that the engine accepts now.

    `field` is the field of a deployment that it sets. `python` is its name in Python.
    """

    name: str
    field: str
    aliases: tuple[str, ...] = ()
    python: str = ""

    @property
    def python_name(self) -> str:
        return self.python or self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class OldFlag:
    """A spelling that the engine no longer accepts, and the reason.

    `field` is the field of a deployment that it set. `goes_to` is the flag that takes its value
    unchanged. If both are empty, the engine has no replacement.
    """

    name: str
    why: str
    field: str = ""
    goes_to: str = ""


@dataclass(frozen=True, slots=True)
class CheckedFlag:
    """A flag that a translation passes on to the engine if its value matches `pattern`.

    `values` describes the valid values for messages. Some flags once needed no value but need one
    now. For such a flag without a value, `bare` is the value to write.
    """

    names: tuple[str, ...]
    pattern: str
    values: str
    bare: str = ""


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A drafting method of an engine: its names in that engine, and the fields that it uses."""

    name: str
    fields: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The known facts about one engine at one version.

    `lacks` maps a field of a deployment that the engine cannot express to the reason.

    - `weights`: formats of weights that a user can request.
    - `abbreviates`: the engine accepts the beginning of a long flag if it is unique.
    - `programs`: terminal programs of the engine that a translation replaces by the server -> the
      drafting method that the program always uses, or "".
    - `several`: flags that take all words up to the next flag.
    - `bare`: flags that work with a value and without one.
    - `appended`: flags that can be repeated; the engine collects all their values in a list.
    - `joined`: flags whose value can follow without a space.
    - `short`: short flag -> its long name.
    - `objects`: flags with parts that can be set separately (--flag.key).
    - `negatable`: flags with a --no- form.
    - `server`: flags that do not exist as arguments in Python.
    - `chosen`: values that leave the choice to the engine.
    - `own`: values that no other engine has.
    - `general`: a meaning -> the spellings of its flag. All engines use the same names of meanings,
      so that a flag can be translated from one engine to another.
    - `environment`: prefix of the environment variables that set flags.
    - `start`: the words that start the server.
    - `positional`: the flag whose value follows these words without the flag's name, or "".
    - `port`: the port on which the server listens if no port is given.
    - `image_starts`: the container image starts the server itself.
    - `kubernetes`: a Kubernetes manifest can be written.
    - `images`: parts of the names of container images that start the engine.
    - `spelled`: a flag, with hyphens -> the engine's own spelling, such as --tp_size.
    - `speculation`: the name of the engine's single object for speculation.
    - `file_flags`: flags whose value is the name of a configuration file.
    - `in_file`: settings that have no flag, so they are written in a configuration file.
    - `subcommands`: words that may follow the name of the engine's program.
    - `clients`: subcommands that send requests to a running server.
    - `constructors`: calls in Python code whose arguments are flags.
    - `part_calls`: calls that do not show that the text is for this engine.
    - `calls`: all calls in Python code that have settings of the engine.
    - `usual_draft_tokens`: the draft length K if none is given.
    - `variables`: environment variables (without the prefix) whose names do not follow the flag's
      name -> the flag.
    - `presets`: switches that also choose the models.
    """

    name: str
    title: str
    version: str
    sources: tuple[str, ...]
    words: tuple[str, ...]
    image: str
    config_file: str
    start: tuple[str, ...]
    positional: str
    port: int
    image_starts: bool
    kubernetes: bool
    spelled: Mapping[str, str]
    speculation: str
    file_flags: tuple[str, ...]
    in_file: frozenset[str]
    usual_draft_tokens: int
    images: tuple[str, ...]
    subcommands: frozenset[str]
    clients: frozenset[str]
    constructors: frozenset[str]
    part_calls: frozenset[str]
    calls: frozenset[str]
    methods: Mapping[EngineMethod, ServedMethod]
    shared_fields: frozenset[str]
    lacks: Mapping[str, str]
    weights: tuple[str, ...]
    flags: tuple[EngineFlag, ...]
    old: tuple[OldFlag, ...]
    switches: frozenset[str]
    known: frozenset[str]
    current: Mapping[str, EngineFlag]  # spelling of a flag that the engine accepts now -> the flag
    older: Mapping[str, OldFlag]  # spelling of a flag that the engine no longer accepts -> the flag
    checked: Mapping[str, CheckedFlag]  # spelling of a flag whose value must be checked -> the flag
    abbreviates: bool
    programs: Mapping[str, str]
    several: frozenset[str]
    bare: frozenset[str]
    appended: frozenset[str]
    negatable: frozenset[str]
    presets: frozenset[str]
    server: frozenset[str]
    joined: Mapping[str, str]
    short: Mapping[str, str]
    objects: frozenset[str]
    chosen: Mapping[str, Sequence[str]]
    own: Mapping[str, Sequence[str]]
    general: Mapping[str, Sequence[str]]
    environment: str
    variables: Mapping[str, str]
    # A flag that is still accepted -> the flag that the engine recommends instead.
    deprecated: Mapping[str, str]

    @property
    def is_server(self) -> bool:
        return bool(self.methods)

    def has_weights(self, name: str) -> bool:
        """Return whether the engine has this format of weights.

        The name may also be in lower case.
        """
        return name in self.weights or name.upper() in self.weights

    def meant_by(self, name: str) -> tuple[str, ...]:
        """Return the flags that a name may mean: the flag itself, or flags that begin with it.

        If several flags begin with it, all of them are returned.
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
        """Return the full name of a shortened flag. Return any other name unchanged."""
        flag, *key = self.long_name(name).split(".", 1)
        found = self.meant_by(flag)
        return ".".join([found[0] if len(found) == 1 else flag, *key])

    def long_name(self, name: str) -> str:
        """Return the long name of a short flag, such as -m. Return other names unchanged.

        A part of an object after the flag (-flag.key) stays as it is.
        """
        flag, *key = name.split(".", 1)
        return ".".join([self.short.get(flag, flag), *key])

    def shown(self, name: str, value: str = "") -> str:
        """Return a flag in the engine's spelling, followed by the value if there is one."""
        key = name.removeprefix(SPECULATIVE)
        if key != name:
            return f"{f'{key} {value}'.rstrip()} in {self.speculation}"
        flag, dot, part = name.partition(".")
        return f"{self.spelled.get(flag, flag)}{dot}{part} {value}".rstrip()

    def is_in_file(self, name: str) -> bool:
        """Return whether a setting, or a part of an object, has no flag on the command line."""
        return (name.partition(".")[0] if name.startswith("--") else SPECULATIVE) in self.in_file

    def now(self, name: str) -> str:
        """Return the flag that replaces an old flag today. Return any other name unchanged."""
        old = self.older.get(name)
        return old.goes_to if old is not None and old.goes_to else name

    def needs_value(self, name: str) -> bool:
        """Return whether the engine refuses this flag without a value."""
        return name in self.known and name not in self.switches | self.bare

    def knows(self, name: str) -> bool:
        """Return whether the engine has this flag, or an object with this part (--flag.key)."""
        flag, *key = name.split(".", 1)
        return flag in self.objects if key else flag in self.known

    def positive(self, name: str) -> str:
        """Return the switch that a --no-… flag turns off. Return any other name unchanged."""
        plain = f"--{name.removeprefix('--no-')}"
        return plain if name.startswith("--no-") and plain in self.negatable else name

    def flag_of(self, variable: str) -> str:
        """Return the flag that an environment variable sets, or "" if there is none."""
        end = variable.removeprefix(self.environment)
        if end == variable:
            return ""
        name = self.variables.get(end, f"--{end.lower().replace('_', '-')}")
        return name if name in self.known | self.older.keys() else ""

    def same_as(self, name: str, source: EngineFacts) -> str:
        """Return this engine's flag that means the same as a flag of `source`.

        The result is "" if there is none.
        """
        meant = (meaning for meaning, names in source.general.items() if name in names)
        return self.general.get(next(meant, ""), ("",))[0]

    def speculative_fields(self) -> frozenset[str]:
        """Return every field of a deployment that some drafting method uses."""
        return self.shared_fields.union(*(each.fields for each in self.methods.values()))


def spelling(name: str) -> str:
    """Return a flag as the TOML files spell it: with hyphens instead of underscores."""
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key if name.startswith("--") else name


_TEXTS = ("name", "title", "version", "image", "config_file", "environment", "positional")
# Other single values -> the value of an engine whose file does not contain them.
_VALUES = {
    "speculation": "--speculative-config",
    "port": 0,
    "image_starts": False,
    "kubernetes": False,
    "usual_draft_tokens": 5,
}
_TABLES = ("lacks", "programs", "joined", "short", "variables", "deprecated")
_KINDS = ("several", "bare", "appended", "negatable", "presets", "server", "objects")


def read_facts(path: Path) -> EngineFacts:
    """Read the TOML file of an engine."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    flags = tuple(_flag(*map(str.split, entry)) for entry in data.get("flags", {}).items())
    old = tuple(_old_flags(data))
    checked = tuple(CheckedFlag(**_tuples(each)) for each in data.get("checked", ()))
    known: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    written = [name for each in flags for name in (each.name, *each.aliases)]
    for kind, names in data["known"].items():
        known[kind] = frozenset(spelling(_flag_name(name)) for name in names.split())
        written += map(_flag_name, names.split())
    flags = tuple(replace(each, name=spelling(each.name)) for each in flags)
    calls: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for kind, names in data.get("calls", {}).items():
        calls[kind] = frozenset(names.split())
    negatable = known["negatable"]
    methods, shared = dict(_methods(data)), frozenset(data["shared"]["fields"].split())
    fields = shared.union(*(each.fields for each in methods.values()))
    switches = known["switches"] | negatable | {f"--no-{name[2:]}" for name in negatable}
    switches |= known["presets"]
    current = {name: flag for flag in flags for name in _spellings(flag)}
    elsewhere = {*current, *fields, *(name for each in checked for name in each.names)}
    plain: dict[str, Any] = {name: data.get(name, "") for name in _TEXTS}
    plain |= {name: data.get(name, {}) for name in _TABLES}
    plain |= {name: data.get(name, usual) for name, usual in _VALUES.items()}
    return EngineFacts(
        **plain | {name: known[name] for name in _KINDS},
        sources=tuple(data["sources"]),
        words=tuple(data["words"]),
        start=tuple(data.get("start", "").split()),
        spelled={spelling(name): name for name in written if name != spelling(name)},
        file_flags=tuple(map(spelling, data.get("file_flags", "").split())),
        in_file=known["in_file"] | ({SPECULATIVE} if data.get("speculation") else set()),
        images=tuple(data.get("images", "").split()),
        subcommands=frozenset(data.get("subcommands", "").split()),
        clients=frozenset(data.get("clients", "").split()),
        constructors=calls["constructors"],
        part_calls=calls["parts"],
        calls=frozenset().union(*calls.values()),
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
        own=_lists(data.get("own", {})),
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
    """Return a flag with its leading hyphens.

    The lists in an engine's TOML file leave the hyphens out.
    """
    return name if name.startswith("-") else f"--{name}"


def _old_flags(data: Mapping[str, Any]) -> Iterator[OldFlag]:
    """Yield the removed flags and then the replaced flags, each with the reason."""
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
