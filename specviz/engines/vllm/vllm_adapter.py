"""The settings of vLLM: how they are read and written, and what vLLM refuses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from specviz.engines.engine_adapter import ONLY_LOOKUP, Needless, Options, ServerAdapter
from specviz.engines.engine_facts import SPECULATIVE
from specviz.engines.flag_values import python_arguments
from specviz.engines.model_deployment import (
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.engines.model_names import is_head, is_speculator
from specviz.engines.served_pair import ServedPair
from specviz.engines.typed_fields import Heard, read_integer
from specviz.engines.vllm.vllm_api import VllmApi
from specviz.engines.vllm.vllm_remarks import rule_remarks, schedule_remarks
from specviz.errors import InputError, short

_CHOOSES_K = frozenset({EngineMethod.SUFFIX, EngineMethod.DSPARK, EngineMethod.MTP})

# The end of a field for suffix decoding -> the option of specviz's method, and the factor from
# vLLM's value to the option's value.
_SUFFIX = {
    "max_tree_depth": ("tree_depth", 1),
    "max_spec_factor": ("match_factor", 100),
    "min_token_prob": ("least_share", 100),
}


class VllmAdapter(ServerAdapter):
    name = "vllm"
    meant: ClassVar = {"disable_by_batch_size": "schedule"}
    api = VllmApi()
    only: ClassVar = dict.fromkeys(("lookup_min", "lookup_max"), ONLY_LOOKUP)
    _RULES: ClassVar = {"standard": VerificationRule.TOKEN, "block": VerificationRule.BLOCK}

    def is_speculation(self, keys: Collection[str]) -> bool:
        inner = {key.removeprefix(SPECULATIVE) for key in self.facts.current}
        inner |= self.facts.speculative_fields()
        return "method" in keys or "num_speculative_tokens" in keys and set(keys) <= inner

    def options(self, deployment: ModelDeployment) -> Options:
        found = self.plain(deployment)
        if deployment.schedule:
            longest = max(each.draft_tokens for each in deployment.schedule)
            key = f"{SPECULATIVE}num_speculative_tokens"
            found[key] = max(longest, deployment.draft_tokens or 0)
        return found

    def python(self, options: Options) -> str:
        arguments = python_arguments(self.facts, options, " " * 4)
        return f"from vllm import LLM\n\nllm = LLM(\n{arguments})\n"

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
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
        yield from self._settle_switch(heard)

    def needless(self, heard: Heard) -> Iterator[Needless]:
        yield from super().needless(heard)
        method = heard.get("method")
        split, of_draft = (str(heard.get(f"{of}tensor_parallel", 1)) for of in ("", "draft_"))
        if method is EngineMethod.DRAFT_MODEL and of_draft == "1" != split:
            why = "a draft model must be split like the target, or the server fails to load it"
            heard.pop("draft_tensor_parallel", None)
            yield Needless("draft_tensor_parallel", why)

    def _settle_switch(self, heard: Heard) -> Iterator[Needless]:
        """Turn the old setting disable_by_batch_size into a schedule.

        For batches of at least the size in this setting, the old vLLM did not speculate.
        """
        value = heard.pop("disable_by_batch_size", None)
        if value is None:
            return
        size = read_integer(value, "speculative-disable-by-batch-size")
        depth = read_integer(heard.get("draft_tokens", 0), "num-speculative-tokens")
        if size < 2 or not depth:
            yield Needless(
                "disable_by_batch_size", "a schedule needs a K, and a batch size above 1"
            )
            return
        largest = max(size, read_integer(heard.get("max_batch", size), "max-num-seqs"))
        heard["schedule"] = [[1, size - 1, depth], [size, largest, 0]]

    def renamed(self, flag: str, value: Any) -> Options:
        """Split a value such as xgrammar:no-fallback into the name and the switches after it."""
        plain, _, options = str(value).partition(":")
        if not options or not flag.endswith(".backend"):
            return super().renamed(flag, value)
        names = options.replace("no-", "disable-").replace("-", "_").split(",")
        keys = (flag.replace("backend", each) for each in names if each != "disable_fallback")
        return {flag: plain} | dict.fromkeys(keys, True)

    def refusals(self, deployment: ModelDeployment) -> Iterator[str]:
        method, split = deployment.method, deployment.tensor_parallel
        draft_split = deployment.draft_tensor_parallel
        if method is EngineMethod.NONE:
            return
        if deployment.draft_tokens is None and method not in _CHOOSES_K and not deployment.schedule:
            yield f"draft-tokens must be given for method {method.value} in vLLM, got none"
        if deployment.schedule and not any(each.draft_tokens for each in deployment.schedule):
            yield (
                "schedule must have at least one K above 0, got only 0: leave out the method to "
                "serve without speculation"
            )
        if draft_split is not None and draft_split not in (1, split):
            yield (
                f"draft-tensor-parallel must be 1 or the target's {split} in vLLM, got "
                f"{draft_split}"
            )
        elif method is EngineMethod.DRAFT_MODEL and draft_split not in (None, split):
            yield (
                f"draft-tensor-parallel must be the target's {split} for a draft model in vLLM, "
                f"got {draft_split}: leave it out, because vLLM accepts this setting and then "
                "fails to load the draft"
            )
        if deployment.mixed_vocabularies and method is not EngineMethod.DRAFT_MODEL:
            yield (
                "mixed-vocabularies (use_heterogeneous_vocab) must be used with method draft-model "
                f"in vLLM, got {method.value}"
            )
        is_sampled = deployment.draft_sampling is DraftSampling.PROBABILISTIC
        if deployment.mixed_vocabularies and is_sampled:
            yield (
                "mixed-vocabularies (use_heterogeneous_vocab) must be used with draft-sampling "
                "greedy in vLLM, got probabilistic"
            )

    def pair_refusals(self, deployment: ModelDeployment, pair: ServedPair) -> Iterator[str]:
        sizes = f"{pair.target_rows} and {pair.draft_rows}"
        is_draft = deployment.method is EngineMethod.DRAFT_MODEL
        if is_draft and pair.has_other_sizes and not deployment.mixed_vocabularies:
            yield (
                f"target and draft must have vocabularies of one size in vLLM, got {sizes}; "
                "mixed-vocabularies (use_heterogeneous_vocab) allows other sizes"
            )
            pair = replace(pair, difference=None)
        elif pair.difference is not None:
            starts = "vLLM compares only the sizes, so it would start, and accept hardly any draft"
            pair = replace(pair, difference=f"{pair.difference}: {starts}")
        if deployment.method is EngineMethod.EAGLE and pair.has_other_sizes:
            yield (
                f"draft must draft all {pair.target_rows} tokens for method eagle in vLLM, got "
                f"draft_vocab_size {pair.draft_rows}: vLLM cannot load its tensor d2t"
            )
        if pair.inner_size is not None:
            yield (
                "draft must be Medusa heads with one matrix, x + SiLU(Wx), in vLLM, got two with "
                f"inner_size {pair.inner_size} between them: vLLM cannot find W"
            )
        yield from super().pair_refusals(deployment, pair)

    def model_remarks(
        self, deployment: ModelDeployment, further: Mapping[str, Any]
    ) -> Iterator[str]:
        yield from super().model_remarks(deployment, further)
        target, facts = deployment.target, self.facts
        if not target.endswith(".gguf") and "gguf" in target.lower():
            yield (
                f"{facts.title} {facts.version} does not read GGUF: name the repository from which "
                f"{target!r} was made"
            )

    def remarks(self, deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
        if deployment.schedule:
            yield from schedule_remarks(deployment, self.facts, further)
        yield from rule_remarks(deployment, further)
        if deployment.method is EngineMethod.SUFFIX:
            yield "method suffix needs another package: pip install arctic-inference==0.1.1"
        if deployment.method is EngineMethod.PROMPT_LOOKUP:
            if deployment.lookup_min is None and deployment.lookup_max is None:
                yield "vLLM looks for n-grams of 5 tokens if no length is given"

    def own_options(self, further: Mapping[str, Any]) -> Mapping[str, int]:
        given = {end: further.get(f"{SPECULATIVE}suffix_decoding_{end}") for end in _SUFFIX}
        return {
            _SUFFIX[end][0]: round(_SUFFIX[end][1] * float(value))
            for end, value in given.items()
            if value is not None
        }

    def undrafted(self, deployment: ModelDeployment) -> str:
        target, title = deployment.target, self.facts.title
        if is_speculator(target):
            return (
                f"{target} is a speculator by its name: {title} reads target, method "
                "and K from its configuration, and speculates"
            )
        if target and is_head(target):
            return (
                f"{target} is a draft head by its name: if its configuration has a "
                f"speculators_config, {title} takes target, method and K from it; otherwise "
                "nothing in the text speculates"
            )
        return super().undrafted(deployment)

    def written(self, field: str, value: Any) -> Any:
        if field == "rule":
            return next(name for name, rule in self._RULES.items() if rule is value)
        return super().written(field, value)

    def _rule(self, name: Any) -> VerificationRule:
        found: VerificationRule | None = self._RULES.get(str(name))
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
        return self.method_named(plain)


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


ADAPTER = VllmAdapter()
