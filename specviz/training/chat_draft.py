"""Trains a small draft model for a chat model on what that answered, and on plain text.

It shares the chat model's tokenizer, but has rows of its own for a draft vocabulary alone: from
these it drafts, and every other token is read as one and the same. So it serves each target with
that tokenizer. The training forward is `Network` over the rows.

Letters: B conversations, T tokens of the longest, P places that count, W width, V vocabulary of the
target, D draft vocabulary, k top tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig

from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_lessons import LONGEST_ROW, AnswerBatches, drafted_part
from specviz.training.chat_prompts import chat_prompts
from specviz.training.chat_scores import LEVELS, Levels
from specviz.training.corpus import read_corpus, standard_library
from specviz.training.distillation import divergence
from specviz.training.model_files import load_into, save_model, shape_of
from specviz.training.network import Network
from specviz.training.pretraining import Progress, Rates, TrainingLoop, llama_config
from specviz.training.token_files import END, TokenMixture, write_token_file

# ---- what it learns from


TEXT_ROWS, TEXT_LENGTH = 16, 160  # windows of plain text a step
TEXT_UNTIL = 0.6  # share of the time; then answers alone
TEXT_WEIGHT = 0.5
TEXT_SHARES = {"code": 0.2, "story": 0.4, "maths": 0.2, "translate": 0.2}


def text_files(
    corpus: Path, target: Path, folder: Path, library: Path | None = None
) -> dict[str, Path]:
    """Token files per task, made where they are missing; the target's tokenizer makes the tokens.

    Of code there is what messages to learn from quote: no function that is measured.
    """
    files = {task: folder / f"{task}.bin" for task in TEXT_SHARES}
    if not all(file.exists() for file in files.values()):
        library = library or standard_library()
        documents = read_corpus(corpus, library).training
        documents = {**documents, "code": chat_prompts(corpus, library).training["code"]}
        tokenizer = AutoTokenizer.from_pretrained(target)
        for task, file in files.items():
            texts = [f"{text}{END}" for text in documents[task]]
            write_token_file(file, tokenizer(texts, add_special_tokens=False)["input_ids"])
    return files


class DraftLesson(NamedTuple):
    """Texts, and what follows at the places that count."""

    tokens: Tensor  # [B, T], padded at the end
    counted: Tensor  # [B, T] bool
    top_ids: Tensor  # [P, k]
    top_probs: Tensor  # [P, k], renormalised: 0 outside the draft vocabulary
    weights: Tensor  # [P]: the draft vocabulary's part


class DraftReader(AnswerBatches):
    """Answers behind their messages, and windows of text; a data source for TrainingLoop."""

    def __init__(
        self,
        answers: Sequence[ChatAnswer],
        drafted: Tensor,
        vocabulary: int,
        text: TokenMixture,
        seed: int,
    ) -> None:
        super().__init__(answers, drafted, vocabulary, seed)
        self.text = text

    def lesson(self) -> DraftLesson:
        """The next batch of answers."""
        return self.lesson_of(self.batch())

    def lesson_of(self, answers: Sequence[ChatAnswer]) -> DraftLesson:
        """These answers; a long message loses its beginning."""
        rows = [answer.tokens[:-1][-LONGEST_ROW:] for answer in answers]
        tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
        counted = torch.zeros(tokens.shape, dtype=torch.bool)
        for index, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            tokens[index, : len(row)] = torch.from_numpy(row.astype(np.int64))
            counted[index, max(0, len(row) - len(answer.top_ids)) : len(row)] = True
        kept = [min(len(a.top_ids), len(row)) for a, row in zip(answers, rows, strict=True)]
        pairs = list(zip(answers, kept, strict=True))
        ids = np.concatenate([answer.top_ids[-count:] for answer, count in pairs])
        probs = np.concatenate([answer.top_probs[-count:] for answer, count in pairs])
        top_ids = torch.from_numpy(ids.astype(np.int64))
        inside = drafted_part(self.is_drafted, top_ids, torch.from_numpy(probs.astype(np.float32)))
        return DraftLesson(tokens, counted, top_ids, *inside)

    def text_lesson(self) -> DraftLesson:
        """Windows of text: what follows is certain."""
        windows = self.text.batch(TEXT_ROWS, TEXT_LENGTH)
        tokens, following = windows[:, :-1], windows[:, 1:]
        counted = self.is_drafted[following]
        top_ids = following[counted][:, None]
        certain = torch.ones(len(top_ids))
        return DraftLesson(tokens, counted, top_ids, certain[:, None], certain)

    def state_dict(self) -> dict[str, object]:
        return {**super().state_dict(), "text": self.text.state_dict()}

    def load_state_dict(self, state: dict[str, object]) -> None:
        super().load_state_dict(state)
        text = state["text"]
        assert isinstance(text, dict)
        self.text.load_state_dict(text)


# ---- the model


def chat_draft_config(drafted: int, target: LlamaConfig) -> LlamaConfig:
    """Three narrow layers: a forward costs a small part of the target's.

    There is a row for each token of the draft vocabulary, and the last one is for all others.
    """
    config = llama_config(layers=3, width=192, inner=384, vocabulary=drafted + 1)
    config.num_key_value_heads = 1
    config.max_position_embeddings = target.max_position_embeddings
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    return config


class DraftRows:
    """Which row of the draft each token of the target has."""

    def __init__(self, drafted: Tensor, vocabulary: int) -> None:
        self.rows = torch.full((vocabulary,), len(drafted))
        self.rows[drafted] = torch.arange(len(drafted))

    def __call__(self, token_ids: Tensor) -> Tensor:
        return self.rows[token_ids]


@torch.no_grad()
def begin_as_the_target_s(network: Network, table: Tensor, drafted: Tensor) -> None:
    """Rows begin as the best W dimensions of the target's [V, its width]."""
    mean_square = network.model.embed_tokens.weight.square().mean()
    width = network.config.hidden_size
    _, _, directions = torch.linalg.svd(table[drafted], full_matrices=False)
    projected = table @ directions[:width].t()  # [V, W]
    others = torch.ones(len(table), dtype=torch.bool)
    others[drafted] = False
    rest = projected[others].mean(0, keepdim=True) if others.any() else projected[:1]
    rows = torch.cat((projected[drafted], rest))
    network.model.embed_tokens.weight.copy_(rows * (mean_square / rows.square().mean()).sqrt())


