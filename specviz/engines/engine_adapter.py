"""The interface to one engine: how its settings are read and written, and what it refuses.

An adapter translates between a deployment and the flags of its engine, in both directions. Reading
gives a table from field to the value that the user typed. Writing gives a table from flag to value.
Keys of an engine's single object for speculation begin with `speculative_config.`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from specviz.engines.engine_facts import EngineFacts
from specviz.engines.engine_registry import engines
from specviz.engines.model_deployment import (
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.engines.readers.found_flags import FoundFlags, PastedFlag
from specviz.engines.readers.python_reader import PythonCall
from specviz.engines.served_pair import ServedPair
from specviz.engines.server_api import ServerApi
from specviz.engines.typed_fields import DEPLOYMENT_FIELDS, WEIGHTS, Heard
from specviz.errors import InputError, short

Options = dict[str, Any]  # a flag -> its value; a switch has the value True
_DEFAULTS = {each.name: each.default for each in fields(ModelDeployment)}
ONLY_LOOKUP = frozenset({EngineMethod.PROMPT_LOOKUP})


@dataclass(frozen=True, slots=True)
class Needless:
    """A typed field that has no effect or does harm, so a translation leaves it out, and why."""

    field: str
    why: str


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """A flag with a path to a model, of which the server uses at most the file's name.

    A flag for a repository is given as well, and it decides which model is loaded. `now` is the
    flag that has the path in the translated command, or "" if the path is left out. `why` is the
    reason for the user.
    """

    flag: PastedFlag
    now: str
    why: str


class EngineAdapter(ABC):
    """One engine's names for the fields of a deployment, and its rules for their values."""

    name: ClassVar[str]
    of_methods: ClassVar[str] = "method"  # the word of messages for a drafting method
    # A field that only this engine has -> the field of a deployment that it sets.
    meant: ClassVar[Mapping[str, str]] = {}
    # A field -> the drafting methods that use it. With any other method the field has no effect.
    only: ClassVar[Mapping[str, frozenset[EngineMethod]]] = {}

    @property
    def facts(self) -> EngineFacts:
        return engines()[self.name]

    def is_speculation(self, keys: Collection[str]) -> bool:
        """Return whether a mapping with these keys is the engine's single object for speculation.

        Texts often contain only this object, as the value of a flag.
        """
        return False

    def read_call(self, call: PythonCall, found: FoundFlags) -> None:
        """Add the settings in a call in Python code whose name is one of the engine's calls."""
        facts = self.facts
        if call.name not in facts.part_calls:
            found.engine = found.engine or self.name
        if call.name not in facts.constructors:
            self.add_older(call.name, call, found)
            return
        node = call.node
        if node.args or {each.arg for each in node.keywords} & {"model", "model_path"}:
            found.commands.append(self.name)
        if node.args:
            found.add("--model", call.code.value(node.args[0]), "model")
        for key, value in call.keywords:
            found.add_setting(f"--{key.replace('_', '-')}", value, key, facts)

    def add_older(self, holder: str, call: PythonCall, found: FoundFlags) -> None:
        """Add those arguments of a call that the engine's table has with the name of the call."""
        for key, value in call.keywords:
            if f"{holder}.{key}" in self.facts.older:
                found.add(f"{holder}.{key}", value, key)

    def setting_at(self, path: str, whole: str) -> tuple[str, str] | None:
        """Return the flag that an assignment in Python code sets, and its spelling for the user.

        The code assigns a value to `whole`, such as `params.n_ctx`; `path` is this expression
        without its first name. Return None if the assignment sets no flag.
        """
        return None

    def made_object(self, name: str) -> Mapping[str, Any] | None:
        """Return the settings that a class of the engine's library stands for, or None.

        The arguments of the class are further settings.
        """
        return None

    def constant(self, name: str) -> str | None:
        """Return the value of a constant of the engine's Python library, or None if unknown."""
        return None

    @abstractmethod
    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
        """Replace the values in `heard`, as typed for this engine, by the values of a deployment.

        Yield notes for the user, and fields that were removed from `heard`. `old` has the fields
        that the user set with a flag that the engine no longer accepts.
        """

    def needless(self, heard: Heard) -> Iterator[Needless]:
        """Yield each typed field that has no effect or does harm.

        The fields are also removed from `heard`, except fields whose value was computed.
        """
        method = heard.get("method")
        for field, methods in self.only.items():
            if method is not None and method not in methods:
                heard.pop(field, None)
                names = (s.name for each, s in self.facts.methods.items() if each in methods)
                yield Needless(field, f"{self.facts.title} uses it only with {', '.join(names)}")

    def kept_method(self, typed: Any) -> tuple[str, dict[str, str]]:
        """Return the name and the flags of a method of the engine that `EngineMethod` lacks.

        A combination of methods is one example. A translation for the same engine passes such a
        method on as the user typed it. For any other method, the name and the flags are empty.
        """
        return "", {}

    def renamed(self, flag: str, value: Any) -> Options:
        """Return the flags that replace an old flag today. `flag` is its new name."""
        return {flag: value}

    def repository_files(self, flags: Sequence[PastedFlag]) -> list[RepositoryFile]:
        """Return each flag that gives a model's path although another flag gives its repository."""
        return []

    def method_named(self, name: str) -> EngineMethod:
        """Return the drafting method that has this name in the engine.

        Raises InputError, which lists the known names, for an unknown name.
        """
        ours = {
            each: method
            for method, served in self.facts.methods.items()
            for each in (served.name, *served.also)
        }
        found = ours.get(name)
        if found is None:
            rule = f"{self.of_methods} must be one of {', '.join(ours)} for {self.facts.title}"
            raise InputError(f"{rule}, got {short(name)}")
        return found


