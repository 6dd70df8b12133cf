"""One place of a text drawn thousands of times: the decoder's own round, many of them side by side.

The two models are asked once what may follow. Every draw then has its own guesses, verdicts and
replacements, as a run with a seed of its own would have: `draw`, `acceptance` and `walk` are the
decoder's, and the rule of a specimen stands where it differs. Letters: n draws, W siblings each,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.decoding.sampling import draw
from specviz.decoding.topology import Topology
from specviz.decoding.verification import walk
from specviz.experiments.bug_zoo.wrong_rules import ExactRule

MOST_NUMBERS = 8_000_000  # in one table of a block
MOST_DRAWS = 500  # of a block


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What the two models find of the next token. [V] float32 each"""

    p: Tensor
    q: Tensor
    raw_q: Tensor  # before the sampling settings


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRounds:
    """The first tokens of n rounds; `bonus_ids` means something where a guess was accepted."""

    token_ids: Tensor  # [n]
    guess_ids: Tensor  # [n], the one that was accepted, else the first
    is_accepted: Tensor  # [n] bool
    bonus_ids: Tensor  # [n]


class ManyDraws:
    """Draws of the next two tokens. The second is drawn where the first is `usual`."""

    def __init__(
        self,
        rule: ExactRule,
        first: Place,
        second: Place,
        usual: int,
        seed: int,
        stale_p: Callable[[int], Tensor],
    ) -> None:
        """`first`: behind the text; `second`: behind the text and the token `usual`.

        `stale_p`: p at the second place if a rejected token, its id, is still in the cache.
        """
        self._rule, self._first, self._second, self._usual = rule, first, second, usual
        self._stale_p = stale_p
        self._generator = torch.Generator().manual_seed(seed)
        self.accepted = 0  # guesses, of as many first tokens
        rows = max(1, MOST_NUMBERS // ((1 + rule.siblings) * len(first.p)))
        self.block = min(MOST_DRAWS, rows)

    def draw(self, count: int) -> list[tuple[int, int | None]]:
        """The two tokens of each of `count` draws, None for a second that was not drawn."""
        drawn = rounds(self._rule, self._first, self._second.p, self._uniforms(count))
        self.accepted += int(drawn.is_accepted.sum())
        is_usual = drawn.token_ids == self._usual
        has_bonus = is_usual & drawn.is_accepted & self._rule.takes_bonus
        later = is_usual & ~has_bonus  # the token of another round
        second = torch.where(has_bonus, drawn.bonus_ids, -1)
        is_stale = later & ~drawn.is_accepted & (not self._rule.rolls_back)
        for rejected in sorted(set(drawn.guess_ids[is_stale].tolist())):
            these = is_stale & (drawn.guess_ids == rejected)
            second[these] = self._another(these, self._stale_p(rejected))
        if (usual := later & ~is_stale).any():
            second[usual] = self._another(usual, self._second.p)
        both = zip(drawn.token_ids.tolist(), second.tolist(), strict=True)
        return [(one, None if two < 0 else two) for one, two in both]

    def _another(self, these: Tensor, p: Tensor) -> Tensor:
        """The first tokens of another round of these draws. [n] bool"""
        place = replace(self._second, p=p)
        return rounds(self._rule, place, p, self._uniforms(int(these.sum()))).token_ids

    def _uniforms(self, count: int) -> Tensor:
        """[n, 2 W + 1]"""
        shape = count, 2 * self._rule.siblings + 1
        return torch.rand(shape, dtype=torch.float64, generator=self._generator)


def rounds(rule: ExactRule, place: Place, p_after: Tensor, uniforms: Tensor) -> DrawnRounds:
    """n rounds at one place. `p_after`: p behind the guess for which a bonus token is wanted.

    `uniforms` [n, 2 W + 1]: for the guesses, for the verdicts, and for the token that follows.
    """
    count, width = len(uniforms), rule.siblings
    guesses = rule.guesses(place.q, uniforms[:, :width])  # [n, W]
    is_examined = rule.examined(guesses, place.q)
    told = rule.told_q(place.q, place.raw_q)
    # row 0 is no tree's; behind it stand n roots, behind these the siblings
    p = torch.cat([place.p.expand(1 + count, -1), p_after.expand(count * width, -1)])
    q = None if told is None else told.expand(1 + count, -1)
    token_ids = torch.cat([guesses.new_zeros(count), guesses.flatten()])
    judged = rule.accept(side_by_side(is_examined), token_ids, rule.kind, p, q)
    chances = judged.acceptance_probs[count:].view(count, width).tolist()
    verdicts = uniforms[:, width:-1].tolist()
    kept = torch.tensor(
        [
            walk([[i for i, is_seen in enumerate(seen) if is_seen], *[[]] * width], *both).end
            for seen, *both in zip(is_examined.tolist(), chances, verdicts, strict=True)
        ]
    )
    is_accepted, draws = kept >= 0, torch.arange(count)
    rows = torch.where(is_accepted, 1 + count + draws * width + kept, 1 + draws)
    extra = draw(judged.extra_distributions[rows], uniforms[:, -1])
    guessed = guesses.gather(1, kept.clamp(min=0)[:, None])[:, 0]
    return DrawnRounds(torch.where(is_accepted, guessed, extra), guessed, is_accepted, extra)


def side_by_side(is_examined: Tensor) -> Topology:
    """n trees of one level as one, with the siblings that are examined. [n, W] bool

    The roots are nodes 0 … n - 1 of nobody that is read, the siblings of draw i begin at n + i W.
    """
    count, width = is_examined.shape
    draws = torch.arange(count)
    siblings = tuple(
        (1 + draws[seen], count + draws[seen] * width + rank)
        for rank, seen in enumerate(is_examined.unbind(1))
        if seen.any()
    )
    parents = torch.cat([torch.full((count,), -1), draws.repeat_interleave(width)])
    nothing = torch.empty(0)
    return Topology(
        size=count * (1 + width),
        height=2,
        expanded=1 + count,
        is_chain=False,
        is_padded=False,
        parents=parents,
        siblings=siblings,
        offsets=nothing,  # of a forward, as the mask is; there is none
        mask=nothing,
    )
