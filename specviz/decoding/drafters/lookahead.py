"""Lookahead decoding (2402.02057): the target itself guesses ahead, no draft model is needed.

Two things are added to one target forward: *guesses*, n-grams from a pool that begin with the last
token, merged into one tree to be verified; and the *window*, a Jacobi iteration over the next
positions, which finds the pool's new n-grams. The pool also takes the n-grams of the prompt and of
the text written so far. Guesses are chosen before the round's draws, so the proposal is
DETERMINISTIC. Letters: N tokens of an n-gram, W columns, Q window tokens, R rows of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Drafter,
    ExtraQueries,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    QuietDrafter,
    host_tree,
)
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.streams import Purpose, RandomStream
from specviz.errors import InputError
from specviz.records import LookaheadState, ProposalKind

MAX_KEYS = 4096  # first tokens in the pool

Ngram = tuple[int, tuple[int, ...]]  # its first token, the others

_BY_DEVICE = "0: chosen by device"
WINDOW = Option(
    "window",
    "Window W",
    0,
    0,
    15,
    f"columns of the window; {_BY_DEVICE}, 3 on a CPU, 7 on a GPU",
    usual="3,5,7",
)
NGRAM = Option(
    "ngram",
    "N-gram size N",
    0,
    0,
    8,
    f"tokens of an n-gram; {_BY_DEVICE}, 3 on a CPU, 5 on a GPU",
    usual="3,4,5",
)
GUESSES = Option(
    "guesses",
    "Guesses G",
    0,
    0,
    9,
    f"n-grams per round; {_BY_DEVICE}, 3 on a CPU, 7 on a GPU",
    usual="3,5,7",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the window (W), of an n-gram (N) and of the guesses per round (G)."""

    window: int
    ngram: int
    guesses: int


ON_CPU, ON_GPU = Sizes(3, 3, 3), Sizes(7, 5, 7)


class Lookahead(QuietDrafter):
    """Proposes guesses from the pool, and fills the pool from the window and the text."""

    def __init__(self, sizes: Sizes, setup: Setup) -> None:
        self._sizes = sizes
        self._depth = min(sizes.ngram - 1, setup.config.draft_length)
        self._device = setup.target.device
        self._context_length = setup.target.info.context_length
        self._draws = RandomStream(setup.config.seed, Purpose.DRAFT)
        self._pool = NgramPool(sizes.guesses)
        self._window = LookaheadWindow((), sizes.ngram)  # until `start`
        self._learnt = 0  # tokens of the text that are in the pool
        self._added = 0  # new n-grams since the last proposal
        self._root_id = 0
        self._is_riding = False  # whether the window is in this round's forward

    def start(self, prompt: PrefilledPrompt) -> None:
        """The first window is made of tokens of the prompt, drawn at random."""
        count = self._sizes.window + self._sizes.ngram - 3
        ids = prompt.prompt_ids
        places = [int(self._draws.uniform(column) * len(ids)) for column in range(count)]
        self._window = LookaheadWindow([ids[place] for place in places], self._sizes.ngram)

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
        """None if its results could not be used any more, or if it would leave the context."""
        is_inside = end - 1 + self._window.reach < self._context_length
        return self._window.queries(rows, self._device) if room >= 2 and is_inside else None

    def observe(self, observation: Observation) -> OverlappedWork:
        if self._is_riding:
            next_id, found = observation.token_ids[0], observation.query_ids
            for key, continuation in self._window.step(self._root_id, next_id, found):
                self._added += self._pool.add(key, continuation)
        return NOTHING_OVERLAPPED


def merged(chains: Sequence[Sequence[int]]) -> tuple[list[int], tuple[int, ...]]:
    """Chains as one tree that shares common beginnings: its tokens and their parents (-1 = root).

    >>> merged([(5, 6), (5, 7), (8,)])
    ([5, 6, 7, 8], (-1, 0, 0, -1))
    """
    token_ids: list[int] = []
    parents: list[int] = []
    nodes: dict[tuple[int, int], int] = {}  # parent, token -> node
    for chain in chains:
        node = -1
        for token_id in chain:
            key = (node, token_id)
            if key not in nodes:
                nodes[key] = len(token_ids)
                token_ids.append(token_id)
                parents.append(node)
            node = nodes[key]
    return token_ids, tuple(parents)


