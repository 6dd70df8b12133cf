"""Trains an EAGLE head on what a chat model answered.

The head drafts from a draft vocabulary alone: its loss is against the target's probabilities of
those tokens, renormalised. Only answers count; messages are what it attends to.

Letters: P pairs that count, W width, V vocabulary, D draft vocabulary.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
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

# ---- the head


# Tokens per round on held-out messages after 90 s of processor time: 1.61 as it is, and 1.62 with
# features of three more layers, which take 2 MB; 1.59 in four passes over a quarter of the answers,
# 1.58 with a dropout of 0.15 besides; 1.53 with AdamW at 0.001 instead of Muon, and 1.38 if the
# layout is EAGLE-3's then, where a token's embedding reaches the output through attention alone.
DEPTH = 3  # levels that training covers
DEEPER_FROM = 0.4  # share of the time; before, the first level alone is trained
DEEPER_SHARE = 0.5  # of a batch's conversations for the levels after the first
FEATURE_WEIGHT = 0.1
RIDGE = 1e-4
FITTED_BATCHES = 24  # of all lengths
RATES = Rates(matrix=0.005, other=0.002, decay=0.02)


def chat_eagle_config(target: LlamaConfig) -> LlamaConfig:
    """One layer of the target's shape."""
    config = copy.deepcopy(target)
    config.num_hidden_layers = 1
    return config


@torch.no_grad()
def fit_by_least_squares(network: EagleNetwork, reader: ChatReader, table: Tensor) -> None:
    """Begin where many steps would lead: at the best linear guess of the next feature.

    It commits 1.44 tokens a round before the first step, and costs as much as 30 steps.

    Three products one after the other, each for what those before it leave over: the one that
    joins a pair, attention's output, the MLP's output. What attention and the MLP see before them
    stays random.
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
    """The matrix [O, I] that maps inputs [N, I] to outputs [N, O] best, a little regularised."""
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
) -> Progress:
    """Train the head for `seconds` of processor time (resumed if begun).

    table [V, W] is the target's, and frozen.
    """
    if not checkpoint.exists():
        fit_by_least_squares(network, reader, table)
    table = table.to(network.dtype)
    loop = TrainingLoop(network, reader, checkpoint, seconds, RATES, clock=time.process_time)

    def losses(fraction: float) -> Iterator[Tensor]:
        lesson = reader.lesson()
        candidates = Candidates.of(lesson, drafted, len(table))
        deeper = torch.randperm(len(lesson.tokens))[: round(DEEPER_SHARE * len(lesson.tokens))]
        depth = 1 if fraction < DEEPER_FROM or not len(deeper) else DEPTH
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
    """Weighted mean over levels, each with DEPTH_DECAY times the weight of the one before.

    A level's loss is the divergence from the target's distribution + FEATURE_WEIGHT * the smooth
    L1 distance of the feature, where an answer is. table [V, W] embeds and drafts; levels after the
    first are for `deeper_rows` alone.
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
        counted[:, :level] = False  # nothing was foretold before the answer
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
    """Per level the features that are guessed at the answer's pairs, [B, A, W]."""
    embedded = F.embedding(lesson.tokens, table)
    yield from network(embedded, lesson.features, depth, lesson.message, deeper_rows)


# ---- the folder of the head


def save_chat_eagle(
    network: EagleNetwork, drafted: Tensor, shares: dict[str, list[float]], folder: Path
) -> None:
    """A folder in EAGLE's layout, with `shares` of `choice_shares`; what was in it goes."""
    config = {
        "model_type": "llama",
        **shape_of(network.config),
        "choice_shares": shares,
        "dtype": "bfloat16",
    }
    save_model(network, config, folder, drafted)


def load_chat_eagle(folder: Path) -> tuple[EagleNetwork, Tensor]:
    """As saved, and the draft vocabulary [D]; its products run in float32."""
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    drafted = load_into(network, folder)
    assert drafted is not None
    return network, drafted


# ---- what it guesses along an answer


def chat_eagle_levels(network: EagleNetwork, table: Tensor, drafted: Tensor) -> Levels:
    """From the target's features and, below the first level, from those that it guessed itself."""
    reader = ChatReader((), drafted, len(table), seed=0)
    table = table.to(network.dtype)
    output = table[drafted]

    def levels(answer: ChatAnswer) -> Iterator[Tensor]:
        guesses = _guesses(network, table, reader.lesson_of([answer]), LEVELS)
        for level, guess in enumerate(guesses):
            yield F.linear(guess[0, 1 + level :].to(network.dtype), output).float()

    return levels
