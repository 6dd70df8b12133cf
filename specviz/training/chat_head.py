"""Train an EAGLE head on the answers of a chat model.

The head drafts only tokens of the draft vocabulary. The loss compares its predictions with the
target's probabilities of those tokens, renormalised. Only the tokens of answers are part of the
loss; the head attends to the messages as well.

In shapes, B is the number of answers, A the number of tokens of the longest answer, W the hidden
size, V the size of the vocabulary, and D that of the draft vocabulary.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_lessons import ChatLesson, ChatReader
from specviz.training.chat_scores import LEVELS, Levels
from specviz.training.distillation import divergence
from specviz.training.head_training import (
    DEPTH_DECAY,
    EagleLayer,
    EagleNetwork,
    attend_to_guesses,
)
from specviz.training.model_files import load_into, save_model, shape_of
from specviz.training.network import linear, rotation
from specviz.training.pretraining import Progress, Rates, TrainingLoop

# Training runs of 90 s of processor time gave these tokens per round on held-out messages:
# - 1.61 with this layout;
# - 1.62 if the head also reads the features of three more layers, which adds 2 MB;
# - 1.59 in four passes over a quarter of the answers;
# - 1.58 in such passes with a dropout of 0.15;
# - 1.53 with AdamW at a learning rate of 0.001 instead of Muon;
# - 1.38 with AdamW and the layout of EAGLE-3, in which the embedding of a token reaches the output
#   only through attention.
DEPTH = 4  # number of levels that training covers
DEEPER_SHARE = 0.5  # share of a batch's answers for which training covers more than the first level
FEATURE_WEIGHT = 0.1
RIDGE = 1e-4
FITTED_BATCHES = 24  # number of batches for the least squares, evenly spread over answer lengths


@dataclass(frozen=True, slots=True)
class EagleCourse:
    """The learning rates of a training run, and the moment when it begins to cover all levels.

    `deeper_from` is a share of the training time. Before that moment, only the first level is
    trained.
    """

    rates: Rates
    deeper_from: float


FRESH = EagleCourse(Rates(matrix=0.005, other=0.002, decay=0.02), deeper_from=0.4)
CONTINUED = EagleCourse(Rates(matrix=0.003, other=0.001, decay=0.02), deeper_from=0.0)


def chat_eagle_config(target: LlamaConfig) -> LlamaConfig:
    """Return the shape of the head: one decoder layer with the sizes of the target's layers."""
    config = copy.deepcopy(target)
    config.num_hidden_layers = 1
    return config


