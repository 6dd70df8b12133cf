"""The zoo's description of each wrong rule agrees with the exact distribution of the rule's tokens.

The distribution is a sum over all possible drafts. In shapes, V is the size of the vocabulary and N
the number of guesses in a draft.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from specviz.decoding.rules.typical import DELTA, EPSILON
from specviz.decoding.sampling import Sampler
from specviz.experiments.bug_zoo.many_draws import Place, children, drafted, side_by_side
from specviz.experiments.bug_zoo.wrong_rules import (
    LOW,
    BlockRule,
    ExactRule,
    TraversalRule,
    rule_named,
)
from specviz.experiments.bug_zoo.zoo import specimen_named, specimens

VOCAB, SEEDS = 6, 40
NOTHING = 1e-12  # the largest difference between sums of the same numbers in another order

# A check of the description of a wrong rule. Its arguments are p, q, and the distribution of the
# rule minus p, each with one number per token. It returns whether the description is true.
Tell = Callable[[Tensor, Tensor, Tensor], bool]


def distributions(generator: torch.Generator, seed: int, top_k: int) -> Place:
    """Return p and q of two random models; `seed` decides how much they differ."""
    logits = (0.5, 1.6, 3.0)[seed % 3] * torch.randn(2, VOCAB, generator=generator)
    (p, q), (_, raw_q) = Sampler(temperature=1.0, top_k=top_k).both(logits.double())
    return Place(p.double() / p.double().sum(), q.double() / q.double().sum(), raw_q.double())


def place(seed: int, top_k: int = 0) -> Place:
    """Return p and q of two random models at a position, and after each of its tokens."""
    generator = torch.Generator().manual_seed(seed)
    first = distributions(generator, seed, top_k)
    after = {token_id: distributions(generator, seed + 1, top_k) for token_id in range(VOCAB)}
    return replace(first, after=lambda token_ids: {each: after[each] for each in token_ids})


def emitted(rule: ExactRule, place: Place) -> Tensor:
    """Return the probability of each pair of tokens under a rule. -> [V, V]

    It is a sum over every draft, every verdict and every extra token. If a round emits only one
    token, the second has the target's distribution.
    """
    p_after = torch.stack([each.p for each in place.after(range(VOCAB)).values()])
    size, p, q = rule.guess_count, place.p, place.q
    ids = torch.cartesian_prod(*[torch.arange(VOCAB)] * size).view(-1, size)
    drawn_from = q.expand(len(ids), size, -1)
    if rule.is_chain:
        q_after = torch.stack([each.q for each in place.after(range(VOCAB)).values()])
        drawn_from = torch.stack([q.expand(len(ids), -1), q_after[ids[:, 0]]], 1)
    chances = drawn_from.gather(2, ids[..., None])[..., 0]  # [drafts, N]
    is_possible = (chances > 0).all(1)
    ids, chances, drawn_from = ids[is_possible], chances[is_possible], drawn_from[is_possible]
    # These uniform draws are in the middle of each token's interval. So with them the rule drafts
    # exactly the tokens `ids`.
    ends = drawn_from.cumsum(2).gather(2, ids[..., None])[..., 0]
    draft, count = drafted(rule, place, p, ends - chances / 2), len(ids)
    judged = rule.accept(
        side_by_side(draft.is_examined, rule.is_chain),
        torch.cat([ids.new_zeros(count), draft.guesses.flatten()]),
        rule.drawing,
        draft.p,
        draft.q,
    )
    probs = judged.acceptance_probs[count:].view(count, size).tolist()
    pairs = torch.zeros(VOCAB, VOCAB, dtype=torch.float64)
    for i, weight in enumerate(chances.prod(1).tolist()):
        groups = children(draft.is_examined[i].tolist(), rule.is_chain)
        for accepts in itertools.product((True, False), repeat=size):
            mass, uniforms = weight, []
            for is_accepted, prob in zip(accepts, probs[i], strict=True):
                mass *= prob if is_accepted else 1 - prob
                uniforms.append(prob / 2 if is_accepted else (1 + prob) / 2)
            if mass == 0:
                continue
            walk = rule.walk(groups, probs[i], uniforms)
            path = [int(draft.guesses[i, node]) for node in walk.path]
            row = 1 + i if walk.end < 0 else 1 + count + i * size + walk.end
            extra = mass * judged.extra_distributions[row]
            if not path:
                pairs += extra[:, None] * p_after
            elif len(path) == 1:
                pairs[path[0]] += extra if groups[walk.end + 1] else mass * p_after[path[0]]
            else:
                pairs[path[0], path[1]] += mass
    return pairs


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """How much a rule changes the probabilities of the first token, and of the second after it."""

    first: Tensor  # [V]
    second: Tensor  # [V, V]
    # Total variation between the rule's and the target's distribution of both tokens.
    distance: float

    @classmethod
    def of(cls, rule: ExactRule, place: Place) -> Shift:
        p_after = torch.stack([each.p for each in place.after(range(VOCAB)).values()])
        pairs = emitted(rule, place)
        total = float((pairs - place.p[:, None] * p_after).abs().sum()) / 2
        first = pairs.sum(1)
        return cls(first - place.p, pairs - first[:, None] * p_after, total)


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
    """Return whether merging equal siblings changes the probabilities as theory predicts.

    `more` is the change of each token's probability.

    A rejected token has q > p. So its probability in the residual r, which is (p - q)+ normalised,
    is 0. Suppose that the second sibling is the same token again. The exact rule rejects it once
    more and draws the next token from (r - q)+ normalised. The wrong rule merges the two siblings
    and draws from r.

    Compare q / r of a token with r > 0 with the share of second siblings that are accepted. The
    token becomes too frequent if q / r is larger, and too rare if it is smaller. q / r grows with
    q / p. Tokens with q >= p keep their probability.
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
    # The wrong rule applies softmax to probabilities from 0 to 1. Its largest result is therefore
    # at most e times its smallest one.
    return float(redrawn.max() / redrawn.min()) < math.e + 1e-6


