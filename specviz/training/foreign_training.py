"""Train and measure a draft with a tokenizer of its own.

The target's token ids have no meaning for this draft. It therefore learns from the target's text
instead of its distributions (sequence-level distillation: Kim & Rush, arXiv 1606.07947).
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

WRITTEN = "written"  # name of the token file with the text that the target wrote
WRITTEN_SHARE = 0.5
ROWS, LENGTH = 8, 256  # each training step reads ROWS windows of text with LENGTH tokens


def foreign_config() -> LlamaConfig:
    """Return the shape of the foreign draft. Its vocabulary is smaller than that of the target."""
    return llama_config(layers=2, width=192, inner=512, vocabulary=FOREIGN_VOCABULARY)


def prepare_foreign(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, written: TokenIds, folder: Path
) -> None:
    """Train the foreign tokenizer and write its token files into `folder`.

    `written` is text that the target wrote, as ids of the target's `tokenizer`: one text per row.
    """
    foreign = train_tokenizer(corpus, FOREIGN)
    for task in TASKS:
        documents = document_ids(foreign, task, corpus.training[task])
        write_token_file(folder / f"{task}.bin", documents)
    documents = foreign(translatable(tokenizer, written))["input_ids"]
    write_token_file(folder / f"{WRITTEN}.bin", documents)
    foreign.save_pretrained(folder / "tokenizer")


def translatable(tokenizer: PreTrainedTokenizerFast, written: TokenIds) -> list[str]:
    """Decode each row of token ids to text; the special tokens of documents become text as well.

    If the last character of a row is incomplete, it is removed.
    """
    return [text.rstrip("\ufffd") for text in tokenizer.batch_decode(written)]


def foreign_mixture(folder: Path, seed: int) -> TokenMixture:
    """Open the token files that `prepare_foreign` wrote.

    Half of the windows are from the corpus, and the target wrote the other half.
    """
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
    """Train the foreign draft for `seconds`, or continue its training from a checkpoint."""
    torch.manual_seed(4)
    network = Network(config).to(device)
    loop = TrainingLoop(network, mixture, checkpoint, seconds, Rates())
    loss = torch.compile(next_token_loss, dynamic=False) if compiled else next_token_loss

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, mixture.batch(ROWS, LENGTH).to(device))

    return network, loop.run(losses)


def next_token_loss(network: Network, batch: Tensor) -> Tensor:
    """Return the mean loss of the next token in nats; `batch` has one window of text per row."""
    *_, last = network.states(batch[:, :-1])
    return cross_entropy(network, last, batch[:, 1:])


# The evaluation below compares the foreign draft with the target and its draft, and counts the
# tokens that the two vocabularies share.
#
# A token is shared if both vocabularies contain a token for the same bytes. Losses are per byte,
# because losses per token of different tokenizers are not comparable. In shapes, T is the number of
# tokens of a text, V the size of the vocabulary, M the number of shared tokens, and N the number of
# positions, before the end of the text, at which a token of both tokenizers ends.


CHARS = 1200  # number of characters of each document that the evaluation uses


@dataclass(frozen=True, slots=True)
class Reader:
    """A model with its tokenizer, which reads the texts of the evaluation."""

    network: Network
    tokenizer: PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Reading:
    """The tokens of one text for one reader, with the predictions of the reader's model.

    `ends` has the position in the text, in characters, at which each token ends.
    `log_distributions` has the model's log probabilities after each token except the last. `loss`
    is the sum of the losses of all tokens except the first, in nats.
    """

    ends: list[int]
    log_distributions: Tensor  # [T - 1, V]
    loss: float


@dataclass(frozen=True, slots=True)
class ForeignScores:
    """The scores of one task; losses are in nats per byte, the other scores are means from 0 to 1.

    target_mass, foreign_mass: the probability that each distribution gives to shared tokens, at
    positions where a token ends in both texts. overlap: the sum of min(p, q) at these positions,
    where p is the target's distribution, and q that of the foreign draft, restricted to shared
    tokens and renormalised. common_ends: the share of the target's tokens that end where a foreign
    token ends.
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
    """The scores of each task, the number of shared tokens, and the sizes of both vocabularies."""

    scores: dict[str, ForeignScores]
    meeting: int
    target_vocabulary: int
    foreign_vocabulary: int

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a value that JSON can represent."""
        return asdict(self)


def meeting(one: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast) -> Tensor:
    """Return the ids of the shared tokens in both vocabularies, [2, M].

    Two byte-level tokens represent the same bytes exactly if they are spelt alike.
    """
    first, second = one.get_vocab(), other.get_vocab()
    pairs = sorted((first[token], second[token]) for token in first.keys() & second.keys())
    return torch.tensor(pairs).T


def evaluate_foreign(
    target: Reader, draft: Reader, foreign: Reader, held_out: Mapping[str, Sequence[str]]
) -> ForeignEvaluation:
    """Measure target, draft and foreign draft on the held-out documents of each task."""
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
    """Run a reader's model on a text with the tag of its task."""
    encoded = reader.tokenizer(tag(task) + text, return_offsets_mapping=True)
    ids = torch.tensor([encoded["input_ids"]])
    log_distributions = reader.network(ids[:, :-1])[0].float().log_softmax(-1)
    loss = -log_distributions.gather(1, ids[0, 1:, None]).sum().item()
    return Reading([end for _, end in encoded["offset_mapping"]], log_distributions, loss)


def _compared(ours: Reading, theirs: Reading, shared: Tensor) -> Tensor:
    """Return target_mass, foreign_mass and overlap at each of the N positions, [N, 3]."""
    places = {end: index for index, end in enumerate(theirs.ends[:-1])}
    rows = [(index, places[end]) for index, end in enumerate(ours.ends[:-1]) if end in places]
    mine, other = torch.tensor(rows).T
    p = ours.log_distributions[mine][:, shared[0]].exp()  # [N, M]
    q = theirs.log_distributions[other][:, shared[1]].exp()
    mass = q.sum(1, keepdim=True)
    overlap = torch.minimum(p, q / mass).sum(1)
    return torch.stack((p.sum(1), mass[:, 0], overlap), dim=1)
