"""Each claim's theory equals the same number found by simulation, by enumeration or by hand.

K is the number of drafted tokens, and a the probability that a drafted token is accepted.
"""

from __future__ import annotations

import math
import random
from itertools import product

import pytest

from specviz.claims.all_claims import CLAIMS


def theory(number: int, **numbers: object) -> dict[str, float]:
    return {each.name: each.value for each in CLAIMS[number].theory(**numbers).numbers}


def tokens(a: float, K: int) -> float:
    """Return the expected tokens per round, (1 - a^(K + 1)) / (1 - a)."""
    return (1 - a ** (K + 1)) / (1 - a)


def accepted(chance: random.Random, a: float, K: int) -> int:
    """Simulate one round of K drafted tokens; return how many are accepted."""
    count = 0
    while count < K and chance.random() < a:
        count += 1
    return count


def test_the_accepted_tokens_of_claim_1_equal_those_of_simulated_rounds() -> None:
    chance = random.Random(1)
    seen = sum(accepted(chance, 0.8, 5) for _ in range(40_000)) / 40_000
    found = theory(1)
    assert found["accepted per round"] == pytest.approx(seen, abs=0.03)
    assert found["tokens per target forward"] == pytest.approx(tokens(0.8, 5))
    assert found["speedup at c = 0.1"] == pytest.approx(tokens(0.8, 5) / 1.5)
    assert found["speedup at c = 0.1 if a is per drafted token"] == pytest.approx(5 / 1.5)


def passes(p: list[float], q: list[float], token: int) -> float:
    return min(1.0, p[token] / q[token]) if q[token] else 0.0


def rest(p: list[float], q: list[float]) -> list[float]:
    left = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    return [each / sum(left) for each in left]


def distance(p: list[float], out: list[float]) -> float:
    return sum(abs(a - b) for a, b in zip(p, out, strict=True)) / 2


P, Q = [0.6, 0.3, 0.1], [0.3, 0.6, 0.1]


def walk(p: list[float], q: list[float], siblings: int, recovered: list[float]) -> list[float]:
    """Return the distribution of one output token, summed over every possible draw of the siblings.

    The siblings are examined one after the other. `recovered` is the distribution of the token that
    is drawn after all siblings were rejected.
    """
    out = [0.0] * len(p)
    for drawn in product(range(len(p)), repeat=siblings):
        weight = math.prod(q[token] for token in drawn)
        for token in drawn:
            out[token] += weight * passes(p, q, token)
            weight *= 1 - passes(p, q, token)
        for token, share in enumerate(recovered):
            out[token] += weight * share
    return out


def test_the_rules_of_claims_2_to_4_agree_with_an_enumeration_of_all_draws() -> None:
    rule = sum(q * passes(P, Q, token) for token, q in enumerate(Q))
    assert theory(2)["accepted by min(1, p/q)"] == pytest.approx(rule)
    biased = distance(P, walk(P, Q, 1, P))
    assert theory(3)["total variation, resampled from p"] == pytest.approx(biased)
    assert distance(P, walk(P, Q, 1, rest(P, Q))) == pytest.approx(0)
    longest = theory(4)
    assert longest["total variation at temperature 0"] == 0


def test_the_longest_path_of_claim_4_agrees_with_an_enumeration_of_all_draws() -> None:
    after = (0.3, 0.9, 0.3)
    out = [0.0] * 3
    for one, other in product(range(3), repeat=2):
        weight = Q[one] * Q[other]
        passed = passes(P, Q, one), passes(P, Q, other)
        out[one] += weight * passed[0] * (1 - passed[1])
        out[other] += weight * passed[1] * (1 - passed[0])
        longer = after[other] * (1 - after[one])  # the second path is accepted only if it is longer
        out[other] += weight * passed[0] * passed[1] * longer
        out[one] += weight * passed[0] * passed[1] * (1 - longer)
        for token, share in enumerate(rest(P, Q)):
            out[token] += weight * (1 - passed[0]) * (1 - passed[1]) * share
    assert theory(4)["total variation when sampling"] == pytest.approx(distance(P, out))


