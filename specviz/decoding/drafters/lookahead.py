"""Lookahead decoding (arXiv 2402.02057): the target itself guesses ahead, without a draft model.

Each target forward also runs two additional inputs. The *guesses* are n-grams from a pool that
begin with the last token of the text. They are merged into one tree and verified. The *window* is a
Jacobi iteration over the next positions, which finds new n-grams for the pool. The pool also gets
the n-grams of the prompt and of the text so far. The guesses are chosen before any draw of the
round, so the tokens are CHOSEN.

In shapes, N is the number of tokens of an n-gram, W the number of columns of the window, Q the
number of window tokens and R the number of rows of the tree.
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
from specviz.models.accelerator import is_accelerator, upload
from specviz.records import LookaheadState

MAX_KEYS = 4096

Ngram = tuple[int, tuple[int, ...]]  # the first token of an n-gram, and the tokens that follow it

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
    """The settings of lookahead: window columns (W), tokens of an n-gram (N) and guesses (G)."""

    window: int
    ngram: int
    guesses: int


ON_CPU, ON_GPU = Sizes(3, 3, 3), Sizes(7, 5, 7)


class Lookahead(QuietDrafter):
    """A drafter that proposes n-grams from a pool.

    The pool collects n-grams from the window and from the text.
    """

    def __init__(self, sizes: Sizes, setup: Setup) -> None:
        self._sizes = sizes
        self._depth = min(sizes.ngram - 1, setup.config.draft_length)
        self._device = setup.target.device
        self._context_length = setup.target.info.context_length
        self._draws = RandomStream(setup.config.seed, Purpose.DRAFT)
        self._pool = NgramPool(sizes.guesses)
        # an empty window until `start` creates the real window
        self._window = LookaheadWindow((), sizes.ngram)
        self._learnt = 0  # number of tokens of the text whose n-grams are already in the pool
        self._added = 0  # number of n-grams added to the pool since the last proposal
        self._root_id = 0
        self._has_window = False  # True if the window is part of this round's forward

    def start(self, prompt: PrefilledPrompt) -> None:
        """Read the prompt, and fill the first window with tokens drawn at random from it."""
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
        self._has_window = queries is not None
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
        """Return the window tokens as extra queries.

        Return None if the run ends before new n-grams could help, or if the window would exceed the
        context length.
        """
        is_inside = end - 1 + self._window.reach < self._context_length
        return self._window.queries(rows, self._device) if room >= 2 and is_inside else None

    def observe(self, observation: Observation) -> OverlappedWork:
        if self._has_window:
            next_id, found = observation.token_ids[0], observation.query_ids
            for key, continuation in self._window.step(self._root_id, next_id, found):
                self._added += self._pool.add(key, continuation)
        return NOTHING_OVERLAPPED


def merged(chains: Sequence[Sequence[int]]) -> tuple[list[int], tuple[int, ...]]:
    """Merge chains into one tree that shares their prefixes.

    Return the tokens and the index of each token's parent; -1 is the root.

    >>> merged([(5, 6), (5, 7), (8,)])
    ([5, 6, 7, 8], (-1, 0, 0, -1))
    """
    token_ids: list[int] = []
    parents: list[int] = []
    nodes: dict[tuple[int, int], int] = {}  # (parent node, token) -> node
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
    """A pool of n-grams, grouped by their first token.

    When it is full, it drops the oldest n-grams.

    >>> pool = NgramPool(per_key=2)
    >>> [pool.add(1, continuation) for continuation in ((2, 3), (4, 5), (2, 3), (6, 7))]
    [True, True, False, True]
    >>> pool.behind(1)
    [(6, 7), (2, 3)]
    """

    def __init__(self, per_key: int, max_keys: int = MAX_KEYS) -> None:
        self._per_key = per_key
        self._max_keys = max_keys
        # The outer and the inner dictionary are sorted by when an entry was last seen, the oldest
        # entry first.
        self._found: dict[int, dict[tuple[int, ...], None]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def add(self, key: int, continuation: tuple[int, ...]) -> bool:
        """Add an n-gram that consists of the token `key` and its continuation.

        Return whether the n-gram is new.
        """
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
        """Add all n-grams of `length` tokens that end at index `start` or later.

        Return how many of these n-grams are new to the pool.
        """
        ends = range(max(start, length - 1), len(token_ids))
        return sum(
            self.add(token_ids[end - length + 1], tuple(token_ids[end - length + 2 : end + 1]))
            for end in ends
        )

    def behind(self, key: int) -> list[tuple[int, ...]]:
        """Return the continuations of a token in the pool, the most recently seen one first."""
        return list(reversed(self._found.get(key, {})))


class LookaheadWindow:
    """A window of guesses at the next tokens, refined by Jacobi iteration.

    A full window is a table of N - 1 levels and W columns. Each level has the tokens that the
    target predicted after the tokens of the level before, in earlier forwards. The token in column
    c of level l is therefore a guess at the position l + c after the root. The tokens of one
    column, with the target's newest prediction at the end, are an n-gram that the target might
    write.

    Column 0 of level 0 would be the root itself, so level 0 has one token fewer than the other
    levels. At first the window has only level 0, with W + N - 2 columns. Until the window is full,
    every step adds a level and removes a column. After that, every step adds a level and drops the
    oldest one. The window moves by one position per step, however many tokens were accepted, as in
    the authors' own implementation.
    """

    def __init__(self, first_level: Sequence[int], ngram: int) -> None:
        """Create a window whose level 0 is `first_level`: any W + N - 3 tokens."""
        self._ngram = ngram
        self._levels = [list(first_level)]

    @property
    def is_full(self) -> bool:
        return len(self._levels) == self._ngram - 1

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token_id for level in self._levels for token_id in level)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self._levels))

    @property
    def reach(self) -> int:
        """Return the distance in positions from the root to the last token of the window."""
        return len(self._levels) - 1 + len(self._levels[0])

    def queries(self, rows: int, device: torch.device) -> ExtraQueries | None:
        """Return the window tokens as extra queries of a forward with `rows` tree rows.

        Return None if the window is empty.
        """
        token_ids = self.token_ids
        if not token_ids:
            return None
        offsets, mask = _layout(len(self._levels[0]), len(self._levels), rows, device)
        on_device = upload(torch.tensor(token_ids), device)
        return ExtraQueries(on_device, offsets, mask)

    def step(self, root_id: int, next_id: int, successors: Sequence[int]) -> list[Ngram]:
        """Take one step of the Jacobi iteration, and return the n-grams that the step found.

        Before the window is full, the result is empty. `next_id` is the token committed after the
        root. `successors` has the target's most probable token after each window token.
        """
        # The root is no query of the window, so `successors` lacks the target's token after it.
        # If level 0 is the newest level, `next_id` is that token.
        is_lowest = len(self._levels) == 1
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
    """Return offsets [Q] and mask [Q, R + Q] of a window whose level 0 has `columns` tokens.

    A token sees the root, level 0 up to its own column, and its own column up to itself. It does
    not see the draft tree, which continues the text in another way.
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
    return upload(offsets, device), upload(mask, device)


def _sizes(setup: Setup) -> Sizes:
    values = METHOD.completed(setup.config)
    if values[NGRAM.name] == 1:
        raise InputError(f"{NGRAM.name} must be 0 or from 2 to {NGRAM.high}, got 1")
    usual = ON_GPU if is_accelerator(setup.target.device) else ON_CPU
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
    _make,
    options=(WINDOW, NGRAM, GUESSES),
    depth_cap="at most N − 1 tokens, whatever K: a guess is an n-gram without its first token",
)
