"""Train a small draft model for a chat model, on the chat model's answers and on plain text.

The draft model has the chat model's tokenizer, but its embedding has only D + 1 rows: one for each
token of the draft vocabulary, and one for all other tokens together. It drafts only tokens of the
draft vocabulary. It can draft for every target that has the chat model's tokenizer. A *lesson* is
one training batch as tensors.

In shapes, B is the number of texts, T the number of tokens of the longest text, P the number of
positions whose predictions the loss includes, W the draft's hidden size, V the size of the target's
vocabulary, D that of the draft vocabulary, and k the number of top tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

# Each training step reads TEXT_ROWS windows of plain text with TEXT_LENGTH tokens.
TEXT_ROWS, TEXT_LENGTH = 16, 160
TEXT_WEIGHT = 0.5
TEXT_SHARES = {"code": 0.2, "story": 0.4, "maths": 0.2, "translate": 0.2}


def text_files(
    corpus: Path, target: Path, folder: Path, library: Path | None = None
) -> dict[str, Path]:
    """Return the token file of each task of plain text; make all files if one is missing.

    The files contain token ids of the target's tokenizer. The text for the task "code" comes from
    the training messages, so it contains no held-out function.
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
    """A training batch: texts, and the distributions that the draft should predict.

    `counted` is True at the P tokens after which the loss includes the prediction. `top_ids` and
    `top_probs` have the target's distribution of the next token after each of these P tokens. The
    probabilities are renormalised over the draft vocabulary, and are 0 for other tokens. `weights`
    has the probability that the target gives to the whole draft vocabulary.
    """

    tokens: Tensor  # [B, T], padded at the end
    counted: Tensor  # [B, T] bool, True where the loss includes the prediction after the token
    top_ids: Tensor  # [P, k]
    top_probs: Tensor  # [P, k]
    weights: Tensor  # [P]


class DraftReader(AnswerBatches):
    """A data source for `TrainingLoop`, which makes lessons from answers and from plain text."""

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
        """Return the next batch of answers as a lesson."""
        return self.lesson_of(self.batch())

    def lesson_of(self, answers: Sequence[ChatAnswer]) -> DraftLesson:
        """Return these answers with their messages as a lesson, which has one answer per row.

        If a message with its answer is too long, the beginning of the message is left out.
        """
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
        """Return a lesson of plain text, in which the text's next token has probability 1."""
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


@dataclass(frozen=True, slots=True)
class DraftCourse:
    """The learning rates of a training run, and the moment when it stops using plain text.

    `text_until` is a share of the training time. Before that moment, each step learns from answers
    and from plain text; afterwards, only from answers.
    """

    rates: Rates
    text_until: float


FRESH = DraftCourse(Rates(), text_until=0.6)
CONTINUED = DraftCourse(Rates(matrix=0.01, other=0.002), text_until=0.0)


def chat_draft_config(drafted: int, target: LlamaConfig) -> LlamaConfig:
    """Return the shape of the draft: three narrow layers, so that its forward is fast.

    `drafted` is the size of the draft vocabulary. The embedding has one row more, which stands for
    all tokens outside the draft vocabulary.
    """
    config = llama_config(layers=3, width=192, inner=384, vocabulary=drafted + 1)
    config.num_key_value_heads = 1
    config.max_position_embeddings = target.max_position_embeddings
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    return config


class DraftRows:
    """The map from a token id of the target to its row of the draft's embedding."""

    def __init__(self, drafted: Tensor, vocabulary: int) -> None:
        self.rows = torch.full((vocabulary,), len(drafted))
        self.rows[drafted] = torch.arange(len(drafted))

    def __call__(self, token_ids: Tensor) -> Tensor:
        return self.rows[token_ids]


@torch.no_grad()
def begin_as_the_target_s(network: Network, table: Tensor, drafted: Tensor) -> None:
    """Initialise the draft's embedding with the target's embedding `table` [V, target's W].

    The rows of the target's embedding are projected to W directions and scaled. The directions are
    the principal directions of the rows of the draft vocabulary. The last row is the mean of all
    tokens outside the draft vocabulary.
    """
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
    drafted: Tensor,
    checkpoint: Path,
    seconds: float,
    course: DraftCourse = FRESH,
) -> Progress:
    """Train the draft for `seconds` of processor time, or continue from an existing checkpoint."""
    rows = DraftRows(drafted, len(reader.is_drafted))
    loop = TrainingLoop(network, reader, checkpoint, seconds, course.rates, clock=time.process_time)

    def losses(fraction: float) -> Iterator[Tensor]:
        lessons = [(reader.lesson(), 1.0)]
        if fraction < course.text_until:
            lessons.append((reader.text_lesson(), TEXT_WEIGHT))
        for lesson, weight in lessons:
            candidates = Candidates.of(lesson, drafted, len(reader.is_drafted))
            yield weight * chat_draft_loss(network, rows, candidates, lesson)

    return loop.run(losses)


def chat_draft_loss(
    network: Network, rows: DraftRows, candidates: Candidates, lesson: DraftLesson
) -> Tensor:
    """Return the mean divergence of the draft's predictions from the target's distributions.

    The mean is over the lesson's P counted positions, and over the tokens of `candidates` only.
    """
    *_, last = network.states(rows(lesson.tokens))
    normed = network.model.norm(last[lesson.counted], network.dtype)
    output = network.model.embed_tokens(rows(candidates.ids)).to(network.dtype)
    logits = F.linear(normed, output).float() + candidates.raised
    return divergence(logits, *candidates.places(lesson), lesson.weights)


def chat_draft_levels(network: Network, drafted: Tensor, vocabulary: int) -> Levels:
    """Return a function that yields the draft's logits for each level along an answer.

    All levels come from one forward over the answer, so the draft reads the answer instead of its
    own guesses. That makes no difference: a level counts only if all earlier guesses equal the
    answer's tokens.
    """
    rows = DraftRows(drafted, vocabulary)

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        read = torch.from_numpy(answer.tokens[:-1].astype(np.int64))
        *_, last = network.states(rows(read)[None])
        logits = network.logits(last[0, answer.prompt_length :])[:, : len(drafted)].float()
        for level in range(LEVELS):
            yield logits[level:]

    return levels


def save_chat_draft(network: Network, drafted: Tensor, tokenizer: str, folder: Path) -> None:
    """Save the draft as a Llama model of transformers; delete the old content of `folder`.

    The folder contains no tokenizer. Its config contains `tokenizer`, the fingerprint of the
    target's tokenizer.
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
    """Return the saved network and its draft vocabulary [D].

    The matrix multiplications of the network run in float32.
    """
    network = Network(LlamaConfig.from_pretrained(folder), torch.float32)
    drafted = load_into(network, folder)
    assert drafted is not None
    return network, drafted
