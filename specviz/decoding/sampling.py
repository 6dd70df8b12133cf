"""Functions on distributions of the next token: sampling settings, residuals and random draws.

This module knows nothing about trees, models or rounds. In shapes, R is the number of distributions
(rows) and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.accelerator import is_accelerator, upload
from specviz.records import SAMPLING, DecodingConfig

# The 64 most probable tokens usually reach the total probability that top-p needs. The 1024 most
# probable tokens almost always reach it.
FEW = (64, 1024)
# The largest vocabulary, in tokens, that is sorted as a whole, because that is fast enough.
FEW_SORT_LIMIT = 4096
# The number of tokens in a block. A search for the most probable tokens first compares only the
# best token of each block.
BLOCK = 64


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampling settings: temperature, then top-k, then top-p, then min-p.

    All of them apply to the logits of both target and draft. `top_k` = 0, `top_p` = 1 and `min_p` =
    0 turn a setting off. As in transformers, top-k comes before top-p, and top-p counts only the
    probability of the tokens that top-k kept. Min-p (Nguyen, arXiv 2407.01082) drops the tokens
    that are less than `min_p` times as probable as the best one. If several logits equal the k-th
    largest one, top-k keeps all of these tokens, as in transformers; bfloat16 logits are often
    equal. Temperature 0 gives one-hot distributions, so greedy decoding needs no extra code
    anywhere.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @classmethod
    def of(cls, config: DecodingConfig) -> Sampler:
        return cls(**{setting.name: getattr(config, setting.name) for setting in SAMPLING})

    def both(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities with and without the sampling settings. [R, V] -> [R, V], [R, V]

        Both results are in float32.
        """
        raw = logits.float().softmax(-1)
        is_plain = self == Sampler()
        return raw if is_plain else self.distributions(logits), raw

    def distributions(self, logits: Tensor) -> Tensor:
        """Return the probabilities with the sampling settings, in float32. [R, V] -> [R, V]"""
        if self.temperature == 0:
            return one_hot(logits.argmax(-1), logits.shape[-1])
        scaled = logits.float() / self.temperature
        if 0 < self.top_k < scaled.shape[-1]:
            least = scaled.topk(self.top_k, dim=-1).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        probs = scaled.softmax(-1)
        if self.top_p < 1:
            probs = _nucleus(probs, self.top_p)
        return _near_best(probs, self.min_p) if self.min_p > 0 else probs


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most probable tokens whose total probability reaches `top_p`. [R, V]

    All other tokens get probability 0, and the result is normalised. Among equally probable tokens,
    the one with the smaller id is kept first.
    """
    # The shortcut first sorts only a few tokens of each row. The host must then wait for the device
    # to learn which rows need a full sort, which is too slow on a GPU.
    has_shortcut = not is_accelerator(probs.device) and probs.shape[-1] > FEW_SORT_LIMIT
    return normalize(
        _kept_of_few(probs, top_p, FEW) if has_shortcut else _kept_of_all(probs, top_p)
    )


def _kept_of_all(probs: Tensor, top_p: float) -> Tensor:
    """Return the probabilities of the tokens that top-p keeps, and 0 for all others. [R, V]"""
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    kept = ordered.masked_fill(_mass_before(ordered) >= top_p, 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept)


def _kept_of_few(probs: Tensor, top_p: float, sizes: Sequence[int]) -> Tensor:
    """Return the probabilities of the tokens that top-p keeps, and 0 for all others.

    The result equals that of `_kept_of_all`, but a whole row is sorted only if necessary.

    The most probable `sizes[0]` tokens usually suffice to find all tokens that top-p keeps in a
    row. If they do not suffice, the function tries the next number of tokens in `sizes` for that
    row. [R, V] -> [R, V]
    """
    if not sizes:
        return _kept_of_all(probs, top_p)
    few, *more = sizes
    best, ids = _best(probs, few)
    # Along a row, True is never followed by False, because the sum of probabilities only grows.
    is_beyond = _mass_before(best) >= top_p
    count = (~is_beyond).sum(-1, keepdim=True)  # [R, 1]
    least, following = best.gather(-1, count - 1), best.gather(-1, count.clamp(max=few - 1))
    kept = torch.zeros_like(probs).scatter(-1, ids, best.masked_fill(is_beyond, 0.0))
    # A row is decided if the last token that it keeps is more probable than the token after it. Of
    # equally probable tokens the smaller ids must be kept, but `_best` does not sort them by id. A
    # row is also undecided if the probability of the best `few` tokens does not reach `top_p`; then
    # `least` and `following` are both the last of these tokens, so they are equal.
    is_decided = (following < least).squeeze(-1)
    if not is_decided.all():
        kept[~is_decided] = _kept_of_few(probs[~is_decided], top_p, more)
    return kept


def _best(probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest values of each row, descending, and their tokens. [R, V] -> 2 [R, count]

    The tokens are divided into blocks of neighbouring ids. All results are in the `count` blocks
    whose maxima are largest. Comparing these blocks takes a fraction of the time of a search in the
    whole row.
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
    # The tokens after the last full block form one more block.
    places = F.pad(places, (0, 1), value=blocks)
    return values, places.gather(1, at // BLOCK) * BLOCK + at % BLOCK


def _mass_before(ordered: Tensor) -> Tensor:
    """Return, for each token of a sorted row, the total probability of the tokens before it.

    The value for the first token is -1, so that top-p always keeps this token.
    """
    mass_before = ordered.cumsum(-1) - ordered
    mass_before[..., 0] = -1.0
    return mass_before


def _near_best(probs: Tensor, min_p: float) -> Tensor:
    """Keep tokens that are at least `min_p` times as probable as the best token, and normalise."""
    least = min_p * probs.amax(-1, keepdim=True)
    return normalize(probs.masked_fill(probs < least, 0.0))


def masked(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the logits of a target that may write only some tokens. [R, V] -> [R, V]

    `allowed` [R, V] bool has the tokens that the grammar allows, at least one per row; it is None
    without a grammar. The mask is part of the target, so it comes before all sampling settings.
    """
    return logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)


