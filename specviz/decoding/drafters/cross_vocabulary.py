"""Drafting with a model whose tokenizer differs from the target's (arXiv 2502.05202).

By default the draft model writes text greedily, and the target's tokenizer encodes that text again
(`ReencodedChain`). If the setting `drawing` is INDEPENDENT, the draft draws only tokens that both
vocabularies have (`IntersectionSource`).

In shapes, K is the number of tokens that the draft writes, M the number of nodes of one level, V
the size of the target's vocabulary and D the size of the draft's vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Drafter,
    HeldMemory,
    HostTransfer,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    QuietDrafter,
    empty_proposal,
    host_chain,
)
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.source import DraftShape, Level, ModelSource, SteppedSource
from specviz.decoding.drafters.static_tree import static_tree
from specviz.errors import InputError
from specviz.models.accelerator import host_buffer
from specviz.models.files.loading import LoadedModel
from specviz.models.parts import Need
from specviz.models.text.byte_text import byte_text
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import match_vocabularies
from specviz.records import Drawing, SharedVocabulary

# The number of tokens at the end of a text that may change when more text is added.
OPEN_TOKENS = 8
# The number of committed tokens before a draft that are encoded together with the draft's text. A
# tokenizer may encode the same text differently if nothing comes before it.
TOKENS_BEFORE = 8


@dataclass(frozen=True, slots=True, eq=False)
class SharedTokens:
    """Tables that map tokens between the target's and the draft's vocabularies."""

    target_to_draft: Tensor  # [V] int64 on the device, -1 for tokens that the draft lacks
    draft_ids: tuple[int, ...]  # a copy of `target_to_draft` on the host
    is_shared: Tensor  # [D] bool on the device, True if the target also has the token
    shared_count: int

    def note(self, mass: float, draft_tokens: int, target_tokens: int) -> SharedVocabulary:
        """Return a note about the shared tokens, which becomes part of a round's record.

        `mass` is the total probability that the draft gives to the shared tokens.
        """
        return SharedVocabulary(
            shared=self.shared_count,
            target_share=self.shared_count / len(self.target_to_draft),
            draft_share=self.shared_count / len(self.is_shared),
            mass=min(1.0, mass),
            draft_tokens=draft_tokens,
            target_tokens=target_tokens,
        )


@lru_cache(maxsize=8)
def shared_tokens(target: TextCodec, draft: TextCodec, device: torch.device) -> SharedTokens:
    """Return the tables of the tokens that two tokenizers share. The result is cached."""
    found = match_vocabularies(target, draft)
    return SharedTokens(
        found.target_to_draft.to(device),
        tuple(found.target_to_draft.tolist()),
        (found.draft_to_target >= 0).to(device),
        found.shared_count,
    )


class ReencodedText:
    """The committed text, which grows during a run, in the tokens of the draft.

    Only the end of the text is encoded again, because earlier tokens no longer change. A control
    token becomes the draft's control token with the same name. If the draft has no such token, the
    control token is left out.
    """

    def __init__(self, target: TextCodec, draft: TextCodec) -> None:
        self._target, self._draft = byte_text(target), byte_text(draft)
        self._partners = control_partners(target, draft)
        self._seen = 0
        self._settled = list(draft.start_ids)
        self._data = b""  # the bytes at the end of the text, whose tokens may still change
        self._open: list[int] = []  # the tokens of the bytes in `_data`

    def token_ids(self, committed: Sequence[int]) -> list[int]:
        """Return the whole text in the draft's tokens.

        Between two calls, `committed` may only get longer.
        """
        for token_id in committed[self._seen :]:
            data = self._target.bytes_of(token_id)
            if data is None:
                self._end_text(self._partners.get(token_id))
            else:
                self._data += data
        self._seen = len(committed)
        self._encode()
        return self._settled + self._open

    def _end_text(self, partner: int | None) -> None:
        """Keep all tokens before a control token, because they can no longer change.

        `partner` is the draft's control token, or None if the draft has none.
        """
        self._encode()
        self._settled += self._open if partner is None else [*self._open, partner]
        self._data, self._open = b"", []

    def _encode(self) -> None:
        self._open = self._draft.encode(self._data)
        if len(self._open) >= 2 * OPEN_TOKENS and self._draft.spells(self._open, self._data):
            settled, self._open = self._open[:-OPEN_TOKENS], self._open[-OPEN_TOKENS:]
            self._data = self._data[sum(map(self._draft.size_of, settled)) :]
            self._settled += settled


@lru_cache(maxsize=8)
def control_partners(ours: TextCodec, theirs: TextCodec) -> dict[int, int]:
    """Map the control tokens and end tokens of one tokenizer to those of another.

    Two control tokens correspond if their names are equal.
    """
    names = theirs.control_tokens
    partners = {
        token_id: names[name] for name, token_id in ours.control_tokens.items() if name in names
    }
    if theirs.eos_ids:
        for token_id in ours.eos_ids:
            partners.setdefault(token_id, min(theirs.eos_ids))
    return partners


class ForeignSource(ModelSource):
    """The logits of a draft model whose tokenizer differs from the target's.

    The draft model continues the text that the target has committed. All token ids of this source
    belong to the draft's vocabulary. Its KV cache holds a prefix of the text in the draft's tokens.
    It supports chains only, not trees.
    """

    def __init__(self, foreign: LoadedModel, target: TextCodec, draft_length: int) -> None:
        info = foreign.info
        super().__init__(foreign.model, info.context_length, info.vocab_size)
        self._text = ReencodedText(target, foreign.codec)
        # The token that the draft runs if the text is empty, because a model needs at least one
        # token.
        self._nothing = [min(foreign.codec.eos_ids, default=0)]
        # largest number of text tokens that fit into the draft's context before the drafted tokens
        self._most = max(1, info.context_length - draft_length)
        # The text of the last round in the draft's tokens. The draft's cache contains these tokens,
        # or only the first of them.
        self._cached: list[int] = []

    def start(self, prompt: PrefilledPrompt) -> None:
        self._read(self._own_ids(prompt.prompt_ids))

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Return the logits after the committed text.

        The draft runs only that part of the text that its cache lacks.
        """
        return super().begin(self._own_ids(committed))

    # The method of the base class, instead of `ModelSource.grown`, which would run token ids of the
    # target. The draft model cannot read those.
    grown = SteppedSource.grown

    def _own_ids(self, committed: Sequence[int]) -> list[int]:
        """Return the text in the draft's tokens.

        Tokens that differ from those of the last round are dropped from the draft's cache.
        The last token must run again to get its logits, so it is dropped from the cache as well.
        """
        ids = self._last_of(self._text.token_ids(committed) or self._nothing)
        self._cache.keep(shared_length(self._cached[: self._cache.length], ids[:-1]), [])
        self._cached = ids
        return ids

    def wrote(self, token_ids: Sequence[int]) -> None:
        """Keep the cache slots of drafted tokens, because the text may contain these tokens now."""
        count = min(len(token_ids), self._ran)
        self._cache.keep(self._root_end + count, [])
        self._cached = [*self._cached, *token_ids[:count]]

    def _last_of(self, ids: list[int]) -> list[int]:
        """If a text is too long for the draft's context, drop its beginning.

        The number of dropped tokens is a multiple of a quarter of the context, so the beginning of
        the remaining text changes rarely.
        """
        step = max(1, self._most // 4)
        dropped = -(-max(0, len(ids) - self._most) // step) * step
        return ids[dropped:]


def shared_length(ones: Sequence[int], others: Sequence[int]) -> int:
    """Return how many tokens at the beginning of two sequences are equal.

    >>> shared_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    pairs = zip(ones, others, strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one != other),
        min(len(ones), len(others)),
    )


class ReencodedChain(QuietDrafter):
    """A drafter that lets the draft write text and encodes it again in the target's tokens.

    The chain depends on the committed text alone, not on random draws. Its tokens are
    therefore CHOSEN, and exact at every temperature. The host must read the draft's tokens, so each
    round has a second blocking copy.
    """

    def __init__(
        self,
        source: ForeignSource,
        shape: DraftShape,
        shared: SharedTokens,
        codecs: tuple[TextCodec, TextCodec],  # the codecs of the target and of the draft
        draft_length: int,
    ) -> None:
        self._source = source
        self._shape = shape
        self._shared_tokens = shared
        self._target, self._draft = map(byte_text, codecs)
        self._partners = control_partners(codecs[1], codecs[0])
        self._draft_length = draft_length
        self._transfer: HostTransfer | None = None
        self._written: list[int] = []

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._transfer = prompt.transfer
        self._source.start(prompt)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        self._written = []
        if room == 0:
            return empty_proposal(self._source.device)
        self._written, mass = self._write(committed, room, round_index)
        chain = self._chain(committed, self._written)[: min(self._draft_length, room)]
        note = self._shared_tokens.note(mass, len(self._written), len(chain))
        return host_chain(chain, self._source.device, (note,))

    def observe(self, observation: Observation) -> OverlappedWork:
        self._source.wrote(self._written)
        return NOTHING_OVERLAPPED

    def _write(
        self, committed: Sequence[int], room: int, round_index: int
    ) -> tuple[list[int], float]:
        """Return the tokens [K] that the draft wrote, and the mean probability of shared tokens.

        A token is shared if both vocabularies have it.
        """
        assert self._transfer is not None
        drafted = self._shape.grow(self._source, committed, room, round_index)
        assert drafted.raw_distributions is not None
        masses = drafted.raw_distributions @ self._shared_tokens.is_shared.to(
            drafted.raw_distributions
        )  # [K]
        packed = torch.cat([drafted.token_ids.double(), masses.double()])
        values = self._transfer.to_host(packed)
        count = len(values) // 2
        return [int(value) for value in values[:count]], sum(values[count:]) / count

    def _chain(self, committed: Sequence[int], written: Sequence[int]) -> list[int]:
        """Convert the text that the draft wrote to tokens of the target.

        The text ends before the first control token that the draft wrote.
        """
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
        before: list[bytes] = []
        for token_id in reversed(committed[-TOKENS_BEFORE:]):
            piece = self._target.bytes_of(token_id)
            if piece is None:
                break
            before.insert(0, piece)
        return b"".join(before)


class IntersectionSource(SteppedSource):
    """The draft's logits, converted to the target's vocabulary.

    A token that the draft lacks has probability 0. The draft's distribution is restricted to the
    shared tokens and normalised again: that is the q from which tokens are drawn. The target's p
    keeps its whole vocabulary, so the usual acceptance rule applies and is exact. The restriction
    comes before top-k and top-p, so that some token always remains.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(self, draft: ForeignSource, shared: SharedTokens) -> None:
        self._draft = draft
        self._shared_tokens = shared
        # [M, D] per level of the current chain, logits over the draft's vocabulary
        self._whole: list[Tensor] = []
        self._shared: list[Tensor] = []  # [M, V] per level, logits over the target's vocabulary

    @property
    def device(self) -> torch.device:
        return self._draft.device

    @property
    def memory(self) -> HeldMemory:
        return self._draft.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._draft.start(prompt)

    def begin(self, committed: Sequence[int]) -> Tensor:
        self._whole, self._shared = [], []
        return self._restricted(self._draft.begin(committed))

    def extend(self, level: Level) -> Tensor:
        token_ids = self._shared_tokens.target_to_draft[level.token_ids]
        return self._restricted(self._draft.extend(replace(level, token_ids=token_ids)))

    def _restricted(self, logits: Tensor) -> Tensor:
        """Convert the draft's logits to logits over the target's vocabulary. [M, D] -> [M, V]

        Tokens that the draft lacks get minus infinity.
        """
        shared = F.pad(logits, (0, 1), value=-torch.inf)[:, self._shared_tokens.target_to_draft]
        self._whole.append(logits)
        self._shared.append(shared)
        return shared

    def mean_mass(self) -> Tensor:
        """Return the probability of all shared tokens under the draft, averaged over the chain.

        -> [1]
        """
        whole, shared = torch.cat(self._whole).float(), torch.cat(self._shared).float()
        return (shared.logsumexp(-1) - whole.logsumexp(-1)).exp().mean(0, keepdim=True)

    def partial(self) -> None:
        """Return None, because no layer of the target has run: the draft is a separate model."""

    def keep(self, observation: Observation) -> None:
        accepted = observation.token_ids[: len(observation.path)]
        self._draft.wrote([self._shared_tokens.draft_ids[token_id] for token_id in accepted])


class IntersectionDrafter:
    """A drafter of chains whose tokens both vocabularies have.

    The notes of every round contain the probability that the draft gave to the shared tokens.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(self, source: IntersectionSource, shape: DraftShape, shared: SharedTokens) -> None:
        self._source = source
        self._shape = shape
        self._shared_tokens = shared
        self._mass = LateTransfer(source.device)
        self._written = 0

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompt: PrefilledPrompt) -> None:
        self._shape.start(prompt.transfer)
        self._source.start(prompt)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        proposal = self._shape.grow(self._source, committed, room, round_index)
        self._written = proposal.topology.size
        if self._written:
            self._mass.send(self._source.mean_mass())
        return proposal

    def observe(self, observation: Observation) -> OverlappedWork:
        if not self._written:
            return NOTHING_OVERLAPPED
        self._source.keep(observation)
        note = self._shared_tokens.note(self._mass.arrived(), self._written, self._written)
        return OverlappedWork(notes=(note,))

    def close(self) -> None:
        """Do nothing: this drafter holds no resources."""


class LateTransfer:
    """A number for the record of a round, copied from the device to the host without blocking.

    Read the number only after a later copy that blocks, because the number has then arrived.
    """

    def __init__(self, device: torch.device) -> None:
        number = host_buffer(1, torch.float32, device)
        self._buffer = number
        # a view of the buffer's memory; reading it needs no call of torch
        self._arrived = number.numpy()

    def send(self, number: Tensor) -> None:
        self._buffer.copy_(number.reshape(1), non_blocking=True)

    def arrived(self) -> float:
        """Return the number that `send` copied; call this only after a later copy that blocks."""
        return float(self._arrived[0])


def _make(setup: Setup) -> Drafter:
    foreign, codec = setup.parts.foreign, setup.parts.codec
    if foreign is None:
        raise setup.lacks(Need.FOREIGN_DRAFT)
    if codec is None:
        raise setup.lacks(Need.TEXT)
    shared = shared_tokens(codec, foreign.codec, foreign.model.device)
    source = ForeignSource(foreign, codec, setup.config.draft_length)
    shape = static_tree(setup)
    if not setup.config.drawing.is_drawn:
        codecs = codec, foreign.codec
        return ReencodedChain(source, shape, shared, codecs, setup.config.draft_length)
    if shared.shared_count == 0:
        raise InputError(
            f"foreign draft {foreign.info.name!r} must share at least one token with target "
            f"{setup.target.info.name!r}, got none: set drawing to chosen"
        )
    return IntersectionDrafter(IntersectionSource(source, shared), shape, shared)


METHOD = Method(
    "cross-vocabulary",
    "Draft of another vocabulary",
    "A small model with a tokenizer of its own; its text is encoded again for the target.",
    _make,
    frozenset({Need.FOREIGN_DRAFT, Need.TEXT}),
    drawings=(Drawing.CHOSEN, Drawing.INDEPENDENT),
    host_copies=2,
)
