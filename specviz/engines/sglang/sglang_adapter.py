"""The settings of SGLang: how they are read and written, and what SGLang refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from specviz.engines.engine_adapter import ONLY_LOOKUP, Needless, Options, ServerAdapter
from specviz.engines.flag_values import python_arguments
from specviz.engines.model_deployment import (
    MAX_DRAFT_TOKENS,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.engines.sglang.sglang_api import SglangApi
from specviz.engines.typed_fields import Heard, read_integer
from specviz.errors import InputError

_AS_STORED = "unquant"  # the format of weights that SGLang does not convert


class SglangAdapter(ServerAdapter):
    name = "sglang"
    of_methods = "algorithm"
    meant: ClassVar = {"block": "draft_tokens", "lookup_branching": "branching"}
    _WITH_REJECTION = frozenset({EngineMethod.EAGLE, EngineMethod.EAGLE3, EngineMethod.MTP})
    _STEPS, _WIDTH = "--speculative-num-steps", "--speculative-eagle-topk"
    _NODES = "--speculative-num-draft-tokens"
    _REJECTION = "--speculative-use-rejection-sampling"
    _WITH_BLOCKS = _WITH_REJECTION | {EngineMethod.DFLASH, EngineMethod.DSPARK}
    _BLOCKS = "--speculative-use-block-verification"
    _NGRAM_WIDTH = "--speculative-ngram-max-bfs-breadth"
    _DEFAULT_NGRAM_WIDTH, _DEFAULT_NGRAM_NODES = 10, 12
    api = SglangApi()
    within: ClassVar = {"draft_tokens": "tree_tokens"}
    only: ClassVar = {
        "block": frozenset({EngineMethod.DFLASH, EngineMethod.DSPARK}),
        "lookup_branching": ONLY_LOOKUP,
    }
    _OLD_NAMES: ClassVar = {"LOOKAHEAD": "NGRAM"}
    _WHY: ClassVar = {
        "LOOKAHEAD": ", its name today",
        "EAGLE": ", because no draft is named: then the target's own heads (MTP) draft",
    }

    def options(self, deployment: ModelDeployment) -> Options:
        found = self.plain(deployment)
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

    def python(self, options: Options) -> str:
        arguments = python_arguments(self.facts, options, " " * 8)
        return (
            "import sglang\n\n"
            'if __name__ == "__main__":  # it starts processes that import this file\n'
            f"    engine = sglang.Engine(\n{arguments}    )\n"
        )

    def refusals(self, deployment: ModelDeployment) -> Iterator[str]:
        depth = deployment.draft_tokens
        if depth is None and (deployment.branching or deployment.tree_tokens):
            yield (
                "draft-tokens must be given with branching or tree-tokens in SGLang, which needs "
                "all three or none, got none"
            )
        if deployment.is_tree and deployment.tree_tokens is None:
            yield (
                f"tree-tokens must be given if branching is above 1 in SGLang, got branching "
                f"{deployment.branching} alone"
            )
        nodes = deployment.tree_tokens
        if not deployment.is_tree and depth is not None and nodes not in (None, depth + 1):
            yield f"tree-tokens must be draft-tokens + 1 = {depth + 1} for a chain, got {nodes}"
        if deployment.mixed_vocabularies:
            yield (
                "mixed-vocabularies must be off in SGLang: a draft must have the target's "
                "vocabulary"
            )

    def remarks(self, deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
        if deployment.memory_fraction is not None:
            yield (
                "SGLang's --mem-fraction-static is for weights and cache only: lower it if the "
                "rest of a card is too small for activations"
            )
        if deployment.method is EngineMethod.PROMPT_LOOKUP:
            yield (
                "SGLang drafts a tree of n-grams. It is 10 wide if "
                "--speculative-ngram-max-bfs-breadth is not given; 1 makes it a chain, and so does "
                "one long match"
            )
        if self._converts_draft(deployment):
            yield (
                "SGLang loads the draft in the target's format if draft-quantization is not given: "
                f"{_AS_STORED} leaves the draft unchanged"
            )

    def as_stored(self, deployment: ModelDeployment) -> ModelDeployment:
        if self._converts_draft(deployment):
            return replace(deployment, draft_quantization=_AS_STORED)
        return deployment

    def _converts_draft(self, deployment: ModelDeployment) -> bool:
        """Return whether SGLang would convert a draft without a format of its own."""
        is_left = deployment.draft is not None and deployment.draft_quantization is None
        return deployment.quantization is not None and is_left

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

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
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

    def needless(self, heard: Heard) -> Iterator[Needless]:
        yield from super().needless(heard)
        # `heard` keeps these two fields, because `settle` has replaced the typed values by values
        # that follow from the number of nodes.
        if heard.get("method") is EngineMethod.PROMPT_LOOKUP:
            why = f"NGRAM ignores it and uses {self._NODES} and {self._NGRAM_WIDTH}"
            yield from (Needless("draft_tokens", why), Needless("branching", why))

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
        found = self.method_named(self._OLD_NAMES.get(name, name))
        return EngineMethod.MTP if found is EngineMethod.EAGLE and not has_draft else found


def _block(method: EngineMethod, depth: int) -> Options:
    """Return the flag for the block size.

    The block size of DFlash is the number of verified tokens, and that of DSpark is the number of
    drafted tokens.
    """
    if method is EngineMethod.DSPARK:
        return {"--speculative-dspark-block-size": depth}
    return {"--speculative-dflash-block-size": depth + 1}


ADAPTER = SglangAdapter()
