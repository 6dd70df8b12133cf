"""Is the output's distribution the target's? Measured on real models, against the noise of
sampling.

Many rounds start from the same contexts, each with a seed of its own. The first and the second
token that they write are counted and compared with the target's exact distributions there. Only
emitted tokens are looked at, never how they were verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specviz.claims import output_distributions as outputs
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.sampling import Sampler
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.streams import derived_seed
from specviz.decoding.target import Target, cache_capacity
from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
from specviz.models.pair_loading import LoadedPair
from specviz.models.text.text_codec import TextCodec
from specviz.prompts import TASKS, held_out_prompt
from specviz.records import DecodingConfig

CONTEXT_TOKENS = 24  # of a held-out prompt
SIGNIFICANCE = 1e-3  # split over three criteria
DEVIATIONS = 3.6  # of a normal variable: exceeded on either side with probability 1e-3 / 3
BORDER = 1e-5  # by which two forwards may disagree on a border of top-p or min-p
_BOOTSTRAPS = 200
_POOLED_BELOW = 5.0


@dataclass(frozen=True, slots=True)
class Losslessness:
    """Total variation between counted and exact distributions, averaged over contexts by their
    samples.

    `noise_floor` is what exact sampling of the same size gives on average, `noise_ceiling` lies 3.6
    standard deviations above. Chi-square sums over all contexts, cells expected fewer than 5 times
    pooled. `surprise_deviations` is how far the mean log-probability of the tokens lies from its
    exact value, in standard deviations: it sees distributions that are too sharp or too flat.
    `forbidden` counts tokens that the target's distribution rules out.
    """

    total_variation: float
    noise_floor: float
    noise_ceiling: float
    chi_square: float
    degrees_of_freedom: int
    p_value: float
    surprise_deviations: float
    forbidden: int
    samples: int

    @property
    def verdict(self) -> str:
        """An exact sampler is called biased about once in a thousand measurements.

        Of few samples oftener: four times at 120 samples behind one context, as simulated.
        """
        clean = (
            self.forbidden == 0
            and self.p_value >= SIGNIFICANCE / 3
            and self.total_variation <= self.noise_ceiling
            and abs(self.surprise_deviations) <= DEVIATIONS
        )
        return "lossless" if clean else "biased"


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """Counts of one context beside its exact distribution."""

    distribution: Tensor  # [V] float64
    counts: Tensor  # [V] float64


def held_out_contexts(codec: TextCodec) -> list[list[int]]:
    """Token ids of one context per task: the beginning of a held-out prompt, as a prompt.

    A chat template stands whole around it, so that the answer begins behind each.
    """
    texts = ((task, codec.beginning(held_out_prompt(task, 1), CONTEXT_TOKENS)) for task in TASKS)
    return [codec.encode(text, task) for task, text in texts]


def measure_losslessness(
    loaded: LoadedPair,
    config: DecodingConfig,
    contexts: Sequence[Sequence[int]],
    samples: int,
    progress: Callable[[str], None] = lambda line: None,
) -> Losslessness:
    """`samples` rounds, spread over the contexts (token ids, each of at least two tokens)."""
    if samples < len(contexts):
        raise InputError(f"samples must be at least {len(contexts)}, got {samples}")
    each = samples // len(contexts)
    cells: list[_Cell] = []
    for number, context in enumerate(contexts, start=1):
        pairs = [
            _two_tokens(loaded, replace(config, seed=derived_seed(config.seed, number, i)), context)
            for i in range(each)
        ]
        cells.extend(_cells(loaded, config, context, pairs))
        progress(f"context {number} of {len(contexts)}: {each} rounds")
    return _compare(cells, each * len(contexts), config.seed)


def _two_tokens(
    loaded: LoadedPair, config: DecodingConfig, context: Sequence[int]
) -> tuple[int, int]:
    """The first two tokens that speculative rounds write behind the context."""
    config = replace(config, max_new_tokens=2 * config.draft_length + 4)
    setup = Setup(loaded.target, loaded.parts, config, cache_capacity(context, config))
    run = SpeculativeRun(loaded.target, make_drafter(setup), context, config, ())
    run.resume()
    ids: list[int] = []
    while len(ids) < 2:
        ids.extend(run.round().emitted_ids)
    return ids[0], ids[1]


def _cells(
    loaded: LoadedPair,
    config: DecodingConfig,
    context: Sequence[int],
    pairs: Iterable[tuple[int, int]],
) -> Iterable[_Cell]:
    """The first token's distribution, and the second one's behind the most frequent first token."""
    seen = list(pairs)
    first = Counter(pair[0] for pair in seen)
    usual = first.most_common(1)[0][0]
    second = Counter(pair[1] for pair in seen if pair[0] == usual)
    for ids, counts in ((context, first), ([*context, usual], second)):
        distribution = _exact_distribution(loaded, config, ids)
        tally = torch.zeros_like(distribution)
        for token_id, count in counts.items():
            tally[token_id] = count
        if bool((tally[distribution == 0] > 0).any()):
            # a round's forward rounds otherwise than this one: the borders may move
            top_p, min_p = min(1.0, config.top_p + BORDER), max(0.0, config.min_p - BORDER)
            wider = replace(config, top_p=top_p, min_p=min_p)
            distribution = _exact_distribution(loaded, wider, ids)
        yield _Cell(distribution, tally)


def _exact_distribution(loaded: LoadedPair, config: DecodingConfig, ids: Sequence[int]) -> Tensor:
    target = Target.of(loaded.target, ids, replace(config, max_new_tokens=1))
    with torch.inference_mode():
        distribution = target.sampler.distributions(target.fill(ids).logits[0])[0].double().cpu()
    return distribution / distribution.sum()


def _compare(cells: Sequence[_Cell], samples: int, seed: int) -> Losslessness:
    noise = _bootstrap(cells, seed)
    chi_square, freedom = 0.0, 0
    for cell in cells:
        statistic, cell_freedom = _chi_square(cell)
        chi_square, freedom = chi_square + statistic, freedom + cell_freedom
    return Losslessness(
        total_variation=_total_variation(cells, [cell.counts for cell in cells]),
        noise_floor=float(noise.mean()),
        noise_ceiling=float(noise.mean() + DEVIATIONS * noise.std()),
        chi_square=chi_square,
        degrees_of_freedom=freedom,
        p_value=_upper_tail(chi_square, freedom),
        surprise_deviations=_surprise(cells),
        forbidden=sum(int(cell.counts[cell.distribution == 0].sum()) for cell in cells),
        samples=samples,
    )


def _total_variation(cells: Sequence[_Cell], counts: Sequence[Tensor]) -> float:
    total = sum(float(count.sum()) for count in counts)
    distances = (
        0.5 * float((count - cell.distribution * count.sum()).abs().sum())
        for cell, count in zip(cells, counts, strict=True)
    )
    return sum(distances) / total


def _bootstrap(cells: Sequence[_Cell], seed: int) -> Tensor:
    """Total variations of exact samples of the same sizes."""
    generator = torch.Generator().manual_seed(seed)
    distances = torch.zeros(_BOOTSTRAPS, dtype=torch.float64)
    total = sum(float(cell.counts.sum()) for cell in cells)
    for cell in cells:
        size = int(cell.counts.sum())
        for i in range(_BOOTSTRAPS):
            draws = torch.multinomial(
                cell.distribution, size, replacement=True, generator=generator
            )
            counts = torch.bincount(draws, minlength=len(cell.distribution))
            distances[i] += 0.5 * float((counts - cell.distribution * size).abs().sum()) / total
    return distances


def _surprise(cells: Sequence[_Cell]) -> float:
    """Sum of log p over all tokens against its expectation, in standard deviations."""
    excess, variance = 0.0, 0.0
    for cell in cells:
        possible = cell.distribution > 0
        distribution, counts, log_p = (
            cell.distribution[possible],
            cell.counts[possible],
            cell.distribution[possible].log(),
        )
        mean = float((distribution * log_p).sum())
        excess += float((counts * (log_p - mean)).sum())
        variance += float(counts.sum() * (distribution * (log_p - mean) ** 2).sum())
    return excess / variance**0.5 if variance > 0 else 0.0


def _chi_square(cell: _Cell) -> tuple[float, int]:
    """Statistic and degrees of freedom over the tokens that the distribution allows."""
    expected = cell.distribution * cell.counts.sum()
    common = expected >= _POOLED_BELOW
    scarce = ~common & (cell.distribution > 0)
    rare_expected, rare = float(expected[scarce].sum()), float(cell.counts[scarce].sum())
    statistic = float(((cell.counts - expected)[common] ** 2 / expected[common]).sum())
    groups = int(common.sum())
    if rare_expected > 0:
        statistic += (rare - rare_expected) ** 2 / rare_expected
        groups += 1
    return statistic, max(0, groups - 1)


def _upper_tail(chi_square: float, freedom: int) -> float:
    """Probability of a larger chi-square value by chance."""
    if freedom == 0:
        return 1.0 if chi_square == 0 else 0.0
    half = torch.tensor([freedom / 2, chi_square / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def measure_distributions(
    loaded: LoadedPair, contexts: Sequence[Sequence[int]], temperatures: Sequence[float]
) -> list[dict[str, Any]]:
    """For each temperature one number per context (token ids).

    `overlap`: accepted by min(1, p/q); `equal_mass`: drafts with p = q; the others are total
    variations between p and the output's distribution under a rule that some texts give.
    """
    assert loaded.parts.draft is not None
    models = loaded.target, loaded.parts.draft
    logits = [[_next_logits(model, context) for model in models] for context in contexts]
    return [_rule_numbers(logits, temperature) for temperature in temperatures]


@torch.inference_mode()
def _next_logits(model: LanguageModel, ids: Sequence[int]) -> torch.Tensor:
    """[V]"""
    tokens = torch.tensor([list(ids)], device=model.device)
    positions = torch.arange(len(ids), device=model.device)[None]
    cache = model.new_cache(len(ids))
    return model.forward(tokens, positions, cache, last_only=True).logits[0, -1].double().cpu()


def _rule_numbers(logits: Sequence[Sequence[torch.Tensor]], temperature: float) -> dict[str, Any]:
    pairs = [[_probabilities(each, temperature) for each in both] for both in logits]
    return {
        "temperature": temperature,
        "overlap": [outputs.overlap(p, q) for p, q in pairs],
        "equal_mass": [outputs.equal_mass(p, q) for p, q in pairs],
        "resampled_from_p": [
            outputs.total_variation(outputs.emitted(p, q, p), p) for p, q in pairs
        ],
        "two_siblings": [
            outputs.total_variation(outputs.emitted_of_two(p, q), p) for p, q in pairs
        ],
    }


def _probabilities(logits: torch.Tensor, temperature: float) -> list[float]:
    distribution = Sampler(temperature).distributions(logits[None])[0].double()
    values: list[float] = (distribution / distribution.sum()).tolist()
    return values
