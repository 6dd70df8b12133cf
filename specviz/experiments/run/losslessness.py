"""A test of losslessness on real models: does the output follow the target's distribution?

Many rounds start from the same contexts, each with its own seed. The first and the second emitted
token are counted. The counts are compared with the target's exact distributions, in units of the
noise of sampling. Only emitted tokens are compared, never how they were verified. In shapes, V is
the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from specviz.claims import output_distributions as outputs
from specviz.decoding.drafters.base import Drafter
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
from specviz.records import DecodingConfig, Outcome
from specviz.slices import give_way

CONTEXT_TOKENS = 24  # tokens of a held-out prompt that are used as a context
SIGNIFICANCE = 1e-3  # probability that an exact sampler fails the test, split over three criteria
# The distance from the mean, in standard deviations, that a normal variable exceeds with
# probability 1e-3 / 3, counting both sides.
DEVIATIONS = 3.6
# The largest change of a probability by rounding. A token this close to the limit of top-p or min-p
# may therefore fall on either side.
BORDER = 1e-5
_BOOTSTRAPS = 200
_POOLED_BELOW = 5.0

MakeRun = Callable[[LanguageModel, Drafter, Sequence[int], DecodingConfig], SpeculativeRun]


@dataclass(frozen=True, slots=True)
class Losslessness:
    """The result of the test: distances between counts and exact distributions.

    `total_variation` is the mean over contexts, weighted by their samples. `noise_floor` is its
    expected value for exact samples of the same size, and `noise_ceiling` is DEVIATIONS standard
    deviations above `noise_floor`. `chi_square` is the sum over all contexts; tokens with an
    expected count below 5 are pooled. `surprise_deviations` is the distance of the tokens' mean
    log-probability from its exact value, in standard deviations. It detects distributions that are
    too sharp or too flat. `forbidden` is the number of tokens that the target's distribution
    excludes.
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
        """Return "lossless" or "biased".

        An exact sampler is called biased about once in a thousand tests. With few samples this
        happens more often: four times in a thousand with 120 samples after one context, in
        simulations.
        """
        clean = (
            self.forbidden == 0
            and self.p_value >= SIGNIFICANCE / 3
            and self.total_variation <= self.noise_ceiling
            and abs(self.surprise_deviations) <= DEVIATIONS
        )
        return "lossless" if clean else "biased"


@dataclass(frozen=True, slots=True)
class Distance:
    """The part of `Losslessness` that is known while samples are still drawn."""

    total_variation: float
    noise_floor: float
    chi_square: float
    degrees_of_freedom: int
    p_value: float
    forbidden: int


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The counts of tokens after one context, and their exact distribution."""

    distribution: Tensor  # [V] float64
    counts: Tensor  # [V] float64


class Draws(Protocol):
    """A source of random draws of the two tokens that follow a context."""

    block: int  # number of draws that are made together
    accepted: int  # number of draws so far whose first token was an accepted guess

    def draw(self, count: int) -> Sequence[tuple[int, int | None]]:
        """Return the two tokens of each of `count` draws.

        The second token is None unless the first one is the most probable token after the context.
        """
        ...


def held_out_contexts(codec: TextCodec) -> list[list[int]]:
    """Return one context per task as token ids: the beginning of a held-out prompt.

    The beginning is treated as a whole prompt. A complete chat template surrounds it, so that the
    answer starts after each context.
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
    """Test `samples` rounds, spread over the contexts.

    A context is a list of at least two token ids.
    """
    if samples < len(contexts):
        raise InputError(
            f"samples must be at least {len(contexts)}, one for each context, got {samples}"
        )
    each = samples // len(contexts)
    cells: list[Cell] = []
    for number, context in enumerate(contexts, start=1):
        counting = Counting(loaded, config, context)
        seed = derived_seed(config.seed, number)
        for _ in counted(
            counting, DecoderDraws(loaded, config, context, counting.usual, seed), each
        ):
            pass
        cells.extend(counting.cells)
        progress(f"context {number} of {len(contexts)}: {each} rounds")
    return _compare(cells, each * len(contexts), config.seed)


