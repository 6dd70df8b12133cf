"""Drafting with a model that has another tokenizer than the target (2502.05202).

By default its greedy text is encoded again in the target's tokens (`ReencodedChain`); the IID kind
draws from the tokens that both vocabularies share (`IntersectionSource`). Letters: K tokens that
the draft writes, M nodes of one level, V and D the target's and the draft's vocabulary.
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
from specviz.decoding.drafters.source import DraftShape, Level, ModelSource
from specviz.decoding.drafters.static_tree import static_tree
from specviz.errors import InputError
from specviz.models.files.loading import LoadedModel
from specviz.models.parts import Need
from specviz.models.text.byte_text import byte_text
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import match_vocabularies
from specviz.records import ProposalKind, SharedVocabulary

OPEN_TOKENS = 8  # last ones of a text, which may change when it grows
TOKENS_BEFORE = 8  # committed ones that are encoded together with the text behind them


@dataclass(frozen=True, slots=True, eq=False)
class SharedTokens:
    """The tokens that both vocabularies have, as tables of a run."""

    target_to_draft: Tensor  # [V] int64 on the device, -1 if the draft has no such token
    draft_ids: tuple[int, ...]  # the same on the host
    is_shared: Tensor  # [D] bool on the device
    shared_count: int

    def note(self, mass: float, draft_tokens: int, target_tokens: int) -> SharedVocabulary:
        """The note of a round; `mass` is the draft's probability of shared tokens."""
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
    """The tables of two tokenizers, cached."""
    found = match_vocabularies(target, draft)
    return SharedTokens(
        found.target_to_draft.to(device),
        tuple(found.target_to_draft.tolist()),
        (found.draft_to_target >= 0).to(device),
        found.shared_count,
    )


class ReencodedText:
    """The committed text in the draft's tokens, while it grows.

    Only its end is encoded again: the tokens before do not change any more. Control tokens become
    those of the same name, or are left out.
    """

    def __init__(self, target: TextCodec, draft: TextCodec) -> None:
        self._target, self._draft = byte_text(target), byte_text(draft)
        self._partners = control_partners(target, draft)
        self._seen = 0  # committed tokens
        self._settled = list(draft.start_ids)
        self._data = b""  # the text after the settled tokens
        self._open: list[int] = []  # its tokens

    def token_ids(self, committed: Sequence[int]) -> list[int]:
        """The draft's tokens of the whole text; `committed` only ever grows."""
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
        """At a control token the text before it is complete."""
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
    """Control tokens of the same name, and the end tokens, from `ours` to `theirs`."""
    names = theirs.control_tokens
    partners = {
        token_id: names[name] for name, token_id in ours.control_tokens.items() if name in names
    }
    if theirs.eos_ids:
        for token_id in ours.eos_ids:
            partners.setdefault(token_id, min(theirs.eos_ids))
    return partners


