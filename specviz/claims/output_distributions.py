"""Which distribution the output has under a rule of acceptance, by exact sums over a vocabulary.

A distribution is a sequence of probabilities, one per token, that sum to 1: p the target's, q the
draft's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

Distribution = Sequence[float]
EXACT = 1e-9  # total variation below this is rounding
_ROUNDING = 1e-12  # total variation that sums in double precision leave


def softened(logits: Sequence[float], temperature: float) -> tuple[float, ...]:
    """softmax(logits / temperature)."""
    top = max(logits)
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def accepted(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """Probability that this token is drafted and accepted with min(1, p/q): min(p, q)."""
    return tuple(map(min, p, q))


def overlap(p: Distribution, q: Distribution) -> float:
    """Expected acceptance of one drafted token.

    >>> round(overlap((0.6, 0.3, 0.1), (0.3, 0.6, 0.1)), 9)
    0.7
    """
    return math.fsum(accepted(p, q))


def equal_mass(p: Distribution, q: Distribution) -> float:
    """Acceptance if only tokens to which both distributions give the same probability could
    pass.
    """
    return math.fsum(mine for mine, theirs in zip(p, q, strict=True) if mine == theirs)


def residual(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """normalize(max(0, p - q)); p itself where nothing is left."""
    rest = [max(0.0, mine - theirs) for mine, theirs in zip(p, q, strict=True)]
    total = math.fsum(rest)
    return tuple(each / total for each in rest) if total else tuple(p)


def total_variation(one: Distribution, other: Distribution) -> float:
    """0: the same distribution, but for rounding; 1: no token in common."""
    distance = math.fsum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
    return distance if distance > _ROUNDING else 0.0


def emitted(p: Distribution, q: Distribution, recovered: Distribution) -> tuple[float, ...]:
    """The output's distribution where a rejected token is replaced by one of the distribution
    `recovered`.

    >>> p, q = (0.6, 0.4), (0.1, 0.9)
    >>> emitted(p, q, residual(p, q))
    (0.6, 0.4)
    """
    kept = accepted(p, q)
    rejected = 1 - math.fsum(kept)
    return tuple(keep + rejected * other for keep, other in zip(kept, recovered, strict=True))


def emitted_of_two(p: Distribution, q: Distribution) -> tuple[float, ...]:
    """The output's distribution of two siblings drawn from q, each examined against p as if it
    were alone.

    The first that passes is taken; if none does, a token of the first residual. A correct walk
    examines the second one against what the first rejection left of p.
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
    """The output's first token where two paths are drawn, each is examined by itself, and the
    longest accepted one is taken; the first one of two as long.

    A path is a token drawn from q and a guess behind it, accepted with the chance `after` of that
    token. Where neither first token passes, the residual's is taken.
    """
    kept = accepted(p, q)
    rejected = 1 - math.fsum(kept)
    longer = math.fsum(map(operator.mul, kept, after))  # a path of both tokens
    rest = residual(p, q)
    return tuple(
        keep * (1 + rejected)
        + keep * (chance * (math.fsum(kept) - longer) - (1 - chance) * longer)
        + rejected**2 * other
        for keep, chance, other in zip(kept, after, rest, strict=True)
    )
