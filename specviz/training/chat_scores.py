"""Measure how many of a drafter's guesses a chat model accepts, on answers to held-out messages.

The drafter guesses a chain of LEVELS tokens at each position of an answer. Level s (counted from 0)
is the chain's token number s + 1.

p is the target's distribution of a token, and q the drafter's. In shapes, P is the number of
positions of an answer at which a chain begins, D the size of the draft vocabulary, and k the number
of top tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_lessons import SHORTEST

LEVELS = 4  # number of tokens in a guessed chain
SAMPLED = 0.7  # temperature of the measured answers that are not greedy
WARMER = 0.8  # temperature at which `choice_shares` computes the target's probabilities
CHOICES = 8

# A function that yields, for each level, a drafter's logits [P - level, D] along an answer. The
# answer's tokens have indices from 0. The target itself draws token 0, and a chain begins after it.
# The logits of level s are therefore for the tokens from index 1 + s on.
Levels = Callable[[ChatAnswer], Iterator[Tensor]]


@dataclass(frozen=True, slots=True)
class ChatScores:
    """The scores of a drafter in one task.

    `greedy` has, for each level, the share of positions at which the guess is the target's most
    probable token. `tokens_per_round` is the mean number of tokens that a round with a chain of
    LEVELS tokens commits, including the target's own token. Both numbers are measured on answers at
    temperature 0. `sampled` has, for each level, the mean of sum(min(p, q)) at temperature SAMPLED,
    where p is restricted to the stored top tokens.
    """

    greedy: list[float]
    tokens_per_round: float
    sampled: list[float]


@torch.no_grad()
def chat_scores(
    levels: Levels, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, ChatScores]:
    """Return the scores of each task by its name, and of all tasks together under "all".

    A task is left out if it lacks answers at temperature 0 or at SAMPLED.
    """
    # For each task, one tensor [P, LEVELS] per answer: 1 where the guess is right.
    right: dict[str, list[Tensor]] = defaultdict(list)
    shared: dict[str, list[Tensor]] = defaultdict(list)
    for answer in _long(answers):
        found, measure = (right, _right) if answer.temperature == 0 else (shared, _shared)
        if answer.temperature in (0, SAMPLED):
            measured = measure(levels(answer), drafted, answer)
            found[answer.task].append(measured)
            found["all"].append(measured)
    scores = {}
    for task in right.keys() & shared.keys():
        named, overlap = torch.cat(right[task]), torch.cat(shared[task])
        committed = tokens_per_round(right[task])
        scores[task] = ChatScores(
            _rounded(named.mean(0)), round(committed, 3), _rounded(overlap.mean(0))
        )
    return dict(sorted(scores.items()))


def tokens_per_round(answers: Sequence[Tensor]) -> float:
    """Return the mean number of tokens per round if chains draft the answers from their start.

    Each item of `answers` [P, LEVELS] is 1 where the guess of a level is the answer's token. Each
    round begins after the token at which the round before it ended. So rounds begin more often at
    positions that are hard to guess. A mean over all positions would be too high.
    """
    rounds = tokens = 0
    for named in answers:
        accepted = named.cumprod(1).sum(1).long().tolist()
        place = 0
        while place < len(accepted):
            rounds, tokens = rounds + 1, tokens + accepted[place] + 1
            place += accepted[place] + 1
    return tokens / rounds


@torch.no_grad()
def choice_shares(
    levels: Levels, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, list[float]]:
    """Return how often the drafter's 1st, 2nd, … choice for the next token is right.

    The choices are the CHOICES most probable tokens of the drafter's first level. "greedy" has the
    shares of positions at which a choice is the target's token at temperature 0. "sampled" has the
    mean probability that the target at temperature WARMER gives to the choice.
    """
    greedy, sampled = [], []
    for answer in _long(answers):
        choices = drafted[next(levels(answer)).topk(CHOICES).indices]  # [P, CHOICES]
        ids = torch.from_numpy(answer.top_ids[1:].astype(np.int64))
        if answer.temperature == 0:
            greedy.append((choices == ids[:, :1]).double())
            continue
        probs = torch.from_numpy(answer.top_probs[1:].astype(np.float32)).pow(1 / WARMER)
        probs = probs / probs.sum(-1, keepdim=True)
        found = choices[..., None] == ids[:, None]  # [P, CHOICES, k]
        sampled.append((found * probs[:, None]).sum(-1).double())
    return {
        "greedy": _rounded(torch.cat(greedy).mean(0)),
        "sampled": _rounded(torch.cat(sampled).mean(0)),
    }


@torch.no_grad()
def level_shares(
    levels: Levels, drafted: Tensor, answers: Sequence[ChatAnswer], ranks: int
) -> list[list[float]]:
    """Return, for each level, how often its 1st, 2nd, … choice is the target's token.

    The choices are the drafter's `ranks` most probable tokens. Only answers at temperature 0 count.
    """
    found: dict[int, list[Tensor]] = defaultdict(list)
    for answer in _long(answers):
        if answer.temperature == 0:
            written = _written(answer)
            for level, logits in enumerate(levels(answer)):
                choices = drafted[logits.topk(ranks).indices]  # [P, ranks]
                found[level].append((choices == written[1 + level :, None]).double())
    return [_rounded(torch.cat(parts).mean(0)) for _, parts in sorted(found.items())]


def _long(answers: Sequence[ChatAnswer]) -> Iterator[ChatAnswer]:
    return (answer for answer in answers if len(answer.top_ids) >= SHORTEST)


def _written(answer: ChatAnswer) -> Tensor:
    """Return the tokens of the answer without its prompt."""
    return torch.from_numpy(answer.tokens.astype(np.int64))[-len(answer.top_ids) :]


def _right(levels: Iterator[Tensor], drafted: Tensor, answer: ChatAnswer) -> Tensor:
    """Return 1 for each guess that equals the answer's token, otherwise 0. -> [P, LEVELS]"""
    wanted, columns = _written(answer), []
    for level, logits in enumerate(levels):
        columns.append((drafted[logits.argmax(-1)] == wanted[1 + level :]).double())
    return _aligned(columns)


def _shared(levels: Iterator[Tensor], drafted: Tensor, answer: ChatAnswer) -> Tensor:
    """Return the expected acceptance of each guess at temperature SAMPLED, [P, LEVELS].

    The expected acceptance is sum(min(p, q)).
    """
    ids = torch.from_numpy(answer.top_ids.astype(np.int64))
    sharp = torch.from_numpy(answer.top_probs.astype(np.float32)).pow(1 / SAMPLED)
    sharp = sharp / sharp.sum(-1, keepdim=True)
    rows = torch.searchsorted(drafted, ids).clamp_max(len(drafted) - 1)
    is_drafted = drafted[rows] == ids
    columns = []
    for level, logits in enumerate(levels):
        draft = (logits / SAMPLED).softmax(-1).gather(-1, rows[1 + level :])
        draft = draft * is_drafted[1 + level :]
        columns.append(torch.minimum(draft, sharp[1 + level :]).sum(-1).double())
    return _aligned(columns)


def _aligned(columns: Sequence[Tensor]) -> Tensor:
    """Arrange the values of all levels as a table: row r has the chain that begins at position r.

    Element r of `columns[s]` is the value of level s in that chain. The later levels have fewer
    elements, so the result has only as many rows as the shortest column.
    """
    roots = min(len(column) for column in columns)
    return torch.stack([column[:roots] for column in columns], dim=1)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