class ForeignSource(ModelSource):
    """The draft's logits after the target's text. All its token ids are the draft's own.

    Its cache covers a prefix of that text. Only chains are grown from it.
    """

    def __init__(self, foreign: LoadedModel, target: TextCodec, draft_length: int) -> None:
        info = foreign.info
        super().__init__(foreign.model, info.context_length, info.vocab_size)
        self._text = ReencodedText(target, foreign.codec)
        self._nothing = [min(foreign.codec.eos_ids, default=0)]  # in place of an empty text
        self._most = max(1, info.context_length - draft_length)  # tokens of text
        self._cached: list[int] = []  # the draft's tokens in its cache, perhaps more

    def start(self, prompt: PrefilledPrompt) -> None:
        self._read(self._own_ids(prompt.prompt_ids))

    def begin(self, committed: Sequence[int]) -> Tensor:
        """Logits after the text; only what is new since the last round is run."""
        return super().begin(self._own_ids(committed))

    def _own_ids(self, committed: Sequence[int]) -> list[int]:
        """The text in the draft's tokens; the cache keeps those that stand, but for the last."""
        ids = self._last_of(self._text.token_ids(committed) or self._nothing)
        self._cache.keep(shared_length(self._cached[: self._cache.length], ids[:-1]), [])
        self._cached = ids
        return ids

    def wrote(self, token_ids: Sequence[int]) -> None:
        """A chain that may now be part of the text; the cache holds those that were run."""
        count = min(len(token_ids), self._ran)
        self._cache.keep(self._root_end + count, [])
        self._cached = [*self._cached, *token_ids[:count]]

    def _last_of(self, ids: list[int]) -> list[int]:
        """A text too long for the draft loses its beginning, a quarter of the context at a time."""
        step = max(1, self._most // 4)
        dropped = -(-max(0, len(ids) - self._most) // step) * step
        return ids[dropped:]


def shared_length(ones: Sequence[int], others: Sequence[int]) -> int:
    """The length of the common beginning of two sequences.

    >>> shared_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    pairs = zip(ones, others, strict=False)
    return next(
        (index for index, (one, other) in enumerate(pairs) if one != other),
        min(len(ones), len(others)),
    )


class ReencodedChain(QuietDrafter):
    """Drafts text: what the draft writes greedily is encoded again in the target's tokens.

    These are a function of the committed text alone: DETERMINISTIC, exact at every temperature. The
    host has to read the draft's tokens, so the round has a second blocking copy.
    """

    def __init__(
        self,
        source: ForeignSource,
        shape: DraftShape,
        shared: SharedTokens,
        codecs: tuple[TextCodec, TextCodec],  # the target's and the draft's
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
        """The draft's own tokens [K], and its mean probability of shared tokens."""
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
        """The text of the written tokens in the target's tokens, up to the first control token."""
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


class IntersectionSource:
    """A foreign source in the target's ids; tokens that the draft lacks have probability 0.

    The draft's distribution is restricted to the shared tokens and renormalised: that is q, from
    which the tokens are drawn. p keeps its whole vocabulary, so the rule is the usual one and
    exact. The restriction comes before top-k and top-p, so that something is always left.
    """

    feature_layers: tuple[int, ...] = ()

    def __init__(self, draft: ForeignSource, shared: SharedTokens) -> None:
        self._draft = draft
        self._shared_tokens = shared
        self._whole: list[Tensor] = []  # [M, D] logits of every level of the present chain
        self._shared: list[Tensor] = []  # [M, V]

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
        """[M, D] -> [M, V], minus infinity for tokens that the draft lacks."""
        shared = F.pad(logits, (0, 1), value=-torch.inf)[:, self._shared_tokens.target_to_draft]
        self._whole.append(logits)
        self._shared.append(shared)
        return shared

    def mean_mass(self) -> Tensor:
        """The draft's mean probability of shared tokens over the present chain. -> [1]"""
        whole, shared = torch.cat(self._whole).float(), torch.cat(self._shared).float()
        return (shared.logsumexp(-1) - whole.logsumexp(-1)).exp().mean(0, keepdim=True)

    def partial(self) -> None:
        """The draft has a cache of its own."""

    def keep(self, observation: Observation) -> None:
        accepted = observation.token_ids[: len(observation.path)]
        self._draft.wrote([self._shared_tokens.draft_ids[token_id] for token_id in accepted])


class IntersectionDrafter:
    """A chain over the shared tokens; their probability is noted when the round ends."""

    feature_layers: tuple[int, ...] = ()

    def __init__(self, source: IntersectionSource, shape: DraftShape, shared: SharedTokens) -> None:
        self._source = source
        self._shape = shape
        self._shared_tokens = shared
        self._mass = LateTransfer(source.device)
        self._written = 0  # tokens of the present chain

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompt: PrefilledPrompt) -> None:
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
        """There is nothing to free."""


class LateTransfer:
    """A number for display, copied without blocking; read it after a later blocking copy."""

    def __init__(self, device: torch.device) -> None:
        number = torch.zeros(1, pin_memory=device.type == "cuda")
        self._buffer = number
        self._arrived = number.numpy()  # the same memory

    def send(self, number: Tensor) -> None:
        """Start the copy of one number."""
        self._buffer.copy_(number.reshape(1), non_blocking=True)

    def arrived(self) -> float:
        """The number sent before the last blocking copy."""
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
    if setup.config.tree_kind is ProposalKind.DETERMINISTIC:
        codecs = codec, foreign.codec
        return ReencodedChain(source, shape, shared, codecs, setup.config.draft_length)
    if shared.shared_count == 0:
        raise InputError(
            f"foreign draft {foreign.info.name!r} must share a token with target "
            f"{setup.target.info.name!r}, got none: choose the rule deterministic"
        )
    return IntersectionDrafter(IntersectionSource(source, shared), shape, shared)


METHOD = Method(
    "cross-vocabulary",
    "Draft of another vocabulary",
    "A small model with a tokenizer of its own; its text is encoded again for the target.",
    (ProposalKind.DETERMINISTIC, ProposalKind.IID),
    _make,
    frozenset({Need.FOREIGN_DRAFT, Need.TEXT}),
    host_copies=2,
)
