"""What the zoo tells of a rule is true of its exact distribution, summed over all guesses."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specviz.decoding.sampling import Sampler
from specviz.decoding.verification import TYPICAL_DELTA, TYPICAL_EPSILON
from specviz.experiments.bug_zoo.many_draws import Place, side_by_side
from specviz.experiments.bug_zoo.wrong_rules import LOW, ExactRule, rule_named
from specviz.experiments.bug_zoo.zoo import specimen_named, specimens

VOCAB, SEEDS = 6, 40
NOTHING = 1e-12  # by which sums in another order may differ

# p, q and what comes out beyond p, [V] each -> whether what is told is true
Tell = Callable[[Tensor, Tensor, Tensor], bool]


def place(seed: int, top_k: int) -> Place:
    """Two models that disagree: little, much, or very much, by the seed."""
    generator = torch.Generator().manual_seed(seed)
    logits = (0.5, 1.6, 3.0)[seed % 3] * torch.randn(2, VOCAB, generator=generator)
    (p, q), (_, raw_q) = Sampler(temperature=1.0, top_k=top_k).both(logits.double())
    return Place(p.double() / p.double().sum(), q.double() / q.double().sum(), raw_q.double())


def shift(rule: ExactRule, place: Place) -> Tensor:
    """How much more often than p each token comes out of a round. [V] float64"""
    p, q, width = place.p, place.q, rule.siblings
    ids = torch.cartesian_prod(*[torch.arange(VOCAB)] * width).view(-1, width)
    ids = ids[(q[ids] > 0).all(1)]
    left = q[ids].prod(1)
    guesses = rule.guesses(q, (q.cumsum(0) - q / 2)[ids])  # the numbers that draw just these
    is_examined, count = rule.examined(guesses, q), len(ids)
    told = rule.told_q(q, place.raw_q)
    rows = 1 + count + count * width
    judged = rule.accept(
        side_by_side(is_examined),
        torch.cat([guesses.new_zeros(count), guesses.flatten()]),
        rule.kind,
        p.expand(rows, -1),
        None if told is None else told.expand(rows, -1),
    )
    chances = judged.acceptance_probs[count:].view(count, width).where(is_examined, 0.0)
    came = -p.clone()
    for guess, chance in zip(guesses.unbind(1), chances.unbind(1), strict=True):
        came.index_add_(0, guess, left * chance)
        left = left * (1 - chance)
    return came + (left[:, None] * judged.extra_distributions[1 : 1 + count]).sum(0)


def is_up(values: Tensor) -> bool:
    return bool((values > -NOTHING).all())


def liked_comes_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return is_up(more[q > p])


def favourite_comes_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return bool(more[q.argmax()] > 0)


def only_the_target_s_favourite_comes_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    best = torch.arange(VOCAB) == p.argmax()
    return bool(more[best] > 0) and is_up(-more[~best])


def liked_comes_too_seldom(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return is_up(-more[q > p])


def the_draft_s_own(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return torch.allclose(p + more, q)


def owed_shift_by_how_often_they_are_guessed(p: Tensor, q: Tensor, more: Tensor) -> bool:
    """The same guess is rejected twice only where q > p, and r, (p - q)+ scaled, has none of it.

    Merging then draws from r, where the right rule draws from (r - q)+, scaled: more of a token
    where q / r is above the share of second guesses that pass. q / r grows with q / p.
    """
    owed = (p - q).clamp(min=0) / (p - q).clamp(min=0).sum()
    passes = torch.minimum(owed, q).sum()
    above, below = (q > (passes + 1e-9) * owed) & (owed > 0), q < (passes - 1e-9) * owed
    return is_up(-more[q >= p].abs()) and is_up(more[above]) and is_up(-more[below])


def those_above_the_limit_come_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    above = q >= min(LOW, float(q.max()))
    return (
        is_up(more[above].sum()) and is_up(more[above & (q > p)]) and is_up(-more[~above & (q > p)])
    )


def after_a_rejection_all_are_nearly_as_probable(p: Tensor, q: Tensor, more: Tensor) -> bool:
    kept = torch.minimum(p, q)
    redrawn = (p + more - kept) / (1 - kept.sum())
    return float(redrawn.max() / redrawn.min()) < math.e + 1e-6  # of a softmax of shares: e at most


def plausible_that_is_liked_comes_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    """Only the implausible is rejected, and then p is drawn from."""
    entropy = float(-(p * p.clamp(min=1e-30).log()).sum())
    plausible = p > min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-entropy))
    return is_up(more[plausible & (q > p)]) and is_up(-more[~plausible & (q > p)])


def nothing_is_wrong(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return float(more.abs().max()) < NOTHING


TELLS: dict[str, Tell] = {
    "resampled-from-target": liked_comes_too_often,
    "equal-argmax": only_the_target_s_favourite_comes_too_often,
    "raw-draft-probability": liked_comes_too_often,
    "argmax-with-softmax": favourite_comes_too_often,
    "certain-acceptance": liked_comes_too_seldom,
    "first-unverified": the_draft_s_own,
    "softmax-of-residual": after_a_rejection_all_are_nearly_as_probable,
    "siblings-merged": owed_shift_by_how_often_they_are_guessed,
    "siblings-sorted": favourite_comes_too_often,
    "improbable-dropped": those_above_the_limit_come_too_often,
    "typical-acceptance": plausible_that_is_liked_comes_too_often,
    "no-bonus": nothing_is_wrong,
    "point-mass": nothing_is_wrong,
}


@pytest.mark.parametrize("name", TELLS)
def test_what_is_told_of_a_rule_is_true_of_what_comes_out(name: str) -> None:
    rule, top_k = rule_named(name), min(specimen_named(name).top_k, VOCAB - 2)
    largest = 0.0
    for seed in range(SEEDS):
        at = place(seed, top_k)
        more = shift(rule, at)
        assert TELLS[name](at.p, at.q, more), f"seed {seed}"
        largest = max(largest, float(more.abs().max()))
    assert (largest < NOTHING) == specimen_named(name).is_exact


@pytest.mark.parametrize("siblings", [1, 2, 3])
def test_the_right_rule_has_no_shift_at_all(siblings: int) -> None:
    for seed in range(SEEDS):
        at = place(seed, 0)
        assert nothing_is_wrong(at.p, at.q, shift(ExactRule(siblings), at)), f"seed {seed}"


def test_every_rule_of_the_zoo_is_held_to_what_is_told_of_it() -> None:
    two_rounds = {"stale-cache"}  # tests of the rules themselves look at it
    assert set(TELLS) | two_rounds == set(specimens())
