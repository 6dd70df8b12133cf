"""What a head learns from: answers of a chat model in batches of similar length.

Pair t is token t + 1 and the feature of t; a head foretells at it the feature of t + 1, from which
the target draws token t + 2. Of a message the pairs are only attended to.

Letters: B rows, M pairs of the longest message, A tokens of the longest answer, W width, D draft
vocabulary, k top tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specviz.training.chat_answers import ChatAnswer
from specviz.training.pretraining import ShuffledPasses

LONGEST_ROW = 384  # a longer message loses its beginning
BATCH_TOKENS = 3072
SHORTEST = 8  # an answer with fewer tokens teaches nothing
LIKE_MESSAGES = 4  # batches of similar answers, of which each has messages of one length


class ChatLesson(NamedTuple):
    """Pairs of conversations: the message's, padded at the beginning, then one per answer token."""

    tokens: Tensor  # [B, M + A]
    features: Tensor  # [B, M + A, W]
    message: Tensor  # [B, M] bool: whether there is such a pair
    wanted: Tensor  # [B, A, W]: the feature that follows
    top_ids: Tensor  # [B, A, k]: the distribution that each answer token was drawn from
    top_probs: Tensor  # [B, A, k], renormalised: 0 outside the draft vocabulary
    weights: Tensor  # [B, A]: the draft vocabulary's part of it; 0 where no answer is


class AnswerBatches(ShuffledPasses):
    """Shuffled passes over answers in batches of similar length."""

    def __init__(
        self, answers: Sequence[ChatAnswer], drafted: Tensor, vocabulary: int, seed: int
    ) -> None:
        """`drafted` [D]: the draft vocabulary."""
        long = (each for each in answers if len(each.top_ids) >= SHORTEST)
        self.answers = sorted(long, key=lambda each: len(each.top_ids))
        self.is_drafted = torch.zeros(vocabulary, dtype=torch.bool)
        self.is_drafted[drafted] = True
        self.batches = list(self._batches())
        super().__init__(len(self.batches), seed)

    def _batches(self) -> Iterator[list[ChatAnswer]]:
        similar: list[ChatAnswer] = []
        for answer in self.answers:  # the longest last
            if (len(similar) + 1) * len(answer.top_ids) > LIKE_MESSAGES * BATCH_TOKENS:
                yield from _by_message(similar)
                similar = []
            similar.append(answer)
        yield from _by_message(similar)

    def batch(self) -> list[ChatAnswer]:
        """The next of the pass."""
        if not self.waiting:
            self.begin_pass()
        batch = self.batches[self.waiting.pop()]
        self.tokens_read += sum(len(each.top_ids) for each in batch)
        return batch


class ChatReader(AnswerBatches):
    """Lessons with features; a data source for TrainingLoop."""

    def lesson(self) -> ChatLesson:
        """The next batch of the pass."""
        return self.lesson_of(self.batch())

    def lesson_of(self, answers: Sequence[ChatAnswer]) -> ChatLesson:
        """These answers in one batch."""
        lengths = [len(answer.top_ids) for answer in answers]
        before = [_pairs_before(answer) for answer in answers]
        count, asked, longest = len(answers), max(before), max(lengths)
        top, width = answers[0].top_ids.shape[1], answers[0].features.shape[2]
        tokens = torch.zeros(count, asked + longest, dtype=torch.int64)
        features = torch.zeros(count, asked + longest, width)
        message = torch.zeros(count, asked, dtype=torch.bool)
        wanted = torch.zeros(count, longest, width)
        ids = torch.zeros(count, longest, top, dtype=torch.int64)
        probs, weights = torch.zeros(count, longest, top), torch.zeros(count, longest)
        for row, answer in enumerate(answers):
            length, start = lengths[row], len(answer.tokens) - 2 - lengths[row] - before[row]
            pairs = slice(asked - before[row], asked + length)
            given = torch.from_numpy(answer.features[start:, -1].astype(np.float32))
            tokens[row, pairs] = torch.from_numpy(answer.tokens[start + 1 : -1].astype(np.int64))
            features[row, pairs] = given[:-1]
            message[row, asked - before[row] :] = True
            wanted[row, :length] = given[before[row] + 1 :]
            ids[row, :length] = torch.from_numpy(answer.top_ids.astype(np.int64))
            probs[row, :length] = torch.from_numpy(answer.top_probs.astype(np.float32))
            weights[row, :length] = 1.0
        probs, inside = drafted_part(self.is_drafted, ids, probs)
        return ChatLesson(tokens, features, message, wanted, ids, probs, weights * inside)


def drafted_part(is_drafted: Tensor, ids: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of the draft vocabulary alone, renormalised, and its part of the whole.

    is_drafted [V] bool; ids and probs [..., k].
    """
    is_inside = is_drafted[ids]
    inside = (1 - (probs * ~is_inside).sum(-1)).clamp_min(1e-6)
    return probs * is_inside / inside[..., None], inside


def _by_message(answers: Sequence[ChatAnswer]) -> Iterator[list[ChatAnswer]]:
    """LIKE_MESSAGES batches of them, the shortest messages first."""
    ordered = sorted(answers, key=lambda each: each.prompt_length)
    size = -(-len(ordered) // LIKE_MESSAGES)
    yield from (ordered[start : start + size] for start in range(0, len(ordered), size or 1))


def _pairs_before(answer: ChatAnswer) -> int:
    """Pairs of the message that a lesson has before those of the answer."""
    return max(0, min(answer.prompt_length - 2, LONGEST_ROW - len(answer.top_ids)))
