"""Trains and measures an EAGLE head on what a chat model answered.

The head drafts from a draft vocabulary alone: its loss is against the target's probabilities of
those tokens, renormalised. Only answers count; messages are what it attends to.

Letters: B rows, T tokens of the longest row, P pairs that count, W width, V vocabulary, D draft
vocabulary, k top tokens.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.chat_answers import ChatAnswer
from specviz.training.distillation import divergence
from specviz.training.head_training import DEPTH_DECAY, WEIGHTS, EagleLayer, EagleNetwork
from specviz.training.network import attend, linear, rotation
from specviz.training.pretraining import Progress, Rates, ShuffledPasses, TrainingLoop

# ---- batches of answers


LONGEST_ROW = 384  # a longer message loses its beginning
BATCH_TOKENS = 2048
SHORTEST = 8  # an answer with fewer tokens teaches nothing


class ChatLesson(NamedTuple):
    """Conversations of similar length."""

    tokens: Tensor  # [B, T]
    features: Tensor  # [B, T, W]
    top_ids: Tensor  # [B, T, k] rows of the draft vocabulary: the distribution after each token
    top_probs: Tensor  # [B, T, k], renormalised
    weights: Tensor  # [B, T]: the draft vocabulary's part of it; 0 where no answer is


class ChatReader(ShuffledPasses):
    """Shuffled passes over answers; a data source for TrainingLoop."""

    def __init__(
        self, answers: Sequence[ChatAnswer], drafted: Tensor, vocabulary: int, seed: int
    ) -> None:
        """`drafted` [D]: the draft vocabulary."""
        long = (each for each in answers if len(each.top_ids) >= SHORTEST)
        self.answers = sorted(long, key=lambda each: len(each.tokens))
        self.rows_of = torch.full((vocabulary,), -1)
        self.rows_of[drafted] = torch.arange(len(drafted))
        self.batches = list(self._batches())
        super().__init__(len(self.batches), seed)

    def _batches(self) -> Iterator[list[ChatAnswer]]:
        batch: list[ChatAnswer] = []
        for answer in self.answers:  # the longest last
            if batch and (len(batch) + 1) * _length(answer) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(answer)
        if batch:
            yield batch

    def lesson(self) -> ChatLesson:
        """The next batch of the pass."""
        if not self.waiting:
            self.begin_pass()
        batch = self.batches[self.waiting.pop()]
        self.tokens_read += sum(len(each.top_ids) for each in batch)
        return self.lesson_of(batch)

    def lesson_of(self, answers: Sequence[ChatAnswer]) -> ChatLesson:
        """These answers, padded at the end."""
        count, length = len(answers), max(map(_length, answers))
        top, width = answers[0].top_ids.shape[1], answers[0].features.shape[2]
        tokens = torch.zeros(count, length, dtype=torch.int64)
        features = torch.zeros(count, length, width)
        ids = torch.zeros(count, length, top, dtype=torch.int64)
        probs, weights = torch.zeros(count, length, top), torch.zeros(count, length)
        for row, answer in enumerate(answers):
            cut = len(answer.features) - _length(answer)
            end, first = len(answer.features) - cut, answer.prompt_length - 1 - cut
            tokens[row, :end] = torch.from_numpy(answer.tokens[cut:-1].astype(np.int64))
            features[row, :end] = torch.from_numpy(answer.features[cut:, -1].astype(np.float32))
            ids[row, first:end] = torch.from_numpy(answer.top_ids.astype(np.int64))
            probs[row, first:end] = torch.from_numpy(answer.top_probs.astype(np.float32))
            weights[row, first:end] = 1.0
        return self._drafted(ChatLesson(tokens, features, ids, probs, weights))

    def _drafted(self, lesson: ChatLesson) -> ChatLesson:
        """The same with distributions over the draft vocabulary alone."""
        rows = self.rows_of[lesson.top_ids]
        outside = (lesson.top_probs * (rows < 0)).sum(-1)  # [B, T]
        inside = (1 - outside).clamp_min(1e-6)
        probs = lesson.top_probs * (rows >= 0) / inside[..., None]
        return ChatLesson(
            lesson.tokens, lesson.features, rows.clamp_min(0), probs, lesson.weights * inside
        )


def _length(answer: ChatAnswer) -> int:
    return min(LONGEST_ROW, len(answer.features))


# ---- the head


DEPTH = 3  # levels that training covers
DEEPER_FROM = 0.3  # share of the time; before, the first level alone is trained
FEATURE_WEIGHT = 0.1
RIDGE = 1e-4
FITTED_BATCHES = 64  # of all lengths
RATES = Rates(matrix=0.005, other=0.002, decay=0.02)


CONFIG = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "rope_parameters",
    "max_position_embeddings",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
)


def chat_eagle_config(target: LlamaConfig) -> LlamaConfig:
    """One layer of the target's shape."""
    config = copy.deepcopy(target)
    config.num_hidden_layers = 1
    return config


