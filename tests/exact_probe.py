"""Build advisor measurements that follow theory exactly, so that the best choice is known."""

from __future__ import annotations

from fractions import Fraction

from specviz.advisor.probe import BaselineRun, Candidate, CandidateRun, Probe, RoundSeen, Workload
from specviz.forward_curve import ForwardCurve

STEP = 0.01  # seconds of a forward pass over one token
FLAT = ForwardCurve((1, 64), (STEP, STEP))


def workload(**changes: object) -> Workload:
    usual = {
        "batch_size": 1,
        "max_new_tokens": 4096,
        "temperature": 0.0,
        "prompt_tokens": 20.0,
        "target_bytes": 100,
        "free_bytes": 10_000,
    }
    return Workload(**{**usual, **changes})  # type: ignore[arg-type]


def baseline(block: int = 0, first: float = STEP, step: float = STEP) -> BaselineRun:
    return BaselineRun(block, 101, first, first + 100 * step, 100, step)


def geometric(a: Fraction, K: int) -> tuple[int, ...]:
    """Return how many of its K drafted levels each of b^K rounds accepts.

    The acceptance rate is a = p / b. Exactly the share a^d of the rounds accepts at least d levels.
    """
    p, b = a.numerator, a.denominator
    at_least = [p**depth * b ** (K - depth) for depth in range(K + 1)] + [0]
    return tuple(
        depth for depth in range(K + 1) for _ in range(at_least[depth] - at_least[depth + 1])
    )


def run(
    method: str,
    a: Fraction,
    K: int,
    c: float,
    v: float,
    host: float = 0.0,
    held_bytes: int = 0,
    block: int = 0,
) -> CandidateRun:
    """Return a run in which a round costs 1 + K c + v + host plain steps.

    The prompt contains the arguments, so different runs have different prompts.
    `a` is the acceptance rate, `c` the cost of a draft step, `v` the additional cost of
    verification and `host` the host's time, all costs in plain steps.
    """
    seen = RoundSeen(geometric(a, K), K, K, K * c * STEP, (1 + v) * STEP, host * STEP)
    prompts = (f"{method} {a} {K} {block}",)
    candidate = Candidate(method, K)
    return CandidateRun(candidate, block, 1, STEP, 1.0, (seen,), held_bytes, prompts)


def probe(*runs: CandidateRun, at: Workload | None = None) -> Probe:
    return Probe(at or workload(), FLAT, FLAT, (baseline(),), runs)
