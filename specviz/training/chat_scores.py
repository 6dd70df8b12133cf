"""How much of a drafter's guesses a chat model accepts, on answers that nothing was trained on.

Letters: P places of an answer, D draft vocabulary, k top tokens.
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

LEVELS = 4  # of a chain
SAMPLED = 0.7
WARMER = 0.8
CHOICES = 8

# per level the logits [P - level, D] of an answer's tokens from 1 + level on: the first token is
# the target's own
Levels = Callable[[ChatAnswer], Iterator[Tensor]]


@dataclass(frozen=True, slots=True)
class ChatScores:
    """Of one task. Levels are those of a chain, behind the target's own tokens.

    greedy: share of places where the level names the target's likeliest token; tokens_per_round:
    what a chain of LEVELS commits, the target's own token among them, both at temperature 0.
    sampled: mean of sum(min(p, q)) at temperature SAMPLED (p of the kept top tokens).
    """

    greedy: list[float]
    tokens_per_round: float
    sampled: list[float]


@torch.no_grad()
def chat_scores(
    levels: Levels, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, ChatScores]:
    """Scores per task that has answers at temperature 0 and at SAMPLED, and of "all" together."""
    right: dict[str, list[Tensor]] = defaultdict(list)  # each [P, LEVELS]
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
        committed = 1 + named.cumprod(1).sum(1).mean().item()
        scores[task] = ChatScores(
            _rounded(named.mean(0)), round(committed, 3), _rounded(overlap.mean(0))
        )
    return dict(sorted(scores.items()))


@torch.no_grad()
def choice_shares(
    levels: Levels, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, list[float]]:
    """How often the k-th choice of the first level is the target's next token, up to CHOICES.

    "greedy" at temperature 0 (of both), "sampled" at temperature WARMER, of a target that is drawn
    from: there it is the mean probability of the choice.
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
    """Per level, how often its 1st, 2nd, … choice is the target's token, at temperature 0."""
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
    """The tokens of the answer itself."""
    return torch.from_numpy(answer.tokens.astype(np.int64))[-len(answer.top_ids) :]


def _right(levels: Iterator[Tensor], drafted: Tensor, answer: ChatAnswer) -> Tensor:
    """[P, LEVELS]: 1 where a level names the token that the answer has."""
    wanted, columns = _written(answer), []
    for level, logits in enumerate(levels):
        columns.append((drafted[logits.argmax(-1)] == wanted[1 + level :]).double())
    return _aligned(columns)


def _shared(levels: Iterator[Tensor], drafted: Tensor, answer: ChatAnswer) -> Tensor:
    """[P, LEVELS]: sum(min(p, q)) at temperature SAMPLED."""
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
    """Levels of the same root in one row: level s of root r stands at place r + s of the answer."""
    roots = min(len(column) for column in columns)
    return torch.stack([column[:roots] for column in columns], dim=1)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
