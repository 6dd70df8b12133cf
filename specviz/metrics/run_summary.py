"""The numbers of a race as frozen values, for the page and for `race --json`.

A number that does not exist yet is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.metrics.round_totals import DepthAcceptance


@dataclass(frozen=True, slots=True)
class BaselineSummary:
    """The numbers of the baseline lane, which decodes without drafts.

    `seconds` are on the lane's own clock and include the prefill. `reading_share` is the time to
    read the weights once at the measured memory bandwidth, divided by the mean time of a step. With
    a share of 1, a step is as fast as the memory allows. The share can exceed 1 if the model fits
    into the processor's cache, or if other work slowed the measurement of the memory. It is None if
    the run does not record the memory bandwidth.
    """

    tokens: int
    seconds: float
    tokens_per_second: float | None
    ttft_seconds: float | None
    reading_share: float | None = None


@dataclass(frozen=True, slots=True)
class SpeculativeSummary:
    """The numbers of the speculative lane.

    `target_forwards` counts the prefill and one forward per round. `draft_prefill_seconds` is the
    time in which the drafter read the prompt; `draft_seconds` is the rest of the drafter's time.
    `forced_tokens` counts the accepted tokens that a grammar forced and no method drafted.
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
    forced_tokens: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first new token that differs between the lanes.

    `margin` is the gap between the baseline's two largest logits at this token. If one lane has
    finished and its text is shorter, the next token of the longer text counts as the first
    difference. If the baseline has the shorter text, `margin` is None.
    """

    index: int
    margin: float | None


@dataclass(frozen=True, slots=True)
class TheoryBand:
    """The speedup that theory gives for measured acceptance and costs, with a 95 % interval.

    The interval includes the sampling error of the acceptance rate and the spread of the measured
    costs. If acceptance and costs were measured in the same run, theory only explains the speedup
    of that run. For another run, theory predicts the speedup.
    """

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All numbers of a race; `dataclasses.asdict` converts them for JSON.

    - `speedup` is the ratio of the lanes' tokens per second so far (see `SpeedupCurve`).
      `speedup_tokens` is the number of tokens of the lane that has fewer.
    - `server_speedup` is this ratio for two servers in the race: tokens per second of the
      speculative server / those of the plain server.
    - `cost_ratio` and `verify_overhead` are the measured costs c of drafting and v of verification
      (see `Costs`).
    - `identical` and `first_divergence` describe the first `compared` tokens. They exist only at
      temperature 0, because sampled texts differ by chance.
    - `speedup_limit` is the largest speedup that the target forwards allow; for texts of the same
      length it is the tokens per forward.
    - `is_disturbed` is True if the speedup exceeds this limit, so that other work must have slowed
      a lane.
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
    speedup_limit: float | None
    is_disturbed: bool
