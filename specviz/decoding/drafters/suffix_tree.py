"""A tree that counts which tokens followed which, for the last few tokens of a growing text.

Every node represents a sequence of tokens that occurs in the texts of the tree, and counts its
occurrences. A sequence that occurs only once has one node and no children, because its continuation
can be read from the text. A text of n tokens without repetitions therefore needs about n nodes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from specviz.records.notes import match_score

DEPTH = 24  # largest number of tokens in a counted sequence, as in vLLM's suffix trees


@dataclass(slots=True, eq=False)
class _Node:
    """A sequence of tokens that occurs `count` times.

    If it occurs once, `text` and `end` say where: it ends before index `end` of `text`. Otherwise
    `children` has the nodes of its continuations, and `best` is the token of the most frequent one;
    if several are equally frequent, it is the one that reached this count last.
    """

    count: int
    text: list[int] | None
    end: int
    children: dict[int, _Node]
    best: int = -1


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """The limits of a continuation: the defaults except `most` are those of vLLM.

    After m matched tokens, a continuation has at most `percent` / 100 * m + `offset` tokens, and
    never more than `most`. It ends before the first token that follows fewer than `least_percent`
    percent of the occurrences of the match.
    """

    most: int
    percent: int = 100
    offset: int = 0
    least_percent: int = 10

    def after(self, matched: int) -> int:
        """Return how many tokens a continuation may have if `matched` tokens match."""
        return min(self.most, self.percent * matched // 100 + self.offset)


@dataclass(frozen=True, slots=True)
class CountedPath:
    """The most frequent continuation of the last `matched` tokens.

    `counts[0]` is how often the matched tokens occur; the end of the text counts as one occurrence.
    `counts[i]` says how many of these occurrences are followed by the first i tokens of the path.
    """

    matched: int = 0
    token_ids: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def score(self) -> float:
        return match_score(self.counts)


class SuffixTree:
    """All sequences of up to `depth` tokens in the last `most_texts` texts, with their counts.

    Adding a token takes O(depth) steps, and `best_path` takes O(depth * length).
    """

    def __init__(self, depth: int = DEPTH, most_texts: int = 1) -> None:
        self._depth, self._most_texts = depth, most_texts
        self._root = _Node(0, None, 0, {})
        self._texts: deque[list[int]] = deque()
        # Node m of this list represents the last m tokens of the text. The list has only the nodes
        # of sequences that also occurred earlier in the texts.
        self._ends = [self._root]

    def begin(self) -> None:
        """Begin a new text.

        If the tree then has more than `most_texts` texts, forget the oldest one.
        """
        self._texts.append([])
        self._ends = [self._root]
        if len(self._texts) > self._most_texts:
            self._forget(self._texts.popleft())

    def append(self, token_id: int) -> None:
        """Add a token to the text that was begun last."""
        text = self._texts[-1]
        text.append(token_id)
        ends = [self._root]
        for length, node in enumerate(self._ends, start=1):
            child = node.children.get(token_id)
            if child is None:
                child = node.children[token_id] = _Node(1, text, len(text), {})
            else:
                self._grow(child, length)
                child.count += 1
                if length < self._depth:
                    ends.append(child)
            best = node.children.get(node.best)
            if best is None or child.count >= best.count:
                node.best = token_id
        self._ends = ends

    def best_path(self, limits: DraftLimits) -> CountedPath:
        """Return the continuation of the text with the highest score (see `match_score`).

        If several continuations have this score, return the one after the longest match.
        """
        paths = [CountedPath()]
        for matched, node in enumerate(self._ends[1:], start=1):
            most = min(limits.after(matched), self._depth - matched)
            paths.append(_path(matched, node, most, limits.least_percent))
        return max(paths, key=lambda path: (path.score, path.matched))

    @property
    def longest_match(self) -> int:
        """Return how many of the text's last tokens occurred before, at most `depth` - 1."""
        return len(self._ends) - 1

    def _grow(self, node: _Node, length: int) -> None:
        """Add the child of a node whose sequence occurs a second time now.

        The child represents the sequence with the token that followed its first occurrence.
        """
        text, end = node.text, node.end
        if text is None:
            return
        node.text = None
        if end < len(text) and length < self._depth:
            node.best = text[end]
            node.children[node.best] = _Node(1, text, end + 1, {})

    def _forget(self, text: list[int]) -> None:
        for start in range(len(text)):
            node = self._root
            for token_id in text[start : start + self._depth]:
                child = node.children.get(token_id)
                if child is None:  # a sequence that occurs once has a node without children
                    break
                child.count -= 1
                if not child.count:
                    del node.children[token_id]
                if token_id == node.best:
                    node.best = _most_frequent(node)
                if not child.count:
                    break
                node = child


def _path(matched: int, node: _Node, most: int, least_percent: int) -> CountedPath:
    """Return the path of the most frequent continuations of `node`, with at most `most` tokens.

    The path ends before a token that follows fewer than `least_percent` percent of the occurrences
    of `node`.
    """
    token_ids: list[int] = []
    counts = [node.count]
    while len(token_ids) < most:
        if node.text is not None:
            copied = node.text[node.end : node.end + most - len(token_ids)]
            token_ids += copied
            counts += [1] * len(copied)
            break
        child = node.children.get(node.best)
        if child is None or 100 * child.count < least_percent * counts[0]:
            break
        token_ids.append(node.best)
        counts.append(child.count)
        node = child
    return CountedPath(matched, tuple(token_ids), tuple(counts))


def _most_frequent(node: _Node) -> int:
    return max(node.children, key=lambda token_id: node.children[token_id].count, default=-1)
