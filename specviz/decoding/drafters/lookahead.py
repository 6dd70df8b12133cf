"""Lookahead decoding (2402.02057): the target itself guesses ahead, no draft model is needed.

Two things ride in one target forward: *guesses*, n-grams from a pool that begin with the last
token, merged into one tree to be verified; and the *window*, a Jacobi iteration over the positions
to come, whose results are the pool's new n-grams. The pool also sees the n-grams of the prompt and
of the text written so far. A guess is chosen before the round's draws and from what was seen
earlier alone: DETERMINISTIC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.decoding.drafters.base import (
    NOTHING_BESIDE,
    Beside,
    Drafter,
    ExtraQueries,
    Observation,
    Opening,
    Proposal,
    QuietDrafter,
)
from specviz.decoding.drafters.host_tree import host_tree, merged
from specviz.decoding.drafters.lookahead_window import LookaheadWindow
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.ngram_pool import NgramPool
from specviz.decoding.streams import Purpose, RandomStream
from specviz.errors import InputError
from specviz.records import LookaheadState, ProposalKind

_BY_DEVICE = "0: chosen by device"
WINDOW = Option(
    "window", "Window W", 0, 0, 15, f"columns of the window; {_BY_DEVICE}, 3 on a CPU, 7 on a GPU"
)
NGRAM = Option(
    "ngram", "N-gram size N", 0, 0, 8, f"tokens of an n-gram; {_BY_DEVICE}, 3 on a CPU, 5 on a GPU"
)
GUESSES = Option(
    "guesses", "Guesses G", 0, 0, 9, f"n-grams per round; {_BY_DEVICE}, 3 on a CPU, 7 on a GPU"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """W, N and G."""

    window: int
    ngram: int
    guesses: int


ON_CPU, ON_GPU = Sizes(3, 3, 3), Sizes(7, 5, 7)


class Lookahead(QuietDrafter):
    """Grows its pool with every round."""

    def __init__(self, sizes: Sizes, setup: Setup) -> None:
        self._sizes = sizes
        self._depth = min(sizes.ngram - 1, setup.config.draft_length)
        self._device = setup.target.device
        self._context_length = setup.target.info.context_length
        self._draws = RandomStream(setup.config.seed, Purpose.DRAFT)
        self._pool = NgramPool(sizes.guesses)
        self._window = LookaheadWindow((), sizes.ngram)  # until the prompt is known
        self._learnt = 0  # tokens of the text that the pool has seen
        self._added = 0  # new n-grams since the last proposal
        self._root_id = 0
        self._is_riding = False  # the window in the present round

    def start(self, opening: Opening) -> None:
        """The window begins with tokens of the prompt, drawn at random."""
        count = self._sizes.window + self._sizes.ngram - 3
        prompt = opening.prompt_ids
        places = [int(self._draws.uniform(column) * len(prompt)) for column in range(count)]
        self._window = LookaheadWindow([prompt[place] for place in places], self._sizes.ngram)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        self._added += self._pool.learn(committed, self._learnt, self._sizes.ngram)
        self._learnt, self._root_id = len(committed), committed[-1]
        guesses = self._pool.behind(self._root_id)
        depth = min(self._depth, room)
        token_ids, parents = merged([guess[:depth] for guess in guesses])
        queries = self._queries(len(committed), room, len(token_ids) + 1)
        self._is_riding = queries is not None
        note = LookaheadState(
            pool=self._pool.size,
            hits=len(guesses),
            added=self._added,
            level_sizes=self._window.sizes if queries else (),
            token_ids=self._window.token_ids if queries else (),
        )
        self._added = 0
        return host_tree(token_ids, parents, self._device, (note,), queries)

    def _queries(self, end: int, room: int, rows: int) -> ExtraQueries | None:
        """None where what it finds could not be used any more, or outside of the context."""
        is_inside = end - 1 + self._window.reach < self._context_length
        return self._window.queries(rows, self._device) if room >= 2 and is_inside else None

    def observe(self, observation: Observation) -> Beside:
        if self._is_riding:
            next_id, found = observation.token_ids[0], observation.query_ids
            for key, continuation in self._window.step(self._root_id, next_id, found):
                self._added += self._pool.add(key, continuation)
        return NOTHING_BESIDE


def _sizes(setup: Setup) -> Sizes:
    values = METHOD.completed(setup.config)
    if values[NGRAM.name] == 1:
        raise InputError(f"{NGRAM.name} must be 0 or from 2 to {NGRAM.high}, got 1")
    usual = ON_GPU if setup.target.device.type == "cuda" else ON_CPU
    return Sizes(
        values[WINDOW.name] or usual.window,
        values[NGRAM.name] or usual.ngram,
        values[GUESSES.name] or usual.guesses,
    )


def _make(setup: Setup) -> Drafter:
    return Lookahead(_sizes(setup), setup)


METHOD = Method(
    "lookahead",
    "Lookahead",
    "The target guesses ahead by itself and verifies its earlier guesses; needs no draft.",
    (ProposalKind.DETERMINISTIC,),
    _make,
    options=(WINDOW, NGRAM, GUESSES),
    depth_cap="at most N − 1 tokens, whatever K: a guess is an n-gram without its first token",
)
