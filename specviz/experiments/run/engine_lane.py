"""Serving engines as lanes of a race: each is asked for the same prompt, and its answer recorded.

They are asked one after the other once the race's own lanes have ended: on one machine nobody then
takes the other's time. Knows no tensors.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PureWindowsPath
from typing import Any

from specviz.errors import InputError
from specviz.records import (
    SAMPLING,
    DecodingConfig,
    EngineReport,
    EngineToken,
    FinishReason,
    Lane,
    LaneKind,
    TokenOrigin,
    ToldOrigins,
)
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import VLLM
from specviz.serving.engine_probe import model_at, read_engine, version_at
from specviz.serving.engine_stream import (
    GREEDY,
    StreamEnd,
    check_tells_tokens,
    stream_tokens,
    token_ids_of,
)

# what tells tokenizers apart: indentation, numbers, accents, characters of several bytes
WARM_UP_TOKENS = 4
SAMPLE = "def total(items, 12 345):\n    \tit's Zürich, 東京 🌿\r\n\n  x+=1.5e10"


@dataclass(frozen=True, slots=True)
class RacedServer:
    """A server that is to answer the prompt of a race, in the lane of that name."""

    lane: str
    address: EngineAddress


@dataclass(frozen=True, slots=True)
class EngineQuestion:
    """What all servers of a race are asked; `sample_ids` is SAMPLE as the race's target reads it.

    `vocab_size` is that target's.
    """

    prompt_ids: tuple[int, ...]
    sample_ids: tuple[int, ...]
    vocab_size: int
    config: DecodingConfig

    @property
    def sampling(self) -> dict[str, Any]:
        """The settings of the distribution, and the seed of the engine's own draws."""
        if self.config.temperature == 0:
            return dict(GREEDY)
        given = {each.name: getattr(self.config, each.name) for each in SAMPLING}
        return given | {"seed": self.config.seed}

    def untaken(self, engine: str) -> str:
        """What the engine cannot take of the setting, in a sentence; "" where it takes all."""
        config, clauses = self.config, []
        if config.temperature > 0:
            clauses.append("it draws random numbers of its own, so its text is another one")
        if config.min_p > 0 and config.top_p < 1 and engine == VLLM:
            clauses.append("it applies min-p before top-p")
        if not config.tree_kind.is_lossless:
            clauses.append("it has no lossy rule, so its text is the target's own")
        return "; ".join(clauses)


# what comes of a question, in order: who answers, its tokens, what it says behind them, the end
EngineEvent = EngineReport | EngineToken | ToldOrigins | FinishReason


def engine_lane(server: RacedServer, config: DecodingConfig) -> Lane:
    """The server's lane before it was asked."""
    return Lane(server.lane, LaneKind.ENGINE, config)


def ask_engine(
    server: RacedServer, question: EngineQuestion, stop: threading.Event | None = None
) -> Iterator[EngineEvent]:
    """The server's answer as it comes. Whatever fails is a remark: what came before stays.

    A later report replaces the one before it; the last event is a FinishReason, STOPPED for a part.
    Any thread may iterate it, but at once, for the clock is read between the tokens; once `stop` is
    set the connection is closed with the next of them.
    """
    facts = EngineReport()
    try:
        for event in _answer(server.address, question, stop or threading.Event()):
            facts = event if isinstance(event, EngineReport) else facts
            yield event
    except InputError as error:
        said = str(error).replace(f" at {server.address}", "")
        said = re.sub(r"(with status \d+): .*", r"\1", said)  # in the server's own words
        yield replace(facts, remark=_public(said, server.address)[:2000])
        yield FinishReason.STOPPED


def _answer(
    address: EngineAddress, question: EngineQuestion, stop: threading.Event
) -> Iterator[EngineEvent]:
    engine = read_engine(address).engine
    check_tells_tokens(address, engine)
    model = model_at(address)
    facts = EngineReport(
        engine=engine,
        version=_public(version_at(address, engine), address)[:200],
        model=_public(PureWindowsPath(model).name if _is_path(model) else model, address)[:1000],
        remark=question.untaken(engine),
    )
    yield facts
    if token_ids_of(address, engine, SAMPLE) != list(question.sample_ids):
        raise InputError(
            f"server at {address} must serve the target of this race, but reads a text as other "
            "tokens: its model has another tokenizer"
        )
    for _ in stream_tokens(address, engine, question.sample_ids, WARM_UP_TOKENS):
        pass  # no clock counts it
    limit, sampling = question.config.max_new_tokens, question.sampling
    count = 0
    for each in stream_tokens(address, engine, question.prompt_ids, limit, sampling):
        if isinstance(each, StreamEnd):
            yield from _end(facts, each, count)
        elif stop.is_set():
            yield FinishReason.STOPPED
            return
        elif each.token_id >= question.vocab_size:
            raise InputError(
                f"server at {address} must answer with tokens of the target's vocabulary of "
                f"{question.vocab_size}, got {each.token_id}"
            )
        else:
            count += 1
            yield EngineToken(each.token_id, each.seconds, None)


def _is_path(model: str) -> bool:
    """Of a machine's disk, in either way of writing one."""
    return model.startswith("/") or bool(re.match(r"[A-Za-z]:[\\/]", model))


def _public(text: str, address: EngineAddress) -> str:
    """As it may stand in a trace: without the server's name and key, and in valid Unicode."""
    for secret, instead in ((address.key, "(the key)"), (address.host, "(the server)")):
        text = text.replace(secret, instead) if secret else text
    return text.encode("utf-8", "replace").decode()


def _end(facts: EngineReport, end: StreamEnd, tokens: int) -> Iterator[EngineEvent]:
    yield replace(facts, drafted=end.drafted, accepted=end.accepted)
    origins = token_origins(tokens, end.steps)
    if origins is not None:
        yield ToldOrigins(origins)
    yield FinishReason.END_OF_SEQUENCE if end.is_whole else FinishReason.LENGTH


def token_origins(
    tokens: int, steps: Sequence[tuple[int, int]] | None
) -> tuple[TokenOrigin, ...] | None:
    """Where each of so many tokens came from, by the (drafted, accepted) of each verified draft.

    None where that does not account for every token. The last draft may reach beyond the text.

    >>> [each.value for each in token_origins(5, [(3, 1), (3, 3)])]
    ['first', 'accepted', 'recovered', 'accepted', 'accepted']
    """
    if steps is None or any(accepted > drafted for drafted, accepted in steps):
        return None
    ends = list(accumulate((1 + accepted for _, accepted in steps), initial=1))
    if not ends[-1] >= tokens or (steps and ends[-2] >= tokens):
        return None
    origins = [TokenOrigin.FIRST]
    for drafted, accepted in steps:
        own = TokenOrigin.RECOVERED if accepted < drafted else TokenOrigin.BONUS
        origins += [TokenOrigin.ACCEPTED] * min(accepted, tokens)
        origins.append(own if drafted else TokenOrigin.PLAIN)
    return tuple(origins[:tokens])
