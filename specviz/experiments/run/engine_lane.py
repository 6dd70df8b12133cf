"""Serving engines as lanes of a race: each answers the race's prompt, and its answer is recorded.

The engines are asked one after the other when the race's own lanes have ended, so that no lane
slows another on the same machine. This module uses no tensors.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PureWindowsPath
from typing import Any

from specviz.decoding.rules.rule_table import rule_named
from specviz.engines.server_api import TokenStream
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
from specviz.serving.engine_probe import model_at, read_engine, version_at
from specviz.serving.engine_stream import (
    GREEDY,
    StreamEnd,
    stream_tokens,
    token_ids_of,
    token_stream,
)

WARM_UP_TOKENS = 4
# A text with indentation, numbers, accents and multi-byte characters, which different tokenizers
# split differently. It shows whether a server has the tokenizer of the race's target.
SAMPLE = "def total(items, 12 345):\n    \tit's Zürich, 東京 🌿\r\n\n  x+=1.5e10"


@dataclass(frozen=True, slots=True)
class RacedServer:
    """A server that answers the prompt of a race, and the name of its lane."""

    lane: str
    address: EngineAddress


@dataclass(frozen=True, slots=True)
class EngineQuestion:
    """The question that a race sends to every server.

    `sample_ids` are the tokens of SAMPLE in the race's target, and `vocab_size` is the size of that
    target's vocabulary.
    """

    prompt_ids: tuple[int, ...]
    sample_ids: tuple[int, ...]
    vocab_size: int
    config: DecodingConfig

    @property
    def sampling(self) -> dict[str, Any]:
        """Return the sampling settings for the engine, with a seed for its own random draws."""
        if self.config.temperature == 0:
            return dict(GREEDY)
        given = {each.name: getattr(self.config, each.name) for each in SAMPLING}
        return given | {"seed": self.config.seed}

    def untaken(self, stream: TokenStream) -> str:
        """Return a sentence on settings that the engine cannot apply, or ""."""
        config, clauses = self.config, []
        if config.temperature > 0:
            clauses.append("it draws random numbers of its own, so its text differs")
        if config.min_p > 0 and config.top_p < 1 and stream.min_p_first:
            clauses.append("it applies min-p before top-p")
        if not rule_named(config.rule).is_lossless:
            clauses.append("it has no lossy rule, so its text is the target's own")
        return "; ".join(clauses)


# The events of an engine's answer come in this order: a report on the engine, the tokens, the
# origins of all tokens, and the reason why the answer ended.
EngineEvent = EngineReport | EngineToken | ToldOrigins | FinishReason


def engine_lane(server: RacedServer, config: DecodingConfig) -> Lane:
    """Return the lane of a server, still without an answer."""
    return Lane(server.lane, LaneKind.ENGINE, config)


def ask_engine(
    server: RacedServer, question: EngineQuestion, stop: threading.Event | None = None
) -> Iterator[EngineEvent]:
    """Yield the events of a server's answer as it arrives.

    An error becomes a remark in a report, and the events before it stay valid. A later report
    replaces an earlier one. The last event is a FinishReason, which is STOPPED for a partial
    answer. Any thread may iterate, but it must not pause, because the clock is read between the
    tokens. After `stop` is set, the function closes the connection at the next token.
    """
    facts = EngineReport()
    try:
        for event in _answer(server.address, question, stop or threading.Event()):
            facts = event if isinstance(event, EngineReport) else facts
            yield event
    except InputError as error:
        said = str(error).replace(f" at {server.address}", "")
        # The text after the status comes from the server, which may write anything. A trace must
        # not contain this text.
        said = re.sub(r"(with status \d+): .*", r"\1", said)
        yield replace(facts, remark=_public(said, server.address)[:2000])
        yield FinishReason.STOPPED


def _answer(
    address: EngineAddress, question: EngineQuestion, stop: threading.Event
) -> Iterator[EngineEvent]:
    engine = read_engine(address).engine
    stream = token_stream(address, engine)
    model = model_at(address)
    facts = EngineReport(
        engine=engine,
        version=_public(version_at(address, engine), address)[:200],
        model=_public(PureWindowsPath(model).name if _is_path(model) else model, address)[:1000],
        remark=question.untaken(stream),
    )
    yield facts
    if token_ids_of(address, engine, SAMPLE) != list(question.sample_ids):
        raise InputError(
            f"server at {address} must serve the target of this race, but splits the text into "
            "other tokens, so its model has another tokenizer"
        )
    for _ in stream_tokens(address, engine, question.sample_ids, WARM_UP_TOKENS):
        pass  # this request only warms up the server, so its tokens are ignored
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
    """Return whether a model's name is the path of a file, in the style of Unix or Windows."""
    return model.startswith("/") or bool(re.match(r"[A-Za-z]:[\\/]", model))


def _public(text: str, address: EngineAddress) -> str:
    """Return a text that a trace may hold: without the server's name and key, in valid Unicode."""
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
    """Return the origin of each emitted token, from the counts that an engine reports.

    `steps` holds the numbers of drafted and accepted tokens of each verified draft. The last draft
    may extend beyond the text. The result is None if these numbers do not explain every token.

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
