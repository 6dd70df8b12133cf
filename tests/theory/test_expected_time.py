"""The mean time of a request equals a separate mean over all possible sequences of rounds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.decoding.row import Row
from specviz.errors import InputError
from specviz.records import DecodingConfig
from specviz.theory import (
    EXACT_ROWS_TOKENS,
    EXACT_TOKENS,
    expected_seconds,
    expected_tokens,
    round_cost,
    speedup,
    waiting,
)


def every_course(left: int, survival: list[float], costs: list[float]) -> float:
    """Return the mean time to write `left` more tokens, by recursion over all possible rounds.

    `survival[d - 1]` is the probability that at least d drafted tokens are accepted, and `costs[k]`
    is the time of a round that drafts k tokens.
    """
    if left <= 0:
        return 0.0
    drafted = min(len(survival), room(left))
    mean = 0.0
    for accepted in range(drafted + 1):
        reached = survival[accepted - 1] if accepted else 1.0
        further = survival[accepted] if accepted < drafted else 0.0
        mean += (reached - further) * every_course(left - accepted - 1, survival, costs)
    return costs[drafted] + mean


def room(left: int) -> int:
    """Return how many tokens the decoder may draft if it may still write `left` tokens."""
    return Row([1], DecodingConfig(max_new_tokens=left), ()).room


@given(
    st.integers(0, 7),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
    st.lists(st.floats(0.1, 3), min_size=4, max_size=4),
)
def test_every_sequence_of_rounds_of_a_short_request_is_counted(
    tokens: int, rates: list[float], costs: list[float]
) -> None:
    survival = [1.0]
    for rate in rates:
        survival.append(survival[-1] * rate)
    found = expected_seconds(tokens, survival[1:], costs[: len(rates) + 1])
    assert found == pytest.approx(every_course(tokens, survival[1:], costs))


@pytest.mark.parametrize(("tokens", "speedup"), [(2, 1.0), (4, 1.190), (64, 1.332)])
def test_a_round_drafts_at_most_one_token_fewer_than_are_left(tokens: int, speedup: float) -> None:
    """The target adds one token to each round, so the last rounds must draft fewer tokens.

    The first token of the request comes from a plain step.
    """
    survival = [0.8**depth for depth in range(1, 6)]
    costs = [1.0, *(1.25 + 0.3 * K for K in range(1, 6))]
    found = tokens / (1 + expected_seconds(tokens - 1, survival, costs))
    assert found == pytest.approx(speedup, abs=5e-4)


@pytest.mark.parametrize(("a", "K", "c", "v"), [(0.8, 5, 0.1, 0.0), (0.6, 3, 0.05, 0.3)])
def test_a_long_request_has_the_speedup_of_theory(a: float, K: int, c: float, v: float) -> None:
    survival = [a**depth for depth in range(1, K + 1)]
    costs = [round_cost(length, c, v) for length in range(K + 1)]
    seconds = expected_seconds(100_000, survival, costs)
    assert 100_000 / seconds == pytest.approx(speedup(a, K, c, v), rel=1e-3)


def test_in_a_long_request_every_token_takes_its_share_of_a_mean_round() -> None:
    survival, costs = [0.5, 0.25], [1.0, 1.2, 1.4]
    near, far = (expected_seconds(EXACT_TOKENS + n, survival, costs) for n in (0, 70))
    assert far - near == pytest.approx(70 * 1.4 / expected_tokens(0.5, 2))
    exact = every_course_time(EXACT_TOKENS + 70, survival, costs)
    assert far == pytest.approx(exact, rel=1e-6)


def every_course_time(tokens: int, survival: list[float], costs: list[float]) -> float:
    """Return the same mean time as `every_course`.

    The function fills a table, so it is quick for long requests.
    """
    times = [0.0]
    for left in range(1, tokens + 1):
        drafted = min(len(survival), room(left))
        chain = [1.0, *survival[:drafted], 0.0]
        parts = ((chain[a] - chain[a + 1]) * times[left - a - 1] for a in range(drafted + 1))
        times.append(costs[drafted] + sum(parts))
    return times[-1]


@pytest.mark.parametrize(
    ("rows", "tokens", "a", "K", "batches"),
    [(4, 32, 0.7, 5, 800), (16, 2, 0.8, 8, 800), (16, 90, 0.5, 2, 80), (2, 100, 0.8, 8, 800)],
)
def test_the_longest_row_takes_as_many_rounds_as_in_a_simulation(
    rows: int, tokens: int, a: float, K: int, batches: int
) -> None:
    """Theory must be within 2.5 % of the simulated mean, whose standard error is below 0.6 %.

    So a wrong formula that is 5 % off fails this test with a probability of 99.9 %.
    """
    draws = random.Random(7)
    counts = [simulated_rounds(tokens, a, K, draws) for _ in range(batches * rows)]
    longest = [max(counts[at : at + rows]) for at in range(0, len(counts), rows)]
    found = (sum(longest) / batches) / (sum(counts) / len(counts))
    assert waiting(rows, tokens, [a**depth for depth in range(1, K + 1)]) == pytest.approx(
        found, rel=0.025
    )


def simulated_rounds(left: int, a: float, K: int, draws: random.Random) -> int:
    """Simulate rounds of K drafted tokens, each accepted with probability a.

    Return the number of rounds until `left` tokens are written.
    """
    rounds = 0
    while left > 0:
        passed, most = 0, min(K, room(left))
        while passed < most and draws.random() < a:
            passed += 1
        left -= passed + 1
        rounds += 1
    return rounds


@pytest.mark.parametrize("survival", [[0.0], [1.0, 1.0], [], [1 - 2**-53] * 2])
@pytest.mark.parametrize("tokens", [0, 1, 30, 200])
def test_equal_rows_do_not_wait_for_each_other(survival: list[float], tokens: int) -> None:
    assert waiting(64, tokens, survival) == pytest.approx(1)
    assert waiting(1, tokens, [0.5]) == pytest.approx(1)


def test_exact_and_approximate_waiting_times_agree() -> None:
    survival = [0.7**depth for depth in range(1, 6)]
    here, beyond = (waiting(16, EXACT_ROWS_TOKENS + n, survival) for n in (0, 1))
    assert beyond == pytest.approx(here, rel=0.01)


def test_a_batch_of_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="rows must be at least 1, got 0"):
        waiting(0, 10, [0.5])


@pytest.mark.parametrize(
    ("tokens", "survival", "costs", "message"),
    [
        (-1, [0.5], [1.0, 1.0], "tokens must be at least 0"),
        (5, [0.5, 0.6], [1.0] * 3, "survival must be probabilities that do not rise"),
        (5, [1.1], [1.0] * 2, "survival must be probabilities that do not rise"),
        (5, [0.5], [1.0], "costs must be 2 numbers of at least 0"),
        (5, [0.5], [1.0, float("nan")], "costs must be 2 numbers of at least 0"),
    ],
)
def test_invalid_distributions_and_costs_are_refused(
    tokens: int, survival: list[float], costs: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        expected_seconds(tokens, survival, costs)