class Counting:
    """The counts of tokens after one context.

    The second token is counted only if the first is `usual`, the most probable first token.
    """

    def __init__(self, loaded: LoadedPair, config: DecodingConfig, context: Sequence[int]) -> None:
        self._loaded, self._config = loaded, config
        first = _exact_distribution(loaded, config, context)
        self.usual = int(first.argmax())
        self._texts = (list(context), [*context, self.usual])
        second = _exact_distribution(loaded, config, self._texts[1])
        self.cells = tuple(Cell(each, torch.zeros_like(each)) for each in (first, second))

    def add(self, drawn: Sequence[tuple[int, int | None]]) -> None:
        first, second = ([pair[place] for pair in drawn] for place in (0, 1))
        cells = zip(self.cells, (first, second), self._texts, strict=True)
        self.cells = tuple(self._added(cell, ids, text) for cell, ids, text in cells)

    def _added(self, cell: Cell, token_ids: Sequence[int | None], text: Sequence[int]) -> Cell:
        ids = torch.tensor([each for each in token_ids if each is not None], dtype=torch.int64)
        counts = cell.counts + torch.bincount(ids, minlength=len(cell.counts))
        distribution = cell.distribution
        if bool((counts[distribution == 0] > 0).any()):
            # The counted tokens come from forwards of rounds, which round their sums differently
            # from the forward that gave `distribution`. A token near the limit of top-p or min-p
            # may therefore be allowed by one forward and excluded by the other.
            config = self._config
            top_p, min_p = min(1.0, config.top_p + BORDER), max(0.0, config.min_p - BORDER)
            wider = replace(config, top_p=top_p, min_p=min_p)
            distribution = _exact_distribution(self._loaded, wider, text)
        return Cell(distribution, counts)


def counted(counting: Counting, draws: Draws, samples: int) -> Iterator[int]:
    """Draw and count block by block; yield the number of draws counted so far."""
    done = 0
    while done < samples:
        count = min(draws.block, samples - done)
        counting.add(draws.draw(count))
        done += count
        yield done
        give_way()


def _decoder_run(
    model: LanguageModel, drafter: Drafter, context: Sequence[int], config: DecodingConfig
) -> SpeculativeRun:
    return SpeculativeRun(model, drafter, context, config, ())


class DecoderDraws:
    """Draws by the real decoder: each is a run with its own seed, until two tokens are emitted."""

    block = 1

    def __init__(
        self,
        loaded: LoadedPair,
        config: DecodingConfig,
        context: Sequence[int],
        usual: int,
        seed: int,
        make_run: MakeRun = _decoder_run,
    ) -> None:
        """Prepare the runs.

        `usual` is the most probable first token. A second token is drawn only after this one.
        """
        self._loaded, self._context, self._usual, self._seed = loaded, context, usual, seed
        self._config = replace(config, max_new_tokens=2 * config.draft_length + 4)
        self._make_run = make_run
        self._drawn = 0
        self.accepted = 0  # number of draws whose first token was an accepted guess

    def draw(self, count: int) -> list[tuple[int, int | None]]:
        return [self._two_tokens() for _ in range(count)]

    def _two_tokens(self) -> tuple[int, int | None]:
        self._drawn += 1
        config = replace(self._config, seed=derived_seed(self._seed, self._drawn))
        setup = Setup(
            self._loaded.target, self._loaded.parts, config, cache_capacity(self._context, config)
        )
        drafter = make_drafter(setup)
        try:
            run = self._make_run(self._loaded.target, drafter, self._context, config)
            run.resume()
            ids: list[int] = []
            while len(ids) < (2 if ids[:1] in ([], [self._usual]) else 1):
                written = run.round()
                if not ids:
                    self.accepted += any(
                        each.outcome is Outcome.ACCEPTED for each in written.verdicts
                    )
                ids.extend(written.emitted_ids)
        finally:
            drafter.close()
        return ids[0], ids[1] if ids[0] == self._usual else None


def _exact_distribution(loaded: LoadedPair, config: DecodingConfig, ids: Sequence[int]) -> Tensor:
    distribution = next_probabilities(loaded.target, config, ids)[0].double().cpu()
    return distribution / distribution.sum()


