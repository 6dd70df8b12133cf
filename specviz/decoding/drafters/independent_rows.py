"""Drafting for all rows of a batch, each with exactly the logits that it would get alone.

A quantised copy of the target needs this, because its matrix multiplications round their inputs. In
a usual forward, the other rows of a batch change the last bit of some numbers. Rounding would then
magnify these differences, and the draft would choose other tokens than in a run of one prompt.

In shapes, A is the number of rows that run, M the number of nodes of one level in one row, S the
number of nodes of one row run so far, this level included, T the number of tokens of all rows in
one call and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import HeldMemory, Observation, PrefilledPrompt
from specviz.decoding.drafters.source import shared_layers
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.choice import MOST_ALIKE


class IndependentRows:
    """A source of logits for all rows of a batch, with one KV cache per row.

    The draft model is made of the target's layers with the indices `shared`. Rows run together only
    in small groups, in which the int8 matrix multiplication computes each row independently of the
    others.
    """

    def __init__(self, model: LlamaModel, capacities: Sequence[int], shared: Sequence[int]) -> None:
        self._model = model
        self._shared = shared
        self._caches = [model.new_cache(capacity) for capacity in capacities]
        # number of cache slots with committed tokens, per row
        self._root_ends = [0] * len(capacities)
        # number of cache slots with nodes of the current tree, per row
        self._ran = [0] * len(capacities)

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, sum(cache.bytes for cache in self._caches))

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        """Fill the cache of each row with the target's own keys and values of the prompt."""
        for cache, prompt in zip(self._caches, prompts, strict=True):
            assert prompt.keys_values is not None
            cache.begin(shared_layers(prompt.keys_values(), self._shared))

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        missing: list[Sequence[int]] = []
        places: list[Sequence[int]] = []
        for row in rows:
            length, end = self._caches[row].length, len(committed[row])
            missing.append(committed[row][length:])
            places.append(range(length, end))
            self._root_ends[row], self._ran[row] = end, 0
        token_ids, positions = ([i for each in ids for i in each] for ids in (missing, places))
        counts = [len(ids) for ids in missing]
        return self._forward(rows, counts, torch.tensor(token_ids), torch.tensor(positions))

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        count = token_ids.shape[1]
        positions = torch.tensor([self._root_ends[row] - 1 + depth for row in rows])
        for row in rows:
            self._ran[row] += count
        counts, places = [count] * len(rows), positions.repeat_interleave(count)
        return self._forward(rows, counts, token_ids.flatten(), places, mask, is_level=True)

    def _forward(
        self,
        rows: Sequence[int],
        counts: Sequence[int],
        token_ids: Tensor,  # [T], the tokens of all rows, one row after another
        positions: Tensor,  # [T]
        mask: Tensor | None = None,
        is_level: bool = False,
    ) -> Tensor:  # [A, M, V] if `is_level`, otherwise [A, 1, V] after each row's last token
        caches = [self._caches[row] for row in rows]
        logits: list[Tensor] = []
        for first, behind in _groups(counts):
            own = slice(sum(counts[:first]), sum(counts[:behind]))
            part = slice(first, behind)
            logits.append(
                self._model.forward_apart(
                    token_ids[own], positions[own], caches[part], counts[part], mask, not is_level
                )
            )
        return torch.cat(logits).view(len(rows), -1, self._model.info.vocab_size)

    def keep(self, observations: Sequence[Observation]) -> None:
        states = zip(self._caches, self._root_ends, self._ran, observations, strict=True)
        for cache, end, ran, observation in states:
            cache.keep(end, [end + origin for origin in observation.origins if 0 <= origin < ran])

    def select(self, rows: Sequence[int]) -> None:
        self._caches = [self._caches[row] for row in rows]
        self._root_ends = [self._root_ends[row] for row in rows]
        self._ran = [self._ran[row] for row in rows]


def _groups(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return spans of neighbouring rows; the rows of a span run together in one forward.

    A span of several rows has at most MOST_ALIKE tokens; a row with more tokens runs alone.

    >>> _groups([2] * 9 + [20, 1])
    [(0, 8), (8, 9), (9, 10), (10, 11)]
    """
    groups: list[tuple[int, int]] = []
    first, tokens = 0, 0
    for row, count in enumerate(counts):
        if row > first and tokens + count > MOST_ALIKE:
            groups.append((first, row))
            first, tokens = row, 0
        tokens += count
    return [*groups, (first, len(counts))]