@torch.no_grad()
def fit_by_least_squares(network: EagleNetwork, reader: ChatReader, table: Tensor) -> None:
    """Initialise three matrices by least squares, so that the head predicts the next feature.

    They are the matrix that combines the embedding of a token with a feature, the output matrix of
    attention, and the output matrix of the MLP. They are fitted one after another, each to the
    error that the matrices before it leave. All other weights keep their random initial values. The
    fit takes the time of 30 training steps. With it, the head reaches 1.44 tokens per round before
    the first training step.
    """
    layer, seen = network.layers[0], []
    assert isinstance(layer, EagleLayer)
    attention, mlp = layer.self_attn, layer.mlp
    for batch in reader.batches[:: max(1, len(reader.batches) // FITTED_BATCHES)]:
        lesson = reader.lesson_of(batch)
        pairs = torch.cat((F.embedding(lesson.tokens, table), lesson.features), dim=2)
        seen.append((pairs, lesson.message, lesson.wanted, lesson.weights > 0))

    def joined() -> Iterator[tuple[Tensor, Tensor]]:
        for pairs, message, wanted, counted in seen:
            yield pairs[:, message.shape[1] :][counted], wanted[counted]

    def mixed() -> Iterator[tuple[Tensor, Tensor]]:
        for pairs, message, wanted, counted in seen:
            hidden, before = linear(pairs, network.fc), message.shape[1]
            angles = rotation(hidden.shape[1], network.config, hidden.device, torch.float32)
            query, key, value = attention.project(hidden, *angles)
            heads = attend_to_guesses(query[:, :, before:], [(key, value)], message)
            left = wanted - hidden[:, before:]
            yield heads.transpose(1, 2).flatten(2)[counted], left[counted]

    def gated() -> Iterator[tuple[Tensor, Tensor]]:
        for (_, _, wanted, counted), (heads, left) in zip(seen, mixed(), strict=True):
            left = left - linear(heads, attention.o_proj)
            normed = layer.post_attention_layernorm(wanted[counted] - left, torch.float32)
            yield F.silu(linear(normed, mlp.gate_proj)) * linear(normed, mlp.up_proj), left

    network.fc.weight.copy_(_least_squares(joined()))
    attention.o_proj.weight.copy_(_least_squares(mixed()))
    mlp.down_proj.weight.copy_(_least_squares(gated()))


def _least_squares(parts: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the matrix [O, I] that best maps inputs [N, I] to outputs [N, O], by ridge regression.

    Each item of `parts` has the inputs and outputs of some of the N examples.
    """
    square, mixed = torch.zeros(()), torch.zeros(())
    for inputs, outputs in parts:
        square, mixed = square + inputs.t() @ inputs, mixed + inputs.t() @ outputs
    square.diagonal().add_(RIDGE * square.diagonal().mean())
    solved: Tensor = torch.linalg.solve(square, mixed)
    return solved.t()


def train_chat_eagle(
    network: EagleNetwork,
    reader: ChatReader,
    table: Tensor,
    drafted: Tensor,
    checkpoint: Path,
    seconds: float,
    course: EagleCourse = FRESH,
) -> Progress:
    """Train the head for `seconds` of processor time, or continue from an existing checkpoint.

    `table` [V, W] is the target's embedding and output matrix, which is not trained.
    """
    table = table.to(network.dtype)
    loop = TrainingLoop(network, reader, checkpoint, seconds, course.rates, clock=time.process_time)

    def losses(fraction: float) -> Iterator[Tensor]:
        lesson = reader.lesson()
        candidates = Candidates.of(lesson, drafted, len(table))
        deeper = torch.randperm(len(lesson.tokens))[: round(DEEPER_SHARE * len(lesson.tokens))]
        depth = 1 if fraction < course.deeper_from or not len(deeper) else DEPTH
        yield chat_eagle_loss(network, table, candidates, lesson, depth, deeper)

    return loop.run(losses)


def chat_eagle_loss(
    network: EagleNetwork,
    table: Tensor,
    candidates: Candidates,
    lesson: ChatLesson,
    depth: int,
    deeper_rows: Tensor,
) -> Tensor:
    """Return the weighted mean of the losses of all levels.

    Each level has DEPTH_DECAY times the weight of the level before. The loss of a level is the
    divergence from the target's distribution plus FEATURE_WEIGHT times the smooth L1 distance of
    the feature. It includes only tokens of answers. The levels after the first include only the
    answers in the rows `deeper_rows`. `table` [V, W] is the target's embedding and output matrix.
    """
    total = torch.zeros(())
    decay = [DEPTH_DECAY**level for level in range(depth)]
    output, wanted = table[candidates.ids], candidates.places(lesson)
    all_rows = torch.arange(len(lesson.tokens))
    guesses = _guesses(network, table, lesson, depth, deeper_rows)
    for level, guess in enumerate(guesses):
        rows = deeper_rows if level else all_rows
        weights = lesson.weights[rows]
        counted = weights > 0
        # A level after the first needs guesses of the earlier levels, and there are no guesses
        # before the answer.
        counted[:, :level] = False
        found = guess[counted]
        logits = F.linear(found.to(network.dtype), output).float() + candidates.raised
        top_ids, top_probs = (each[rows][counted] for each in wanted)
        loss = divergence(logits, top_ids, top_probs, weights[counted])
        distance = F.smooth_l1_loss(found, lesson.wanted[rows][counted])
        total = total + decay[level] / sum(decay) * (loss + FEATURE_WEIGHT * distance)
    return total


def _guesses(
    network: EagleNetwork,
    table: Tensor,
    lesson: ChatLesson,
    depth: int,
    deeper_rows: Tensor | None = None,
) -> Iterator[Tensor]:
    """Yield the features [B, A, W] that the head predicts along the answers, level by level."""
    embedded = F.embedding(lesson.tokens, table)
    yield from network(embedded, lesson.features, depth, lesson.message, deeper_rows)


def save_chat_eagle(
    network: EagleNetwork, drafted: Tensor, shares: dict[str, list[float]], folder: Path
) -> None:
    """Save the head in the format of EAGLE; delete the old content of `folder`.

    `shares` is the result of `choice_shares`, and becomes part of the config.
    """
    config = {
        "model_type": "llama",
        **shape_of(network.config),
        "choice_shares": shares,
        "dtype": "bfloat16",
    }
    save_model(network, config, folder, drafted)


def load_chat_eagle(folder: Path) -> tuple[EagleNetwork, Tensor]:
    """Return the saved head and its draft vocabulary [D].

    The matrix multiplications of the head run in float32.
    """
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    drafted = load_into(network, folder)
    assert drafted is not None
    return network, drafted


def chat_eagle_levels(network: EagleNetwork, table: Tensor, drafted: Tensor) -> Levels:
    """Return a function that yields the head's logits for each level along an answer.

    The first level reads the target's features. Each later level also reads the features that the
    head itself predicted.
    """
    reader = ChatReader((), drafted, len(table), seed=0)
    table = table.to(network.dtype)
    output = table[drafted]

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        guesses = _guesses(network, table, reader.lesson_of([answer]), LEVELS)
        for level, guess in enumerate(guesses):
            yield F.linear(guess[0, 1 + level :].to(network.dtype), output).float()

    return levels