@torch.no_grad()
def fit_by_least_squares(network: EagleNetwork, reader: ChatReader, table: Tensor) -> None:
    """Begin where many steps would lead: at the best linear guess of the next feature.

    Three products one after the other, each for what those before it leave over: the one that
    joins a pair, attention's output, the MLP's output. What attention and the MLP see before them
    stays random.
    """
    layer, seen = network.layers[0], []
    assert isinstance(layer, EagleLayer)
    attention, mlp = layer.self_attn, layer.mlp
    for batch in reader.batches[:: max(1, len(reader.batches) // FITTED_BATCHES)]:
        lesson = reader.lesson_of(batch)
        embedded = F.embedding(lesson.tokens[:, 1:], table)
        pairs = torch.cat((embedded, lesson.features[:, :-1]), dim=2)
        seen.append((pairs, lesson.features[:, 1:], lesson.weights[:, 1:] > 0))

    def joined() -> Iterator[tuple[Tensor, Tensor]]:
        for pairs, wanted, counted in seen:
            yield pairs[counted], wanted[counted]

    def mixed() -> Iterator[tuple[Tensor, Tensor]]:
        for pairs, wanted, counted in seen:
            hidden = linear(pairs, network.fc)
            angles = rotation(hidden.shape[1], network.config, hidden.device, torch.float32)
            heads = attend(*attention.project(hidden, *angles)).transpose(1, 2).flatten(2)
            yield heads[counted], (wanted - hidden)[counted]

    def gated() -> Iterator[tuple[Tensor, Tensor]]:
        for (_, wanted, counted), (heads, left) in zip(seen, mixed(), strict=True):
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
    """Train the head for `seconds` (resumed if begun); table [V, W] is the target's, and frozen."""
    if not checkpoint.exists():
        fit_by_least_squares(network, reader, table)
    table = table.to(network.dtype)
    output = table[drafted]
    loop = TrainingLoop(network, reader, checkpoint, seconds, RATES)

    def losses(fraction: float) -> Iterator[Tensor]:
        depth = 1 if fraction < DEEPER_FROM else DEPTH
        yield chat_eagle_loss(network, table, output, reader.lesson(), depth)

    return loop.run(losses)


def chat_eagle_loss(
    network: EagleNetwork, table: Tensor, output: Tensor, lesson: ChatLesson, depth: int
) -> Tensor:
    """Weighted mean over levels, each with DEPTH_DECAY times the weight of the one before.

    A level's loss is the divergence from the target's distribution + FEATURE_WEIGHT * the smooth
    L1 distance of the feature, where an answer is. table [V, W] embeds, output [D, W] drafts.
    """
    total = torch.zeros(())
    decay = [DEPTH_DECAY**level for level in range(depth)]
    for level, (guess, place) in enumerate(_guesses(network, table, lesson, depth)):
        after = place[0], place[1] + 1
        weights = lesson.weights[after]
        logits = F.linear(guess.to(network.dtype), output)
        loss = divergence(logits, lesson.top_ids[after], lesson.top_probs[after], weights)
        distance = F.smooth_l1_loss(guess, lesson.features[after])
        total = total + decay[level] / sum(decay) * (loss + FEATURE_WEIGHT * distance)
    return total


def _guesses(
    network: EagleNetwork, table: Tensor, lesson: ChatLesson, depth: int
) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor]]]:
    """Per level the features [P, W] that are guessed, and the row and pair of each."""
    embedded = F.embedding(lesson.tokens[:, 1:], table)
    for level, guess in enumerate(network(embedded, lesson.features[:, :-1], depth)):
        rows, pairs = lesson.weights[:, 1 + level :].nonzero(as_tuple=True)
        place = rows, pairs + level
        yield guess[place], place


# ---- the folder of the head


