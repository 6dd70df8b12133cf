"""Train Medusa heads on the answers of a chat model.

The target draws the token at position n from feature n - 1, which is its hidden state after the
final norm. From the same feature, head i (counted from 0) predicts feature n + i, from which the
target draws the token at position n + i + 1. All heads share the target's output matrix, of which
they use only the rows of the draft vocabulary. A *lesson* is one training batch as tensors.

In shapes, B is the number of positions in a batch, H the number of heads, W the hidden size, V the
size of the vocabulary, D that of the draft vocabulary, and k the number of top tokens.
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
# The inner width of a head as a share of the hidden size. At 0.5 the two matrices of a head have as
# many weights as one square matrix.
INNER_SHARE = 0.5
BATCH_PLACES = 3072  # number of positions of answers in one training step
FITTED_PLACES = 90_000  # number of positions of answers to which least squares fits the heads
RATES = Rates(matrix=0.005, other=0.002, decay=0.02)


class PlaceLesson(NamedTuple):
    """A training batch: positions of answers, and the distributions that the heads should predict.

    `features` has the feature from which the target draws the token at the position itself. For
    head i, `top_ids` and `top_probs` have the target's distribution i + 1 positions later. The
    probabilities are renormalised over the draft vocabulary, and are 0 for other tokens. `weights`
    has the probability that the target gives to the whole draft vocabulary; it is 0 if the answer
    ends before that position.
    """

    features: Tensor  # [B, W]
    top_ids: Tensor  # [B, H, k]
    top_probs: Tensor  # [B, H, k]
    weights: Tensor  # [B, H]


class PlaceReader(ShuffledPasses):
    """A data source for `TrainingLoop`: shuffled passes over the positions of all answers."""

    def __init__(
        self, answers: Sequence[ChatAnswer], drafted: Tensor, vocabulary: int, heads: int, seed: int
    ) -> None:
        """Shuffle the positions of all answers; `drafted` [D] is the draft vocabulary."""
        self.features = np.concatenate([features_of(answer) for answer in answers])
        self.top_ids = np.concatenate([answer.top_ids for answer in answers])
        self.top_probs = np.concatenate([answer.top_probs for answer in answers])
        lengths = [len(answer.top_ids) for answer in answers]
        # The number of tokens that follow each position in its answer.
        self.left = np.concatenate([np.arange(length)[::-1] for length in lengths])
        self.is_drafted = torch.zeros(vocabulary, dtype=torch.bool)
        self.is_drafted[drafted] = True
        self.heads = heads
        self.order = np.random.default_rng(seed).permutation(len(self.left))
        super().__init__(-(-len(self.left) // BATCH_PLACES), seed)

    def lesson(self) -> PlaceLesson:
        """Return the lesson of the next batch in the current pass."""
        if not self.waiting:
            self.begin_pass()
        start = self.waiting.pop() * BATCH_PLACES
        places = self.order[start : start + BATCH_PLACES]
        self.tokens_read += len(places)
        return self.lesson_of(places)

    def lesson_of(self, places: NDArray[np.int64]) -> PlaceLesson:
        """Return the lesson of these positions [B].

        Each position is an index into the tokens of all answers, one answer after another.
        """
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
    """Initialise each head as a linear prediction that is fitted by least squares."""
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
    """Return the features from which the target drew the answer's tokens, one per token."""
    return answer.features[answer.prompt_length - 1 :]


def train_chat_medusa(
    network: MedusaNetwork,
    reader: PlaceReader,
    table: Tensor,
    drafted: Tensor,
    checkpoint: Path,
    seconds: float,
) -> Progress:
    """Train the heads for `seconds` of processor time, or continue from an existing checkpoint.

    `table` [V, W] is the target's output matrix, which is not trained.
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
    """Return the mean divergence from the target's distributions, over all heads and positions."""
    output, (ids, probs) = table[candidates.ids], candidates.places(lesson)
    parts = []
    for index, guess in enumerate(_guesses(network, lesson.features)):
        logits = F.linear(guess, output).float() + candidates.raised
        parts.append(divergence(logits, ids[:, index], probs[:, index], lesson.weights[:, index]))
    return torch.stack(parts).mean()


def _guesses(network: MedusaNetwork, features: Tensor) -> Iterator[Tensor]:
    """Yield, for each head, the features [B, W] that it predicts."""
    for head in network.heads:
        assert isinstance(head, MedusaHead)
        yield head(features.to(network.dtype))


def chat_medusa_levels(network: MedusaNetwork, table: Tensor, drafted: Tensor) -> Levels:
    """Return a function that yields the logits of each head along an answer; head i is level i."""
    output = table[drafted].to(network.dtype)

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        features = _wide(features_of(answer))
        for level, guess in enumerate(_guesses(network, features)):
            yield F.linear(guess[: len(features) - 1 - level], output).float()

    return levels
