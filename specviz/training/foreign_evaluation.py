"""How the foreign draft does beside target and draft, and how far the two vocabularies meet.

Tokens meet if they stand for the same bytes. Losses are per byte: tokens of different tokenizers do
not compare. Knows nothing of training.

Letters: T tokens, M tokens that meet, N positions where both texts have a token's end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.training.network import Network
from specviz.training.tokenizer import tag

CHARS = 1200  # of a document


@dataclass(frozen=True, slots=True)
class Reader:
    """A model and the tokenizer that it reads with."""

    network: Network
    tokenizer: PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Reading:
    """One text through a reader's eyes."""

    ends: list[int]  # per token, in characters
    log_distributions: Tensor  # after each token but the last, [T - 1, V]
    loss: float  # nats, of all but the first token


@dataclass(frozen=True, slots=True)
class ForeignScores:
    """Of one task. Losses in nats per byte; the others are means over positions, 0 to 1.

    target_mass, foreign_mass: what each distribution gives to the tokens that meet, where both
    have a token's end. overlap: sum of min(p, q) there, q restricted to the meeting and
    renormalised. common_ends: the share of the target's tokens whose end is one of the foreign
    tokens' ends.
    """

    target_loss: float
    draft_loss: float
    foreign_loss: float
    target_mass: float
    foreign_mass: float
    overlap: float
    common_ends: float


@dataclass(frozen=True, slots=True)
class ForeignEvaluation:
    """Scores per task; how many tokens meet, of how many in either vocabulary."""

    scores: dict[str, ForeignScores]
    meeting: int
    target_vocabulary: int
    foreign_vocabulary: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def meeting(one: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast) -> Tensor:
    """Ids of the tokens that meet, [2, M]: in `one`, in `other`.

    Byte-level tokens are spelled alike exactly if their bytes are the same.
    """
    first, second = one.get_vocab(), other.get_vocab()
    pairs = sorted((first[token], second[token]) for token in first.keys() & second.keys())
    return torch.tensor(pairs).T


def evaluate_foreign(
    target: Reader, draft: Reader, foreign: Reader, held_out: Mapping[str, Sequence[str]]
) -> ForeignEvaluation:
    """All scores."""
    shared = meeting(target.tokenizer, foreign.tokenizer)
    return ForeignEvaluation(
        {task: _scores(target, draft, foreign, task, held_out[task], shared) for task in held_out},
        shared.shape[1],
        len(target.tokenizer),
        len(foreign.tokenizer),
    )


def _scores(
    target: Reader,
    draft: Reader,
    foreign: Reader,
    task: str,
    texts: Sequence[str],
    shared: Tensor,
) -> ForeignScores:
    losses, distributions = torch.zeros(3), torch.zeros(3)
    size = tokens = common = 0
    for text in (text[:CHARS] for text in texts):
        ours, theirs = read(target, task, text), read(foreign, task, text)
        losses += torch.tensor([ours.loss, read(draft, task, text).loss, theirs.loss])
        size += len(text.encode())
        found = _compared(ours, theirs, shared)
        distributions += found.sum(0)
        common += len(found)
        tokens += len(ours.log_distributions)
    per_byte, means = (losses / size).tolist(), (distributions / common).tolist()
    values = (round(value, 4) for value in (*per_byte, *means, common / tokens))
    return ForeignScores(*values)


@torch.no_grad()
def read(reader: Reader, task: str, text: str) -> Reading:
    """Tag and text."""
    encoded = reader.tokenizer(tag(task) + text, return_offsets_mapping=True)
    ids = torch.tensor([encoded["input_ids"]])
    log_distributions = reader.network(ids[:, :-1])[0].float().log_softmax(-1)
    loss = -log_distributions.gather(1, ids[0, 1:, None]).sum().item()
    return Reading([end for _, end in encoded["offset_mapping"]], log_distributions, loss)


def _compared(ours: Reading, theirs: Reading, shared: Tensor) -> Tensor:
    """[N, 3]: target mass, foreign mass and overlap at every common end but the last."""
    places = {end: index for index, end in enumerate(theirs.ends[:-1])}
    rows = [(index, places[end]) for index, end in enumerate(ours.ends[:-1]) if end in places]
    mine, other = torch.tensor(rows).T
    p = ours.log_distributions[mine][:, shared[0]].exp()  # [N, M]
    q = theirs.log_distributions[other][:, shared[1]].exp()
    mass = q.sum(1, keepdim=True)
    overlap = torch.minimum(p, q / mass).sum(1)
    return torch.stack((p.sum(1), mass[:, 0], overlap), dim=1)
