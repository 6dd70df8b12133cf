"""Tokenizers of the bundled models, token files on disk, and random windows of those files.

The tokenizers are byte-level BPE. One is for target and draft. The other is for the foreign draft,
which has a tokenizer of its own.
Encoding and decoding restores every byte: nothing is normalised, and no space or token is added.
The two tokenizers differ in their training text, in how they cut text before merging, and in size.
Neither vocabulary contains the other.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import HELD_OUT, TASKS, Corpus, prompts, read_corpus, standard_library

VOCABULARY, FOREIGN_VOCABULARY = 4096, 3072
END = "<|endoftext|>"
_MARKS_AND_SPACE = r"| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings with which a tokenizer is trained."""

    vocabulary: int
    words: str  # pattern of the pieces into which a text is divided; a token is never in two pieces
    sample_chars: Mapping[str, int]  # number of characters of training text for each task


# The recipe for the tokenizer of target and draft. Its pattern makes every digit a piece of its
# own. A space before a word or a digit belongs to the same piece.
FAMILY = Recipe(
    VOCABULARY,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}" + _MARKS_AND_SPACE,
    dict.fromkeys(TASKS, 1_500_000),
)
# The recipe for the tokenizer of the foreign draft. Its pattern makes a piece of up to three
# digits, and a space before them does not belong to it. A space or another sign before a word
# belongs to the same piece as the word.
FOREIGN = Recipe(
    FOREIGN_VOCABULARY,
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _MARKS_AND_SPACE,
    {
        "code": 400_000,
        "story": 3_000_000,
        "maths": 800_000,
        "translate": 1_500_000,
        "summarise": 200_000,
    },
)


def tag(task: str) -> str:
    """Return the special token that begins a document of a task: "code" -> "<|code|>"."""
    return f"<|{task}|>"


