"""Translate a pasted text for a current engine, and say what happened to each flag in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import Any

from specviz.engines.configuration import Configuration, configure
from specviz.engines.engine_adapter import Needless, Options, RepositoryFile
from specviz.engines.engine_facts import (
    SPECULATIVE,
    CheckedFlag,
    EngineFacts,
    EngineFlag,
    OldFlag,
)
from specviz.engines.engine_registry import (
    adapters,
    engines,
    meaning,
    server_adapters,
    server_named,
    servers,
)
from specviz.engines.engine_rules import problems
from specviz.engines.model_deployment import (
    MAX_DRAFT_TOKENS,
    NO_TARGET,
    BatchRange,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
    wrong_values,
)
from specviz.engines.own_flags import own_flags
from specviz.engines.pasted_text import read_text
from specviz.engines.readers.found_flags import PastedFlag, SourceText, literal
from specviz.engines.served_pair import ServedPair
from specviz.engines.shell_text import unsaid
from specviz.engines.typed_fields import DEPLOYMENT_FIELDS, NAMES, Heard, read_field
from specviz.errors import InputError, read_whole, short

# The name that some articles use for a draft that consists of the target's own first layers.
_SELF = "[self]"
_AS_IT_IS = "it is passed on unchanged; its value is not checked"
_LISTED_NAMES = 3  # largest number of flags with the same beginning that one message lists
_OWN_LAYERS = (
    "no engine here drafts with the target's own first layers: choose a head (eagle3, mtp), a "
    "draft model or prompt-lookup"
)
_OWN_DRAFT = (
    "the draft is the target itself: each drafted token takes as long as a token of the target, so "
    "nothing is gained"
)
_METHODS = tuple(each.value for each in EngineMethod)
_NAMED = NAMES | {"method"}  # the fields whose flags must have a value
# The fields whose values must be known, so that a shell variable cannot stand for them.
_READ = frozenset(DEPLOYMENT_FIELDS) - {"target", "draft"}
ReadPair = Callable[[ModelDeployment], ServedPair | None]


class Fate(Enum):
    """The effect of a translation on one flag."""

    SAME = "the same"
    MOVED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"
    KEPT = "kept"
    DROPPED = "left out"


@dataclass(frozen=True, slots=True)
class FlagChange:
    """One flag of the pasted text: its spelling and value there, what happened to it, and why.

    `now` is the flag that replaces it.
    """

    typed: str
    value: str
    fate: Fate
    now: str
    why: str


@dataclass(frozen=True, slots=True)
class Translation:
    """A translated text.

    If there are problems, `configuration` is None. If the deployment itself breaks a rule,
    `deployment` is None as well.
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
    """The unfinished result of a translation."""

    changes: list[FlagChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    heard: Heard = field(default_factory=dict)
    old: set[str] = field(default_factory=set)
    further: dict[str, Any] = field(default_factory=dict)
    # A field or flag -> the index of the latest FlagChange that belongs to it.
    rows: dict[str, int] = field(default_factory=dict)
    kept: str = ""  # the name of a drafting method that the translation passes on unchanged, or ""

    def add(self, name: str, change: FlagChange, adds_up: bool) -> None:
        """Store what happened to a flag that sets the field `name` or has the name `name`.

        `adds_up` means that the values of a repeated flag are combined.
        """
        is_other = name in self.rows and self.changes[self.rows[name]].value != change.value
        if is_other and not adds_up:
            self.drop(name, "it is given again below, and only the last one is kept")
        self.rows[name] = len(self.changes)
        self.changes.append(change)

    def drop(self, name: str, why: str) -> None:
        """Record that a flag was left out of the translation, and why."""
        if name in self.rows:
            place = self.rows[name]
            left = replace(self.changes[place], fate=Fate.DROPPED, now="", why=why)
            self.changes[place] = left

    @property
    def typed(self) -> dict[str, str]:
        """Return, for each field of the deployment, the flag by which the user set it."""
        return {meaning(name): self.changes[row].typed for name, row in self.rows.items()}


def translate(
    text: str,
    to: str | None = None,
    read_pair: ReadPair | None = None,
    schedule: Sequence[BatchRange] = (),
) -> Translation:
    """Translate a text for its own engine, or for the engine `to`.

    Arguments of a library, which is no server, are translated for the first server. `read_pair`
    finds facts about the two models. A `schedule` replaces the schedule in the text. Raises
    InputError if the text is for no engine.
    """
    pasted = read_text(text)
    source = engines()[pasted.engine]
    target = server_named(to or (source.name if source.is_server else servers()[0]))
    work = _Work(notes=list(pasted.passed_over))
    own = _keep_method(pasted.flags, source, target, work)
    files = {id(each.flag): each for each in adapters()[source.name].repository_files(pasted.flags)}
    for typed in pasted.flags:
        if file := files.get(id(typed)):
            work.changes.append(_file_change(file, source, target, work))
            continue
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
        needs_value = flag.name in source.known - source.current.keys() - source.checked.keys()
        needs_value &= source.needs_value(flag.name)
        if flag.value is True and (name in _NAMED or needs_value):
            work.problems.append(f"{flag.typed} must have a value, got none")
        if name in {"target", "draft"} and _is_unknown_kind(flag.value):
            work.problems.append(
                f"{flag.typed} must name a model or be [ngram], got {short(flag.value)}"
            )
        if source.in_file and flag.name in source.file_flags:
            work.notes.append(
                f"{flag.typed} names a file: paste its contents as well, because speculation is "
                f"set up there in {source.title}"
            )
        is_variable = isinstance(flag.value, str) and flag.value in pasted.variables
        if is_variable and meaning(name) in _READ:
            work.problems.append(
                f"{flag.typed} is {flag.value}, a shell variable: write its value instead"
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
            passed_on = {each.now for each in files.values()}
            options = configuration.options
            written = {name: options[name] for name in options if name not in passed_on}
            _store_as_written(work, deployment, target, written)
            work.notes += _remarks(configuration, work, target)
            work.notes += _own_note(deployment, target, work)
            work.notes += [
                f"{each} stays a shell variable: write its value instead where there is no shell"
                for each in sorted(pasted.variables)
                if each in configuration.command
            ]
            if any(name and name.startswith("~") for name in (deployment.target, deployment.draft)):
                work.notes.append(
                    "~ means your home folder in a shell: elsewhere write the full path"
                )
    flags = {flag.field: target.shown(flag.name) for flag in reversed(target.flags)}
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


def _is_unknown_kind(value: Any) -> bool:
    """Return whether a name in brackets means a way of drafting that no engine ever had."""
    is_kind = isinstance(value, str) and re.fullmatch(r"\[.*\]", value.strip()) is not None
    return is_kind and value.strip() not in ("[ngram]", _SELF)


def _keep_method(
    flags: Sequence[PastedFlag], source: EngineFacts, target: EngineFacts, work: _Work
) -> dict[str, str]:
    """Handle a drafting method that `EngineMethod` lacks (see `kept_method`); return flags.

    A translation for the same engine passes the method on unchanged. The result then maps each flag
    of the text to the flag that the method has today. Another engine lacks the method. The result
    then maps each flag that only this method has to the flag that other methods use instead.
    """
    typed = [each for each in flags if _name(each, source) == "method"]
    if not typed or not source.is_server:
        return {}
    work.kept, own = adapters()[source.name].kept_method(typed[-1].value)
    if work.kept and source is target:
        work.further[typed[-1].name] = work.kept
    elif "," in work.kept:
        work.notes.append(f"{target.title} can use only one of {work.kept}")
    return own if source is target else {each: name for name, each in own.items()}


def _as_switch(flag: PastedFlag, source: EngineFacts) -> PastedFlag:
    """Return a switch as its positive form with True or False, so that --no-x is --x with False.

    Return any other flag unchanged.
    """
    value = str(flag.value).lower()
    if flag.name not in source.switches or value not in {"true", "false"}:
        return flag
    name = source.positive(flag.name)
    return replace(flag, name=name, value=(value == "true") == (name == flag.name))


def _name(flag: PastedFlag, source: EngineFacts) -> str:
    """Return the field that a flag sets, or the flag's own name."""
    known = source.current.get(flag.name) or source.older.get(flag.name)
    return known.field if known is not None and known.field else flag.name


def _store_as_written(
    work: _Work, deployment: ModelDeployment, target: EngineFacts, options: Options
) -> None:
    """Store, for each flag of the text, where the configuration contains it or why it does not."""
    adapter = server_adapters()[target.name]
    reasons = dict(adapter.lacking(deployment))
    for name, place in work.rows.items():
        change, meant = work.changes[place], meaning(name)
        if meant not in DEPLOYMENT_FIELDS or change.fate not in (Fate.SAME, Fate.MOVED):
            continue
        if meant == "draft" and deployment.draft is None:
            # The text names [ngram] as its draft, but [ngram] is a drafting method.
            meant = "method"
        flag = adapter.place_of(meant, options)
        if not flag:
            work.drop(name, reasons.get(meant, f"{target.title} does this without a setting"))
        elif _alike(change.value, options[flag]):
            work.changes[place] = replace(change, now=target.shown(flag))
        else:
            now = target.shown(flag, _shown(options[flag]))
            work.changes[place] = replace(change, fate=Fate.MOVED, now=now)


def _remarks(configuration: Configuration, work: _Work, target: EngineFacts) -> Iterator[str]:
    """Yield the remarks, except reasons that are already shown next to a dropped flag."""
    reasons = tuple(f": {each.why}" for each in work.changes if each.fate is Fate.DROPPED)
    for each in configuration.remarks:
        if not each.endswith(reasons):
            yield _in_names_of(each, work.typed, target)


def _own_note(deployment: ModelDeployment, target: EngineFacts, work: _Work) -> Iterator[str]:
    """Yield a note with the flags of specviz for the method and the rule of the text.

    Only suffix decoding and block verification need this note, because specviz has other names for
    their settings.
    """
    if deployment.method is EngineMethod.SUFFIX or deployment.rule is VerificationRule.BLOCK:
        options = server_adapters()[target.name].own_options(work.further)
        if flags := own_flags(deployment, options):
            yield f"the same method and rule in specviz: {flags}"


def _alike(typed: str, value: Any) -> bool:
    """Return whether the value in the configuration equals the typed one, as text or as a number.

    A switch has no value to compare, so the result is True.
    """
    shown = _shown(value)
    if typed == shown or not shown or typed in ("", "True", "False"):
        return True
    try:
        return float(typed) == float(shown)
    except ValueError:
        return False


def _change(flag: PastedFlag, source: EngineFacts, target: EngineFacts, work: _Work) -> FlagChange:
    """Translate one flag: store its value, and return what happened to it, for the user."""
    current, old = source.current.get(flag.name), source.older.get(flag.name)
    if flag.value is None:
        return _changed(flag, Fate.DROPPED, "", f"it leaves the choice to {source.title}")
    if flag.value == _SELF:
        work.problems.append(_OWN_LAYERS)
        return _changed(flag, Fate.UNKNOWN, "", f"no version of {source.title} had {_SELF}")
    if isinstance(flag.value, SourceText):
        work.notes.append(f"{flag.typed} is {flag.value!r} in the code: write its value instead")
    if current is not None:
        if str(flag.value).lower() in source.chosen.get(current.name, ()):
            if source is not target:
                return _changed(
                    flag, Fate.DROPPED, "", f"with this value {source.title} chooses itself"
                )
            work.further[current.name] = flag.value
            return _changed(flag, Fate.SAME, source.shown(current.name), "")
        if str(flag.value) in source.own.get(current.name, ()):
            if source is not target:
                return _changed(flag, Fate.DROPPED, "", f"only {source.title} has this value")
            work.further[current.name] = flag.value
            return _changed(flag, Fate.SAME, source.shown(current.name), "")
        work.heard[current.field] = flag.value
        if source is not target:
            return _changed(flag, Fate.MOVED, _now(current.field, target), "")
        fate = Fate.SAME if _is_so_called(flag, current) else Fate.MOVED
        return _changed(flag, fate, source.shown(current.name), "")
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
        return _changed(flag, Fate.UNKNOWN, "", why)
    if source is not target:
        same = target.same_as(flag.name, source)
        if not same:
            return _changed(flag, Fate.DROPPED, "", f"only {source.title} has it")
        if isinstance(flag.value, tuple) and same not in target.several | target.appended:
            return _changed(
                flag, Fate.DROPPED, "", f"{target.title} accepts only one value for {same}"
            )
        return _further(flag, same, source, target, work)
    checked = source.checked.get(flag.name)
    if checked is not None:
        return _checked_flag(flag, checked, source, work)
    return _further(flag, flag.name, source, target, work)


def _further(
    flag: PastedFlag, name: str, source: EngineFacts, target: EngineFacts, work: _Work
) -> FlagChange:
    """Pass a flag on without changing its value, under the name that the target engine gives it."""
    if flag.value is False and name in target.switches - target.negatable:
        return _changed(flag, Fate.DROPPED, "", f"{name} is a switch, and off if it is not given")
    before = work.further.get(name, ())
    if flag.name in source.appended and name in target.several | target.appended:
        values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
        work.further[name] = (*before, *values)
    else:
        work.further[name] = flag.value
    is_off = flag.value is False and name in target.negatable
    now = f"--no-{name[2:]}" if is_off else target.spelled.get(name, name)
    if source is not target:
        return _changed(flag, Fate.SAME if name == flag.name else Fate.MOVED, now, "")
    advice = source.deprecated.get(name)
    why = f"deprecated: {source.title} asks for {advice} instead" if advice else _AS_IT_IS
    return _changed(flag, Fate.KEPT, now, why)


def _checked_flag(
    flag: PastedFlag, checked: CheckedFlag, source: EngineFacts, work: _Work
) -> FlagChange:
    """Pass a flag on if its value is valid for the engine."""
    if flag.value is True and checked.bare:
        work.further[flag.name] = checked.bare
        now = f"{flag.name} {checked.bare}"
        return _changed(
            flag, Fate.MOVED, now, "it needs a value now, and the server does not start without one"
        )
    value = "" if flag.value is True else str(flag.value)
    if isinstance(flag.value, SourceText) or re.fullmatch(checked.pattern, value):
        work.further[flag.name] = flag.value
        return _changed(flag, Fate.SAME, flag.name, "")
    got = short(value) if value else "none"
    work.problems.append(f"{flag.typed} must be {checked.values} in {source.title}, got {got}")
    return _changed(flag, Fate.UNKNOWN, "", "it does not accept this value")


def _begin_so(names: Sequence[str]) -> str:
    further = len(names) - _LISTED_NAMES
    listed = f"{', '.join(names[:_LISTED_NAMES])}{f' and {further} more' if further > 0 else ''}"
    return f"several of its flags begin like this ({listed})"


def _old_flag(
    flag: PastedFlag, old: OldFlag, source: EngineFacts, target: EngineFacts, work: _Work
) -> FlagChange:
    if old.field:
        work.heard[old.field] = flag.value
        work.old.add(old.field)
    if old.goes_to and not target.knows(old.goes_to):
        return _changed(flag, Fate.DROPPED, "", f"{target.title} has no {old.goes_to}")
    if old.goes_to:
        work.further |= adapters()[source.name].renamed(old.goes_to, flag.value)
    field = meaning(old.field)
    place = target.shown(old.goes_to) if old.goes_to else _now(old.field, target)
    is_elsewhere = source is not target and field in DEPLOYMENT_FIELDS
    if is_elsewhere and not place:
        return _changed(flag, Fate.DROPPED, "", target.lacks.get(field, ""))
    why = "" if is_elsewhere and source.is_server else old.why
    return _changed(flag, Fate.MOVED if place else Fate.GONE, place, why)


def _is_so_called(flag: PastedFlag, current: EngineFlag) -> bool:
    """Return whether a flag, key or Python field was typed with its current name."""
    if flag.typed == current.python:
        return True
    typed, name = (each.replace("-", "_").strip("_") for each in (flag.typed, current.name))
    return typed.rpartition(".")[2] == name.rpartition(".")[2]


def _changed(flag: PastedFlag, fate: Fate, now: str, why: str) -> FlagChange:
    return FlagChange(flag.typed, _shown(flag.value), fate, now, why)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    words = value if isinstance(value, tuple) else (value,)
    return "" if value is True else unsaid(" ".join(map(str, words)))


def _now(name: str, target: EngineFacts) -> str:
    """Return the flag that sets a field in the target engine, or "" if there is none."""
    meant = meaning(name)
    flags = (flag.name for flag in target.flags if meaning(flag.field) == meant)
    return target.shown(next(flags, ""))


def _pair(
    deployment: ModelDeployment, read_pair: ReadPair | None, work: _Work
) -> ServedPair | None:
    """Return the facts about the models. If they cannot be read, add a note and return None."""
    try:
        return read_pair(deployment) if read_pair is not None else None
    except InputError as error:
        work.notes.append(str(error))
        return None


def _deployment(source: EngineFacts, target: EngineFacts, work: _Work) -> ModelDeployment | None:
    """Return the deployment that the text describes.

    If its settings break a rule, add the error to `work.problems` and return None.
    """
    heard = work.heard
    try:
        if heard.pop("early_exit", None) is not None:
            work.problems.append(_OWN_LAYERS)
        if work.problems:
            return None
        adapter = adapters()[source.name]
        for found in chain(adapter.settle(heard, frozenset(work.old)), adapter.needless(heard)):
            if isinstance(found, Needless):
                work.drop(found.field, found.why)
            else:
                work.notes.append(found)
        if source is not target:
            work.notes += _settle_length(heard, source)
        if "target" not in heard:
            heard["target"] = NO_TARGET
            if not target.presets & work.further.keys():
                work.notes.append(f"no model is named: write yours instead of {NO_TARGET}")
        values = _values(heard, work)
        if work.problems:
            return None
        by_preset = any(name.endswith(("-spec", "--spec-default")) for name in work.further)
        deployment = ModelDeployment(**values)
        if deployment.method is EngineMethod.NONE and not by_preset:
            work.notes.append(server_adapters()[target.name].undrafted(deployment))
        if deployment.draft is not None and deployment.draft == deployment.target:
            work.notes.append(_OWN_DRAFT)
        return deployment
    except InputError as error:
        work.problems.append(str(error))
        return None


def _join_parts(work: _Work) -> None:
    """Merge each flag that has a JSON object as its value with the flags that set one of its keys.

    Such a flag has the form --flag.key. Its value replaces the value of that key in the object.
    """
    owners = {name.partition(".")[0] for name in work.further if "." in name}
    for name in sorted(owners & work.further.keys()):
        value = literal(work.further.pop(name))
        work.further = {name: value, **work.further}
        work.notes.append(f"{name} and its parts are joined, and the value of a part wins")


def _own_flag(flag: PastedFlag, own: str, source: EngineFacts, work: _Work) -> FlagChange:
    """Pass on one flag of a method that is kept unchanged. `own` is its name in that method."""
    if own not in source.known:
        return _changed(flag, Fate.DROPPED, "", f"{work.kept} has no {own}")
    try:
        work.further[own] = read_whole(flag.value, flag.typed, 0, MAX_DRAFT_TOKENS)
    except InputError as error:
        work.problems.append(str(error))
    if own == flag.name:
        return _changed(flag, Fate.SAME, own, "")
    return _changed(flag, Fate.MOVED, own, source.older[flag.name].why)


def _file_change(
    file: RepositoryFile, source: EngineFacts, target: EngineFacts, work: _Work
) -> FlagChange:
    """Pass on the name of a file in a repository."""
    if source is not target or not file.now:
        return _changed(file.flag, Fate.DROPPED, "", file.why)
    if file.flag.value is True:
        work.problems.append(f"{file.flag.typed} must have a value, got none")
    work.further[file.now] = file.flag.value
    fate = Fate.SAME if file.now == file.flag.name else Fate.MOVED
    return _changed(file.flag, fate, file.now, file.why)


def _values(heard: Heard, work: _Work) -> dict[str, Any]:
    """Check the settings that the text contains, and return those with a valid value.

    For each bad value, a sentence is added to `work.problems`.
    """
    found = {}
    for name, value in heard.items():
        try:
            found[name] = read_field(name, value)
        except InputError as error:
            work.problems.append(str(error))
    work.problems += wrong_values(found)
    return found


def _settle_length(heard: Heard, source: EngineFacts) -> Iterator[str]:
    """Set the draft length K if the text contains none.

    Some engines have a default K, which differs from engine to engine.
    """
    method = heard.get("method", EngineMethod.NONE)
    if "draft_tokens" not in heard and method is not EngineMethod.NONE:
        heard["draft_tokens"] = source.usual_draft_tokens
        K = heard["draft_tokens"]
        yield f"no draft length is given: K = {K} is written; measure whether it is the best"


def _in_names_of(text: str, typed: Mapping[str, str], facts: EngineFacts, kept: str = "") -> str:
    """Rewrite a sentence about a deployment with the names that the user's text uses.

    `typed` maps a field to the flag that set it. Methods get the engine's names. A method that is
    passed on unchanged, `kept`, keeps its own name.
    """
    fields = {name.replace("_", "-"): name for name in DEPLOYMENT_FIELDS}
    methods = {each.value: served.name for each, served in facts.methods.items()}
    if kept:
        methods[EngineMethod.PROMPT_LOOKUP.value] = kept

    def named(match: re.Match[str]) -> str:
        word = match[0]
        return methods.get(word, word) if word in _METHODS else typed.get(fields[word], word)

    # A field name of one word is also an ordinary English word. It is replaced only at the
    # beginning of the sentence, before "must" or "has".
    begin = rf"^(?:{'|'.join(fields)})(?= must| has)"
    inside = "|".join(name for name in (*fields, *_METHODS) if "-" in name)
    pattern = rf"{begin}|(?<=method )(?:{'|'.join(_METHODS)})\b|(?<![\w-])(?:{inside})(?![\w-])"
    return re.sub(pattern, named, text)
