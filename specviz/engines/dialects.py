"""Translate between a deployment and the flags of each engine, in both directions.

Writing gives a table from flag to value. Keys of vLLM's JSON value for speculation begin with
`speculative_config.`. Reading gives a table from field to the value that the user typed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE, EngineFacts, engines
from specviz.engines.model_deployment import (
    MAX_DRAFT_TOKENS,
    MAY_HAVE_DRAFT,
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.engines.shell_text import is_windows_path
from specviz.errors import InputError, read_whole, short, whole_rule

Options = dict[str, Any]  # a flag -> its value; a switch has the value True
# The typed values, as a map from a field to its value. A field belongs to `ModelDeployment` or
# to one engine only (`MEANT`).
Heard = dict[str, Any]
DEPLOYMENT_FIELDS = tuple(each.name for each in fields(ModelDeployment))
WEIGHTS = ("quantization", "draft_quantization")
# A field that only one engine has -> the field of a deployment that it sets.
MEANT = {
    **{"context": "max_length", "lookup_size": "lookup_max", "lookup_tokens": "draft_tokens"},
    **{"prompt_lookup_tokens": "draft_tokens", "block": "draft_tokens"},
    **{"lookup_branching": "branching", "disable_by_batch_size": "schedule"},
    **{"four_bits": "quantization", "draft_four_bits": "draft_quantization"},
    "assistant_tokenizer": "mixed_vocabularies",
}
_DEFAULTS = {each.name: each.default for each in fields(ModelDeployment)}


_OF_LOOKUP = frozenset({EngineMethod.PROMPT_LOOKUP})


class Dialect(ABC):
    """One engine's names for the fields of a deployment, and its rules for their values."""

    name = ""
    of_methods = "method"  # the word that messages use for a drafting method of this engine
    # A field -> another field whose flag contains its value as well. For example, llama.cpp reads
    # the format of the weights from the name of the target.
    within: Mapping[str, str] = {}
    # A field -> the drafting methods that use it. With any other method the field has no effect.
    only: Mapping[str, frozenset[EngineMethod]] = {}

    @property
    def facts(self) -> EngineFacts:
        return engines()[self.name]

    @abstractmethod
    def options(self, deployment: ModelDeployment) -> Options:
        """Return every flag that the deployment needs, with its value."""

    @abstractmethod
    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str]:
        """Replace the values in `heard`, as typed for this engine, by the values of a deployment.

        Yield notes for the user. `old` has the fields that the user set with a flag that the engine
        no longer accepts.
        """

    def kept_method(self, typed: Any) -> tuple[str, dict[str, str]]:
        """Return the name and the flags of a method of the engine that `EngineMethod` lacks.

        A combination of methods is one example. A translation for the same engine passes such a
        method on as the user typed it. For any other method, the name and the flags are empty.
        """
        return "", {}

    def needless(self, heard: Heard) -> Iterator[tuple[str, str]]:
        """Yield each typed field that has no effect or does harm, with the reason.

        The fields are also removed from `heard`, except fields whose value was computed.
        """
        method = heard.get("method")
        for field, methods in self.only.items():
            if method is not None and method not in methods:
                heard.pop(field, None)
                names = (s.name for each, s in self.facts.methods.items() if each in methods)
                yield field, f"{self.facts.title} uses it only with {', '.join(names)}"

    def place_of(self, field: str, options: Options) -> str:
        """Return the flag in `options` that expresses the field, or "" if there is none."""
        fields = {field, self.within.get(field, field)}
        places = (f.name for f in self.facts.flags if MEANT.get(f.field, f.field) in fields)
        return next((name for name in places if name in options), "")

    def lacking(self, deployment: ModelDeployment) -> Iterator[tuple[str, str]]:
        """Yield each field of the deployment that this engine cannot express, with the reason."""
        for field, why in self.facts.lacks.items():
            # Every engine can judge a draft token by token, with or without a setting.
            usual = (_DEFAULTS[field], VerificationRule.TOKEN)
            if getattr(deployment, field) not in usual:
                yield field, why
        for field in WEIGHTS:
            name = getattr(deployment, field)
            having = [each.title for each in engines().values() if name and each.has_weights(name)]
            if having and self.facts.title not in having:
                yield field, f"{name} is a format of {' and '.join(having)}"

    def _plain(self, deployment: ModelDeployment) -> Options:
        """Return the flags whose values are fields of the deployment without any change."""
        found: Options = {}
        lacking = {field for field, _ in self.lacking(deployment)}
        for flag in self.facts.flags:
            if flag.field in DEPLOYMENT_FIELDS and flag.field not in lacking:
                value = getattr(deployment, flag.field)
                if value != _DEFAULTS.get(flag.field):
                    found[flag.name] = self._said(flag.field, value)
        return found

    def _said(self, field: str, value: Any) -> Any:
        match value:
            case EngineMethod():
                return self.facts.methods[value].name
            case DraftSampling() | VerificationRule():
                return value.value
            case tuple():
                return [[each.first, each.last, each.draft_tokens] for each in value]
        return value

    def _method_named(self, name: str) -> EngineMethod:
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


