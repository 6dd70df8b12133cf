"""Thousands of samples of one position, computed as many rounds at once.

The two models are evaluated once. Every draw then has its own guesses, verdicts and replacements,
like a run with its own seed. `draw`, `acceptance` and `walk_down` are the decoder's own functions.
A wrong rule replaces only the part in which it differs. In shapes, n is the number of draws, W the
number of siblings in each draw, and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.decoding.rules.rule import walk_down
from specviz.decoding.sampling import draw
from specviz.decoding.topology import Topology
from specviz.experiments.bug_zoo.wrong_rules import ExactRule

MOST_NUMBERS = 8_000_000  # largest number of values in a tensor of one block
MOST_DRAWS = 500  # largest number of draws in one block


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The distributions of both models for the next token, each [V] float32."""

    p: Tensor
    q: Tensor
    raw_q: Tensor  # q as the draft computed it, before the sampling settings changed it


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRounds:
    """The first tokens of n rounds.

    `bonus_ids` has a meaning only in rounds whose guess was accepted.
    """

    token_ids: Tensor  # [n]
    guess_ids: Tensor  # [n], the accepted guess, or the first guess if none was accepted
    is_accepted: Tensor  # [n] bool
    bonus_ids: Tensor  # [n]


class ManyDraws:
    """Draws of the next two tokens.

    The second is drawn only if the first is the most probable one.
    """

    def __init__(
        self,
        rule: ExactRule,
        first: Place,
        second: Place,
        usual: int,
        seed: int,
        stale_p: Callable[[int], Tensor],
    ) -> None:
        """Prepare the draws of the first token after a text, and of the second token after `usual`.

        `usual` is the most probable first token. `first` holds the distributions after the text.
        `second` holds those after the text with the token `usual` added. For a rejected token's id,
        `stale_p` returns p for the second token if the cache still holds that rejected token.
        """
        self._rule, self._first, self._second, self._usual = rule, first, second, usual
        self._stale_p = stale_p
        self._generator = torch.Generator().manual_seed(seed)
        self.accepted = 0  # number of draws whose guess was accepted
        rows = max(1, MOST_NUMBERS // ((1 + rule.siblings) * len(first.p)))
        self.block = min(MOST_DRAWS, rows)

    def draw(self, count: int) -> list[tuple[int, int | None]]:
        """Return the two tokens of each draw; a second token that was not drawn is None."""
        drawn = rounds(self._rule, self._first, self._second.p, self._uniforms(count))
        self.accepted += int(drawn.is_accepted.sum())
        is_usual = drawn.token_ids == self._usual
        has_bonus = is_usual & drawn.is_accepted & self._rule.takes_bonus
        # If there is no bonus token, the second token comes from another round.
        later = is_usual & ~has_bonus
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
        """Run one more round for each draw that `these` [n] selects; return the first tokens.

        `p` is the target's distribution of these tokens.
        """
        place = replace(self._second, p=p)
        return rounds(self._rule, place, p, self._uniforms(int(these.sum()))).token_ids

    def _uniforms(self, count: int) -> Tensor:
        """Return uniform random numbers for `count` rounds. [n, 2 W + 1]"""
        shape = count, 2 * self._rule.siblings + 1
        return torch.rand(shape, dtype=torch.float64, generator=self._generator)


def rounds(rule: ExactRule, place: Place, p_after: Tensor, uniforms: Tensor) -> DrawnRounds:
    """Draw n rounds at one position.

    `p_after` is p after the guess that can get a bonus token. `uniforms` [n, 2 W + 1] decide the
    guesses, the verdicts and the extra token, in this order.
    """
    count, width = len(uniforms), rule.siblings
    guesses = rule.guesses(place.q, uniforms[:, :width])  # [n, W]
    is_examined = rule.examined(guesses, place.q)
    given_q = rule.given_q(place.q, place.raw_q)
    # Row 0 is the parent of all roots, and nothing reads it. The n roots follow, then the guesses.
    p = torch.cat([place.p.expand(1 + count, -1), p_after.expand(count * width, -1)])
    q = None if given_q is None else given_q.expand(1 + count, -1)
    token_ids = torch.cat([guesses.new_zeros(count), guesses.flatten()])
    judged = rule.accept(side_by_side(is_examined), token_ids, rule.drawing, p, q)
    chances = judged.acceptance_probs[count:].view(count, width).tolist()
    verdicts = uniforms[:, width:-1].tolist()
    kept = torch.tensor(
        [
            walk_down([[i for i, is_seen in enumerate(seen) if is_seen], *[[]] * width], *both).end
            for seen, *both in zip(is_examined.tolist(), chances, verdicts, strict=True)
        ]
    )
    is_accepted, draws = kept >= 0, torch.arange(count)
    rows = torch.where(is_accepted, 1 + count + draws * width + kept, 1 + draws)
    extra = draw(judged.extra_distributions[rows], uniforms[:, -1])
    guessed = guesses.gather(1, kept.clamp(min=0)[:, None])[:, 0]
    return DrawnRounds(torch.where(is_accepted, guessed, extra), guessed, is_accepted, extra)


def side_by_side(is_examined: Tensor) -> Topology:
    """Return one topology that contains the trees of all n draws. [n, W] bool

    Each draw has a root, whose children are the guesses of that draw. Only the guesses that
    `is_examined` marks can be accepted. The roots are nodes 0 … n - 1. The guesses of draw i begin
    at node n + i W.
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
        # No forward pass runs here, and only a forward pass would need offsets and a mask.
        offsets=nothing,
        mask=nothing,
    )