def train_tokenizer(
    corpus: Corpus, recipe: Recipe = FAMILY, seed: int = 0
) -> PreTrainedTokenizerFast:
    """Train a tokenizer of the size in the recipe.

    `<|endoftext|>` has id 0, and the tags of the tasks have the next ids.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(recipe.words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=[END, *map(tag, TASKS)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_sample(corpus, recipe, seed), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=list(map(tag, TASKS)),
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def open_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Open a tokenizer that `save_pretrained` wrote."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def _sample(corpus: Corpus, recipe: Recipe, seed: int) -> Iterator[str]:
    for task in TASKS:
        documents = list(corpus.training[task])
        random.Random(f"{seed} sample {task}").shuffle(documents)
        taken = 0
        while documents and taken < recipe.sample_chars[task]:
            taken += len(documents[-1])
            yield documents.pop()


# A token file contains all documents of a task, one after another. Training reads windows of the
# file, which can start at any token.


END_ID = 0
TokenIds = NDArray[np.uint16]


def document_ids(
    tokenizer: PreTrainedTokenizerFast, task: str, texts: Sequence[str]
) -> list[list[int]]:
    """Return the token ids of each document: the task's tag, the text, and `<|endoftext|>`."""
    encoded = tokenizer([f"{tag(task)}{text}{END}" for text in texts], add_special_tokens=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def write_token_file(path: Path, documents: Sequence[Sequence[int]]) -> None:
    """Write a token file: the tokens of all documents, one document after another, as uint16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.concatenate([np.asarray(ids, dtype=np.uint16) for ids in documents]).tofile(path)


class TokenMixture:
    """The token files of several tasks, from which a given share of windows is read for each task.

    Each task is read in passes over shuffled windows, so no window is repeated before all windows
    were read once.
    """

    def __init__(self, files: Mapping[str, Path], shares: Mapping[str, float], seed: int) -> None:
        self.tokens: dict[str, TokenIds] = {
            task: np.memmap(path, dtype=np.uint16, mode="r") for task, path in files.items()
        }
        total = sum(shares.values())
        self.shares = {task: shares[task] / total for task in files}
        self.chance = np.random.default_rng(seed)
        self.drawn = dict.fromkeys(files, 0)  # task -> number of windows that were read so far
        self.starts: dict[str, list[int]] = {task: [] for task in files}
        self.tokens_read = 0
        self.ends = {task: np.flatnonzero(tokens == END_ID) for task, tokens in self.tokens.items()}

    def batch(self, rows: int, length: int) -> Tensor:
        """Return token ids [rows, length + 1].

        The next window comes from the task that is furthest below its share.
        """
        windows = [self._window(self._next_task(), length) for _ in range(rows)]
        self.chance.shuffle(windows)
        self.tokens_read += rows * length
        return torch.from_numpy(np.stack(windows).astype(np.int64))

    def beginnings(self, rows: int, length: int) -> Tensor:
        """Return the first tokens of random documents, [rows, length].

        The tasks of the documents are drawn by their shares.
        """
        tasks = self.chance.choice(list(self.shares), size=rows, p=list(self.shares.values()))
        picked = [self._beginning(str(task), length) for task in tasks]
        return torch.from_numpy(np.stack(picked).astype(np.int64))

    def _beginning(self, task: str, length: int) -> TokenIds:
        tokens = self.tokens[task]
        start = int(self.chance.choice(self.ends[task]) + 1) % len(tokens)
        return np.resize(tokens[start : start + length], length)

    def _next_task(self) -> str:
        task = min(self.drawn, key=lambda name: (self.drawn[name] + 1) / self.shares[name])
        self.drawn[task] += 1
        return task

    def _window(self, task: str, length: int) -> TokenIds:
        tokens = self.tokens[task]
        waiting = self.starts[task]
        if not waiting:
            offset = int(self.chance.integers(length))
            waiting.extend(range(offset, max(offset + 1, len(tokens) - length - 1), length))
            self.chance.shuffle(waiting)
        start = min(waiting.pop(), max(0, len(tokens) - length - 1))
        return np.resize(tokens[start : start + length + 1], length + 1)

    def state_dict(self) -> dict[str, object]:
        """Return the state of the mixture, which determines the next batches."""
        return {
            "chance": self.chance.bit_generator.state,
            "drawn": dict(self.drawn),
            "starts": {task: list(starts) for task, starts in self.starts.items()},
            "tokens_read": self.tokens_read,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        chance, drawn, starts = state["chance"], state["drawn"], state["starts"]
        assert isinstance(chance, dict) and isinstance(drawn, dict) and isinstance(starts, dict)
        self.chance.bit_generator.state = chance
        self.drawn = dict(drawn)
        self.starts = {task: list(waiting) for task, waiting in starts.items()}
        self.tokens_read = int(str(state["tokens_read"]))


@dataclass(frozen=True, slots=True)
class Material:
    """The prepared parts of the corpus that training uses."""

    tokenizer: PreTrainedTokenizerFast
    token_files: dict[str, Path]
    held_out: dict[str, list[str]]  # task -> its HELD_OUT documents, on which no model is trained
    prompts: dict[str, list[str]]


def prepare(corpus_folder: Path, work: Path, library: Path | None = None) -> Material:
    """Return the training material in the folder `work`; if it is missing, make it first."""
    if not (work / "held_out.json").exists():
        _make(corpus_folder, work, library or standard_library())
    return Material(
        tokenizer=open_tokenizer(work / "tokenizer"),
        token_files={task: work / "tokens" / f"{task}.bin" for task in TASKS},
        held_out=json.loads((work / "held_out.json").read_text("utf-8")),
        prompts=json.loads((work / "prompts.json").read_text("utf-8")),
    )


def _make(corpus_folder: Path, work: Path, library: Path) -> None:
    corpus = read_corpus(corpus_folder, library)
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(corpus)
    tokenizer.save_pretrained(work / "tokenizer")
    for task in TASKS:
        write_token_file(
            work / "tokens" / f"{task}.bin", document_ids(tokenizer, task, corpus.training[task])
        )
    write_json(
        work / "prompts.json", {task: prompts(task, corpus.held_out[task]) for task in TASKS}
    )
    write_json(work / "held_out.json", {task: corpus.held_out[task][:HELD_OUT] for task in TASKS})


def write_json(path: Path, value: object) -> None:
    """Write readable JSON with unescaped accents."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