def with_options(name: str, value: Any) -> Options:
    """Split a value such as xgrammar:no-fallback into the name and the switches after it."""
    plain, _, options = str(value).partition(":")
    if not options or not name.endswith(".backend"):
        return {name: value}
    names = options.replace("no-", "disable-").replace("-", "_").split(",")
    keys = (name.replace("backend", each) for each in names if each != "disable_fallback")
    return {name: plain} | dict.fromkeys(keys, True)


class VllmDialect(Dialect):
    name = "vllm"
    _RULES = {"standard": VerificationRule.TOKEN, "block": VerificationRule.BLOCK}
    only = dict.fromkeys(("lookup_min", "lookup_max"), _OF_LOOKUP)

    def options(self, deployment: ModelDeployment) -> Options:
        found = self._plain(deployment)
        if deployment.schedule:
            longest = max(each.draft_tokens for each in deployment.schedule)
            key = f"{SPECULATIVE}num_speculative_tokens"
            found[key] = max(longest, deployment.draft_tokens or 0)
        return found

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str]:
        if "rule" in heard:
            heard["rule"] = self._rule(heard["rule"])
        draft, method = heard.get("draft"), heard.get("method")
        if isinstance(draft, str) and draft.strip("[]") == "ngram":
            del heard["draft"]
            heard["method"] = EngineMethod.PROMPT_LOOKUP
            yield "[ngram] is not a model: it is read as the method ngram"
        elif isinstance(method, str):
            heard["method"] = self._named(method)
            written = self.facts.methods[heard["method"]].name
            if written != method:
                yield f"method {method} is read as {written}"
        elif isinstance(draft, str):
            heard["method"] = _method_by_name(draft)
            if heard["method"] is not EngineMethod.DRAFT_MODEL:
                yield f"the name {draft!r} means method {heard['method'].value}"
        for field in {"max_length", "draft_max_length"} & heard.keys():
            heard[field] = _with_suffix(heard[field])
        is_lookup = heard.get("method") in (None, EngineMethod.PROMPT_LOOKUP)
        if is_lookup and "lookup_max" in old and "lookup_min" not in heard:
            heard["lookup_min"] = 1
            yield (
                "prompt_lookup_min is read as 1, its old default: today its default is "
                "prompt_lookup_max"
            )
        if "method" not in heard and {"lookup_min", "lookup_max"} & heard.keys():
            heard["method"] = EngineMethod.PROMPT_LOOKUP

    def needless(self, heard: Heard) -> Iterator[tuple[str, str]]:
        yield from super().needless(heard)
        method = heard.get("method")
        split, of_draft = (str(heard.get(f"{of}tensor_parallel", 1)) for of in ("", "draft_"))
        if method is EngineMethod.DRAFT_MODEL and of_draft == "1" != split:
            why = "a draft model must be split like the target, or the server fails to load it"
            heard.pop("draft_tensor_parallel", None)
            yield "draft_tensor_parallel", why

    def _said(self, field: str, value: Any) -> Any:
        if field == "rule":
            return next(name for name, rule in self._RULES.items() if rule is value)
        return super()._said(field, value)

    def _rule(self, name: Any) -> VerificationRule:
        found = self._RULES.get(str(name))
        if found is None:
            allowed = ", ".join((*self._RULES, "synthetic"))
            none = ": vLLM, SGLang and llama.cpp have no traversal verification"
            end = none if name == "traversal" else ""  # a rule of specviz
            raise InputError(f"rule must be one of {allowed} in vLLM, got {short(name)}{end}")
        return found

    def _named(self, name: str) -> EngineMethod:
        plain = name.strip("[]")
        if plain == "ngram_gpu":
            return EngineMethod.PROMPT_LOOKUP
        if plain.endswith("_mtp"):
            return EngineMethod.MTP
        return self._method_named(plain)


