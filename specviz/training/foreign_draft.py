"""Trains a draft with a tokenizer of its own, on the corpus and on what the target wrote.

The target's tokens say nothing to it, so it learns from the target's text instead of its
distributions (sequence-level distillation: Kim & Rush, arXiv 1606.07947). Knows nothing of how
that text was made.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus
from specviz.training.loop import Progress, Rates, TrainingLoop
from specviz.training.network import Network
from specviz.training.pretraining import SHARES, cross_entropy, llama_config
from specviz.training.token_file import TokenIds, TokenMixture, document_ids, write_token_file
from specviz.training.tokenizer import FOREIGN, FOREIGN_VOCABULARY, train_tokenizer

WRITTEN = "written"  # beside the tasks: what the target wrote
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
    """Each row as text with its tags and ends, without a character that the row's end cuts."""
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
