"""Drafting text instead of tokens: what a foreign draft writes is encoded again for the target.

The draft writes some of its own tokens greedily; their text, behind the committed one, becomes the
target's tokens. Those are a function of the committed text alone: DETERMINISTIC, exact at every
temperature. The host has to read the draft's tokens, so the round has a second blocking copy.
Source: 2502.05202. Letters: K tokens that the draft writes, D its vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.decoding.drafters.base import (
    NOTHING_BESIDE,
    Beside,
    Observation,
    Opening,
    Proposal,
    QuietDrafter,
    empty_proposal,
)
from specviz.decoding.drafters.foreign_source import ForeignSource
from specviz.decoding.drafters.host_tree import host_chain
from specviz.decoding.drafters.meeting import Meeting
from specviz.decoding.drafters.reencoded_text import control_partners
from specviz.decoding.drafters.source_drafter import Shape
from specviz.models.text.byte_text import byte_text
from specviz.models.text.text_codec import TextCodec

TOKENS_BEFORE = 8  # committed ones that the draft's text is encoded behind


class ReencodedChain(QuietDrafter):
    """A chain of the target's tokens; `shape` writes a greedy chain of the draft's."""

    def __init__(
        self,
        source: ForeignSource,
        shape: Shape,
        meeting: Meeting,
        codecs: tuple[TextCodec, TextCodec],  # the target's and the draft's
        draft_length: int,
    ) -> None:
        self._source = source
        self._shape = shape
        self._meeting = meeting
        self._target, self._draft = map(byte_text, codecs)
        self._partners = control_partners(codecs[1], codecs[0])
        self._draft_length = draft_length
        self._opening: Opening | None = None
        self._written: list[int] = []
        self.memory_bytes = source.memory_bytes

    def start(self, opening: Opening) -> None:
        self._opening = opening

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        self._written = []
        if room == 0:
            return empty_proposal(self._source.device)
        self._written, mass = self._write(committed, room, round_index)
        chain = self._chain(committed, self._written)[: min(self._draft_length, room)]
        note = self._meeting.note(mass, len(self._written), len(chain))
        return host_chain(chain, self._source.device, (note,))

    def observe(self, observation: Observation) -> Beside:
        self._source.wrote(self._written)
        return NOTHING_BESIDE

    def _write(
        self, committed: Sequence[int], room: int, round_index: int
    ) -> tuple[list[int], float]:
        """The draft's own tokens, and how probable shared tokens were where it wrote them."""
        assert self._opening is not None
        drafted = self._shape.grow(self._source, committed, room, round_index)
        assert drafted.raw_distributions is not None
        masses = drafted.raw_distributions @ self._meeting.is_shared.to(
            drafted.raw_distributions
        )  # [K]
        packed = torch.cat([drafted.token_ids.double(), masses.double()])
        values = self._opening.transfer.to_host(packed)
        count = len(values) // 2
        return [int(value) for value in values[:count]], sum(values[count:]) / count

    def _chain(self, committed: Sequence[int], written: Sequence[int]) -> list[int]:
        """The written text in the target's tokens, up to the first control token."""
        data, end = b"", []
        for token_id in written:
            piece = self._draft.bytes_of(token_id)
            if piece is None:
                partner = self._partners.get(token_id)
                end = [] if partner is None else [partner]
                break
            data += piece
        return self._target.encode_behind(self._text_before(committed), data) + end

    def _text_before(self, committed: Sequence[int]) -> bytes:
        """The text of the last committed tokens."""
        before: list[bytes] = []
        for token_id in reversed(committed[-TOKENS_BEFORE:]):
            piece = self._target.bytes_of(token_id)
            if piece is None:
                break
            before.insert(0, piece)
        return b"".join(before)