def _with_suffix(value: Any) -> Any:
    """Return the number in a text such as 8k (8000) or 32K (32768).

    Return other values unchanged.
    """
    match = re.fullmatch(r"(\d{1,20}(?:\.\d+)?)([kmgt])|(\d{1,20})([KMGT])", str(value).strip())
    if match is None:
        return value
    if match[1]:
        return int(float(match[1]) * 1000 ** ("kmgt".index(match[2]) + 1))
    return int(match[3]) * 1024 ** ("KMGT".index(match[4]) + 1)


def _method_by_name(draft: str) -> EngineMethod:
    """Return the method that vLLM chooses if only a draft is given.

    The draft's name may show that it is a head.
    """
    name = draft.lower()
    marks = (
        *(("eagle3", EngineMethod.EAGLE3), ("eagle", EngineMethod.EAGLE)),
        *(("medusa", EngineMethod.MEDUSA), ("dflash", EngineMethod.DFLASH)),
        ("dspark", EngineMethod.DSPARK),
    )
    return next((method for mark, method in marks if mark in name), EngineMethod.DRAFT_MODEL)


class SglangDialect(Dialect):
    name = "sglang"
    of_methods = "algorithm"
    _WITH_REJECTION = frozenset({EngineMethod.EAGLE, EngineMethod.EAGLE3, EngineMethod.MTP})
    _STEPS, _WIDTH = "--speculative-num-steps", "--speculative-eagle-topk"
    _NODES = "--speculative-num-draft-tokens"
    _REJECTION = "--speculative-use-rejection-sampling"
    _WITH_BLOCKS = _WITH_REJECTION | {EngineMethod.DFLASH, EngineMethod.DSPARK}
    _BLOCKS = "--speculative-use-block-verification"
    _NGRAM_WIDTH = "--speculative-ngram-max-bfs-breadth"
    _DEFAULT_NGRAM_WIDTH, _DEFAULT_NGRAM_NODES = 10, 12
    within = {"draft_tokens": "tree_tokens"}
    only = {
        "block": frozenset({EngineMethod.DFLASH, EngineMethod.DSPARK}),
        "lookup_branching": _OF_LOOKUP,
    }
    _OLD_NAMES = {"LOOKAHEAD": "NGRAM"}
    _WHY = {
        "LOOKAHEAD": ", its name today",
        "EAGLE": ", because no draft is named: then the target's own heads (MTP) draft",
    }

    def options(self, deployment: ModelDeployment) -> Options:
        found = self._plain(deployment)
        sampled = found.pop(self._REJECTION, None) == DraftSampling.PROBABILISTIC.value
        if found.pop(self._BLOCKS, None) == VerificationRule.BLOCK.value:
            found[self._BLOCKS] = True
        depth, width = deployment.draft_tokens, deployment.branching or 1
        match deployment.method:
            case EngineMethod.NONE:
                return found
            case EngineMethod.DFLASH | EngineMethod.DSPARK:
                for flag in (self._STEPS, self._WIDTH, self._NODES):
                    found.pop(flag, None)
                if depth is not None:
                    found |= _block(deployment.method, depth)
                return found
            case EngineMethod.PROMPT_LOOKUP:
                for flag in (self._STEPS, self._WIDTH):
                    found.pop(flag, None)
                if depth is not None:
                    found[self._NGRAM_WIDTH] = width
            case _:
                if depth is not None:
                    found[self._WIDTH] = width
        if depth is not None and width == 1:
            # The engine verifies the root as well, so it counts one node more.
            found[self._NODES] = depth + 1
        # SGLang itself switches rejection sampling on for block verification.
        if sampled and self._BLOCKS not in found:
            found[self._REJECTION] = True
        return found

    def lacking(self, deployment: ModelDeployment) -> Iterator[tuple[str, str]]:
        yield from super().lacking(deployment)
        method, is_tree = deployment.method, deployment.is_tree
        is_sampled = deployment.draft_sampling is DraftSampling.PROBABILISTIC
        if is_sampled and (method not in self._WITH_REJECTION or is_tree):
            yield "draft_sampling", "drafts are sampled only for chains of EAGLE, EAGLE3 and NEXTN"
        is_block = deployment.rule is VerificationRule.BLOCK
        if is_block and (method not in self._WITH_BLOCKS or is_tree):
            names = "EAGLE, EAGLE3, NEXTN, DFLASH and DSPARK"
            yield "rule", f"block verification is only for chains of {names}"

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str]:
        name = heard.pop("method", None)
        if name is not None:
            typed = str(name).upper()
            heard["method"] = self._named(typed, "draft" in heard)
            written = self.facts.methods[heard["method"]].name
            if written != typed:
                yield f"algorithm {typed} is read as {written}{self._WHY.get(typed, '')}"
        method = heard.get("method")
        if heard.pop("draft_sampling", None):
            heard["draft_sampling"] = DraftSampling.PROBABILISTIC
        if "rule" in heard:
            is_block = str(heard["rule"]).lower() == "true"
            heard["rule"] = VerificationRule.BLOCK if is_block else VerificationRule.TOKEN
            if is_block and method in self._WITH_REJECTION:
                # SGLang always draws the drafted tokens at random if it verifies blocks.
                heard["draft_sampling"] = DraftSampling.PROBABILISTIC
        block, breadth = heard.pop("block", None), heard.pop("lookup_branching", None)
        if block is not None and method in self.only["block"]:
            given = read_integer(block, "block size")
            heard["draft_tokens"] = given if method is EngineMethod.DSPARK else given - 1
        if method is EngineMethod.PROMPT_LOOKUP:
            heard.pop("draft_tokens", None)
            heard["branching"] = self._DEFAULT_NGRAM_WIDTH if breadth is None else breadth
            heard.setdefault("tree_tokens", self._DEFAULT_NGRAM_NODES)
        yield from self._settle_tree(heard)

    def needless(self, heard: Heard) -> Iterator[tuple[str, str]]:
        yield from super().needless(heard)
        # `heard` keeps these two fields, because `settle` has replaced the typed values by values
        # that follow from the number of nodes.
        if heard.get("method") is EngineMethod.PROMPT_LOOKUP:
            why = f"NGRAM ignores it and uses {self._NODES} and {self._NGRAM_WIDTH}"
            yield from (("draft_tokens", why), ("branching", why))

    def _settle_tree(self, heard: Heard) -> Iterator[str]:
        """If the draft is a chain, remove the fields that describe a tree; K alone describes it.

        If K is not given, use the longest chain that the number of nodes (`tree_tokens`) allows.
        """
        width = read_integer(heard.get("branching", 1), "branching")
        if "tree_tokens" not in heard:
            return
        nodes = read_integer(heard["tree_tokens"], "tree-tokens")
        if "draft_tokens" not in heard and nodes == 1:
            raise InputError(
                "tree-tokens must be at least 2 (the root and one drafted token), got 1"
            )
        heard.setdefault("draft_tokens", min(max(nodes - 1, 1), MAX_DRAFT_TOKENS))
        if width == 1:
            heard.pop("branching", None)
            del heard["tree_tokens"]
            chain = read_integer(heard["draft_tokens"], "draft-tokens") + 1
            if nodes != chain:
                yield f"{self._NODES} {nodes} is read as {chain}: a chain's steps and the root"

    def _named(self, name: str, has_draft: bool) -> EngineMethod:
        """Return the method that has this name in SGLang.

        EAGLE without a draft means that the target's own heads draft (MTP).
        """
        found = self._method_named(self._OLD_NAMES.get(name, name))
        return EngineMethod.MTP if found is EngineMethod.EAGLE and not has_draft else found


