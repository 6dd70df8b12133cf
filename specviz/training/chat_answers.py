"""What a chat model answered, with its features and probabilities, as files.

A file holds some answers one behind the other. Letters: N tokens of one answer and its message, W
width, L kept features, k top tokens, D draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One conversation: a message in the chat template, and what the target answered."""

    task: str
    temperature: float
    tokens: NDArray[np.uint16]  # [N]
    prompt_length: int
    features: NDArray[np.float16]  # [N - 1, L, W] after every token but the last
    top_ids: NDArray[np.uint16]  # [N - prompt_length, k] of the distribution of each answer token
    top_probs: NDArray[np.float16]


def answers_path(folder: Path, number: int) -> Path:
    """The file of that number."""
    return folder / f"part-{number:05d}.npz"


def write_answers(answers: Sequence[ChatAnswer], path: Path) -> None:
    """Write a file that is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    np.savez(
        partial,
        tasks=np.array([answer.task for answer in answers]),
        temperatures=np.array([answer.temperature for answer in answers]),
        lengths=np.array([len(answer.tokens) for answer in answers]),
        prompt_lengths=np.array([answer.prompt_length for answer in answers]),
        tokens=np.concatenate([answer.tokens for answer in answers]),
        features=np.concatenate([answer.features for answer in answers]),
        top_ids=np.concatenate([answer.top_ids for answer in answers]),
        top_probs=np.concatenate([answer.top_probs for answer in answers]),
    )
    partial.replace(path)


def read_answers(folder: Path, kept: Sequence[int] = (-1,)) -> Iterator[ChatAnswer]:
    """All answers of a folder, file by file, with those features of each (-1: the final one)."""
    for path in sorted(folder.glob("part-*.npz")):
        yield from _read_file(path, list(kept))


def _read_file(path: Path, kept: list[int]) -> Iterator[ChatAnswer]:
    with np.load(path) as held:
        parts = {name: held[name] for name in held.files}
    features = parts["features"][:, kept]
    token = state = judged = 0
    for row, length in enumerate(parts["lengths"].tolist()):
        prompt = int(parts["prompt_lengths"][row])
        written = length - prompt
        yield ChatAnswer(
            str(parts["tasks"][row]),
            float(parts["temperatures"][row]),
            parts["tokens"][token : token + length],
            prompt,
            features[state : state + length - 1],
            parts["top_ids"][judged : judged + written],
            parts["top_probs"][judged : judged + written],
        )
        token, state, judged = token + length, state + length - 1, judged + written


def draft_vocabulary(answers: Iterable[ChatAnswer], size: int, vocabulary: int) -> Tensor:
    """The `size` tokens that the target gives the highest mean probability. -> [D] int64, ascending

    Tokens that it never thought of fill up what is missing, in the order of the vocabulary, which
    for byte-pair encodings is that of their frequency.
    """
    mass = torch.zeros(vocabulary)
    for answer in answers:
        ids = torch.from_numpy(answer.top_ids.astype(np.int64)).flatten()
        mass.index_add_(0, ids, torch.from_numpy(answer.top_probs.astype(np.float32)).flatten())
    return mass.sort(descending=True, stable=True).indices[:size].sort().values
