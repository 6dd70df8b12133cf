"""Trains and measures an EAGLE head on what a chat model answered.

The head drafts from a draft vocabulary alone: its loss is against the target's probabilities of
those tokens, renormalised. Only answers count; messages are what it attends to.

Letters: P pairs that count, W width, V vocabulary, D draft vocabulary, C candidates, k top tokens.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_lessons import ChatLesson, ChatReader
from specviz.training.distillation import divergence
from specviz.training.head_training import (
    DEPTH_DECAY,
    WEIGHTS,
    EagleLayer,
    EagleNetwork,
    attend_to_guesses,
)
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
LIKELY, LEAST_LIKELY = 4, 0.01  # a batch's candidates: so many top tokens, of that probability
OTHERS = 1024  # candidates that are drawn from the rest of the draft vocabulary
RIDGE = 1e-4
FITTED_BATCHES = 24  # of all lengths
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


@dataclass(frozen=True, slots=True)
class Candidates:
    """The part of the draft vocabulary that a batch's loss is computed on.

    What a batch thinks likely, and others by chance that stand for all the rest: their logits are
    raised so that the softmax's sum is what it would be over the whole, on average. A step takes
    half the time of one over all 8,192 tokens.
    """

    ids: Tensor  # [C], ascending
    raised: Tensor  # [C]: what is added to each logit

    @classmethod
    def of(cls, lesson: ChatLesson, drafted: Tensor, vocabulary: int) -> Candidates:
        """For a lesson over the draft vocabulary `drafted` [D]."""
        best = lesson.top_ids[..., :LIKELY][lesson.top_probs[..., :LIKELY] > LEAST_LIKELY]
        is_likely = torch.zeros(vocabulary, dtype=torch.bool)
        is_likely[best] = True
        rest = drafted[~is_likely[drafted]]
        others = rest[torch.randperm(len(rest))[:OTHERS]]
        raised = torch.zeros(vocabulary)
        if len(others):
            raised[others] = math.log(len(rest) / len(others))
        ids = torch.cat((is_likely.nonzero()[:, 0], others)).sort().values
        return cls(ids, raised[ids])

    def places(self, lesson: ChatLesson) -> tuple[Tensor, Tensor]:
        """Top tokens as places among the candidates and their probabilities, 0 for those not."""
        places = torch.searchsorted(self.ids, lesson.top_ids).clamp_max(len(self.ids) - 1)
        return places, lesson.top_probs * (self.ids[places] == lesson.top_ids)


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
    rows = torch.searchsorted(drafted, ids).clamp_max(len(drafted) - 1)
    is_drafted = drafted[rows] == ids
    columns = []
    for level, logits in enumerate(_levels(network, table, drafted, reader, answer)):
        draft = (logits / SAMPLED).softmax(-1).gather(-1, rows[1 + level :])
        draft = draft * is_drafted[1 + level :]
        columns.append(torch.minimum(draft, sharp[1 + level :]).sum(-1).double())
    return _aligned(columns)


def _levels(
    network: EagleNetwork, table: Tensor, drafted: Tensor, reader: ChatReader, answer: ChatAnswer
) -> Iterator[Tensor]:
    """Per level the logits [P - level, D] of the answer's tokens from 1 + level on.

    The first is the target's own.
    """
    output = table[drafted]
    for level, guess in enumerate(_guesses(network, table, reader.lesson_of([answer]), LEVELS)):
        yield F.linear(guess[0, 1 + level :].to(network.dtype), output).float()


def _aligned(columns: Sequence[Tensor]) -> Tensor:
    """Levels of the same root in one row: level s of root r stands at place r + s of the answer."""
    roots = min(len(column) for column in columns)
    return torch.stack([column[:roots] for column in columns], dim=1)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
