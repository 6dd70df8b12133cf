"""Drafting over the tokens that two vocabularies share (token-level intersection, 2502.05202).

The draft's distribution is restricted to the shared tokens and renormalised: that is q, the
distribution that the tokens are drawn from; p keeps its whole vocabulary, so the rule is the usual
one and exact. The restriction comes before top-k and top-p, of which it leaves something in any
case; without them the order makes no difference. Letters: M nodes of one level, D and V the
draft's and the target's vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import Beside, Observation, Opening, Proposal
from specviz.decoding.drafters.foreign_source import ForeignSource
from specviz.decoding.drafters.meeting import Meeting
from specviz.decoding.drafters.source import Level
from specviz.decoding.drafters.source_drafter import Shape
from specviz.decoding.transfer import LateTransfer


class IntersectionSource:
    """A foreign source in the target's ids: every token that it lacks has probability 0."""

    needs_features = False

    def __init__(self, draft: ForeignSource, meeting: Meeting) -> None:
        self._draft = draft
        self._meeting = meeting
        self._whole: list[Tensor] = []  # [M, D] logits of every level of the present chain
        self._shared: list[Tensor] = []  # [M, V]

    @property
    def device(self) -> torch.device:
        return self._draft.device

    @property
    def memory_bytes(self) -> int:
        return self._draft.memory_bytes

    def start(self, opening: Opening) -> None:
        self._draft.start(opening)

    def begin(self, committed: Sequence[int]) -> Tensor:
        self._whole, self._shared = [], []
        return self._restricted(self._draft.begin(committed))

    def extend(self, level: Level) -> Tensor:
        token_ids = self._meeting.target_to_draft[level.token_ids]
        return self._restricted(self._draft.extend(replace(level, token_ids=token_ids)))

    def _restricted(self, logits: Tensor) -> Tensor:
        """[M, D] -> [M, V], minus infinity where the draft has no such token."""
        shared = F.pad(logits, (0, 1), value=-torch.inf)[:, self._meeting.target_to_draft]
        self._whole.append(logits)
        self._shared.append(shared)
        return shared

    def mean_mass(self) -> Tensor:
        """The probability of shared tokens under the draft's distribution, over the present chain.
        [1]
        """
        whole, shared = torch.cat(self._whole).float(), torch.cat(self._shared).float()
        return (shared.logsumexp(-1) - whole.logsumexp(-1)).exp().mean(0, keepdim=True)

    def partial(self) -> None:
        """The target shares nothing with a model of its own cache."""

    def keep(self, observation: Observation) -> None:
        accepted = observation.token_ids[: len(observation.path)]
        self._draft.wrote([self._meeting.draft_ids[token_id] for token_id in accepted])


class IntersectionDrafter:
    """A chain over the shared tokens; how much of q they hold is told with the round's end."""

    needs_features = False

    def __init__(self, source: IntersectionSource, shape: Shape, meeting: Meeting) -> None:
        self._source = source
        self._shape = shape
        self._meeting = meeting
        self._mass = LateTransfer(source.device)
        self._written = 0  # tokens of the present chain
        self.memory_bytes = source.memory_bytes

    def start(self, opening: Opening) -> None:
        self._source.start(opening)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        proposal = self._shape.grow(self._source, committed, room, round_index)
        self._written = proposal.topology.size
        if self._written:
            self._mass.send(self._source.mean_mass())
        return proposal

    def observe(self, observation: Observation) -> Beside:
        if not self._written:
            return Beside()
        self._source.keep(observation)
        note = self._meeting.note(self._mass.arrived(), self._written, self._written)
        return Beside(notes=(note,))

    def close(self) -> None:
        """Nothing outlives the run."""