def test_in_claim_20_a_draft_that_lacks_tokens_stays_exact() -> None:
    p, q = [0.5, 0.2, 0.2, 0.1], [0.7, 0.3, 0.0, 0.0]
    assert distance(p, walk(p, q, 1, rest(p, q))) == pytest.approx(0)
    assert theory(20)["accepted"] == pytest.approx(0.5 + 0.2)


def test_the_bandwidth_of_claim_6_equals_a_calculation_by_hand() -> None:
    found = theory(6)
    assert found["read per token at most"] == pytest.approx(3350 / 125)
    assert found["bits per weight at most"] == pytest.approx(26.8 * 8 / 70.6)
    assert found["weights in 16 bits"] == pytest.approx(141.2)
    assert found["limit if the memory is weights"] == pytest.approx(3350 / 68.2)


def test_the_money_of_claim_8_equals_a_calculation_by_hand() -> None:
    found = theory(8)
    assert found["load on average"] == pytest.approx(10e6 / 86_400)
    assert found["machines before"] == math.ceil(115.74 / 125) == 1
    assert found["price that the claim implies"] == pytest.approx(150_000 / (2 * 365 * 24))
    for peak, machines in ((3.2, 3), (3.3, 4), (4.3, 4), (4.4, 5)):
        assert math.ceil(peak * 115.7407 / 125) == machines
    assert "3.3 to 4.3 times" in CLAIMS[8].theory().sentence


def test_speedups_of_claims_12_13_15_and_29_equal_the_closed_form() -> None:
    assert theory(12)["speedup at c = 0.11"] == pytest.approx(tokens(0.73, 4) / 1.44)
    assert theory(12)["rate at c = 0.11"] == pytest.approx(30 * tokens(0.73, 4) / 1.44)
    assert theory(13)["speedup of that round at c = 0.1"] == pytest.approx(4 / 1.5)
    for a in (0.8, 0.6, 0.4):
        assert theory(15)[f"speedup at a = {a:g}, c = 0.1"] == pytest.approx(tokens(a, 5) / 1.5)
    found = theory(29)
    assert found["tokens per forward, a per drafted token"] == pytest.approx(4.2)
    assert found["tokens per forward, a per examined token"] == pytest.approx(tokens(0.8, 4))


def test_the_pairs_of_claim_16_follow_from_their_model_sizes() -> None:
    found = theory(16)
    for pair in CLAIMS[16].numbers["pairs"]:
        c = pair["draft"] / pair["target"]
        gains = [
            tokens(pair["acceptance"], K) / (1 + K * c + overhead(pair, K + 1))
            for K in range(1, 33)
        ]
        assert found[f"{pair['name']}, K = 5"] == pytest.approx(gains[4])
        assert found[f"{pair['name']}, best K"] == pytest.approx(max(gains))


def overhead(pair: dict[str, float], count: int) -> float:
    """Return the additional bytes that a forward over `count` tokens reads, relative to one token.

    Mixtral reads more bytes for more tokens. The result for dense models is 0.
    """
    if "experts" not in pair:
        return 0.0
    shared = pair["target"] - pair["used"] * (46.7 - 12.9) / 6
    used = 8 * (1 - (6 / 8) ** count)
    return (shared + used * (46.7 - 12.9) / 6) / pair["target"] - 1


def test_the_costs_that_claims_9_and_23_imply_follow_from_their_rates() -> None:
    for task, a, gain in (("code", 0.87, 2.3), ("maths", 0.72, 1.7)):
        c = theory(9)[f"c that {task} implies"]
        assert tokens(a, 5) / (1 + 5 * c) == pytest.approx(gain)
    found = theory(23)
    assert (0.82 * 5 + 1) / (1 + 5 * found["c implied by K = 5"]) == pytest.approx(89 / 42)
    assert (0.69 * 8 + 1) / (1 + 8 * found["c implied by K = 8"]) == pytest.approx(104 / 42)


