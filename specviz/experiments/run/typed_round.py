"""Rounds with a draft that a user types: the real decoder verifies it in one target forward.

Users choose their text without knowing the target's random draws. The rule therefore treats the
text as a point mass, like any draft without random draws: a token is accepted with probability p,
and the output stays exact. Nothing is kept between two rounds; each starts from the emitted tokens,
as a fork does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from specviz.decoding import speculative
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Drafter, Proposal, QuietDrafter, host_chain
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.target import cache_capacity, check_prompt
from specviz.errors import InputError
from specviz.experiments.run.recorder import mentioned_ids
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import needs_missing
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.records import DecodingConfig, Prefill, Prompt, Round

# Number of tokens that the target emits alone, as a beginning for the user to continue.
BEGINNING = 8
MAX_TYPED = 12  # largest number of tokens in a guess
# The largest number of tokens in a text. After that, the user must begin a new text.
MAX_WRITTEN = 400
MAX_CHARACTERS = 200
# The drafter that guesses against the user is the first of these methods that the pair can run.
RIVALS = ("draft-model", "eagle", "layer-skip", "prompt-lookup")


class TypedDrafter(QuietDrafter):
    """A drafter that always proposes the same chain of tokens."""

    def __init__(self, token_ids: Sequence[int], device: torch.device) -> None:
        self._token_ids = tuple(token_ids)
        self._device = device

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return host_chain(self._token_ids[:room], self._device)


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """A prompt, the tokens emitted so far, and the user's guess of the next tokens.

    Without emitted tokens, the target begins the text alone. If the guess is empty, the target
    emits one token. `config` gives the sampling settings and the seed; its method is ignored.
    """

    pair: Pair
    prompt: Prompt
    written: tuple[int, ...]
    typed: str
    config: DecodingConfig
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if len(self.typed) > MAX_CHARACTERS:
            rule = f"text of at most {MAX_CHARACTERS} characters"
            raise InputError(f"guess must be {rule}, got {len(self.typed)}")
        if len(self.written) > MAX_WRITTEN:
            raise InputError(
                f"the text must have at most {MAX_WRITTEN} tokens, got {len(self.written)}: start "
                "a new text"
            )


@dataclass(frozen=True, slots=True)
class TypedRound:
    """The result of a request: the beginning of a text, or a round of the user and of the rival.

    The rival is a drafter. It drafts as many tokens as the user at the same position, and the same
    random draws verify its guesses. `texts` holds the text of every token in the result.
    """

    begun: tuple[int, ...]
    round: Round | None
    rival: Round | None
    rival_method: str
    texts: dict[int, str]
    has_ended: bool


def rival_of(pair: Pair) -> str:
    """Return the method of the rival: the drafter that guesses against the user."""
    return next(name for name in RIVALS if not needs_missing(pair, method_named(name).needs))


def typed_round(request: TypedRequest) -> TypedRound:
    """Load the pair if it is not in memory, and run the request.

    Raises InputError for a pair that cannot be loaded, and for a text that has ended. Also raises
    it for a guess of too many tokens, and for token ids that the model does not have.
    """
    rival = rival_of(request.pair)
    needs = method_named(rival).needs
    loaded = load_pair(request.pair, request.device, request.dtype, needs)
    prompt_ids = loaded.codec.encode(request.prompt)
    config = replace(request.config, max_new_tokens=len(request.written) + MAX_TYPED + 1)
    for model in loaded.prompt_models:
        check_prompt(model, prompt_ids, config)
    _check_written(request.written, loaded)
    if not request.written:
        return _begun(loaded, prompt_ids, config, rival)
    typed = _typed_ids(request.typed, loaded)
    drafter = TypedDrafter(typed, loaded.target.device)
    own = _round(loaded, drafter, prompt_ids, config, request.written)
    other = None
    if typed:
        chain = method_named(rival).usual(len(typed), **config.beside_method)
        # The rival drafts a chain, because the user's guess is one.
        if method_named(rival).takes_branching:
            chain = replace(chain, branching=(1,))
        setup = Setup(loaded.target, loaded.parts, chain, cache_capacity(prompt_ids, chain))
        other = _round(loaded, make_drafter(setup), prompt_ids, config, request.written)
    ids = {each for record in (own, other) if record for each in mentioned_ids(record)}
    ends = any(each in loaded.codec.eos_ids for each in own.emitted_ids)
    return TypedRound((), own, other, rival, _texts(loaded, ids), ends)


def _begun(
    loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig, rival: str
) -> TypedRound:
    nothing = TypedDrafter((), loaded.target.device)
    short = replace(config, max_new_tokens=BEGINNING)
    ends = loaded.codec.eos_ids
    begun: list[int] = []
    for event in speculative.decode(loaded.target, nothing, prompt_ids, short, ends):
        if isinstance(event, Prefill):
            begun.append(event.extra.token_id)
        elif isinstance(event, Round):
            begun += event.emitted_ids
    texts = _texts(loaded, set(begun))
    return TypedRound(tuple(begun), None, None, rival, texts, begun[-1] in ends)


def _round(
    loaded: LoadedPair,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    written: tuple[int, ...],
) -> Round:
    """Run one round after the emitted tokens; its random draws depend on seed and position only."""
    departure = Departure(written, len(written), 0.0)
    ends = loaded.codec.eos_ids
    events = speculative.decode(loaded.target, drafter, prompt_ids, config, ends, departure)
    found = next(events)
    events.close()  # type: ignore[attr-defined]
    assert isinstance(found, Round)
    return found


def _typed_ids(text: str, loaded: LoadedPair) -> list[int]:
    ids = loaded.codec.encode_part(text)
    if len(ids) > MAX_TYPED:
        raise InputError(f"guess must have at most {MAX_TYPED} tokens, got {len(ids)}")
    return ids


def _check_written(written: Sequence[int], loaded: LoadedPair) -> None:
    size = loaded.codec.vocab_size
    for token_id in written:
        if not 0 <= token_id < size:
            raise InputError(f"'written' must hold token ids from 0 to {size - 1}, got {token_id}")
    if written and written[-1] in loaded.codec.eos_ids:
        raise InputError("the text has ended, so no token can follow: start a new text")


def _texts(loaded: LoadedPair, ids: set[int]) -> dict[int, str]:
    return {each: loaded.codec.token_text(each) for each in sorted(ids)}
