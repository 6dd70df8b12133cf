"""Thousands of samples of one position, computed as many rounds at once.

The models are evaluated once per position. Every draw then has its own guesses, verdicts and
replacements, like a run with its own seed. `draw` and the functions `accept` and `walk` of the
rules are the decoder's own. A wrong rule replaces only the part in which it differs. In shapes, n
is the number of draws, N the number of guesses in each draw, and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor

from specviz.decoding.sampling import draw
from specviz.decoding.topology import Topology
from specviz.experiments.bug_zoo.wrong_rules import ExactRule

MOST_NUMBERS = 8_000_000  # largest number of values in a tensor of one block
MOST_DRAWS = 500  # largest number of draws in one block


def _unknown(token_ids: Collection[int]) -> NoReturn:
    raise AssertionError("only a chain of guesses needs the place after its first guess")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The distributions of both models for the next token at one position, each [V] float32.

    `after` maps the ids of possible next tokens to the `Place` that follows each of them.
    """

    p: Tensor
    q: Tensor
    raw_q: Tensor  # q as the draft computed it, before the sampling settings changed it
    after: Callable[[Collection[int]], Mapping[int, Place]] = _unknown


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRounds:
    """The first two tokens of n rounds.

    The second token is -1 if the round emits only one. If it is a bonus token, it was drawn from
    the argument `p_after` of `rounds`, whichever guess was accepted before it. It is then valid
    only if `p_after` is p after that guess.
    """

    token_ids: Tensor  # [n, 2]
    guess_ids: Tensor  # [n], the first guess that was accepted, or the first of all if none was
    is_accepted: Tensor  # [n] bool


