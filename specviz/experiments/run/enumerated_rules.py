"""The exact results of a verification rule for a vocabulary of two words, by enumeration.

The sums run over every draft of K words, every pattern of accepting and rejecting draws, and every
extra token; the decoder's own functions give the probability of each. A wrong variant of block
verification, which stops at the first failure, is enumerated in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import torch

from specviz.decoding.rules import block, token_by_token
from specviz.decoding.rules.rule import Accept, WalkFunction, walk_down
from specviz.decoding.topology import topology, tree_shape
from specviz.records import Drawing

Words = tuple[int, ...]  # 0 is the first word of the vocabulary, 1 the second
LONGEST = 3  # largest number of drafted words; a table of longer drafts would have too many rows


# Name of a variant -> its functions. The last one is not exact.
VARIANTS: dict[str, tuple[Accept, WalkFunction]] = {
    "token": (token_by_token.acceptance, walk_down),
    "block": (block.block, block.walk_block),
    "first-failure": (block.block, walk_down),
}


@dataclass(frozen=True, slots=True)
class EnumeratedDraft:
    """One possible draft, its probability, and the probability that the rule accepts all of it."""

    words: Words
    drafted: float  # the draft's probability of writing these words
    wanted: float  # the target's probability of writing these words
    kept: float  # the probability that all words are accepted, if they were drafted


@dataclass(frozen=True, slots=True)
class EnumeratedRule:
    """All drafts, the expected accepted words, and the probabilities of all texts of K + 1 words.

    If a round emits fewer words, the target writes the remaining words. `texts` maps each text to
    its probability under the rule, and its probability under the target alone.
    """

    drafts: tuple[EnumeratedDraft, ...]
    accepted: float
    texts: dict[Words, tuple[float, float]]

    @property
    def distance(self) -> float:
        """Return the total variation between the rule's and the target's distribution of texts."""
        return sum(abs(came - wanted) for came, wanted in self.texts.values()) / 2


def enumerated_rule(variant: str, p: float, q: float, length: int) -> EnumeratedRule:
    """Enumerate a variant for drafts of `length` words.

    `p` and `q` are the probabilities of the first word at every position, for target and draft.
    """
    target, draft = (p, 1 - p), (q, 1 - q)
    came = dict.fromkeys(product((0, 1), repeat=length + 1), 0.0)
    drafts: list[EnumeratedDraft] = []
    accepted = 0.0
    for words in product((0, 1), repeat=length):
        drafted = prod(draft[word] for word in words)
        kept = 0.0
        for weight, count, extra in _outcomes(variant, words, target, draft):
            accepted += drafted * weight * count
            kept += weight * (count == length)
            for word, chance in enumerate(extra):
                begun = (*words[:count], word)
                for rest in product((0, 1), repeat=length - count):
                    goes_on = prod(target[each] for each in rest)
                    came[(*begun, *rest)] += drafted * weight * chance * goes_on
        wanted = prod(target[word] for word in words)
        drafts.append(EnumeratedDraft(words, drafted, wanted, kept))
    texts = {text: (mass, prod(target[word] for word in text)) for text, mass in came.items()}
    return EnumeratedRule(tuple(drafts), accepted, texts)


def _outcomes(
    variant: str, words: Words, target: tuple[float, float], draft: tuple[float, float]
) -> Iterator[tuple[float, int, list[float]]]:
    """Yield each pattern of accepting and rejecting draws for one draft.

    Yield its probability, the number of accepted words, and the extra token's distribution.
    """
    accept, walk = VARIANTS[variant]
    parents = tuple(range(-1, len(words) - 1))
    tree = topology(parents, torch.device("cpu"))
    p = torch.tensor([target] * (len(words) + 1), dtype=torch.float64)
    q = torch.tensor([draft] * len(words), dtype=torch.float64)
    found = accept(tree, torch.tensor(words), Drawing.INDEPENDENT, p, q)
    chances, extras = found.acceptance_probs.tolist(), found.extra_distributions.tolist()
    for passes in product((True, False), repeat=len(words)):
        pairs = list(zip(passes, chances, strict=True))
        weight = prod(chance if is_below else 1 - chance for is_below, chance in pairs)
        if weight > 0:
            uniforms = [chance / 2 if is_below else (1 + chance) / 2 for is_below, chance in pairs]
            path = walk(tree_shape(parents).groups, chances, uniforms).path
            yield weight, len(path), extras[len(path)]