def one_hot(token_ids: Tensor, vocab_size: int) -> Tensor:
    """Return distributions with all probability on one token, in float32. [R] -> [R, V]"""
    distribution = torch.zeros(*token_ids.shape, vocab_size, device=token_ids.device)
    return distribution.scatter_(-1, token_ids[..., None], 1.0)


def normalize(mass: Tensor) -> Tensor:
    """Scale rows of non-negative numbers to sum 1. A row of zeros is not changed. [R, V]"""
    total = mass.sum(-1, keepdim=True)
    return mass / total.where(total > 0, 1.0)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Return normalize(max(0, p - q)), from which a token is drawn after a rejection.

    [R, V] x [R, V] -> [R, V]. Source: Leviathan, arXiv 2211.17192. If p equals q, a rejection has
    probability 0 and nothing is left to normalise. The result is then p.

    >>> residual(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.75, 0.25]])).tolist()
    [[0.0, 1.0]]
    """
    left = (p - q).clamp_(min=0)
    total = left.sum(-1, keepdim=True)
    nothing = (total == 0).to(p)
    return left.addcmul_(p, nothing).div_(total + nothing)


def draw(distributions: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per distribution by inverse transform. [R, V] x [R] -> [R]

    A token with probability 0 is never drawn. The sums are in float64, because sums in float32
    would lose the least probable tokens of a vocabulary of 150,000.
    """
    cumulative = distributions.cumsum(-1, dtype=torch.float64)
    total = cumulative[..., -1:].contiguous()
    threshold = uniforms.to(cumulative)[..., None] * total
    token_ids = torch.searchsorted(cumulative, threshold, right=True).squeeze(-1)
    last = torch.searchsorted(cumulative, total).squeeze(-1)
    return torch.minimum(token_ids, last)


def uniforms_on(device: torch.device, uniforms: Sequence[float]) -> Tensor:
    """Copy random numbers from the host as a float64 tensor. The copy does not block."""
    return upload(torch.tensor(uniforms, dtype=torch.float64), device)