def _block(method: EngineMethod, depth: int) -> Options:
    """Return the flag for the block size.

    The block size of DFlash is the number of verified tokens, and that of DSpark is the number of
    drafted tokens.
    """
    if method is EngineMethod.DSPARK:
        return {"--speculative-dspark-block-size": depth}
    return {"--speculative-dflash-block-size": depth + 1}


class LlamaCppDialect(Dialect):
    name = "llama.cpp"
    of_methods = "type"
    within = {"quantization": "target", "draft_quantization": "draft"}
    only = dict.fromkeys(("lookup_size", "lookup_tokens"), _OF_LOOKUP)
    _MODELS = (
        ("--hf-repo", "--model", "quantization"),
        ("--spec-draft-hf", "--spec-draft-model", "draft_quantization"),
    )
    _DEVICE = "--spec-draft-device"

    def options(self, deployment: ModelDeployment) -> Options:
        found = self._plain(deployment)
        lacking = {field for field, _ in self.lacking(deployment)}
        for hub, file, field in self._MODELS:
            name, tag = found.get(file), getattr(deployment, field)
            if name is None:
                continue
            found.pop(hub if is_file(name) else file)
            if tag is not None and field not in lacking:
                found[hub] = f"{name}:{tag}"
        if deployment.max_length is not None:
            found["--ctx-size"] = deployment.max_length * (deployment.max_batch or 1)
        if deployment.method is EngineMethod.PROMPT_LOOKUP:
            longest = deployment.lookup_max or deployment.lookup_min
            depth = found.pop("--spec-draft-n-max", None)
            given = (("size-n", longest), ("size-m", depth))
            found |= {f"--spec-ngram-simple-{end}": each for end, each in given if each is not None}
        return found

    def lacking(self, deployment: ModelDeployment) -> Iterator[tuple[str, str]]:
        yield from super().lacking(deployment)
        least, most = deployment.lookup_min, deployment.lookup_max
        if least is not None and most is not None and least != most:
            yield "lookup_min", f"it looks for n-grams of one length; the longest, {most}, is used"
        for field, name in zip(WEIGHTS, (deployment.target, deployment.draft), strict=True):
            if getattr(deployment, field) is not None and name is not None and is_file(name):
                yield (
                    field,
                    "a GGUF file has its weights in one format: choose a file in that format",
                )
        served = self.facts.methods.get(deployment.method)
        if deployment.draft_device is not None and served and self._DEVICE not in served.fields:
            yield "draft_device", f"{served.name} has no device setting of its own"

    def kept_method(self, typed: Any) -> tuple[str, dict[str, str]]:
        lookup = self.facts.methods[EngineMethod.PROMPT_LOOKUP]
        kinds = [kind for kind in _listed(typed) if kind != "none"]
        n_grams = [kind for kind in kinds if kind in (lookup.name, *lookup.also)]
        if len(kinds) < 2 and n_grams in ([], [lookup.name]):
            return "", {}
        kind = "ngram-mod" if "ngram-mod" in kinds else [*n_grams, lookup.name][0]
        passed = ("--spec-ngram-", "--spec-draft-n-m") if kinds == n_grams else "--spec-ngram-"
        own = {name: name for name in self.facts.known if name.startswith(passed)}
        for end in ("size-n", "size-m", "min-hits"):
            own[f"--spec-ngram-{end}"] = f"--spec-{kind}-{end}"
        general = "--spec-draft-n-"
        if kind == "ngram-mod":
            own["--spec-ngram-size-n"], general = "--spec-ngram-mod-n-match", "--spec-ngram-mod-n-"
        for name in self.facts.older if kinds == n_grams else ():
            if name.startswith("--draft"):
                own[name] = general + ("min" if "min" in name else "max")
        return ",".join(kinds), own

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str]:
        for role, field in zip(("target", "draft"), WEIGHTS, strict=True):
            name, colon, tag = str(heard.get(role, "")).rpartition(":")
            if colon and not is_file(str(heard[role])) and self.facts.has_weights(tag):
                heard |= {role: name, field: tag}
        size, tokens = heard.pop("lookup_size", None), heard.pop("lookup_tokens", None)
        typed = heard.pop("method", None)
        names = [name for name in _listed(typed) if name != "none"]
        methods = [self._method_named(name) for name in names]
        # If the text names several methods, the first method that can use a draft is chosen.
        if methods:
            heard["method"] = next((each for each in methods if each in MAY_HAVE_DRAFT), methods[0])
        elif "draft" in heard:
            heard["method"] = EngineMethod.DRAFT_MODEL
        elif size is not None or tokens is not None:
            heard["method"] = EngineMethod.PROMPT_LOOKUP
        if heard.get("method") is EngineMethod.PROMPT_LOOKUP:
            if size is not None:
                heard["lookup_min"] = heard["lookup_max"] = size
            if tokens is not None:
                heard["draft_tokens"] = tokens
        if isinstance(heard.get("draft_sampling"), bool):
            sampled = heard["draft_sampling"]
            heard["draft_sampling"] = "probabilistic" if sampled else "greedy"
        context = heard.pop("context", None)
        if context is not None and (length := read_integer(context, "context")) > 0:
            slots = read_integer(heard.get("max_batch", 1), "parallel")
            heard["max_length"] = length // max(slots, 1)
        return iter(())