def plausible_that_is_liked_comes_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    """Return whether tokens with q > p appear too often if typical acceptance calls them plausible.

    The rule rejects only implausible tokens and then draws from p.
    """
    entropy = float(-(p * p.clamp(min=1e-30).log()).sum())
    plausible = p > min(EPSILON, DELTA * math.exp(-entropy))
    return is_up(more[plausible & (q > p)]) and is_up(-more[~plausible & (q > p)])


def favourite_does_not_come_too_seldom(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return is_up(more[q.argmax()])


def those_with_q_just_below_p_come_too_often(p: Tensor, q: Tensor, more: Tensor) -> bool:
    """Return whether the shift goes from tokens with a small q / p to those with a larger one.

    The right residual is proportional to b p - q for some number b <= 1, the wrong one to p - q. So
    the wrong one divided by the right one grows with q / p. Both are 0 for tokens with q >= p.
    """
    order = (q / p).argsort()
    shifts = more[order][(q < p)[order]]
    up, down = (shifts > NOTHING).nonzero(), (shifts < -NOTHING).nonzero()
    is_parted = not len(up) or not len(down) or bool(down.max() < up.min())
    return is_parted and is_up(-more[q >= p].abs())


def nothing_is_wrong(p: Tensor, q: Tensor, more: Tensor) -> bool:
    return float(more.abs().max()) < NOTHING


# Name of a rule -> the checks of the first token and of the second.
TELLS: dict[str, tuple[Tell, Tell]] = {
    "resampled-from-target": (liked_comes_too_often, nothing_is_wrong),
    "equal-argmax": (only_the_target_s_favourite_comes_too_often, nothing_is_wrong),
    "raw-draft-probability": (liked_comes_too_often, nothing_is_wrong),
    "argmax-with-softmax": (favourite_comes_too_often, nothing_is_wrong),
    "certain-acceptance": (liked_comes_too_seldom, nothing_is_wrong),
    "first-unverified": (the_draft_s_own, nothing_is_wrong),
    "softmax-of-residual": (after_a_rejection_all_are_nearly_as_probable, nothing_is_wrong),
    "siblings-merged": (owed_shift_by_how_often_they_are_guessed, nothing_is_wrong),
    "siblings-sorted": (favourite_comes_too_often, nothing_is_wrong),
    "improbable-dropped": (those_above_the_limit_come_too_often, nothing_is_wrong),
    "length-by-drawn-token": (favourite_comes_too_often, favourite_does_not_come_too_seldom),
    "stop-after-drawing": (nothing_is_wrong, those_above_the_limit_come_too_often),
    "block-stops-early": (liked_comes_too_seldom, liked_comes_too_seldom),
    "block-plain-residual": (nothing_is_wrong, those_with_q_just_below_p_come_too_often),
    "traversal-keeps-product": (liked_comes_too_often, liked_comes_too_seldom),
    "typical-acceptance": (plausible_that_is_liked_comes_too_often, nothing_is_wrong),
    "no-bonus": (nothing_is_wrong, nothing_is_wrong),
    "point-mass": (nothing_is_wrong, nothing_is_wrong),
}


@pytest.mark.parametrize("name", TELLS)
def test_the_description_of_a_rule_is_true_of_its_distribution(name: str) -> None:
    rule, top_k = rule_named(name), min(specimen_named(name).top_k, VOCAB - 2)
    of_first, of_second = TELLS[name]
    largest = 0.0
    for seed in range(SEEDS):
        at = place(seed, top_k)
        shift = Shift.of(rule, at)
        assert of_first(at.p, at.q, shift.first), f"seed {seed}"
        for token_id, each in at.after(range(VOCAB)).items():
            assert of_second(each.p, each.q, shift.second[token_id]), f"seed {seed}"
        largest = max(largest, shift.distance)
    if specimen_named(name).is_exact:
        assert largest < NOTHING
    else:
        assert largest > 0.01, "the rule must be wrong by more than rounding"


class LengthKnownBeforeTheDraw(ExactRule):
    """A rule that ends the draft before a position whose largest q is small.

    The length does not depend on the token that would be drawn there, so this rule is exact.
    """

    is_chain = True

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        return q.amax(-1) >= LOW


class LengthOfEarlierTokens(ExactRule):
    """A rule that drafts a second guess only if the first one is the most probable token of q.

    The length depends only on a guess that is verified, so this rule is exact.
    """

    is_chain = True

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        return torch.stack([guesses[:, 0] >= 0, guesses[:, 0] == q[:, 0].argmax(-1)], 1)


@pytest.mark.parametrize(
    "rule",
    [
        *(ExactRule(siblings) for siblings in (1, 2, 3)),
        *(BlockRule(), TraversalRule(), LengthKnownBeforeTheDraw(), LengthOfEarlierTokens()),
    ],
    ids=lambda rule: f"{type(rule).__name__} of {rule.guess_count}",
)
def test_a_right_rule_has_no_shift(rule: ExactRule) -> None:
    for seed in range(SEEDS):
        assert Shift.of(rule, place(seed)).distance < NOTHING, f"seed {seed}"


def test_every_rule_of_the_zoo_has_a_checked_description() -> None:
    # the stale cache needs two rounds; the tests of the rules check it
    two_rounds = {"stale-cache"}
    assert set(TELLS) | two_rounds == set(specimens())
