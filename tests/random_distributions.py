"""Random distributions over a small vocabulary, and the form in which a trace stores them."""

from __future__ import annotations

import random

from specviz.records import Position

TEXTS = (
    *("def", " read", "_lines", "(", "path", ",", " encoding", '="', "utf", "-", "8", '"):'),
    *("\n", "    ", '"""', "Return", " the", " lines", " of", " a", " file", ".", " with"),
    *(" open", ")", " as", " f", ":", "\t", " return", " [", "line", ".r", "strip", "rstrip"),
    *("<b>", "&amp;", "${pwned()}", "internationalisation", " "),
)
VOCABULARY = len(TEXTS)
EXAMPLES = 10  # number of top tokens that a trace stores per position
Distribution = tuple[float, ...]


def random_distribution(rng: random.Random, sharpness: float = 0.15) -> Distribution:
    """Return a random distribution over the vocabulary; a small `sharpness` makes it peaked."""
    weights = [rng.gammavariate(sharpness, 1.0) + 1e-9 for _ in range(VOCABULARY)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def mixed(p: Distribution, other: Distribution, share: float) -> Distribution:
    """Return the mixture (1 - share) * p + share * other of two distributions."""
    return tuple((1 - share) * a + share * b for a, b in zip(p, other, strict=True))


def residual(p: Distribution, q: Distribution) -> Distribution:
    """Return the residual distribution max(0, p - q), normalised; return `p` if it has no mass."""
    rest = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(rest)
    return tuple(value / total for value in rest) if total > 0 else p


def sample(rng: random.Random, distribution: Distribution) -> int:
    """Return a token drawn from the distribution."""
    return rng.choices(range(VOCABULARY), weights=distribution)[0]


def position(
    parent: int, p: Distribution, q: Distribution | None, rest: Distribution | None
) -> Position:
    """Return what a trace stores of a node's position: p, q and the top tokens of `p`.

    `rest` is the residual distribution after all children of the node were rejected, or None.
    """
    top = sorted(range(VOCABULARY), key=lambda token: -p[token])[:EXAMPLES]
    distributions = [
        tuple(distribution[t] for t in top) if distribution else () for distribution in (p, q, rest)
    ]
    overlap = sum(min(a, b) for a, b in zip(p, q, strict=True)) if q else 0.0
    return Position(
        parent=parent,
        token_ids=tuple(top),
        target_probs=distributions[0],
        draft_probs=distributions[1],
        residual_probs=distributions[2],
        raw_target_probs=distributions[0],
        raw_draft_probs=distributions[1],
        entropy=1.25,
        overlap=min(1.0, overlap),
        raw_overlap=min(1.0, overlap),
        margin=0.5,
    )
