"""Training batches of a chat model's answers, for an EAGLE head.

A *lesson* is one batch as tensors; its answers have similar lengths. The head's input is a sequence
of pairs. Pair t consists of token t + 1 and the feature after token t. From it the head predicts
the feature after token t + 1, from which the target draws token t + 2. The head predicts nothing at
the pairs of a message, but later pairs attend to them.

In shapes, B is the number of answers, M the number of pairs of the longest message, A the number of
tokens of the longest answer, W the hidden size, V the size of the vocabulary, D that of the draft
vocabulary, and k the number of top tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specviz.training.chat_answers import ChatAnswer
from specviz.training.pretraining import ShuffledPasses

# Largest number of tokens of a message with its answer. If they have more, the beginning of the
# message is left out.
LONGEST_ROW = 384
BATCH_TOKENS = 3072
SHORTEST = 8  # answers with fewer tokens are not used
# Answers of similar length are divided into this number of batches, so that the messages in a batch
# also have similar lengths.
LIKE_MESSAGES = 4


class ChatLesson(NamedTuple):
    """A training batch with one answer per row.

    A row has the pairs of the message, with padding at the beginning, and then one pair per token
    of the answer, with padding at the end. `message` is True at the message's pairs and False at
    padding. `wanted` has the features that the head should predict. `top_ids` and `top_probs` are
    the target's distributions of the answer's tokens. The probabilities are renormalised over the
    draft vocabulary, and are 0 for other tokens. `weights` has the probability that the target
    gives to the whole draft vocabulary; it is 0 at padding.
    """

    tokens: Tensor  # [B, M + A]
    features: Tensor  # [B, M + A, W]
    message: Tensor  # [B, M] bool, True at pairs of the message and False at padding
    wanted: Tensor  # [B, A, W]
    top_ids: Tensor  # [B, A, k]
    top_probs: Tensor  # [B, A, k]
    weights: Tensor  # [B, A]


class AnswerBatches(ShuffledPasses):
    """Shuffled passes over answers, in batches of answers with similar lengths."""

    def __init__(
        self, answers: Sequence[ChatAnswer], drafted: Tensor, vocabulary: int, seed: int
    ) -> None:
        """Divide the answers into batches; `drafted` [D] is the draft vocabulary."""
        long = (each for each in answers if len(each.top_ids) >= SHORTEST)
        self.answers = sorted(long, key=lambda each: len(each.top_ids))
        self.is_drafted = torch.zeros(vocabulary, dtype=torch.bool)
        self.is_drafted[drafted] = True
        self.batches = list(self._batches())
        super().__init__(len(self.batches), seed)

    def _batches(self) -> Iterator[list[ChatAnswer]]:
        similar: list[ChatAnswer] = []
        # The answers are sorted by length, so this answer is the longest of its batch.
        for answer in self.answers:
            if (len(similar) + 1) * len(answer.top_ids) > LIKE_MESSAGES * BATCH_TOKENS:
                yield from _by_message(similar)
                similar = []
            similar.append(answer)
        yield from _by_message(similar)

    def batch(self) -> list[ChatAnswer]:
        """Return the answers of the next batch in the current pass."""
        if not self.waiting:
            self.begin_pass()
        batch = self.batches[self.waiting.pop()]
        self.tokens_read += sum(len(each.top_ids) for each in batch)
        return batch


class ChatReader(AnswerBatches):
    """A data source for `TrainingLoop`, which makes lessons for an EAGLE head."""

    def lesson(self) -> ChatLesson:
        """Return the lesson of the next batch in the current pass."""
        return self.lesson_of(self.batch())

    def lesson_of(self, answers: Sequence[ChatAnswer]) -> ChatLesson:
        """Return these answers as a lesson, which has one answer per row."""
        lengths = [len(answer.top_ids) for answer in answers]
        before = [_pairs_before(answer) for answer in answers]
        count, asked, longest = len(answers), max(before), max(lengths)
        top, width = answers[0].top_ids.shape[1], answers[0].features.shape[1]
        tokens = torch.zeros(count, asked + longest, dtype=torch.int64)
        features = torch.zeros(count, asked + longest, width)
        message = torch.zeros(count, asked, dtype=torch.bool)
        wanted = torch.zeros(count, longest, width)
        ids = torch.zeros(count, longest, top, dtype=torch.int64)
        probs, weights = torch.zeros(count, longest, top), torch.zeros(count, longest)
        for row, answer in enumerate(answers):
            length, start = lengths[row], len(answer.tokens) - 2 - lengths[row] - before[row]
            pairs = slice(asked - before[row], asked + length)
            given = torch.from_numpy(answer.features[start:].astype(np.float32))
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
    """Restrict distributions to the draft vocabulary.

    `is_drafted` [V] says which tokens are in the draft vocabulary. `ids` and `probs` [..., k] are
    the most probable tokens of each distribution. Return the probabilities [..., k], renormalised
    over the draft vocabulary and 0 for other tokens, and the probability [...] of the whole draft
    vocabulary. The probabilities of single tokens outside the k tokens are unknown. All these
    tokens count as if they were in the draft vocabulary.
    """
    is_inside = is_drafted[ids]
    inside = (1 - (probs * ~is_inside).sum(-1)).clamp_min(1e-6)
    return probs * is_inside / inside[..., None], inside


def _by_message(answers: Sequence[ChatAnswer]) -> Iterator[list[ChatAnswer]]:
    """Divide the answers into LIKE_MESSAGES batches with messages of similar length."""
    ordered = sorted(answers, key=lambda each: each.prompt_length)
    size = -(-len(ordered) // LIKE_MESSAGES)
    yield from (ordered[start : start + size] for start in range(0, len(ordered), size or 1))


def _pairs_before(answer: ChatAnswer) -> int:
    """Return how many pairs of the answer's message a lesson contains before the answer."""
    return max(0, min(answer.prompt_length - 2, LONGEST_ROW - len(answer.top_ids)))