def roofline_gain(rows: int, a: float = 0.8, K: int = 5, c: float = 0.1) -> float:
    def seconds(count: int) -> float:
        return max(1.0, count / 295)

    return tokens(a, K) * seconds(rows) / (seconds(rows * (K + 1)) + K * c * seconds(rows))


def test_the_roofline_of_claims_21_25_28_and_31_equals_its_definition() -> None:
    combined, bound = theory(21), theory(25)
    assert combined["part due to speculation at 24 rows"] == pytest.approx(roofline_gain(24))
    paying = int(theory(28)["rows up to which it pays"])
    assert roofline_gain(paying) > 1 >= roofline_gain(paying + 1)
    assert bound["speedup if arithmetic is the limit"] == pytest.approx(tokens(0.8, 5) / 6.5)
    assert theory(31)["speedup of 16 rows"] == pytest.approx(roofline_gain(16))


def test_the_bound_of_claim_26_is_below_simulated_short_answers() -> None:
    chance = random.Random(2)
    rounds = 0
    for _ in range(4000):
        left = 48
        while left > 0:
            left -= accepted(chance, 0.8, 5) + 1
            rounds += 1
    simulated = 48 * 4000 / (1.5 * rounds)
    assert 1 < theory(26)["least speedup of 49 tokens"] <= simulated


def test_the_overlap_of_claim_27_first_falls_and_then_rises_with_temperature() -> None:
    def softmax(logits: tuple[float, ...], temperature: float) -> list[float]:
        weights = [math.exp(logit / temperature) for logit in logits]
        return [each / sum(weights) for each in weights]

    found = theory(27)
    by_hand = []
    for temperature in (0.2, 1.0, 5.0):
        p, q = softmax((4.0, 2.0, 0.0), temperature), softmax((2.0, 1.5, 0.0), temperature)
        by_hand.append(1 - distance(p, q))
        assert found[f"overlap at temperature {temperature:g}"] == pytest.approx(by_hand[-1])
    assert by_hand[1] < by_hand[0] and by_hand[1] < by_hand[2]


def test_thresholds_and_required_acceptance_solve_their_equations() -> None:
    for name, a in theory(10).items():
        if name.startswith("break-even"):
            assert tokens(a, 5) == pytest.approx(1 + 5 * float(name.rpartition("= ")[2]))
    assert tokens(theory(17)["acceptance for 3× at c = 0.1, EAGLE-2"], 5) == pytest.approx(4.5)
    assert tokens(theory(5)["break-even acceptance at c = 0.5"], 5) == pytest.approx(3.5)


def test_the_peak_and_the_cache_of_claim_30_equal_a_calculation_by_hand() -> None:
    found = theory(30)
    assert found["share of the peak, one row"] == pytest.approx(3.35 / 989)
    cache = 8192 * 32 * 2 * 8 * 128 * 2
    assert found["limit at 8192 tokens"] == pytest.approx(3.35e12 / (16.06e9 + cache))


def test_the_times_of_a_whole_request_add_up() -> None:
    assert theory(14)["whole request at 50 % prefill"] == pytest.approx(1 / (0.5 + 0.5 / 2))
    gain = tokens(0.8, 5) / 1.5
    assert theory(22)["whole request, speculation"] == pytest.approx(1 / (0.2 + 0.8 / gain))
    assert theory(7)["share added to the first token"] == pytest.approx(15 / 180)
    assert theory(19)["speedup by time, in the example"] == pytest.approx((3 / 40) / (2 / 40))
    assert theory(18)["speedup at K = 20"] == pytest.approx(tokens(0.8, 20) / 3)
    assert theory(11)["speedup at c = 0.25, K = 5"] == pytest.approx(tokens(0.8, 5) / 2.25)
    assert theory(24)["c by the weights"] == pytest.approx(3.8 / 8)
