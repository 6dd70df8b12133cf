"""Logits -> distributions of the next token, the residual of two distributions, and draws.

Knows nothing of trees, models or rounds. Letters: R distributions (rows), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.records import SAMPLING, DecodingConfig

FEW = (64, 1024)  # best tokens that mostly, and nearly always, hold the mass that top-p asks for
FEW_SORT_LIMIT = 4096  # a vocabulary up to this is quick to sort
BLOCK = 64  # neighbours of which only the best is compared at first


@dataclass(frozen=True, slots=True)
class Sampler:
    """The processing that both sides share: temperature, then top-k, then top-p, then min-p.

    `top_k` 0, `top_p` 1 and `min_p` 0 are off. The order is that of transformers' warpers: top-p
    counts the mass that top-k left, and min-p (Nguyen 2407.01082) drops last what is less than
    `min_p` times as probable as the best token. Temperature 0 gives one-hot distributions, so
    greedy decoding needs no branch of its own anywhere else.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @classmethod
    def of(cls, config: DecodingConfig) -> Sampler:
        """The processing that a run asks for."""
        return cls(**{setting.name: getattr(config, setting.name) for setting in SAMPLING})

    def both(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Processed and raw probabilities in float32. [R, V] -> [R, V], [R, V]"""
        raw = logits.float().softmax(-1)
        is_plain = self == Sampler()
        return raw if is_plain else self.distributions(logits), raw

    def distributions(self, logits: Tensor) -> Tensor:
        """Processed probabilities in float32. [R, V] -> [R, V]"""
        if self.temperature == 0:
            return one_hot(logits.argmax(-1), logits.shape[-1])
        scaled = logits.float() / self.temperature
        if 0 < self.top_k < scaled.shape[-1]:
            kept = scaled.topk(self.top_k, dim=-1)
            scaled = torch.full_like(scaled, -torch.inf).scatter(-1, kept.indices, kept.values)
        probs = scaled.softmax(-1)
        if self.top_p < 1:
            probs = _nucleus(probs, self.top_p)
        return _near_best(probs, self.min_p) if self.min_p > 0 else probs


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of most probable tokens whose mass reaches `top_p`, renormalised.

    Of tokens that are equally probable the one of the smaller id is kept first.
    """
    # elsewhere, to learn which rows need the full sort would wait for the device
    has_shortcut = probs.device.type == "cpu" and probs.shape[-1] > FEW_SORT_LIMIT
    return normalize(
        _kept_of_few(probs, top_p, FEW) if has_shortcut else _kept_of_all(probs, top_p)
    )


def _kept_of_all(probs: Tensor, top_p: float) -> Tensor:
    """The tokens that top-p keeps, 0 elsewhere. [R, V] -> [R, V]"""
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    kept = ordered.masked_fill(_mass_before(ordered) >= top_p, 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept)


def _kept_of_few(probs: Tensor, top_p: float, sizes: Sequence[int]) -> Tensor:
    """The same without a sort of rows whose best tokens decide: the first of `sizes`, or the next.

    [R, V] -> [R, V]
    """
    if not sizes:
        return _kept_of_all(probs, top_p)
    few, *more = sizes
    best, ids = _best(probs, few)
    is_beyond = _mass_before(best) >= top_p  # never again False in a row once it is True
    count = (~is_beyond).sum(-1, keepdim=True)  # [R, 1]
    least, following = best.gather(-1, count - 1), best.gather(-1, count.clamp(max=few - 1))
    kept = torch.zeros_like(probs).scatter(-1, ids, best.masked_fill(is_beyond, 0.0))
    # else a tie; where the best are too few, both are the last of them
    is_decided = (following < least).squeeze(-1)
    if not is_decided.all():
        kept[~is_decided] = _kept_of_few(probs[~is_decided], top_p, more)
    return kept


def _best(probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row, descending, and their tokens. [R, V] -> [R, count] each

    All of them stand in the `count` blocks of neighbours whose own largest are largest: so few
    tokens are compared that it takes a fraction of what a search of the whole row does.
    """
    blocks, others = divmod(probs.shape[-1], BLOCK)
    if blocks <= count:
        values, ids = probs.topk(count, dim=-1)
        return values, ids
    whole, rest = torch.split_with_sizes(probs, (blocks * BLOCK, others), -1)
    whole = whole.view(len(whole), blocks, BLOCK)
    places = whole.amax(-1).topk(count, dim=-1, sorted=False).indices
    near = whole.gather(1, places[..., None].expand(-1, -1, BLOCK)).flatten(1)
    values, at = torch.cat((near, rest), -1).topk(count, dim=-1)
    places = F.pad(places, (0, 1), value=blocks)  # the rest is the block behind all whole ones
    return values, places.gather(1, at // BLOCK) * BLOCK + at % BLOCK


def _mass_before(ordered: Tensor) -> Tensor:
    """The mass of all tokens before each; -1 for the best, which stays however small top-p is."""
    mass_before = ordered.cumsum(-1) - ordered
    mass_before[..., 0] = -1.0
    return mass_before


def _near_best(probs: Tensor, min_p: float) -> Tensor:
    """Keep the tokens of at least `min_p` times the largest probability, renormalised."""
    least = min_p * probs.amax(-1, keepdim=True)
    return normalize(probs.masked_fill(probs < least, 0.0))


def one_hot(token_ids: Tensor, vocab_size: int) -> Tensor:
    """Point masses in float32. [R] -> [R, V]"""
    distribution = torch.zeros(*token_ids.shape, vocab_size, device=token_ids.device)
    return distribution.scatter_(-1, token_ids[..., None], 1.0)


def normalize(mass: Tensor) -> Tensor:
    """Scale non-negative rows to sum 1; a row of no mass stays all zero. [R, V]"""
    total = mass.sum(-1, keepdim=True)
    return mass / total.where(total > 0, 1.0)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """normalize(max(0, p - q)), the distribution of the recovered token (Leviathan 2211.17192).

    Where nothing is left (p == q: a rejection has probability 0) it is p. [R, V] x [R, V]

    >>> residual(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.75, 0.25]])).tolist()
    [[0.0, 1.0]]
    """
    left = (p - q).clamp_(min=0)
    total = left.sum(-1, keepdim=True)
    nothing = (total == 0).to(p)
    return left.addcmul_(p, nothing).div_(total + nothing)


def draw(distributions: Tensor, uniforms: Tensor) -> Tensor:
    """One token per distribution by inverse transform; a token of probability 0 is never drawn.

    The sums run in float64, so that a vocabulary of 150,000 keeps its tail. [R, V] x [R] -> [R]
    """
    cumulative = distributions.cumsum(-1, dtype=torch.float64)
    total = cumulative[..., -1:].contiguous()
    threshold = uniforms.to(cumulative)[..., None] * total
    token_ids = torch.searchsorted(cumulative, threshold, right=True).squeeze(-1)
    last = torch.searchsorted(cumulative, total).squeeze(-1)  # last token that has mass
    return torch.minimum(token_ids, last)


def uniforms_on(device: torch.device, uniforms: Sequence[float]) -> Tensor:
    """Host draws as a float64 tensor; the copy to the device does not block."""
    return torch.tensor(uniforms, dtype=torch.float64).to(device, non_blocking=True)