class ServerAdapter(EngineAdapter):
    """An engine for which a configuration can be written."""

    # A field -> another field whose flag contains its value as well, such as the target, whose name
    # may end with the format of its weights.
    within: ClassVar[Mapping[str, str]] = {}
    # How a running server reports what it does, or None if specviz cannot read its reports.
    api: ClassVar[ServerApi | None] = None

    @abstractmethod
    def options(self, deployment: ModelDeployment) -> Options:
        """Return every flag that the deployment needs, with its value."""

    @abstractmethod
    def python(self, options: Options) -> str:
        """Return the Python code that starts the engine."""

    def refusals(self, deployment: ModelDeployment) -> Iterator[str]:
        """Yield one sentence for each reason why the engine cannot run the deployment."""
        yield from ()

    def pair_refusals(self, deployment: ModelDeployment, pair: ServedPair) -> Iterator[str]:
        """Yield one sentence for each reason why the two models do not fit together."""
        method, depth = deployment.method, deployment.draft_tokens
        is_draft = method is EngineMethod.DRAFT_MODEL and not deployment.mixed_vocabularies
        if is_draft and pair.difference is not None:
            yield f"target and draft must have the same tokenizer, got two: {pair.difference}"
        heads = pair.heads
        if method is EngineMethod.MEDUSA and heads and depth and depth > heads:
            yield f"draft-tokens must be at most {heads}, the number of Medusa heads, got {depth}"

    def model_remarks(
        self, deployment: ModelDeployment, further: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield remarks about the kind of the target's files.

        `further` are flags that are passed on unchanged.
        """
        if deployment.target.endswith(".gguf"):
            yield (
                f"{self.facts.title} is made for model folders; {deployment.target!r} is a GGUF "
                "file"
            )

    def remarks(self, deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a user should know about this engine before starting the server.

        `further` are flags that are passed on unchanged.
        """
        yield from ()

    def undrafted(self, deployment: ModelDeployment) -> str:
        """Return the note for a text that names no drafting method."""
        return "nothing in the text speculates"

    def own_options(self, further: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the options of specviz's own method that stand for flags passed on unchanged."""
        return {}

    def as_stored(self, deployment: ModelDeployment) -> ModelDeployment:
        """Return the deployment with the setting that leaves the draft's weights unconverted.

        Most engines need no setting for this.
        """
        return deployment

    def place_of(self, field: str, options: Options) -> str:
        """Return the flag in `options` that expresses the field, or "" if there is none."""
        fields = {field, self.within.get(field, field)}
        places = (f.name for f in self.facts.flags if self.meant.get(f.field, f.field) in fields)
        return next((name for name in places if name in options), "")

    def lacking(self, deployment: ModelDeployment) -> Iterator[tuple[str, str]]:
        """Yield each field of the deployment that this engine cannot express, with the reason."""
        for field, why in self.facts.lacks.items():
            # Every engine can judge a draft token by token, with or without a setting.
            usual = (_DEFAULTS[field], VerificationRule.TOKEN)
            if getattr(deployment, field) not in usual:
                yield field, why
        for field in WEIGHTS if self.facts.weights else ():
            name = getattr(deployment, field)
            having = [each.title for each in engines().values() if name and each.has_weights(name)]
            if having and self.facts.title not in having:
                yield field, f"{name} is a format of {' and '.join(having)}"

    def plain(self, deployment: ModelDeployment) -> Options:
        """Return the flags whose values are fields of the deployment without any change."""
        found: Options = {}
        lacking = {field for field, _ in self.lacking(deployment)}
        for flag in self.facts.flags:
            if flag.field in DEPLOYMENT_FIELDS and flag.field not in lacking:
                value = getattr(deployment, flag.field)
                if value != _DEFAULTS.get(flag.field):
                    found[flag.name] = self.written(flag.field, value)
        return found

    def written(self, field: str, value: Any) -> Any:
        """Return the engine's value for the value of a field."""
        match value:
            case EngineMethod():
                return self.facts.methods[value].name
            case DraftSampling() | VerificationRule():
                return value.value
            case tuple():
                return [[each.first, each.last, each.draft_tokens] for each in value]
        return value
