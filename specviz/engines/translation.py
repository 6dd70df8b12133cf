"""A pasted text as what an engine of today reads, and what became of every flag in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from specviz.engines.configuration import Configuration, configure
from specviz.engines.dialects import (
    DEPLOYMENT_FIELDS,
    DIALECTS,
    MEANT,
    WEIGHTS,
    Heard,
    Options,
    read_integer,
    read_schedule,
    with_options,
)
from specviz.engines.engine_facts import (
    SPECULATIVE,
    CheckedFlag,
    EngineFacts,
    EngineFlag,
    OldFlag,
    engines,
    server_named,
)
from specviz.engines.engine_rules import ServedPair, problems
from specviz.engines.model_deployment import (
    MAX_DRAFT_TOKENS,
    NO_TARGET,
    PARTS,
    WORDS,
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    wrong_values,
)
from specviz.engines.pasted_text import PastedFlag, SourceText, literal, read_text
from specviz.engines.shell_text import unsaid
from specviz.errors import InputError, read_number, read_whole, short

_SELF = "[self]"  # in an article, for a draft of the target's own first layers
_USUAL_K = 5
_TOLD_NAMES = 3  # of flags that begin alike
_DEFAULT_K = {"llama.cpp": 3}
_OWN_LAYERS = (
    "no engine here drafts with the target's own first layers: choose a head (eagle3, mtp), a "
    "draft model or prompt-lookup"
)
_OF_ASSISTANT = {"draft", "draft_tokens", "draft_quantization", "min_probability"}
_METHODS = tuple(each.value for each in EngineMethod)
ReadPair = Callable[[ModelDeployment], ServedPair | None]


class Fate(Enum):
    """What became of a flag."""

    SAME = "the same"
    MOVED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"
    KEPT = "kept"
    DROPPED = "left out"


@dataclass(frozen=True, slots=True)
class FlagChange:
    """One flag of the text: as it was typed, its value, what became of it, and why."""

    typed: str
    value: str
    fate: Fate
    now: str
    why: str


@dataclass(frozen=True, slots=True)
class Translation:
    """Where there are problems there is no configuration; where a rule of the deployment itself
    does not hold, there is no deployment either.
    """

    source: str
    target: str
    changes: tuple[FlagChange, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    deployment: ModelDeployment | None
    configuration: Configuration | None


@dataclass(slots=True)
class _Work:
    """What is gathered on the way."""

    changes: list[FlagChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    heard: Heard = field(default_factory=dict)
    old: set[str] = field(default_factory=set)
    further: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # field or flag -> its last change
    kept: str = ""  # a method that goes in as it is

    def add(self, name: str, change: FlagChange, adds_up: bool) -> None:
        """What became of a flag that sets this field, or has this name; `adds_up`: its values do,
        where it is given again.
        """
        is_other = name in self.rows and self.changes[self.rows[name]].value != change.value
        if is_other and not adds_up:
            self.drop(name, "it is given again below, and only the last one is kept")
        self.rows[name] = len(self.changes)
        self.changes.append(change)

    def drop(self, name: str, why: str) -> None:
        """Tell of what was given that it is left out."""
        if name in self.rows:
            place = self.rows[name]
            left = replace(self.changes[place], fate=Fate.DROPPED, now="", why=why)
            self.changes[place] = left

    @property
    def typed(self) -> dict[str, str]:
        """Field -> the flag that gave it."""
        return {MEANT.get(name, name): self.changes[row].typed for name, row in self.rows.items()}


def translate(
    text: str,
    to: str | None = None,
    read_pair: ReadPair | None = None,
    schedule: Sequence[BatchRange] = (),
) -> Translation:
    """For the text's own engine, or another: of transformers' arguments, vLLM unless named.

    `read_pair` tells what is known of the two models. A `schedule` takes the place of the text's.
    InputError where the text says nothing to any engine.
    """
    pasted = read_text(text)
    source = engines()[pasted.engine]
    target = server_named(to or (source.name if source.is_server else "vllm"))
    work = _Work(notes=list(pasted.passed_over))
    own = _keep_method(pasted.flags, source, target, work)
    for typed in pasted.flags:
        flag = _as_switch(typed, source)
        name = own.get(flag.name, flag.name)
        if source is target and flag.name in own:
            change = _own_flag(flag, name, source, work)
        else:
            flag = replace(flag, name=name)
            name, change = _name(flag, source), _change(flag, source, target, work)
        change = replace(change, value=_shown(typed.value))
        if isinstance(flag.value, bool) and isinstance(typed.value, str) and change.now:
            change = replace(change, fate=Fate.MOVED, why="a switch takes no value")
        work.add(name, change, flag.name in source.appended)
        if flag.value is True and name in _NAMED:
            work.problems.append(f"{flag.typed} must have a value, got none")
        is_variable = isinstance(flag.value, str) and flag.value in pasted.variables
        if is_variable and name in _READ:
            work.problems.append(
                f"{flag.typed} is {flag.value}, a variable of the shell: put in what it stands for"
            )
    if schedule:
        work.heard.pop("disable_by_batch_size", None)
        work.heard["schedule"] = [(each.first, each.last, each.draft_tokens) for each in schedule]
    deployment = _deployment(source, target, work)
    configuration = None
    if deployment is not None:
        pair = _pair(deployment, read_pair, work)
        work.problems += problems(deployment, target, pair)
        if not work.problems:
            _join_parts(work)
            configuration = configure(deployment, target.name, work.further, pair, pasted.variables)
            _tell_as_written(work, deployment, target, configuration.options)
            work.notes += _remarks(configuration, work, target)
            work.notes += [
                f"{each} is kept for the shell: in forms for no shell put in what it stands for"
                for each in sorted(pasted.variables)
                if each in configuration.command
            ]
    flags = {flag.field: _place(flag.name) for flag in reversed(target.flags)}
    return Translation(
        source=source.name,
        target=target.name,
        changes=tuple(work.changes),
        notes=tuple(work.notes),
        problems=tuple(
            _in_names_of(each, flags | work.typed, target, work.kept) for each in work.problems
        ),
        deployment=deployment,
        configuration=configuration,
    )


def _keep_method(
    flags: Sequence[PastedFlag], source: EngineFacts, target: EngineFacts, work: _Work
) -> dict[str, str]:
    """Of a method that goes in as it is: flags and their names now; to another engine the reverse,
    by which its own flags say what general ones do.
    """
    typed = [each for each in flags if _name(each, source) == "method"]
    if not typed or not source.is_server:
        return {}
    work.kept, own = DIALECTS[source.name].kept_method(typed[-1].value)
    if work.kept and source is target:
        work.further[typed[-1].name] = work.kept
    elif "," in work.kept:
        work.notes.append(f"of {work.kept} {target.title} takes one alone")
    return own if source is target else {each: name for name, each in own.items()}


def _as_switch(flag: PastedFlag, source: EngineFacts) -> PastedFlag:
    """A switch as the one that it is about, on or off; any other flag as it is."""
    value = str(flag.value).lower()
    if flag.name not in source.switches or value not in {"true", "false"}:
        return flag
    name = source.positive(flag.name)
    return replace(flag, name=name, value=(value == "true") == (name == flag.name))


def _name(flag: PastedFlag, source: EngineFacts) -> str:
    """The field that a flag sets, or its own name."""
    known = source.current.get(flag.name) or source.older.get(flag.name)
    return known.field if known is not None and known.field else flag.name


def _tell_as_written(
    work: _Work, deployment: ModelDeployment, target: EngineFacts, options: Options
) -> None:
    """Of each flag that sets a field: where the configuration says it, or why it does not."""
    dialect = DIALECTS[target.name]
    reasons = dict(dialect.lacking(deployment))
    for name, place in work.rows.items():
        change, meant = work.changes[place], MEANT.get(name, name)
        if meant not in DEPLOYMENT_FIELDS or change.fate not in (Fate.SAME, Fate.MOVED):
            continue
        if meant == "draft" and deployment.draft is None:
            meant = "method"  # [ngram]
        flag = dialect.place_of(meant, options)
        if not flag:
            work.drop(name, reasons.get(meant, f"it goes without saying in {target.title}"))
        elif _alike(change.value, options[flag]):
            work.changes[place] = replace(change, now=_place(flag))
        else:
            now = _place(flag, _shown(options[flag]))
            work.changes[place] = replace(change, fate=Fate.MOVED, now=now)


def _remarks(configuration: Configuration, work: _Work, target: EngineFacts) -> Iterator[str]:
    """Those that no change tells."""
    told = tuple(f": {each.why}" for each in work.changes if each.fate is Fate.DROPPED)
    for each in configuration.remarks:
        if not each.endswith(told):
            yield _in_names_of(each, work.typed, target)


def _alike(typed: str, value: Any) -> bool:
    """Whether a value is written as it was typed; of switches it is not told."""
    shown = _shown(value)
    if typed == shown or not shown or typed in ("", "True", "False"):
        return True
    try:
        return float(typed) == float(shown)
    except ValueError:
        return False


def _change(flag: PastedFlag, source: EngineFacts, target: EngineFacts, work: _Work) -> FlagChange:
    """What becomes of one flag; its value goes where it belongs."""
    current, old = source.current.get(flag.name), source.older.get(flag.name)
    if flag.value is None:
        return _told(flag, Fate.DROPPED, "", f"it leaves the choice to {source.title}")
    if flag.value == _SELF:
        work.problems.append(_OWN_LAYERS)
        return _told(flag, Fate.UNKNOWN, "", f"{source.title} never had {_SELF}, old or new")
    if isinstance(flag.value, SourceText):
        work.notes.append(
            f"{flag.typed} is {flag.value!r} in the code: put in what that stands for"
        )
    if current is not None:
        if str(flag.value).lower() in source.chosen.get(current.name, ()):
            if source is not target:
                return _told(flag, Fate.DROPPED, "", f"{source.title} chooses it itself then")
            work.further[current.name] = flag.value
            return _told(flag, Fate.SAME, _place(current.name), "")
        work.heard[current.field] = flag.value
        if source is not target:
            return _told(flag, Fate.MOVED, _now(current.field, target), "")
        fate = Fate.SAME if _is_so_called(flag, current) else Fate.MOVED
        return _told(flag, fate, _place(current.name), "")
    if old is not None:
        return _old_flag(flag, old, source, target, work)
    key = flag.name.removeprefix(SPECULATIVE)
    is_known = source.knows(flag.name)
    if flag.name.startswith(SPECULATIVE):
        is_known = key in source.speculative_fields()
    if not is_known:
        several = source.meant_by(flag.name)
        why = f"{source.title} {source.version} has no such setting, and refuses it"
        if several:
            why = f"{source.title} {source.version} refuses it: {_begin_so(several)}"
        return _told(flag, Fate.UNKNOWN, "", why)
    if source is not target:
        same = target.same_as(flag.name, source)
        if not same:
            return _told(flag, Fate.DROPPED, "", f"it is {source.title}'s own")
        if isinstance(flag.value, tuple) and same not in target.several | target.appended:
            return _told(flag, Fate.DROPPED, "", f"{target.title} takes one value for {same}")
        return _further(flag, same, source, target, work)
    checked = source.checked.get(flag.name)
    if checked is not None:
        return _checked_flag(flag, checked, source, work)
    return _further(flag, flag.name, source, target, work)


def _further(
    flag: PastedFlag, name: str, source: EngineFacts, target: EngineFacts, work: _Work
) -> FlagChange:
    """One that goes in as it is, under its name in the engine that is translated to."""
    if flag.value is False and name in target.switches - target.negatable:
        return _told(flag, Fate.DROPPED, "", f"{name} is a switch, and off where it is not given")
    before = work.further.get(name, ())
    if flag.name in source.appended and name in target.several | target.appended:
        values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
        work.further[name] = (*before, *values)
    else:
        work.further[name] = flag.value
    is_off = flag.value is False and name in target.negatable
    now = f"--no-{name[2:]}" if is_off else name
    if source is not target:
        return _told(flag, Fate.SAME if name == flag.name else Fate.MOVED, now, "")
    return _told(flag, Fate.KEPT, now, "it goes in as it is; its value is not checked")


def _checked_flag(
    flag: PastedFlag, checked: CheckedFlag, source: EngineFacts, work: _Work
) -> FlagChange:
    """One that goes in as it is, where its value is one that it takes."""
    if flag.value is True and checked.bare:
        work.further[flag.name] = checked.bare
        now = f"{flag.name} {checked.bare}"
        return _told(flag, Fate.MOVED, now, "it takes a value now, and the server ends without one")
    value = "" if flag.value is True else str(flag.value)
    if isinstance(flag.value, SourceText) or re.fullmatch(checked.pattern, value):
        work.further[flag.name] = flag.value
        return _told(flag, Fate.SAME, flag.name, "")
    got = short(value) if value else "none"
    work.problems.append(f"{flag.typed} must be {checked.values} in {source.title}, got {got}")
    return _told(flag, Fate.UNKNOWN, "", "it takes no such value")


def _begin_so(names: Sequence[str]) -> str:
    further = len(names) - _TOLD_NAMES
    told = f"{', '.join(names[:_TOLD_NAMES])}{f' and {further} more' if further > 0 else ''}"
    return f"several of its flags begin so ({told})"


def _old_flag(
    flag: PastedFlag, old: OldFlag, source: EngineFacts, target: EngineFacts, work: _Work
) -> FlagChange:
    if old.field:
        work.heard[old.field] = flag.value
        work.old.add(old.field)
    if old.goes_to and not target.knows(old.goes_to):
        return _told(flag, Fate.DROPPED, "", f"{target.title} has no {old.goes_to}")
    if old.goes_to:
        work.further |= with_options(old.goes_to, flag.value)
    field = MEANT.get(old.field, old.field)
    place = old.goes_to or _now(old.field, target)
    is_elsewhere = source is not target and field in DEPLOYMENT_FIELDS
    if is_elsewhere and not place:
        return _told(flag, Fate.DROPPED, "", target.lacks.get(field, ""))
    why = "" if is_elsewhere and source.is_server else old.why
    return _told(flag, Fate.MOVED if place else Fate.GONE, place, why)


def _is_so_called(flag: PastedFlag, current: EngineFlag) -> bool:
    """Whether a flag, a key or a field of Python was typed as it is called."""
    if flag.typed == current.python:
        return True
    typed, name = (each.replace("-", "_").strip("_") for each in (flag.typed, current.name))
    return typed.rpartition(".")[2] == name.rpartition(".")[2]


def _told(flag: PastedFlag, fate: Fate, now: str, why: str) -> FlagChange:
    return FlagChange(flag.typed, _shown(flag.value), fate, now, why)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    words = value if isinstance(value, tuple) else (value,)
    return "" if value is True else unsaid(" ".join(map(str, words)))


def _now(name: str, target: EngineFacts) -> str:
    """The flag that sets the field in the engine that is translated to; "" where none does."""
    meant = MEANT.get(name, name)
    flags = (flag.name for flag in target.flags if MEANT.get(flag.field, flag.field) == meant)
    return _place(next(flags, ""))


def _place(name: str, value: str = "") -> str:
    """A flag, and perhaps its value, as it is told to a person."""
    told = f"{name.removeprefix(SPECULATIVE)} {value}".rstrip()
    return f"{told} in --speculative-config" if name.startswith(SPECULATIVE) else told


def _pair(
    deployment: ModelDeployment, read_pair: ReadPair | None, work: _Work
) -> ServedPair | None:
    """None, and a note, where the models are here and cannot be read."""
    try:
        return read_pair(deployment) if read_pair is not None else None
    except InputError as error:
        work.notes.append(str(error))
        return None


def _deployment(source: EngineFacts, target: EngineFacts, work: _Work) -> ModelDeployment | None:
    """None, and a problem, where the fields break a rule of a deployment."""
    heard = work.heard
    try:
        if heard.pop("early_exit", None) is not None:
            work.problems.append(_OWN_LAYERS)
        if work.problems:
            return None
        if source.is_server:
            dialect = DIALECTS[source.name]
            work.notes += dialect.settle(heard, frozenset(work.old))
            for name, why in dialect.needless(heard):
                work.drop(name, why)
        else:
            work.notes += _settle_library(heard, work)
        _settle_switch(heard, work)
        if source is not target:
            work.notes += _settle_length(heard, source)
        if "target" not in heard:
            heard["target"] = NO_TARGET
            if not target.presets & work.further.keys():
                work.notes.append(f"no model is named: put yours in the place of {NO_TARGET}")
        values = _values(heard, work)
        if work.problems:
            return None
        by_preset = any(name.endswith(("-spec", "--spec-default")) for name in work.further)
        if values.get("method", EngineMethod.NONE) is EngineMethod.NONE and not by_preset:
            work.notes.append("nothing in it speculates")
        return ModelDeployment(**values)
    except InputError as error:
        work.problems.append(str(error))
        return None


def _join_parts(work: _Work) -> None:
    """An object before its parts (--flag.key), which are then put into it."""
    owners = {name.partition(".")[0] for name in work.further if "." in name}
    for name in sorted(owners & work.further.keys()):
        value = literal(work.further.pop(name))
        work.further = {name: value, **work.further}
        work.notes.append(f"{name} and its parts are written as one, and a part's value stands")


def _own_flag(flag: PastedFlag, own: str, source: EngineFacts, work: _Work) -> FlagChange:
    """One of a method that is kept: `own` is its name there."""
    if own not in source.known:
        return _told(flag, Fate.DROPPED, "", f"{work.kept} has no {own}")
    try:
        work.further[own] = read_whole(flag.value, flag.typed, 0, MAX_DRAFT_TOKENS)
    except InputError as error:
        work.problems.append(str(error))
    if own == flag.name:
        return _told(flag, Fate.SAME, own, "")
    return _told(flag, Fate.MOVED, own, source.older[flag.name].why)


def _values(heard: Heard, work: _Work) -> dict[str, Any]:
    """The values of the fields, and a problem for each that is none."""
    found = {}
    for name, value in heard.items():
        try:
            found[name] = read_field(name, value)
        except InputError as error:
            work.problems.append(str(error))
    work.problems += wrong_values(found)
    return found


def _settle_library(heard: Heard, work: _Work) -> Iterator[str]:
    """transformers names no method: its arguments do."""
    tokens = heard.pop("prompt_lookup_tokens", None)
    tokenizer = heard.pop("assistant_tokenizer", None)
    for field_name, own in (
        ("quantization", "four_bits"),
        ("draft_quantization", "draft_four_bits"),
    ):
        if heard.pop(own, None) is True:
            heard[field_name] = "bitsandbytes"
    if tokens is not None:
        for name in _OF_ASSISTANT & heard.keys():
            del heard[name]
            work.drop(name, "with prompt_lookup_num_tokens the library passes over the assistant")
    if "draft" in heard:
        heard["method"] = EngineMethod.DRAFT_MODEL
        if tokenizer is not None:
            heard["mixed_vocabularies"] = True
            yield "with two tokenizers, drafts are kept to the tokens that both vocabularies have"
    elif tokens is not None:
        heard |= {"method": EngineMethod.PROMPT_LOOKUP, "draft_tokens": tokens, "lookup_min": 1}
        heard.setdefault("lookup_max", 2)
        yield "the library looks for n-grams of 2 tokens, then of 1, unless told otherwise"


def _settle_switch(heard: Heard, work: _Work) -> None:
    """The number of requests from which on an old vLLM stopped, as a schedule."""
    value = heard.pop("disable_by_batch_size", None)
    if value is None:
        return
    size = read_integer(value, "speculative-disable-by-batch-size")
    depth = read_integer(heard.get("draft_tokens", 0), "num-speculative-tokens")
    if size < 2 or not depth:
        work.drop("disable_by_batch_size", "there is a schedule for a K and a size above 1 alone")
        return
    largest = max(size, read_integer(heard.get("max_batch", size), "max-num-seqs"))
    heard["schedule"] = [[1, size - 1, depth], [size, largest, 0]]


def _settle_length(heard: Heard, source: EngineFacts) -> Iterator[str]:
    """A K where none was named, for each engine has a default of its own or none."""
    method = heard.get("method", EngineMethod.NONE)
    if "draft_tokens" not in heard and method is not EngineMethod.NONE:
        heard["draft_tokens"] = _DEFAULT_K.get(source.name, _USUAL_K)
        yield f"no K is named: {heard['draft_tokens']} is written, and worth a measurement"


_NAMES = {"target", "draft", *WORDS}
_NAMED = _NAMES | {"method"}  # what no flag says that stands alone
_READ = {*DEPLOYMENT_FIELDS, *MEANT} - {"target", "draft"}  # what a name cannot stand for


def read_field(name: str, value: Any) -> Any:
    """The value of a field of a deployment, read from what was typed; InputError for another."""
    match name:
        case "method":
            if not isinstance(value, EngineMethod):
                raise InputError(f"method must be one name, got {short(value)}")
            return value
        case "schedule":
            return read_schedule(value)
        case "draft_sampling":
            return value if isinstance(value, DraftSampling) else _sampling(value)
        case "mixed_vocabularies":
            return str(value).lower() == "true"
    if name in WEIGHTS:
        return _weights(str(value))
    if name in _NAMES:
        return value if isinstance(value, tuple) else str(value)
    return read_number(value, _flag(name)) if name in PARTS else read_integer(value, _flag(name))


def _weights(name: str) -> str:
    """A format as its engine spells it."""
    if any(facts.has_weights(name) for facts in engines().values()):
        return name
    formats = (each for facts in engines().values() for each in facts.weights)
    return next((each for each in formats if each.lower() == name.lower()), name)


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _sampling(value: Any) -> DraftSampling:
    try:
        return DraftSampling(value)
    except ValueError:
        names = " or ".join(each.value for each in DraftSampling)
        raise InputError(f"draft-sampling must be {names}, got {short(value)}") from None


def _in_names_of(text: str, typed: Mapping[str, str], facts: EngineFacts, kept: str = "") -> str:
    """A sentence about a deployment in the names of the text that it was read from.

    `typed` is field -> the flag that gave it; methods are called as the engine calls them, but for
    one that is kept.
    """
    fields = {name.replace("_", "-"): name for name in DEPLOYMENT_FIELDS}
    methods = {each.value: served.name for each, served in facts.methods.items()}
    if kept:
        methods[EngineMethod.PROMPT_LOOKUP.value] = kept

    def named(match: re.Match[str]) -> str:
        word = match[0]
        return methods.get(word, word) if word in _METHODS else typed.get(fields[word], word)

    # a field of one word is English elsewhere than at the beginning of a rule
    begin = rf"^(?:{'|'.join(fields)})(?= must| has)"
    inside = "|".join(name for name in (*fields, *_METHODS) if "-" in name)
    pattern = rf"{begin}|(?<=method )(?:{'|'.join(_METHODS)})\b|(?<![\w-])(?:{inside})(?![\w-])"
    return re.sub(pattern, named, text)
