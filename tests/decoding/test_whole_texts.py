"""Whole texts of several rounds are exact: proved by enumeration, with the draws that rounds share.

A round reads draws by key (`Rule.draw_key`). If a later round reads the same key again, the draw is
not new: the earlier verdicts have limited it to an interval. So the enumeration carries the
interval of every key from round to round. It runs the functions `accept`, `walk` and `draw_key` of
the rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch

from specviz.decoding.rules import block, token_by_token, traversal
from specviz.decoding.rules.rule import Rule
from specviz.decoding.topology import Topology, topology
from specviz.records import Drawing
from tests.decoding.test_exactness import CPU, World, drafts, shape_of

VOCAB, LENGTH = 2, 3
TREES = {
    "chain of two": (-1, 0),
    "chain of three": (-1, 0, 1),
    "two by one": (-1, -1, 0, 1),
    "two by two": (-1, -1, 0, 0, 1, 1),
    "branches of different depths": (-1, 0, 0, -1),
}
DRAWN = [Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT]
Key = tuple[int, int]
Text = tuple[int, ...]
# The interval of every draw that has been limited so far, and that a later round can read again.
Known = tuple[tuple[Key, tuple[float, float]], ...]


def after(world: World, text: Text) -> World:
    """Return the part of `world` that follows `text`; its prefixes begin after this text."""
    rest = World.__new__(World)
    rest.vocab, rest.rule = world.vocab, world.rule
    rest.p, rest.q = (
        {key[len(text) :]: each for key, each in table.items() if key[: len(text)] == text}
        for table in (world.p, world.q)
    )
    return rest


@dataclass(frozen=True)
class Rounds:
    """The rounds of a decoder that drafts the same tree in every round."""

    tree: Topology
    rule: Rule
    drawing: Drawing

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        return shape_of(self.tree).groups

    def keys(self, end: int) -> list[Key]:
        shape = shape_of(self.tree)
        places = enumerate(zip(shape.depths, shape.ranks, strict=True))
        return [self.rule.draw_key(end, node, depth, rank) for node, (depth, rank) in places]

    def verdicts(
        self, end: int, chances: Sequence[float], known: dict[Key, tuple[float, float]]
    ) -> Iterator[tuple[float, Text, dict[Key, tuple[float, float]]]]:
        """Yield the probability of each set of verdicts, the accepted path, and the intervals.

        The intervals are those of the draws after these verdicts.
        """
        keys = self.keys(end)
        parts: dict[Key, list[tuple[float, float]]] = {}
        for key in dict.fromkeys(keys):
            low, high = known.get(key, (0.0, 1.0))
            own = {chance for each, chance in zip(keys, chances, strict=True) if each == key}
            cuts = sorted({low, high, *(cut for cut in own if low < cut < high)})
            parts[key] = list(itertools.pairwise(cuts))
        for chosen in itertools.product(*parts.values()):
            limits, weight = dict(zip(parts, chosen, strict=True)), 1.0
            for key, (low, high) in limits.items():
                start, stop = known.get(key, (0.0, 1.0))
                weight *= (high - low) / (stop - start)
            uniforms = [sum(limits[key]) / 2 for key in keys]
            yield weight, self.rule.walk(self.groups, chances, uniforms).path, limits

    def texts(self, world: World) -> dict[Text, float]:
        """Return the probability of every text of LENGTH tokens. Later tokens are cut off."""
        states: dict[tuple[Text, Known], float] = {((), ()): 1.0}
        done: dict[Text, float] = {}
        while states:
            following: dict[tuple[Text, Known], float] = {}
            for (text, known), mass in states.items():
                for weight, emitted, limits in self.round(after(world, text), len(text), known):
                    written = (text + emitted)[:LENGTH]
                    if len(written) == LENGTH:
                        done[written] = done.get(written, 0.0) + mass * weight
                        continue
                    later = {key for end in range(len(written), LENGTH) for key in self.keys(end)}
                    kept = tuple(
                        sorted((key, each) for key, each in limits.items() if key in later)
                    )
                    state = (written, kept)
                    following[state] = following.get(state, 0.0) + mass * weight
            states = following
        return done

    def round(
        self, world: World, end: int, known: Known
    ) -> Iterator[tuple[float, Text, dict[Key, tuple[float, float]]]]:
        """Yield the probability of each result of a round, its tokens and the draws' intervals."""
        tree, shape = self.tree, shape_of(self.tree)
        for tokens, chance in drafts(tree, self.drawing, world):
            prefixes: list[Text] = [()]
            for token, parent in zip(tokens, shape.parents, strict=True):
                prefixes.append((*prefixes[parent + 1], token))
            p = torch.stack([world.p[prefix] for prefix in prefixes])
            q = torch.stack([world.q[prefix] for prefix in prefixes[: tree.expanded]])
            judged = self.rule.accept(tree, torch.tensor(tokens), self.drawing, p, q)
            extras, chances = judged.extra_distributions.tolist(), judged.acceptance_probs.tolist()
            for weight, path, limits in self.verdicts(end, chances, dict(known)):
                row = path[-1] + 1 if path else 0
                for extra, prob in enumerate(extras[row]):
                    if mass := chance * weight * prob:
                        yield mass, (*prefixes[row], extra), {**dict(known), **limits}