def train_chat_draft(
    network: Network,
    reader: DraftReader,
    table: Tensor,
    drafted: Tensor,
    checkpoint: Path,
    seconds: float,
) -> Progress:
    """Train for `seconds` of processor time (resumed if begun); table [V, …] is the target's."""
    if not checkpoint.exists():
        begin_as_the_target_s(network, table, drafted)
    rows = DraftRows(drafted, len(table))
    loop = TrainingLoop(network, reader, checkpoint, seconds, Rates(), clock=time.process_time)

    def losses(fraction: float) -> Iterator[Tensor]:
        lessons = [(reader.lesson(), 1.0)]
        if fraction < TEXT_UNTIL:
            lessons.append((reader.text_lesson(), TEXT_WEIGHT))
        for lesson, weight in lessons:
            candidates = Candidates.of(lesson, drafted, len(table))
            yield weight * chat_draft_loss(network, rows, candidates, lesson)

    return loop.run(losses)


def chat_draft_loss(
    network: Network, rows: DraftRows, candidates: Candidates, lesson: DraftLesson
) -> Tensor:
    """Divergence from the target's distribution where the lesson counts."""
    *_, last = network.states(rows(lesson.tokens))
    normed = network.model.norm(last[lesson.counted], network.dtype)
    output = network.model.embed_tokens(rows(candidates.ids)).to(network.dtype)
    logits = F.linear(normed, output).float() + candidates.raised
    return divergence(logits, *candidates.places(lesson), lesson.weights)


# ---- what it guesses along an answer


def chat_draft_levels(network: Network, drafted: Tensor, vocabulary: int) -> Levels:
    """A guess reads those before it; where they are right, they are the answer's own tokens."""
    rows = DraftRows(drafted, vocabulary)

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        read = torch.from_numpy(answer.tokens[:-1].astype(np.int64))
        *_, last = network.states(rows(read)[None])
        logits = network.logits(last[0, answer.prompt_length :])[:, : len(drafted)].float()
        for level in range(LEVELS):
            yield logits[level:]

    return levels


# ---- the folder of the model


def save_chat_draft(network: Network, drafted: Tensor, tokenizer: str, folder: Path) -> None:
    """A Llama of the library's layout over its rows; what was in `folder` goes.

    `tokenizer` is the fingerprint of the target's, which stands for one of its own.
    """
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **shape_of(network.config),
        "tokenizer_fingerprint": tokenizer,
        "dtype": "bfloat16",
    }
    save_model(network, config, folder, drafted)


def load_chat_draft(folder: Path) -> tuple[Network, Tensor]:
    """As saved, and the draft vocabulary [D]; its products run in float32."""
    network = Network(LlamaConfig.from_pretrained(folder), torch.float32)
    drafted = load_into(network, folder)
    assert drafted is not None
    return network, drafted
