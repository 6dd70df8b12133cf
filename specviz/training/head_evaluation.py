"""How often a head foretells what the target goes on with, per level and task.

A root is a position whose next token the target itself gives; level s (from 0) foretells the token
s + 1 places after that one. Measured on held-out documents (read) and on what the target writes
after their beginnings at temperature 0 (written). Knows nothing of training.

Letters: B rows, T positions, R roots, L levels, W width, V vocabulary.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.training.eagle import EagleNetwork
from specviz.training.feature_cache import features
from specviz.training.generation import sample
from specviz.training.medusa import MedusaNetwork
from specviz.training.network import Network
from specviz.training.token_file import END_ID, document_ids

LONGEST = 256
PREFIX, CONTINUATION = 64, 96  # tokens
RANKS = 10
LEVELS = 5  # of an EAGLE tree
# tokens [B, T], features [B, T, W] -> per level logits [B, R, V] of roots 0 ... R - 1
Foretell = Callable[[Tensor, Tensor], Iterator[Tensor]]


@dataclass(frozen=True, slots=True)
class HeldOutText:
    """Per task: held-out documents, each [1, T], and what the target wrote, [B, T]."""

    read: dict[str, list[Tensor]]
    written: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class HeadScores:
    """Of one task, per level: share of roots where the target's likeliest token is foretold.

    accepted: on written text, the mean number of levels that are right in a row.
    """

    read: list[float]
    written: list[float]
    accepted: float


@dataclass(frozen=True, slots=True)
class HeadEvaluation:
    """Scores per task; over all that was written, per level the shares of choices 1 ... RANKS."""

    scores: dict[str, HeadScores]
    accuracies: list[list[float]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def eagle_levels(network: EagleNetwork, table: Tensor, levels: int = LEVELS) -> Foretell:
    """The head on its own features, along the text."""

    def foretell(tokens: Tensor, given: Tensor) -> Iterator[Tensor]:
        embedded = F.embedding(tokens[:, 1:], table)
        roots = tokens.shape[1] - levels - 1
        for level, guess in enumerate(network(embedded, given[:, :-1], levels)):
            yield F.linear(guess[:, level : level + roots].float(), table)

    return foretell


def medusa_levels(network: MedusaNetwork) -> Foretell:
    """All heads."""

    def foretell(tokens: Tensor, given: Tensor) -> Iterator[Tensor]:
        roots = tokens.shape[1] - len(network.heads) - 1
        for logits in network(given):
            yield logits[:, :roots].float()

    return foretell


def held_out_text(
    target: Network,
    tokenizer: PreTrainedTokenizerFast,
    held_out: Mapping[str, Sequence[str]],
    kept: Path,
) -> HeldOutText:
    """At most LONGEST tokens of each document; CONTINUATION tokens after the first PREFIX.

    (A document that is shorter than that begins anew.)
    What the target writes is kept in the JSON file `kept`, and read from there if it is there.
    """
    documents = {task: document_ids(tokenizer, task, texts) for task, texts in held_out.items()}
    if not kept.exists():
        written = {task: _continued(target, ids).tolist() for task, ids in documents.items()}
        kept.write_text(json.dumps(written), encoding="utf-8")
    return HeldOutText(
        {task: [torch.tensor([row[:LONGEST]]) for row in ids] for task, ids in documents.items()},
        {task: torch.tensor(ids) for task, ids in json.loads(kept.read_text("utf-8")).items()},
    )


def _continued(target: Network, documents: Sequence[Sequence[int]]) -> Tensor:
    prefix = torch.tensor(np.stack([np.resize(ids[:PREFIX], PREFIX) for ids in documents]))
    return sample(target, prefix, PREFIX + CONTINUATION, torch.zeros(len(prefix)))


def evaluate_head(target: Network, foretell: Foretell, texts: HeldOutText) -> HeadEvaluation:
    """Scores of one head on all texts."""
    everything: list[Tensor] = []
    scores = {}
    for task in texts.read:
        read = [ranks(target, foretell, tokens).flatten(0, 1) for tokens in texts.read[task]]
        written = _written_ranks(target, foretell, texts.written[task])
        everything.append(written)
        scores[task] = _scores(torch.cat(read), written)
    together = torch.cat(everything)
    shares = [(together == rank).double().mean(0) for rank in range(RANKS)]
    return HeadEvaluation(scores, [_rounded(level) for level in torch.stack(shares, dim=1)])


@torch.no_grad()
def ranks(target: Network, foretell: Foretell, tokens: Tensor) -> Tensor:
    """tokens [B, T] -> [B, R, L]: how many tokens each level finds likelier than the target's."""
    given = features(target, tokens)
    choices = F.linear(given, target.model.embed_tokens.weight).argmax(-1)  # [B, T]
    columns = []
    for level, logits in enumerate(foretell(tokens, given)):
        wanted = choices[:, level + 1 : level + 1 + logits.shape[1], None]
        columns.append((logits > logits.gather(2, wanted)).sum(-1))
    return torch.stack(columns, dim=2)


def _written_ranks(target: Network, foretell: Foretell, tokens: Tensor) -> Tensor:
    """[N, L] of the roots from the last token of the beginning to the document's end."""
    found = ranks(target, foretell, tokens)
    roots, levels = found.shape[1:]
    ended = (tokens[:, PREFIX:] == END_ID).cumsum(1)  # [B, CONTINUATION]
    last = torch.arange(PREFIX - 1, roots) + levels + 1 - PREFIX  # the last token foretold
    return found[:, PREFIX - 1 :][ended[:, last] == 0]


def _scores(read: Tensor, written: Tensor) -> HeadScores:
    """Both [N, L]."""
    right = (written == 0).double()
    return HeadScores(
        read=_rounded((read == 0).double().mean(0)),
        written=_rounded(right.mean(0)),
        accepted=round(right.cumprod(1).sum(1).mean().item(), 4),
    )


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
