"""Rounds whose draft a person types: the real decoder judges it in one forward of the target.

Whatever somebody types was chosen without the target's draws, so for the rule it is a point mass,
as any deterministic proposal: a token is kept with probability p, and the text stays exact.

Nothing is kept between two rounds: each begins from the tokens that are written, as a fork does.
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

BEGINNING = 8  # tokens that the target writes alone, for there must be something to go on from
MAX_TYPED = 12  # tokens of a guess
MAX_WRITTEN = 400  # tokens of the text, after which a new one must begin
MAX_CHARACTERS = 200
# what guesses beside the person: the first that the pair has the parts for
RIVALS = ("draft-model", "eagle", "layer-skip", "prompt-lookup")


class TypedDrafter(QuietDrafter):
    """Proposes the same chain of tokens, whatever the text."""

    def __init__(self, token_ids: Sequence[int], device: torch.device) -> None:
        self._token_ids = tuple(token_ids)
        self._device = device

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        return host_chain(self._token_ids[:room], self._device)


@dataclass(frozen=True, slots=True)
class TypedRequest:
    """A prompt, the new tokens that are written already, and the guess of what comes next.

    Without any written token the target begins the text alone; nothing is judged then. An empty
    guess has the target write one token. `config` gives the sampling settings and the
    seed; its method does not count.
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
            rule = f"at most {MAX_WRITTEN} tokens long to be guessed further"
            raise InputError(f"text must be {rule}, got {len(self.written)}: begin a new one")


@dataclass(frozen=True, slots=True)
class TypedRound:
    """What came of a request: a beginning, or the round and that of the rival at the same place.

    The rival drafts as many tokens for the same text, and its guesses meet the same draws. `texts`
    are those of all tokens that are named.
    """

    begun: tuple[int, ...]
    round: Round | None
    rival: Round | None
    rival_method: str
    texts: dict[int, str]
    has_ended: bool


def rival_of(pair: Pair) -> str:
    """The method that guesses beside a person."""
    return next(name for name in RIVALS if not needs_missing(pair, method_named(name).needs))


def typed_round(request: TypedRequest) -> TypedRound:
    """Load the pair, if it is not here, and run what the request asks for.

    InputError for a pair that cannot be loaded, a guess of too many tokens, tokens that the model
    does not have, and a text that has ended.
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
        if method_named(rival).takes_branching:  # a chain, as the person's is
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
    """One round behind what is written; its draws follow from the seed and the place alone."""
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
        raise InputError(f"guess must be at most {MAX_TYPED} tokens, got {len(ids)}")
    return ids


def _check_written(written: Sequence[int], loaded: LoadedPair) -> None:
    size = loaded.codec.vocab_size
    for token_id in written:
        if not 0 <= token_id < size:
            raise InputError(f"written must be tokens from 0 to {size - 1}, got {token_id}")
    if written and written[-1] in loaded.codec.eos_ids:
        raise InputError("text must go on to be guessed, but it has ended: begin a new one")


def _texts(loaded: LoadedPair, ids: set[int]) -> dict[int, str]:
    return {each: loaded.codec.token_text(each) for each in sorted(ids)}