def largest_error(rounds: Rounds, seed: int) -> float:
    """Return the largest difference of a text's probability from the target's."""
    world = World(seed, VOCAB, LENGTH + rounds.tree.height, False)
    found, worst = rounds.texts(world), 0.0
    for text in itertools.product(range(VOCAB), repeat=LENGTH):
        wanted = 1.0
        for end in range(LENGTH):
            wanted *= float(world.p[text[:end]][text[end]])
        worst = max(worst, abs(found.get(text, 0.0) - wanted))
    return worst


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.value)
@pytest.mark.parametrize("shape", TREES)
def test_a_text_judged_from_the_leaves_up_has_the_distribution_of_the_target(shape, drawing):
    rounds = Rounds(topology(TREES[shape], CPU), traversal.RULE, drawing)
    assert largest_error(rounds, 1) < 1e-9


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.value)
@pytest.mark.parametrize("shape", ["chain of two", "two by two"])
def test_a_text_judged_token_by_token_has_the_distribution_of_the_target(shape, drawing):
    rounds = Rounds(topology(TREES[shape], CPU), token_by_token.RULE, drawing)
    assert largest_error(rounds, 1) < 1e-9


@pytest.mark.parametrize("shape", ["chain of two", "chain of three"])
def test_a_text_judged_in_blocks_has_the_distribution_of_the_target(shape):
    rounds = Rounds(topology(TREES[shape], CPU), block.RULE, Drawing.INDEPENDENT)
    assert largest_error(rounds, 1) < 1e-9


class KeyOfThePosition(Rule):
    """A rule whose next round judges with draws that this round has read."""

    def draw_key(self, end, node, depth, rank):
        return end + depth - 1, rank


class KeyOfTheDepth(Rule):
    """A rule that has new draws in every round, but one draw for all nodes of a depth."""

    def draw_key(self, end, node, depth, rank):
        return end, end + depth - 1


@pytest.mark.parametrize(
    ("kind", "shape", "judging"),
    [
        (KeyOfThePosition, "chain of two", block.RULE),
        (KeyOfThePosition, "chain of two", traversal.RULE),
        (KeyOfThePosition, "two by two", traversal.RULE),
        (KeyOfTheDepth, "two by two", traversal.RULE),
    ],
)
def test_draws_that_are_read_twice_change_the_texts(kind, shape, judging):
    rule = kind(judging.name, "", "", judging.accept, judging.walk)
    errors = [
        largest_error(Rounds(topology(TREES[shape], CPU), rule, Drawing.INDEPENDENT), seed)
        for seed in range(2)
    ]
    assert max(errors) > 1e-3
