"""The answers of a chat model as files, and the features and probabilities of their tokens.

A file of conversations contains only tokens, not features, which need far more memory. Such files
are small, so those of many training runs can be kept together. Drafters learn from the target's
features and probabilities. The target computes these in a second forward over each conversation.
The folder `judged` caches them, and users may delete it at any time. A feature is the target's
hidden state after the final norm.

In shapes, N is the number of tokens of a prompt and its answer, W the hidden size, k the number of
most probable tokens that are stored, V the size of the vocabulary, and D that of the draft
vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.training.answering_model import AnsweringModel

TOP = 32
READ_TOKENS = 4096  # largest number of tokens, with padding, in one forward over conversations


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """One answer of the target, with its prompt.

    The prompt is in the chat template. It is one message of the user, or several turns that end
    with a message of the user.
    """

    task: str
    temperature: float
    tokens: NDArray[np.uint16]  # [N]
    prompt_length: int

    @property
    def answer_length(self) -> int:
        """The number of tokens of the answer; the prompt does not count."""
        return len(self.tokens) - self.prompt_length


@dataclass(frozen=True, slots=True)
class ChatAnswer(SampledAnswer):
    """An answer with the target's features and probabilities.

    `features` has the feature after every token of prompt and answer, except the last token. For
    every token of the answer, `top_ids` has the k most probable tokens at its position, in order
    of decreasing probability. `top_probs` has their probabilities at temperature 1.
    """

    features: NDArray[np.float16]  # [N - 1, W]
    top_ids: NDArray[np.uint16]  # [N - prompt_length, k]
    top_probs: NDArray[np.float16]  # [N - prompt_length, k]


def write_sampled(conversations: Sequence[SampledAnswer], path: Path) -> None:
    """Write the conversations to a file; an interrupted call leaves no file with this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    np.savez_compressed(
        partial,
        tasks=np.array([each.task for each in conversations]),
        temperatures=np.array([each.temperature for each in conversations]),
        lengths=np.array([len(each.tokens) for each in conversations]),
        prompt_lengths=np.array([each.prompt_length for each in conversations]),
        tokens=np.concatenate([each.tokens for each in conversations]),
    )
    partial.replace(path)


def read_sampled(path: Path) -> list[SampledAnswer]:
    """Read the conversations from a file that `write_sampled` wrote."""
    with np.load(path) as held:
        parts: dict[str, NDArray[Any]] = {name: held[name] for name in held.files}
    ends = parts["lengths"].cumsum()
    return [
        SampledAnswer(str(task), float(temperature), tokens, int(prompt))
        for task, temperature, tokens, prompt in zip(
            parts["tasks"],
            parts["temperatures"],
            np.split(parts["tokens"], ends[:-1]),
            parts["prompt_lengths"],
            strict=True,
        )
    ]


def read_answers(model: AnsweringModel, folder: Path) -> list[ChatAnswer]:
    """Return all answers in a folder; equal conversations are returned once.

    The model computes the features and probabilities that are not yet in the folder `judged`. All
    of them are memory-mapped, so they need not fit into memory.
    """
    answers: dict[bytes, ChatAnswer] = {}
    for path in sorted(folder.glob("answers-*.npz")):
        for answer in _judged_file(model, path):
            answers.setdefault(answer.tokens.tobytes(), answer)
    return list(answers.values())


def _judged_file(model: AnsweringModel, path: Path) -> Iterator[ChatAnswer]:
    conversations = read_sampled(path)
    folder = path.parent / "judged" / path.stem
    if not folder.exists():
        partial = folder.with_name(f"partial-{folder.name}")
        partial.mkdir(parents=True, exist_ok=True)
        judged = judge(model, conversations)
        for name in ("features", "top_ids", "top_probs"):
            np.save(partial / f"{name}.npy", np.concatenate([getattr(a, name) for a in judged]))
        partial.replace(folder)
        print(f"judged: {path.stem}", file=sys.stderr, flush=True)
    features, top_ids, top_probs = (
        np.load(folder / f"{name}.npy", mmap_mode="r")
        for name in ("features", "top_ids", "top_probs")
    )
    state = token = 0
    for each in conversations:
        states, written = state + len(each.tokens) - 1, token + each.answer_length
        yield ChatAnswer(
            each.task,
            each.temperature,
            each.tokens,
            each.prompt_length,
            features[state:states],
            top_ids[token:written],
            top_probs[token:written],
        )
        state, token = states, written


def judge(model: AnsweringModel, conversations: Sequence[SampledAnswer]) -> list[ChatAnswer]:
    """Return the conversations together with the features and probabilities of the model.

    One forward of the model processes several conversations of similar length.
    """
    answers: dict[int, ChatAnswer] = {}
    order = sorted(range(len(conversations)), key=lambda index: len(conversations[index].tokens))
    while order:
        longest = len(conversations[order[-1]].tokens)
        count = max(1, READ_TOKENS // longest)
        picked, order = order[-count:], order[:-count]
        answers |= zip(picked, _read(model, [conversations[i] for i in picked]), strict=True)
    return [answers[index] for index in range(len(conversations))]


@torch.inference_mode()
def _read(model: AnsweringModel, conversations: Sequence[SampledAnswer]) -> Iterator[ChatAnswer]:
    longest = max(len(each.tokens) for each in conversations)
    tokens = torch.zeros(len(conversations), longest - 1, dtype=torch.int64)
    for row, each in enumerate(conversations):
        tokens[row, : len(each.tokens) - 1] = torch.from_numpy(each.tokens[:-1].astype(np.int64))
    states = model.features(tokens)
    for each, features in zip(conversations, states, strict=True):
        features = features[: len(each.tokens) - 1]
        logits = model.logits(features[each.prompt_length - 1 :])
        best, ids = logits.topk(min(TOP, logits.shape[-1]))
        probs = (best - logits.logsumexp(-1, keepdim=True)).exp()
        yield ChatAnswer(
            each.task,
            each.temperature,
            each.tokens,
            each.prompt_length,
            features.half().numpy(),
            ids.numpy().astype(np.uint16),
            probs.half().numpy(),
        )


def draft_vocabulary(mass: Tensor, size: int) -> Tensor:
    """Return the ids of the `size` tokens with the largest `mass` [V], sorted by id, [D] int64.

    Tokens of equal mass are chosen by the smaller id. Among tokens whose mass is 0, the tokens with
    the smallest ids are therefore chosen. In a byte-pair encoding, small ids belong to frequent
    tokens.
    """
    return mass.sort(descending=True, stable=True).indices[:size].sort().values


def token_mass(answers: Iterable[ChatAnswer], vocabulary: int) -> Tensor:
    """Return the sum of the target's probabilities for every token of the vocabulary, [V].

    The sum is over all positions of all answers, and contains only the stored probabilities.
    """
    mass = torch.zeros(vocabulary)
    for answer in answers:
        ids = torch.from_numpy(answer.top_ids.astype(np.int64)).flatten()
        mass.index_add_(0, ids, torch.from_numpy(answer.top_probs.astype(np.float32)).flatten())
    return mass