def save_chat_eagle(
    network: EagleNetwork, drafted: Tensor, shares: dict[str, list[float]], folder: Path
) -> None:
    """Config and bfloat16 weights in EAGLE's layout; what was in `folder` goes.

    The draft vocabulary is EAGLE-3's `d2t`: token id minus row. `shares` are those of
    `choice_shares`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {
        "model_type": "llama",
        **{name: getattr(network.config, name) for name in CONFIG},
        "draft_vocab_size": len(drafted),
        "choice_shares": shares,
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = {name: weight.bfloat16() for name, weight in network.state_dict().items()}
    weights["d2t"] = drafted - torch.arange(len(drafted))
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors writes for its owner alone


def load_chat_eagle(folder: Path) -> tuple[EagleNetwork, Tensor]:
    """As saved, and the draft vocabulary [D]; its products run in float32."""
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    weights = load_file(folder / WEIGHTS)
    offsets = weights.pop("d2t")
    network.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return network.eval(), offsets + torch.arange(len(offsets))


# ---- how much of it the target accepts, on answers that nothing was trained on


LEVELS = 4  # of a chain
SAMPLED = 0.7
WARMER = 0.8
CHOICES = 8


@dataclass(frozen=True, slots=True)
class ChatScores:
    """Of one task. Levels are those of a chain, behind the target's own tokens.

    greedy: share of places where the level names the target's likeliest token; tokens_per_round:
    what a chain of LEVELS commits, the target's own token among them, both at temperature 0.
    sampled: mean of sum(min(p, q)) at temperature SAMPLED (p of the kept top tokens).
    """

    greedy: list[float]
    tokens_per_round: float
    sampled: list[float]


@torch.no_grad()
def chat_scores(
    network: EagleNetwork, table: Tensor, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, ChatScores]:
    """Scores per task that has answers at temperature 0 and at SAMPLED, and of "all" together."""
    reader = ChatReader(answers, drafted, len(table), seed=0)
    right: dict[str, list[Tensor]] = defaultdict(list)  # each [P, LEVELS]
    shared: dict[str, list[Tensor]] = defaultdict(list)
    table = table.to(network.dtype)
    for answer in reader.answers:
        found, measure = (right, _right) if answer.temperature == 0 else (shared, _shared)
        if answer.temperature in (0, SAMPLED):
            measured = measure(network, table, drafted, reader, answer)
            found[answer.task].append(measured)
            found["all"].append(measured)
    scores = {}
    for task in right.keys() & shared.keys():
        named, overlap = torch.cat(right[task]), torch.cat(shared[task])
        committed = 1 + named.cumprod(1).sum(1).mean().item()
        scores[task] = ChatScores(
            _rounded(named.mean(0)), round(committed, 3), _rounded(overlap.mean(0))
        )
    return dict(sorted(scores.items()))


@torch.no_grad()
def choice_shares(
    network: EagleNetwork, table: Tensor, drafted: Tensor, answers: Sequence[ChatAnswer]
) -> dict[str, list[float]]:
    """How often the k-th choice of the first level is the target's next token, up to CHOICES.

    "greedy" at temperature 0 (of both), "sampled" at temperature WARMER, of a target that is drawn
    from: there it is the mean probability of the choice.
    """
    reader = ChatReader(answers, drafted, len(table), seed=0)
    table = table.to(network.dtype)
    greedy, sampled = [], []
    for answer in reader.answers:
        first = next(_levels(network, table, drafted, reader, answer))
        choices = drafted[first.topk(CHOICES).indices]  # [P, CHOICES]
        ids = torch.from_numpy(answer.top_ids[1:].astype(np.int64))
        if answer.temperature == 0:
            greedy.append((choices == ids[:, :1]).double())
            continue
        probs = torch.from_numpy(answer.top_probs[1:].astype(np.float32)).pow(1 / WARMER)
        probs = probs / probs.sum(-1, keepdim=True)
        found = choices[..., None] == ids[:, None]  # [P, CHOICES, k]
        sampled.append((found * probs[:, None]).sum(-1).double())
    return {
        "greedy": _rounded(torch.cat(greedy).mean(0)),
        "sampled": _rounded(torch.cat(sampled).mean(0)),
    }


def _right(
    network: EagleNetwork, table: Tensor, drafted: Tensor, reader: ChatReader, answer: ChatAnswer
) -> Tensor:
    """[P, LEVELS]: 1 where a level names the token that the answer has."""
    wanted = torch.from_numpy(answer.tokens.astype(np.int64))[-len(answer.top_ids) :]
    columns = []
    for level, logits in enumerate(_levels(network, table, drafted, reader, answer)):
        columns.append((drafted[logits.argmax(-1)] == wanted[1 + level :]).double())
    return _aligned(columns)


def _shared(
    network: EagleNetwork, table: Tensor, drafted: Tensor, reader: ChatReader, answer: ChatAnswer
) -> Tensor:
    """[P, LEVELS]: sum(min(p, q)) at temperature SAMPLED."""
    ids = torch.from_numpy(answer.top_ids.astype(np.int64))
    sharp = torch.from_numpy(answer.top_probs.astype(np.float32)).pow(1 / SAMPLED)
    sharp = sharp / sharp.sum(-1, keepdim=True)
    rows = reader.rows_of[ids]
    columns = []
    for level, logits in enumerate(_levels(network, table, drafted, reader, answer)):
        draft = (logits / SAMPLED).softmax(-1).gather(-1, rows[1 + level :].clamp_min(0))
        draft = draft * (rows[1 + level :] >= 0)
        columns.append(torch.minimum(draft, sharp[1 + level :]).sum(-1).double())
    return _aligned(columns)


def _levels(
    network: EagleNetwork, table: Tensor, drafted: Tensor, reader: ChatReader, answer: ChatAnswer
) -> Iterator[Tensor]:
    """Per level the logits [P - level, D] of the answer's tokens from 1 + level on."""
    lesson = reader.lesson_of([answer])
    lesson = lesson._replace(weights=(lesson.weights > 0).float())
    lesson.weights[0, lesson.weights[0].nonzero()[0, 0]] = 0  # the first is the target's own
    output = table[drafted]
    for level, (guess, _) in enumerate(_guesses(network, table, lesson, LEVELS)):
        yield F.linear(guess[level:].to(network.dtype), output).float()


def _aligned(columns: Sequence[Tensor]) -> Tensor:
    """Levels of the same root in one row: level s of root r stands at place r + s of the answer."""
    roots = min(len(column) for column in columns)
    return torch.stack([column[:roots] for column in columns], dim=1)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
