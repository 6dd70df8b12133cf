"""Trains and measures a draft with a tokenizer of its own.

The target's tokens mean nothing to it, so it learns from the target's text instead of its
distributions (sequence-level distillation: Kim & Rush, arXiv 1606.07947).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus
from specviz.training.network import Network
from specviz.training.pretraining import (
    SHARES,
    Progress,
    Rates,
    TrainingLoop,
    cross_entropy,
    llama_config,
)
from specviz.training.token_files import (
    FOREIGN,
    FOREIGN_VOCABULARY,
    TokenIds,
    TokenMixture,
    document_ids,
    tag,
    train_tokenizer,
    write_token_file,
)

WRITTEN = "written"  # one more token file: what the target wrote
WRITTEN_SHARE = 0.5
ROWS, LENGTH = 8, 256  # windows a step


def foreign_config() -> LlamaConfig:
    """The draft's shape over a smaller vocabulary."""
    return llama_config(layers=2, width=192, inner=512, vocabulary=FOREIGN_VOCABULARY)


def prepare_foreign(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, written: TokenIds, folder: Path
) -> None:
    """The foreign tokenizer and token files in `folder`; written [N, T] is in `tokenizer`'s ids."""
    foreign = train_tokenizer(corpus, FOREIGN)
    for task in TASKS:
        documents = document_ids(foreign, task, corpus.training[task])
        write_token_file(folder / f"{task}.bin", documents)
    documents = foreign(translatable(tokenizer, written))["input_ids"]
    write_token_file(folder / f"{WRITTEN}.bin", documents)
    foreign.save_pretrained(folder / "tokenizer")


def translatable(tokenizer: PreTrainedTokenizerFast, written: TokenIds) -> list[str]:
    """Each row as text with its tags and ends, without a character cut off at its end."""
    return [text.rstrip("\ufffd") for text in tokenizer.batch_decode(written)]


def foreign_mixture(folder: Path, seed: int) -> TokenMixture:
    """The token files that `prepare_foreign` left: half corpus, half written by the target."""
    shares = {task: (1 - WRITTEN_SHARE) * share for task, share in SHARES.items()}
    files = {name: folder / f"{name}.bin" for name in (*TASKS, WRITTEN)}
    return TokenMixture(files, {**shares, WRITTEN: WRITTEN_SHARE}, seed)


def train_foreign(
    config: LlamaConfig,
    mixture: TokenMixture,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[Network, Progress]:
    """A draft trained for `seconds` (resumed if begun)."""
    torch.manual_seed(4)
    network = Network(config).to(device)
    loop = TrainingLoop(network, mixture, checkpoint, seconds, Rates())
    loss = torch.compile(next_token_loss, dynamic=False) if compiled else next_token_loss

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, mixture.batch(ROWS, LENGTH).to(device))

    return network, loop.run(losses)


def next_token_loss(network: Network, batch: Tensor) -> Tensor:
    """Mean nats per token; batch [B, T + 1]."""
    *_, last = network.states(batch[:, :-1])
    return cross_entropy(network, last, batch[:, 1:])


# ---- how it compares with target and draft, and how far the two vocabularies meet
#
# Tokens meet if they stand for the same bytes. Losses are per byte: tokens of different tokenizers
# do not compare. Letters: T tokens, M tokens that meet, N positions where both texts have a token's
# end.


CHARS = 1200  # of a document


@dataclass(frozen=True, slots=True)
class Reader:
    """A model and the tokenizer that it reads with."""

    network: Network
    tokenizer: PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Reading:
    """One text as a reader's model and tokenizer see it."""

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
