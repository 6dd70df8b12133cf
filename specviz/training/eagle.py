"""Trains an EAGLE head: one decoder layer that foretells the target's next feature.

Pair t, [embedding of token t + 1 ; feature of t], gives the feature of t + 1; the target's own
head turns that into the distribution of token t + 2. The layer has no norm before its attention
and none after its output (Li et al., EAGLE, arXiv 2401.15077). Knows nothing of how features were
cached.

Letters: B rows, T pairs, W width, V vocabulary, H heads, d head width.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig

from specviz.training.distillation import divergence
from specviz.training.feature_cache import Features, Lesson, LessonReader
from specviz.training.loop import Progress, Rates, TrainingLoop
from specviz.training.network import Attention, FeedForward, Norm, linear, rotation
from specviz.training.pretraining import llama_config
from specviz.training.teacher_cache import TeacherCache

DEPTH = 4  # levels of a tree that training walks through
DEPTH_DECAY = 0.8  # weight of a level against the one before
FEATURE_WEIGHT = 0.5
ROWS = 8  # windows a step


def eagle_config() -> LlamaConfig:
    """One layer of the target's shape."""
    return llama_config(layers=1)


class EagleLayer(nn.Module):
    """A decoder layer without an input norm, whose queries may see their own guesses."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)


class EagleNetwork(nn.Module):
    """The head. `dtype` is that of the products; weights stay float32."""

    def __init__(self, config: LlamaConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([EagleLayer(config)])
        self._initialise()

    def _initialise(self) -> None:
        """At first the head repeats the feature that it is given."""
        width = self.config.hidden_size
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)
        with torch.no_grad():
            self.fc.weight[:, width:] = torch.eye(width)

    def forward(self, embedded: Tensor, features: Tensor, depth: int = 1) -> Iterator[Tensor]:
        """Foretold features of levels 1 ... depth, each [B, T, W]; both inputs [B, T, W].

        Level s at pair t is what decoding foretells after s - 1 guesses: pair t carries the
        feature that level s - 1 foretold for it, its query sees the target's features at pairs up
        to t - s + 1, and at the s - 1 pairs after that those that levels 1 ... s - 1 foretold on
        the way (the training-time test of EAGLE-3, arXiv 2503.01840). All pairs walk at once; the
        first s - 1 of level s have no such past and mean nothing.
        """
        layer = self.layers[0]
        assert isinstance(layer, EagleLayer)
        cos, sin = rotation(features.shape[1], self.config, features.device, self.dtype)
        embedded, given = embedded.to(self.dtype), features.to(self.dtype)
        seen: list[tuple[Tensor, Tensor]] = []
        for _ in range(depth):
            hidden = linear(torch.cat((embedded, given), dim=-1), self.fc)
            query, key, value = layer.self_attn.project(hidden, cos, sin)
            seen.append((key, value))
            hidden = hidden.float() + layer.self_attn.write(attend_to_guesses(query, seen))
            normed = layer.post_attention_layernorm(hidden, self.dtype)
            hidden = hidden + layer.mlp(normed)
            yield hidden
            given = later(hidden.to(self.dtype), 1, dim=1)


def attend_to_guesses(query: Tensor, seen: list[tuple[Tensor, Tensor]]) -> Tensor:
    """query [B, H, T, d] of level s; (key, value) of levels 1 ... s -> [B, H, T, d].

    The query at t sees level 1 up to t - s + 1, then level 2 at t - s + 2, ..., level s at t.
    """
    query = query * query.shape[3] ** -0.5
    length, level = query.shape[2], len(seen)
    (first_key, first_value), *guesses = seen
    past = torch.ones(length, length, dtype=torch.bool, device=query.device).tril(1 - level)
    scores = [(query @ first_key.mT).float().masked_fill(~past, float("-inf"))]
    back = range(len(guesses) - 1, -1, -1)
    for (key, _), pairs in zip(guesses, back, strict=True):
        scores.append((query * later(key, pairs, dim=2)).sum(-1, keepdim=True).float())
    weights = torch.cat(scores, dim=-1).softmax(-1).to(query.dtype)  # [B, H, T, T + s - 1]
    mixed: Tensor = weights[..., :length] @ first_value
    for index, ((_, value), pairs) in enumerate(zip(guesses, back, strict=True), start=length):
        mixed = mixed + weights[..., index, None] * later(value, pairs, dim=2)
    return mixed


def later(states: Tensor, pairs: int, dim: int) -> Tensor:
    """The states `pairs` places further along `dim`; zeros come first. [a, b, c], 1 -> [0, a, b]"""
    kept = states.narrow(dim, 0, states.shape[dim] - pairs)
    return torch.cat((torch.zeros_like(states.narrow(dim, 0, pairs)), kept), dim=dim)


def train_eagle(
    config: LlamaConfig,
    cache: TeacherCache,
    features: Features,
    table: Tensor,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[EagleNetwork, Progress]:
    """A head trained for `seconds` (resumed if begun); table [V, W] is the target's, and frozen."""
    torch.manual_seed(2)
    network = EagleNetwork(config).to(device)
    reader = LessonReader(cache, features, seed=2)
    loop = TrainingLoop(network, reader, checkpoint, seconds, Rates())
    loss = torch.compile(eagle_loss, dynamic=False) if compiled else eagle_loss
    table = table.to(device)

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, table, reader.lesson(ROWS).to(device))

    return network, loop.run(losses)


def eagle_loss(network: EagleNetwork, table: Tensor, lesson: Lesson, depth: int = DEPTH) -> Tensor:
    """Per level the divergence from the target's distribution + FEATURE_WEIGHT * smooth L1 of the
    feature.

    Weighted mean over levels, each DEPTH_DECAY times the one before.
    """
    embedded = F.embedding(lesson.tokens[:, 1:], table)
    weights = [DEPTH_DECAY**level for level in range(depth)]
    total = torch.zeros((), device=table.device)
    foretold = network(embedded, lesson.features[:, :-1], depth)
    for level, (weight, guess) in enumerate(zip(weights, foretold, strict=True)):
        guess = guess[:, level:]
        logits = F.linear(guess.to(network.dtype), table.to(network.dtype))
        wanted = lesson.features[:, level + 1 :]
        distributions = lesson.top_ids[:, level + 1 :], lesson.top_probs[:, level + 1 :]
        loss = divergence(logits, *distributions) + FEATURE_WEIGHT * F.smooth_l1_loss(guess, wanted)
        total = total + weight / sum(weights) * loss
    return total
