"""Text as tokens: the family's tokenizers, token files on disk, random windows of them.

Tokenizers are byte-level BPE, one for target and draft, another for the foreign draft. Round trips
are byte-exact: nothing is normalised, no space is put in front, no token is added. The two differ
in what they were trained on, where they cut text before merging, and in size, so that neither
vocabulary holds the other.
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
    """How a tokenizer is trained."""

    vocabulary: int
    words: str  # pattern of the pieces that merges stay within
    sample_chars: Mapping[str, int]  # of each task


# A digit stands alone; one space belongs to what follows it.
FAMILY = Recipe(
    VOCABULARY,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}" + _MARKS_AND_SPACE,
    dict.fromkeys(TASKS, 1_500_000),
)
# Up to three digits stand together, without a space; any one sign belongs to the word after it.
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
    """The special token that opens a document of the task: "code" -> "<|code|>"."""
    return f"<|{task}|>"


def train_tokenizer(
    corpus: Corpus, recipe: Recipe = FAMILY, seed: int = 0
) -> PreTrainedTokenizerFast:
    """A tokenizer of the recipe's size; `<|endoftext|>` is 0 and the tags follow."""
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
    """The tokenizer that `save_pretrained` wrote to `folder`."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def _sample(corpus: Corpus, recipe: Recipe, seed: int) -> Iterator[str]:
    for task in TASKS:
        documents = list(corpus.training[task])
        random.Random(f"{seed} sample {task}").shuffle(documents)
        taken = 0
        while documents and taken < recipe.sample_chars[task]:
            taken += len(documents[-1])
            yield documents.pop()


# ---- documents end to end as one long row of token ids per task; a window starts anywhere


END_ID = 0
TokenIds = NDArray[np.uint16]


def document_ids(
    tokenizer: PreTrainedTokenizerFast, task: str, texts: Sequence[str]
) -> list[list[int]]:
    """Each document's ids: tag, text, end."""
    encoded = tokenizer([f"{tag(task)}{text}{END}" for text in texts], add_special_tokens=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def write_token_file(path: Path, documents: Sequence[Sequence[int]]) -> None:
    """All documents end to end as uint16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.concatenate([np.asarray(ids, dtype=np.uint16) for ids in documents]).tofile(path)


class TokenMixture:
    """Token files of several tasks, read in given shares.

    Each task is read in passes over shuffled windows: nothing repeats before all was seen once.
    """

    def __init__(self, files: Mapping[str, Path], shares: Mapping[str, float], seed: int) -> None:
        self.tokens: dict[str, TokenIds] = {
            task: np.memmap(path, dtype=np.uint16, mode="r") for task, path in files.items()
        }
        total = sum(shares.values())
        self.shares = {task: shares[task] / total for task in files}
        self.chance = np.random.default_rng(seed)
        self.drawn = dict.fromkeys(files, 0)  # windows so far
        self.starts: dict[str, list[int]] = {task: [] for task in files}
        self.tokens_read = 0
        self.ends = {task: np.flatnonzero(tokens == END_ID) for task, tokens in self.tokens.items()}

    def batch(self, rows: int, length: int) -> Tensor:
        """token ids [rows, length + 1]; the task that lags its share most is next."""
        windows = [self._window(self._next_task(), length) for _ in range(rows)]
        self.chance.shuffle(windows)
        self.tokens_read += rows * length
        return torch.from_numpy(np.stack(windows).astype(np.int64))

    def beginnings(self, rows: int, length: int) -> Tensor:
        """token ids [rows, length]: the first tokens of random documents; tasks by their shares."""
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
        """All that decides the batches to come."""
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


# ---- a corpus folder's held-out documents, tokenizer and token files, made once per work folder


@dataclass(frozen=True, slots=True)
class Material:
    """What training takes from the corpus."""

    tokenizer: PreTrainedTokenizerFast
    token_files: dict[str, Path]
    held_out: dict[str, list[str]]  # HELD_OUT documents per task
    prompts: dict[str, list[str]]


def prepare(corpus_folder: Path, work: Path, library: Path | None = None) -> Material:
    """The material in `work`, made there first if it is missing."""
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
    """Readable, accents as they are."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
