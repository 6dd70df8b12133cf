"""A drafter made of two parts: a source of logits, and a shape that grows a tree from them.

A source with a draft vocabulary gives only the logits of that vocabulary. The shape then grows the
tree from these, and only the finished tree has tokens and distributions of the target's vocabulary.
On a CPU that is faster, because a draft vocabulary is often a sixth of the target's.

A source counts the nodes that it has run, from 0 and level by level. This count gives each node its
number. A shape stores these numbers as the `origins` of its nodes.

In shapes, M is the number of nodes of one level, S the number of nodes run so far, this level
included, U the number of uniform draws, V the size of the target's vocabulary and R the size of the
draft vocabulary, which is V for a source without one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    HeldMemory,
    HostTransfer,
    Observation,
    OverlappedWork,
    Partial,
    PrefilledPrompt,
    Proposal,
)
from specviz.decoding.sampling import uniforms_on
from specviz.models.accelerator import upload
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.graphs.captured_model import CapturedModel, run_work
from specviz.models.language_model import LanguageModel
from specviz.models.sequence_work import HostNumbers, Numbers, Steps

# At the start of a round, a draft model must run committed tokens that its cache lacks. Usually
# these are one or two tokens. CUDA graphs are captured only for these numbers.
USUALLY_MISSING = (1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The nodes of one depth of a draft tree. The draft model runs them together."""

    token_ids: Tensor  # [M] int64
    parents: Tensor  # [M] int64, the source's numbers of the parent nodes, -1 = root
    depth: int
    # [M, S] bool, True where a node sees an ancestor or itself; None for a chain
    mask: Tensor | None


# A function that runs one level and returns the logits after each of its nodes: -> [M, R].
Extend = Callable[[Level], Tensor]


class TreeLevels(Hashable, Protocol):
    """The tensor work that grows all levels of a tree. It never waits for the device.

    Two objects of this kind that compare equal do the same work. `run_count` is the number of nodes
    that the draft model runs: all nodes except the nodes of the last level. A call returns the
    tokens of all nodes, then `distribution_count` tensors of distributions [.., R], then other
    tensors. Tokens are indices of the R logits.
    """

    @property
    def run_count(self) -> int: ...

    @property
    def distribution_count(self) -> int: ...

    def __call__(
        self,
        logits: Tensor,  # [1, R] after the last committed token
        extend: Extend,
        draws: Tensor,  # [U] float64
    ) -> tuple[Tensor, ...]: ...


class DraftSource(Protocol):
    """An object that gives the logits after each node of a growing draft tree."""

    @property
    def device(self) -> torch.device: ...

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Return the target's layers whose hidden states the source needs, or ().

        The number i means the input of layer i (from 0). The number of layers means the result of
        the final norm.
        """
        ...

    @property
    def memory(self) -> HeldMemory: ...

    @property
    def drafted(self) -> DraftVocabulary | None:
        """Return the draft vocabulary. None means that every token of the target can be drafted."""
        ...

    def start(self, prompt: PrefilledPrompt) -> None: ...

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Return the logits after the last committed token. -> [1, R]"""
        ...

    def extend(self, level: Level) -> Tensor:
        """Return the logits after each node of a level. -> [M, R]

        The tokens of the level are token ids of the target, also with a draft vocabulary.

        The caller must pass the levels in order, from depth 1 down.
        """
        ...

    def grown(
        self, levels: TreeLevels, committed: Sequence[int], draws: Sequence[float], is_whole: bool
    ) -> tuple[Tensor, ...]:
        """Run the committed tokens, then the tensor work `levels`, which grows a tree.

        Return what `levels` returns, but with tokens and distributions of the target's vocabulary.
        `is_whole` is True if the tree has the same size as in most rounds of this run. A source may
        capture the work for such a tree as a CUDA graph.
        """
        ...

    def partial(self) -> Partial | None:
        """Return the hidden states that drafting computed with the target's first layers.

        The result has one row for the root and for each node, in the order in which they ran.
        Verification then runs only the target's remaining layers over them. Return None if drafting
        does not run the target's first layers.
        """
        ...

    def keep(self, observation: Observation) -> None:
        """Keep only the accepted nodes in the cache.

        `observation.origins` has the numbers of these nodes.
        """
        ...


class DraftShape(Protocol):
    """An object that grows a draft tree from the logits of a source."""

    def start(self, transfer: HostTransfer) -> None:
        """Prepare for a run, before the first tree grows.

        A shape that must read its own draft on the host does so with `transfer`.
        """
        ...

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """Grow a tree of at most `room` levels after the committed tokens."""
        ...


class SteppedSource:
    """A source of logits that runs the levels of a draft tree one after another."""

    drafted: DraftVocabulary | None = None

    def grown(
        self: DraftSource,
        levels: TreeLevels,
        committed: Sequence[int],
        draws: Sequence[float],
        is_whole: bool,
    ) -> tuple[Tensor, ...]:
        uniforms, drafted = uniforms_on(self.device, draws), self.drafted
        if drafted is None:
            return levels(self.begin(committed), self.extend, uniforms)

        def extend(level: Level) -> Tensor:
            return self.extend(replace(level, token_ids=drafted.ids[level.token_ids]))

        token_ids, *others = levels(self.begin(committed), extend, uniforms)
        count = levels.distribution_count
        distributions = map(drafted.spread_distributions, others[:count])
        return drafted.ids[token_ids], *distributions, *others[count:]


