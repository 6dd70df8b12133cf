"""The numbers of a race as frozen values: what the page and `race --json` show.

Knows no record but the counts per depth; numbers that do not exist yet are None.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.metrics.round_totals import DepthAcceptance


@dataclass(frozen=True, slots=True)
class BaselineSummary:
    """The plain lane; seconds are of its own clock, the prefill included."""

    tokens: int
    seconds: float
    tokens_per_second: float | None
    ttft_seconds: float | None


@dataclass(frozen=True, slots=True)
class SpeculativeSummary:
    """The speculative lane; `target_forwards` counts the prefill's as well as one per round.

    `draft_prefill_seconds` is what the drafter took to read the prompt, `draft_seconds` the rest.
    """

    tokens: int
    seconds: float
    tokens_per_second: float | None
    ttft_seconds: float | None
    target_forwards: int
    acceptance_rate: float | None
    draft_utilization: float | None
    block_efficiency: float | None
    acceptance_by_depth: tuple[DepthAcceptance, ...]
    draft_prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    host_seconds: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """Index of the first new token that differs, and the gap of the baseline's two best logits.

    A token that a finished lane lacks differs too; the baseline's own lack has no margin.
    """

    index: int
    margin: float | None


@dataclass(frozen=True, slots=True)
class TheoryBand:
    """Theory's speedup at the measured acceptance rate and at the ends of its 95 % interval."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that the race shows; `dataclasses.asdict` makes it JSON.

    `server_speedup` is the same of two servers that were raced, the plain one's time over that of
    the one that speculates; of an answer that broke off over the tokens that came.

    `speedup` is the baseline's time for the first `speedup_tokens` tokens over the speculative
    lane's: as many as both had at the end of a round (`SpeedupCurve`). `cost_ratio` is c and
    `verify_overhead` v of `theory`, both measured. `identical` and `first_divergence` speak of the
    first `compared` tokens and exist only at temperature 0: above it the texts differ by chance.
    """

    baseline: BaselineSummary
    speculative: SpeculativeSummary
    speedup: float | None
    speedup_tokens: int
    cost_ratio: float | None
    verify_overhead: float | None
    theory_speedup: float | None
    theory_band: TheoryBand | None
    compared: int
    identical: bool | None
    first_divergence: Divergence | None
    server_speedup: float | None
    server_speedup_tokens: int
