"""Trains Medusa heads on what a chat model answered.

They share the target's output matrix, or rather its rows of a draft vocabulary. Head i (from 0)
sees the feature before an answer token and foretells the one i + 1 places later, from which the
target draws the token after it.

Letters: P places of all answers, B places of a batch, H heads, W width, V vocabulary, D draft
vocabulary, k top tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_lessons import drafted_part
from specviz.training.chat_scores import Levels
from specviz.training.distillation import divergence
from specviz.training.head_training import MedusaHead, MedusaNetwork, fit_medusa_head
from specviz.training.pretraining import Progress, Rates, ShuffledPasses, TrainingLoop

HEADS = 3
INNER_SHARE = 0.5  # of the width: a head takes as much as a square matrix
BATCH_PLACES = 3072
FITTED_PLACES = 90_000
RATES = Rates(matrix=0.005, other=0.002, decay=0.02)


class PlaceLesson(NamedTuple):
    """Places of answers, and what follows there."""

    features: Tensor  # [B, W], from which the target draws the place's own token
    top_ids: Tensor  # [B, H, k], of the tokens after it
    top_probs: Tensor  # [B, H, k], renormalised: 0 outside the draft vocabulary
    weights: Tensor  # [B, H]: the draft vocabulary's part; 0 behind the answer's end


class PlaceReader(ShuffledPasses):
    """Shuffled passes over the places of all answers; a data source for TrainingLoop."""

    def __init__(
        self, answers: Sequence[ChatAnswer], drafted: Tensor, vocabulary: int, heads: int, seed: int
    ) -> None:
        """`drafted` [D]: the draft vocabulary."""
        self.features = np.concatenate([features_of(answer) for answer in answers])
        self.top_ids = np.concatenate([answer.top_ids for answer in answers])
        self.top_probs = np.concatenate([answer.top_probs for answer in answers])
        lengths = [len(answer.top_ids) for answer in answers]
        self.left = np.concatenate([np.arange(length)[::-1] for length in lengths])  # behind it
        self.is_drafted = torch.zeros(vocabulary, dtype=torch.bool)
        self.is_drafted[drafted] = True
        self.heads = heads
        self.order = np.random.default_rng(seed).permutation(len(self.left))
        super().__init__(-(-len(self.left) // BATCH_PLACES), seed)

    def lesson(self) -> PlaceLesson:
        """The next batch of the pass."""
        if not self.waiting:
            self.begin_pass()
        start = self.waiting.pop() * BATCH_PLACES
        places = self.order[start : start + BATCH_PLACES]
        self.tokens_read += len(places)
        return self.lesson_of(places)

    def lesson_of(self, places: NDArray[np.int64]) -> PlaceLesson:
        """These places."""
        later = places[:, None] + 1 + np.arange(self.heads)  # [B, H]
        is_there = self.left[places][:, None] > np.arange(self.heads)
        later = np.where(is_there, later, places[:, None])
        top_ids = torch.from_numpy(self.top_ids[later].astype(np.int64))
        probs = torch.from_numpy(self.top_probs[later].astype(np.float32))
        inside, weights = drafted_part(self.is_drafted, top_ids, probs)
        return PlaceLesson(
            _wide(self.features[places]),
            top_ids,
            inside,
            weights * torch.from_numpy(is_there),
        )


@torch.no_grad()
def fit_by_least_squares(network: MedusaNetwork, reader: PlaceReader) -> None:
    """Begin where many steps would lead: at the best linear guesses."""
    for index, head in enumerate(network.heads):
        assert isinstance(head, MedusaHead)
        places = reader.order[:FITTED_PLACES]
        places = places[reader.left[places] > index]
        batches = np.array_split(places, -(-len(places) // BATCH_PLACES))
        fit_medusa_head(
            head,
            (
                (_wide(reader.features[batch]), _wide(reader.features[batch + index + 1]))
                for batch in batches
            ),
        )


def _wide(features: NDArray[np.float16]) -> Tensor:
    return torch.from_numpy(features.astype(np.float32))


def features_of(answer: ChatAnswer) -> NDArray[np.float16]:
    """The feature that each token of the answer was drawn from."""
    return answer.features[answer.prompt_length - 1 :, -1]


def train_chat_medusa(
    network: MedusaNetwork,
    reader: PlaceReader,
    table: Tensor,
    drafted: Tensor,
    checkpoint: Path,
    seconds: float,
) -> Progress:
    """Train the heads for `seconds` of processor time (resumed if begun).

    table [V, W] is the target's, and frozen.
    """
    if not checkpoint.exists():
        fit_by_least_squares(network, reader)
    table = table.to(network.dtype)
    loop = TrainingLoop(network, reader, checkpoint, seconds, RATES, clock=time.process_time)

    def losses(fraction: float) -> Iterator[Tensor]:
        lesson = reader.lesson()
        candidates = Candidates.of(lesson, drafted, len(table))
        yield chat_medusa_loss(network, table, candidates, lesson)

    return loop.run(losses)


def chat_medusa_loss(
    network: MedusaNetwork, table: Tensor, candidates: Candidates, lesson: PlaceLesson
) -> Tensor:
    """Mean over heads of the divergence from the target's distribution, where an answer is."""
    output, (ids, probs) = table[candidates.ids], candidates.places(lesson)
    parts = []
    for index, guess in enumerate(_guesses(network, lesson.features)):
        logits = F.linear(guess, output).float() + candidates.raised
        parts.append(divergence(logits, ids[:, index], probs[:, index], lesson.weights[:, index]))
    return torch.stack(parts).mean()


def _guesses(network: MedusaNetwork, features: Tensor) -> Iterator[Tensor]:
    """Per head the features that it foretells, [B, W] each."""
    for head in network.heads:
        assert isinstance(head, MedusaHead)
        yield head(features.to(network.dtype))


def chat_medusa_levels(network: MedusaNetwork, table: Tensor, drafted: Tensor) -> Levels:
    """Level i is head i's."""
    output = table[drafted].to(network.dtype)

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        features = _wide(features_of(answer))
        for level, guess in enumerate(_guesses(network, features)):
            yield F.linear(guess[: len(features) - 1 - level], output).float()

    return levels