class SourceDrafter:
    """A drafter that combines a source of logits with a shape of trees."""

    def __init__(self, source: DraftSource, shape: DraftShape) -> None:
        self._source = source
        self._shape = shape

    @property
    def feature_layers(self) -> tuple[int, ...]:
        return self._source.feature_layers

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._shape.start(prompt.transfer)
        self._source.start(prompt)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return self._shape.grow(self._source, committed, room, round_index)

    def observe(self, observation: Observation) -> OverlappedWork:
        self._source.keep(observation)
        return NOTHING_OVERLAPPED

    def close(self) -> None:
        """Do nothing: this drafter holds no resources."""


@dataclass(frozen=True, slots=True)
class ModelLevels:
    """The tensor work of a draft model in one round.

    First, the draft model runs the committed tokens that its KV cache lacks. `wholes` is their
    number, and the host passes their ids to the work. Then the draft model grows the levels of a
    tree.
    """

    levels: TreeLevels
    vocab_size: int
    wholes: int

    @property
    def tokens(self) -> int:
        return self.wholes + self.levels.run_count

    @property
    def alike(self) -> tuple[ModelLevels, ...]:
        return tuple(
            replace(self, wholes=count) for count in USUALLY_MISSING if count != self.wholes
        )

    def __call__(
        self, steps: Steps, numbers: Numbers, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        offsets = torch.arange(self.wholes, device=numbers.wholes.device)
        first = steps.forward(numbers.wholes, offsets, last_only=True)

        def extend(level: Level) -> Tensor:
            offsets = torch.full_like(level.token_ids, self.wholes - 1 + level.depth)
            output = steps.forward(level.token_ids, offsets, level.mask)
            return fitted(output.logits[0], self.vocab_size)

        return self.levels(fitted(first.logits[0], self.vocab_size), extend, numbers.draws)


class ModelSource(SteppedSource):
    """A source of logits that is a draft model.

    Its KV cache holds a prefix of the committed tokens. If the draft is made of layers of the
    target, `shared` lists these layers. Such a draft does not run the prompt. It starts with a copy
    of the target's keys and values in those layers. `drafted` is the draft vocabulary of a model
    that gives only the logits of that vocabulary.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(
        self,
        model: LanguageModel,
        capacity: int,
        vocab_size: int,
        shared: Sequence[int] = (),
        drafted: DraftVocabulary | None = None,
    ) -> None:
        self._model = model
        self._cache = model.new_cache(capacity)
        self._vocab_size = vocab_size if drafted is None else len(drafted.ids)
        self.drafted = drafted
        self._shared = shared
        self._root_end = 0  # number of cache slots with committed tokens
        self._ran = 0  # number of cache slots with nodes of the current tree

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompt: PrefilledPrompt) -> None:
        if self._shared and prompt.keys_values is not None:
            self._cache.begin(shared_layers(prompt.keys_values(), self._shared))
        if self._cache.length < len(prompt.prompt_ids):
            self._read(prompt.prompt_ids)

    def begin(self, committed: Sequence[int]) -> Tensor:
        logits = self._read(committed)
        self._root_end, self._ran = len(committed), 0
        return fitted(logits, self._vocab_size)

    def _read(self, token_ids: Sequence[int]) -> Tensor:
        """Run the committed tokens that the draft's KV cache lacks, and always the last one.

        Return the logits after the last token. -> [1, V]
        """
        missing = token_ids[self._cache.length :]
        positions = range(self._cache.length, len(token_ids))
        output = self._model.forward(
            self._on_device(missing), self._on_device(positions), self._cache, last_only=True
        )
        return output.logits[0]

    def grown(
        self, levels: TreeLevels, committed: Sequence[int], draws: Sequence[float], is_whole: bool
    ) -> tuple[Tensor, ...]:
        """Run the work as one CUDA graph if the model supports that and `is_whole` is True.

        `DraftSource.grown` explains the arguments.
        """
        missing = committed[self._cache.length :]
        is_usual = is_whole and len(missing) in USUALLY_MISSING
        if not (is_usual and isinstance(self._model, CapturedModel)):
            return super().grown(levels, committed, draws, is_whole)
        self._root_end, self._ran = len(committed), levels.run_count
        work = ModelLevels(levels, self._vocab_size, len(missing))
        return run_work(self._model, self._cache, work, HostNumbers(missing, draws))

    def extend(self, level: Level) -> Tensor:
        count = len(level.token_ids)
        position = self._root_end - 1 + level.depth
        positions = torch.full((1, count), position, device=self.device)
        output = self._model.forward(level.token_ids[None], positions, self._cache, level.mask)
        self._ran += count
        return fitted(output.logits[0], self._vocab_size)

    def partial(self) -> None:
        """Return None, because no layer of the target has run: the draft is a separate model."""

    def keep(self, observation: Observation) -> None:
        ran = [origin for origin in observation.origins if 0 <= origin < self._ran]
        self._cache.keep(self._root_end, [self._root_end + origin for origin in ran])

    def _on_device(self, token_ids: Sequence[int]) -> Tensor:
        return upload(torch.tensor([token_ids], dtype=torch.int64), self.device)


def shared_layers(keys_values: Sequence[Tensor], shared: Sequence[int]) -> list[Tensor]:
    """Return the keys and values of the layers that the draft shares with the target."""
    return [keys_values[layer] for layer in shared]


def fitted(logits: Tensor, vocab_size: int) -> Tensor:
    """Cut or pad logits to the size of the target's vocabulary. Added tokens get probability 0."""
    missing = vocab_size - logits.shape[-1]
    if missing <= 0:
        return logits[..., :vocab_size]
    return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
