"""Suffix decoding: copy what most often followed the last tokens earlier in the text.

The authors of the paper (arXiv 2411.04975) publish it in ArcticInference, and vLLM runs that code
as its method `suffix`. This module counts as ArcticInference does: the end of the text is one more
occurrence of the last tokens, although no token follows it yet. The drafter chooses tokens without
random draws, so they count as CHOSEN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    QuietDrafter,
    host_chain,
)
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.suffix_tree import DEPTH, DraftLimits, SuffixTree
from specviz.errors import InputError
from specviz.records import SuffixMatch

TREE_DEPTH = Option(
    "tree_depth",
    "Tree depth",
    DEPTH,
    2,
    64,
    "a match and its draft together are at most this long",
    usual="8,16,24,32",
)
MATCH_FACTOR = Option(
    "match_factor",
    "Draft per match, %",
    100,
    0,
    800,
    "how long a draft may be, in percent of the length of its match",
    usual="50,100,200,400",
)
MATCH_OFFSET = Option(
    "match_offset",
    "Draft beyond match",
    0,
    0,
    16,
    "how many more tokens than that a draft may have",
    usual="0-4",
)
LEAST_SHARE = Option(
    "least_share",
    "Smallest share, %",
    10,
    0,
    100,
    "a draft ends before a token that followed the match less often than this",
    usual="0,10,30,50",
)


class SuffixDecoding(QuietDrafter):
    """A drafter that counts the tokens of its own text in a tree.

    If the caller passes a tree of earlier outputs, the drafter reads that tree as well. The caller
    decides which runs share the tree. Those runs must not overlap, because each drafter begins a
    new output in the tree.
    """

    def __init__(self, setup: Setup) -> None:
        """Create the drafter.

        Raises InputError if `setup.earlier` has outputs of earlier runs and the temperature is
        above 0.

        An earlier run with the same seed used the same draws. A draft from its output would depend
        on the draws that now judge the draft, so the text would not have the target's distribution.
        """
        values, temperature = METHOD.completed(setup.config), setup.config.temperature
        if setup.earlier is not None and temperature > 0:
            raise InputError(
                f"temperature must be 0 for drafts from earlier outputs, got {temperature:g}"
            )
        own = SuffixTree(values[TREE_DEPTH.name])
        self._trees = [own] if setup.earlier is None else [own, setup.earlier]
        for tree in self._trees:
            tree.begin()
        self._limits = DraftLimits(
            setup.config.draft_length,
            values[MATCH_FACTOR.name],
            values[MATCH_OFFSET.name],
            values[LEAST_SHARE.name],
        )
        self._device = setup.target.device
        # number of the run's tokens, prompt included, that the trees have counted
        self._counted = 0

    def start(self, prompt: PrefilledPrompt) -> None:
        """Count the prompt's tokens in the drafter's own tree; the other tree has only outputs."""
        self._count(prompt.prompt_ids, self._trees[:1])

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        """Copy the continuation with the highest score.

        If the best continuations in the drafter's own text and in earlier outputs have the same
        score, copy the one in the drafter's own text.
        """
        self._count(committed[self._counted :], self._trees)
        limits = replace(self._limits, most=min(self._limits.most, room))
        paths = [tree.best_path(limits) for tree in self._trees]
        best = max(paths, key=lambda path: path.score)
        if not best.token_ids:
            return host_chain((), self._device)
        source = self._trees[paths.index(best)]
        is_earlier = source is not self._trees[0]
        matched = tuple(committed[-best.matched :])
        note = SuffixMatch(source.longest_match, best.counts, is_earlier, matched)
        return host_chain(best.token_ids, self._device, (note,))

    def observe(self, observation: Observation) -> OverlappedWork:
        """Count the new tokens in all trees, so that later runs can copy all of this output."""
        self._count(observation.token_ids, self._trees)
        return NOTHING_OVERLAPPED

    def _count(self, token_ids: Sequence[int], trees: Sequence[SuffixTree]) -> None:
        self._counted += len(token_ids)
        for tree in trees:
            for token_id in token_ids:
                tree.append(token_id)


METHOD = Method(
    "suffix",
    "Suffix decoding",
    "Counts what followed the last tokens earlier in this text, never in another run's, and copies "
    "the most frequent; needs no model.",
    SuffixDecoding,
    options=(TREE_DEPTH, MATCH_FACTOR, MATCH_OFFSET, LEAST_SHARE),
    depth_cap="at most as many tokens as match, unless “Draft per match” is changed",
)