class NgramPool:
    """N-grams by their first token; the least recently seen ones are dropped first.

    >>> pool = NgramPool(per_key=2)
    >>> [pool.add(1, continuation) for continuation in ((2, 3), (4, 5), (2, 3), (6, 7))]
    [True, True, False, True]
    >>> pool.behind(1)
    [(6, 7), (2, 3)]
    """

    def __init__(self, per_key: int, max_keys: int = MAX_KEYS) -> None:
        self._per_key = per_key
        self._max_keys = max_keys
        # both dicts are ordered by when they were last seen
        self._found: dict[int, dict[tuple[int, ...], None]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """The number of n-grams."""
        return self._size

    def add(self, key: int, continuation: tuple[int, ...]) -> bool:
        """Add an n-gram with first token `key`; whether it is new."""
        known = self._found.pop(key, {})
        self._found[key] = known
        is_new = continuation not in known
        known.pop(continuation, None)
        known[continuation] = None
        self._size += is_new
        if len(known) > self._per_key:
            del known[next(iter(known))]
            self._size -= 1
        if len(self._found) > self._max_keys:
            self._size -= len(self._found.pop(next(iter(self._found))))
        return is_new

    def learn(self, token_ids: Sequence[int], start: int, length: int) -> int:
        """Add all n-grams of `length` that end at index `start` or later; how many are new."""
        ends = range(max(start, length - 1), len(token_ids))
        return sum(
            self.add(token_ids[end - length + 1], tuple(token_ids[end - length + 2 : end + 1]))
            for end in ends
        )

    def behind(self, key: int) -> list[tuple[int, ...]]:
        """The continuations of a token, the most recent first."""
        return list(reversed(self._found.get(key, {})))


class LookaheadWindow:
    """Guesses at the next tokens by Jacobi iteration: up to N - 1 levels over W columns.

    Each level is the target's output for the level before, one position further on. Column c of
    level l is l + c positions after the root. A column, read from the oldest level to the newest
    output, is an n-gram that the target might write.

    Column 0 of level 0 is the root itself, so level 0 has one token less than the others. The
    window starts with level 0 alone, N - 2 columns wider; every step adds a level and removes a
    column until it is full, then the oldest level is dropped. It moves on by one position a step,
    however many tokens were accepted, as in the authors' own implementation.
    """

    def __init__(self, first_level: Sequence[int], ngram: int) -> None:
        """`first_level` is any W + N - 3 tokens."""
        self._ngram = ngram
        self._levels = [list(first_level)]

    @property
    def is_full(self) -> bool:
        return len(self._levels) == self._ngram - 1

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Level after level."""
        return tuple(token_id for level in self._levels for token_id in level)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each level."""
        return tuple(map(len, self._levels))

    @property
    def reach(self) -> int:
        """How many positions the last token is after the root."""
        return len(self._levels) - 1 + len(self._levels[0])

    def queries(self, rows: int, device: torch.device) -> ExtraQueries | None:
        """All window tokens as extra queries of a forward over `rows` rows, None without any."""
        token_ids = self.token_ids
        if not token_ids:
            return None
        offsets, mask = _layout(len(self._levels[0]), len(self._levels), rows, device)
        on_device = torch.tensor(token_ids).to(device, non_blocking=True)
        return ExtraQueries(on_device, offsets, mask)

    def step(self, root_id: int, next_id: int, successors: Sequence[int]) -> list[Ngram]:
        """One Jacobi step. Returns the n-grams that it found, none before the window is full.

        `next_id` is the token committed after the root; `successors` are the target's likeliest
        tokens after each window token.
        """
        is_lowest = len(self._levels) == 1  # column 0 is then the root, which is not a query
        newest = list(successors[-len(self._levels[-1]) :]) if successors else []
        if is_lowest:
            newest.insert(0, next_id)
        if not self.is_full:
            self._levels = [level[1:] for level in (*self._levels, newest)]
            return []
        keys = [root_id, *self._levels[0]]
        found = list(zip(keys, zip(*self._levels[1:], newest, strict=True), strict=True))
        above = [*self._levels[1:], newest]
        self._levels = [above[0][1:], *above[1:]]
        return found


@lru_cache(maxsize=256)
def _layout(columns: int, levels: int, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Offsets [Q] and mask [Q, R + Q] of a window whose level 0 has `columns` tokens.

    A token sees the root, level 0 up to its own column, and its own column up to itself. It sees
    nothing of the tree, which is another continuation.
    """
    places = [
        (level, column)
        for level in range(levels)
        for column in range(columns + 1)
        if level or column
    ]
    mask = torch.zeros(len(places), rows + len(places), dtype=torch.bool)
    mask[:, 0] = True
    for query, (level, column) in enumerate(places):
        for seen, (lower, left) in enumerate(places):
            if (lower == 0 and left <= column) or (left == column and lower <= level):
                mask[query, rows + seen] = True
    offsets = torch.tensor([level + column for level, column in places], dtype=torch.int64)
    return offsets.to(device), mask.to(device)


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