class ManyDraws:
    """Draws of the next two tokens after a text.

    A second token is drawn only if the first one is the target's most probable token.
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
        self.accepted = 0  # number of draws whose first token was an accepted guess
        rows = max(1, MOST_NUMBERS // ((1 + rule.guess_count) * len(first.p)))
        self.block = min(MOST_DRAWS, rows)

    def draw(self, count: int) -> list[tuple[int, int | None]]:
        """Return the two tokens of each draw; a second token that was not drawn is None."""
        drawn = rounds(self._rule, self._first, self._second.p, self._uniforms(count))
        self.accepted += int(drawn.is_accepted.sum())
        first, second = drawn.token_ids.unbind(1)
        is_usual = first == self._usual
        second = second.where(is_usual, -1)
        # If a round emits only one token, the second token is drawn in another round.
        later = is_usual & (second < 0)
        is_stale = later & ~drawn.is_accepted & (not self._rule.rolls_back)
        for rejected in sorted(set(drawn.guess_ids[is_stale].tolist())):
            these = is_stale & (drawn.guess_ids == rejected)
            second[these] = self._another(these, self._stale_p(rejected))
        if (usual := later & ~is_stale).any():
            second[usual] = self._another(usual, self._second.p)
        both = zip(first.tolist(), second.tolist(), strict=True)
        return [(one, None if two < 0 else two) for one, two in both]

    def _another(self, these: Tensor, p: Tensor) -> Tensor:
        """Run one more round for each draw that `these` [n] selects; return the first tokens.

        `p` is the target's distribution of these tokens.
        """
        place = replace(self._second, p=p)
        return rounds(self._rule, place, p, self._uniforms(int(these.sum()))).token_ids[:, 0]

    def _uniforms(self, count: int) -> Tensor:
        """Return uniform random numbers for `count` rounds. [n, 2 N + 1]"""
        shape = count, 2 * self._rule.guess_count + 1
        return torch.rand(shape, dtype=torch.float64, generator=self._generator)


def rounds(rule: ExactRule, place: Place, p_after: Tensor, uniforms: Tensor) -> DrawnRounds:
    """Draw n rounds at one position.

    `p_after` [V] is the distribution of the bonus token, which follows an accepted last guess.
    `uniforms` [n, 2 N + 1] decide the guesses, the verdicts and the extra token, in this order.
    """
    count, size = len(uniforms), rule.guess_count
    draft = drafted(rule, place, p_after, uniforms[:, :size])
    judged = rule.accept(
        side_by_side(draft.is_examined, rule.is_chain),
        torch.cat([draft.guesses.new_zeros(count), draft.guesses.flatten()]),
        rule.drawing,
        draft.p,
        draft.q,
    )
    chances = judged.acceptance_probs[count:].view(count, size).tolist()
    groups = [children(seen, rule.is_chain) for seen in draft.is_examined.tolist()]
    verdicts = uniforms[:, size:-1].tolist()
    walks = [rule.walk(*each) for each in zip(groups, chances, verdicts, strict=True)]
    ends = torch.tensor([walk.end for walk in walks])
    draws = torch.arange(count)
    rows = torch.where(ends < 0, 1 + draws, 1 + count + draws * size + ends)
    extra = draw(judged.extra_distributions[rows], uniforms[:, -1])
    tokens = [
        [*(own[node] for node in walk.path), extra_id]
        for walk, own, extra_id in zip(walks, draft.guesses.tolist(), extra.tolist(), strict=True)
    ]
    for walk, own, group in zip(walks, tokens, groups, strict=True):
        if walk.path and not group[walk.end + 1] and not rule.takes_bonus:
            own.pop()
    return DrawnRounds(
        torch.tensor([[*own, -1][:2] for own in tokens]),
        torch.tensor(
            [
                own[walk.path[0] if walk.path else 0]
                for walk, own in zip(walks, draft.guesses.tolist(), strict=True)
            ]
        ),
        ends >= 0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """The drafts of n rounds, and the distributions with which they are judged.

    Row 0 of `p` and `q` belongs to a node above all n roots, and nothing reads this row. The rows
    of the n roots follow, then those of the guesses, draw by draw.
    """

    guesses: Tensor  # [n, N]
    is_examined: Tensor  # [n, N] bool
    p: Tensor  # [1 + n + n N, V]
    q: Tensor | None  # [1 + n, V] if all guesses are siblings; as many rows as p for chains


def drafted(rule: ExactRule, place: Place, p_after: Tensor, uniforms: Tensor) -> Draft:
    """Draft n rounds at one position with `uniforms` [n, N]; see `rounds`."""
    count, size = uniforms.shape
    q, raw_q = (each.expand(1 + count, -1) for each in (place.q, place.raw_q))
    if not rule.is_chain:
        guesses = rule.guesses(place.q, uniforms)
        is_examined = rule.examined(guesses, place.q.expand(count, size, -1))
        p = torch.cat([place.p.expand(1 + count, -1), p_after.expand(count * size, -1)])
        return Draft(guesses, is_examined, p, rule.given_q(q, raw_q))
    first = rule.guesses(place.q, uniforms[:, :1])
    ids = sorted(set(first[:, 0].tolist()))
    after = place.after(ids)
    places = [after[each] for each in ids]
    which = torch.searchsorted(torch.tensor(ids), first[:, 0].contiguous())
    second = torch.empty_like(first)
    for index, each in enumerate(places):
        these = which == index
        second[these] = rule.guesses(each.q, uniforms[these, 1:])
    guesses = torch.cat([first, second], 1)
    p_next, q_next, raw_next = (
        torch.stack(each)[which]
        for each in zip(*((each.p, each.q, each.raw_q) for each in places), strict=True)
    )  # [n, V] each
    drawn_from = torch.stack([q[1:], q_next], 1)  # [n, 2, V]
    is_examined = rule.examined(guesses, drawn_from).cumprod(1) > 0
    p = torch.stack([p_next, p_after.expand(count, -1)], 1).flatten(0, 1)
    # No guess follows the second one, so nothing reads the rows of q after it.
    behind = (each.repeat_interleave(2, 0) for each in (q_next, raw_next))
    q, raw_q = (torch.cat(each) for each in zip((q, raw_q), behind, strict=True))
    p = torch.cat([place.p.expand(1 + count, -1), p])
    return Draft(guesses, is_examined, p, rule.given_q(q, raw_q))


def children(is_examined: list[bool], is_chain: bool) -> list[list[int]]:
    """Return the examined guesses below the root and below each guess of one draw.

    >>> children([True, False, True], False), children([True, False], True)
    ([[0, 2], [], [], []], [[0], [], []])
    """
    if is_chain:
        return [*([i] if is_seen else [] for i, is_seen in enumerate(is_examined)), []]
    return [[i for i, is_seen in enumerate(is_examined) if is_seen], *([] for _ in is_examined)]


def side_by_side(is_examined: Tensor, is_chain: bool = False) -> Topology:
    """Return one topology that contains the trees of all n draws. [n, N] bool

    The guesses of a draw are the children of its root, or a chain below it. Only the guesses that
    `is_examined` marks can be accepted. The roots are nodes 0 … n - 1. The guesses of draw i begin
    at node n + i N.
    """
    count, size = is_examined.shape
    draws = torch.arange(count)
    nodes = count + torch.arange(count * size).view(count, size)
    above = torch.cat([draws[:, None], nodes[:, :-1]], 1) if is_chain else draws[:, None]
    parents = above.expand(count, size)
    ranks = (
        [is_examined]
        if is_chain
        else [is_examined & (torch.arange(size) == rank) for rank in range(size)]
    )
    nothing = torch.empty(0)
    return Topology(
        size=count * (1 + size),
        height=1 + (size if is_chain else 1),
        expanded=1 + count + (count * size if is_chain else 0),
        is_chain=False,
        is_padded=False,
        parents=torch.cat([torch.full((count,), -1), parents.flatten()]),
        siblings=tuple((1 + parents[each], nodes[each]) for each in ranks if each.any()),
        # No forward pass runs here, and only a forward pass would need offsets and a mask.
        offsets=nothing,
        mask=nothing,
    )
