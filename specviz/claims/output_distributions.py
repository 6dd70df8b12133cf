"""The exact distribution of the output under an acceptance rule, from sums over the vocabulary.

A distribution is a sequence of probabilities, one per token, that sum to 1. p is the target's
distribution, q the draft's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

Distribution = Sequence[float]
EXACT = 1e-9  # two distributions with a smaller total variation differ only by rounding
_ROUNDING = 1e-12  # a smaller total variation comes from rounding in double precision


def softened(logits: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Return softmax(logits / temperature)."""
    top = max(logits)
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def accepted(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """Return min(p, q): the probability that a token is drafted and accepted, for each token."""
    return tuple(map(min, p, q))


def overlap(p: Distribution, q: Distribution) -> float:
    """Return the expected acceptance rate of one drafted token.

    >>> round(overlap((0.6, 0.3, 0.1), (0.3, 0.6, 0.1)), 9)
    0.7
    """
    return math.fsum(accepted(p, q))


def equal_mass(p: Distribution, q: Distribution) -> float:
    """Return the acceptance rate of a rule that accepts only tokens with p = q."""
    return math.fsum(mine for mine, theirs in zip(p, q, strict=True) if mine == theirs)


def residual(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """Return max(0, p - q), scaled to the sum 1. If p = q, nothing is left and the result is p."""
    rest = [max(0.0, mine - theirs) for mine, theirs in zip(p, q, strict=True)]
    total = math.fsum(rest)
    return tuple(each / total for each in rest) if total else tuple(p)


def total_variation(one: Distribution, other: Distribution) -> float:
    """Return the total variation: 0 for equal distributions, 1 if they share no token."""
    distance = math.fsum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
    return distance if distance > _ROUNDING else 0.0


def emitted(p: Distribution, q: Distribution, recovered: Distribution) -> tuple[float, ...]:
    """Return the output's distribution if draws from `recovered` replace rejected tokens.

    >>> p, q = (0.6, 0.4), (0.1, 0.9)
    >>> emitted(p, q, residual(p, q))
    (0.6, 0.4)
    """
    kept = accepted(p, q)
    rejected = 1 - math.fsum(kept)
    return tuple(keep + rejected * other for keep, other in zip(kept, recovered, strict=True))


def emitted_of_two(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """Return the output's distribution if two siblings are each examined against p alone.

    Both siblings are drawn from q. The first sibling that passes is used. If neither passes, the
    token is drawn from the residual of the first sibling. A correct walk examines the second
    sibling against the residual of the first.
    """
    kept = accepted(p, q)
    rejected = 1 - math.fsum(kept)
    rest = residual(p, q)
    return tuple(
        keep * (1 + rejected) + rejected**2 * other for keep, other in zip(kept, rest, strict=True)
    )


def emitted_of_longest(
    p: Distribution, q: Distribution, after: Sequence[float]
) -> tuple[float, ...]:
    """Return the first token's distribution if a rule uses the longest accepted path.

    Two paths are drawn and examined independently. Each path has two tokens: one drawn from q, and
    a guess after it, which is accepted with the probability in `after`. If both accepted paths are
    equally long, the rule uses the first path. If the first token of both paths is rejected, the
    rule draws the token from the residual.
    """
    kept = accepted(p, q)
    rejected = 1 - math.fsum(kept)
    longer = math.fsum(map(operator.mul, kept, after))  # probability of a path of two tokens
    rest = residual(p, q)
    return tuple(
        keep * (1 + rejected)
        + keep * (chance * (math.fsum(kept) - longer) - (1 - chance) * longer)
        + rejected**2 * other
        for keep, chance, other in zip(kept, after, rest, strict=True)
    )
