"""Hybrid drafting: copy where the text probably repeats itself, and ask a draft model elsewhere.

ArcticInference combines suffix decoding with a draft model in this way: a round copies if the score
of the best match is high enough. The score is the number of copied tokens that are expected to be
right, if the text goes on as it did after earlier occurrences of the same tokens.

The choice depends only on the committed text, so the draft of a round is exact in both cases: a
copied token counts as CHOSEN, and a token of the draft model is drawn from its q.

Copied tokens cost almost nothing, but each token of the draft model costs a forward. So the two
parts have draft lengths of their own: K for copies, and usually fewer tokens for the model. Both
lengths are fixed before a token is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.decoding.drafters.base import (
    Drafter,
    HeldMemory,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
)
from specviz.decoding.drafters.draft_model import CHAIN
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.suffix import METHOD as SUFFIX
from specviz.models.parts import Need
from specviz.records import MAX_DRAFT_LENGTH, Drawing, HybridChoice, SuffixMatch

LEAST_SCORE = Option(
    "least_score",
    "Smallest score, %",
    100,
    0,
    3200,
    "a round copies if this many tokens are likely to be right, in percent of one",
    usual="50,100,200,400",
)
MODEL_LENGTH = Option(
    "model_length",
    "Model’s draft length",
    2,
    1,
    MAX_DRAFT_LENGTH,
    "the draft model writes at most this many tokens, and at most K",
)


class Hybrid:
    """A drafter that passes each round either to `copying` or to `model`.

    `copying` is a drafter whose proposals have the note `SuffixMatch`. `model` must find out by
    itself which committed tokens it has not read, because it does not take part in copied rounds.
    """

    def __init__(self, copying: Drafter, model: Drafter, least_score: float) -> None:
        self._copying = copying
        self._model = model
        self._least_score = least_score
        self._is_copied = False  # True if the last proposal was copied

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._model.feature_layers

    @property
    def memory(self) -> HeldMemory:
        return self._model.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._copying.start(prompt)
        self._model.start(prompt)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        copied = self._copying.propose(committed, room, round_index)
        scores = [note.score for note in copied.notes if isinstance(note, SuffixMatch)]
        self._is_copied = any(score >= self._least_score for score in scores)
        if self._is_copied:
            proposal = copied
        else:
            proposal = self._model.propose(committed, room, round_index)
        if not proposal.topology.size:
            return proposal
        choice = HybridChoice(max(scores, default=0.0), self._least_score)
        return replace(proposal, notes=(*proposal.notes, choice))

    def observe(self, observation: Observation) -> OverlappedWork:
        work = self._copying.observe(observation)
        return work if self._is_copied else self._model.observe(observation)

    def close(self) -> None:
        self._copying.close()
        self._model.close()


def _make(setup: Setup) -> Drafter:
    chosen = replace(setup.config, method=SUFFIX.name, drawing=Drawing.CHOSEN, options=())
    copying = SUFFIX.make(replace(setup, config=chosen))
    options = METHOD.completed(setup.config)
    length = min(options[MODEL_LENGTH.name], setup.config.draft_length)
    short = replace(setup, config=replace(setup.config, draft_length=length))
    return Hybrid(copying, CHAIN.make(short), options[LEAST_SCORE.name] / 100)


METHOD = Method(
    "hybrid",
    "Suffix decoding or draft model",
    "Copies up to K tokens where a copy is likely to be right; elsewhere a small model writes a "
    "few tokens ahead.",
    _make,
    frozenset({Need.DRAFT}),
    drawings=(Drawing.INDEPENDENT,),
    options=(LEAST_SCORE, MODEL_LENGTH),
    depth_cap="a copy: at most as many tokens as match; the draft model: “Model’s draft length”",
)