@torch.inference_mode()
def next_probabilities(
    model: LanguageModel, config: DecodingConfig, ids: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return two distributions of a model after `ids`, each [V] float32.

    The first follows the sampling settings, and the second is the plain softmax.
    """
    target = Target.of(model, ids, replace(config, max_new_tokens=1))
    processed, raw = target.sampler.both(target.fill(ids).logits[0])
    return processed[0], raw[0]


def distance(cells: Sequence[Cell]) -> Distance:
    """Return how far the counts of these cells are from their exact distributions."""
    chi_square, freedom = 0.0, 0
    for cell in cells:
        statistic, cell_freedom = _chi_square(cell)
        chi_square, freedom = chi_square + statistic, freedom + cell_freedom
    return Distance(
        total_variation=_total_variation(cells, [cell.counts for cell in cells]),
        noise_floor=_noise_floor(cells),
        chi_square=chi_square,
        degrees_of_freedom=freedom,
        p_value=_upper_tail(chi_square, freedom),
        forbidden=sum(int(cell.counts[cell.distribution == 0].sum()) for cell in cells),
    )


def _noise_floor(cells: Sequence[Cell]) -> float:
    """Return the expected total variation of exact samples with the sizes of the real ones.

    The mean absolute deviation of a binomial number with n trials is
    2 k C(n, k) p^k (1 - p)^(n - k + 1), where k is the first whole number above n p (de Moivre).
    """
    total = sum(float(cell.counts.sum()) for cell in cells)
    floor = 0.0
    for cell in cells:
        n, p = cell.counts.sum(), cell.distribution[cell.distribution > 0].clamp(max=1 - 1e-15)
        k = (n * p).floor() + 1
        ways = torch.lgamma(n + 1) - torch.lgamma(k) - torch.lgamma((n - k).clamp(min=0) + 1)
        mean = 2 * (ways + k * p.log() + (n - k + 1) * (-p).log1p()).exp()
        floor += 0.5 * float(torch.where(k <= n, mean, 0.0).sum())
    return floor / max(1.0, total)


def _compare(cells: Sequence[Cell], samples: int, seed: int) -> Losslessness:
    found = distance(cells)
    deviation = float(_bootstrap(cells, seed).std())
    return Losslessness(
        **asdict(found),
        noise_ceiling=found.noise_floor + DEVIATIONS * deviation,
        surprise_deviations=_surprise(cells),
        samples=samples,
    )


def _total_variation(cells: Sequence[Cell], counts: Sequence[Tensor]) -> float:
    total = max(1.0, sum(float(count.sum()) for count in counts))
    distances = (
        0.5 * float((count - cell.distribution * count.sum()).abs().sum())
        for cell, count in zip(cells, counts, strict=True)
    )
    return sum(distances) / total


def _bootstrap(cells: Sequence[Cell], seed: int) -> Tensor:
    """Return the total variations of simulated exact samples with the sizes of the real ones."""
    generator = torch.Generator().manual_seed(seed)
    distances = torch.zeros(_BOOTSTRAPS, dtype=torch.float64)
    total = sum(float(cell.counts.sum()) for cell in cells)
    for cell in cells:
        size = int(cell.counts.sum())
        for i in range(_BOOTSTRAPS if size else 0):
            draws = torch.multinomial(
                cell.distribution, size, replacement=True, generator=generator
            )
            counts = torch.bincount(draws, minlength=len(cell.distribution))
            distances[i] += 0.5 * float((counts - cell.distribution * size).abs().sum()) / total
    return distances


def _surprise(cells: Sequence[Cell]) -> float:
    """Return how far the sum of log p over all drawn tokens is from its expected value.

    The unit is one standard deviation of that sum.
    """
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


def _chi_square(cell: Cell) -> tuple[float, int]:
    """Return the chi-square statistic and its degrees of freedom, over the possible tokens."""
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
    """Return the probability that an exact sampler gives a larger chi-square value."""
    if freedom == 0:
        return 1.0 if chi_square == 0 else 0.0
    half = torch.tensor([freedom / 2, chi_square / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def measure_distributions(
    loaded: LoadedPair, contexts: Sequence[Sequence[int]], temperatures: Sequence[float]
) -> list[dict[str, Any]]:
    """Return exact numbers about p and q, for each temperature and each context (token ids).

    `overlap` is the probability that min(1, p/q) accepts a draft. `equal_mass` is the probability
    that a drafted token has p = q. `resampled_from_p` and `two_siblings` are total variations
    between p and the output's distribution under two wrong rules that some texts describe.
    """
    assert loaded.parts.draft is not None
    models = loaded.target, loaded.parts.draft
    logits = [[_next_logits(model, context) for model in models] for context in contexts]
    return [_rule_numbers(logits, temperature) for temperature in temperatures]


@torch.inference_mode()
def _next_logits(model: LanguageModel, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits after `ids`. [V]"""
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