def is_file(name: str) -> bool:
    """Return whether a model's name means a file or folder, and not a repository on the Hub."""
    is_path = name.startswith((".", "/", "~")) or is_windows_path(name)
    return name.endswith(".gguf") or is_path


def _listed(typed: Any) -> list[str]:
    names = typed if isinstance(typed, list | tuple) else str(typed or "").split(",")
    return [str(name).strip() for name in names if str(name).strip()]


DIALECTS: Mapping[str, Dialect] = {
    each.name: each for each in (VllmDialect(), SglangDialect(), LlamaCppDialect())
}


def read_integer(value: Any, name: str) -> int:
    """Return a whole number from a file or a flag. The value True means a flag without a value."""
    if value is True:
        raise InputError(f"{name} must be {whole_rule()}, got no value")
    return read_whole(value, name)


def read_schedule(value: Any) -> tuple[BatchRange, ...]:
    """Read the ranges in [[first, last, K], ...]. Raises InputError for anything else."""
    if not isinstance(value, list | tuple) or any(
        not isinstance(each, list | tuple) or len(each) != 3 for each in value
    ):
        raise InputError(
            f"schedule must be a list of [first batch size, last batch size, K], got {short(value)}"
        )
    return tuple(BatchRange(*(read_integer(each, "schedule") for each in row)) for row in value)
