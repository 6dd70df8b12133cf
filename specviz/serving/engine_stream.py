"""Read an engine's answer token by token, with what the engine reports about it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from specviz.engines.engine_registry import server_apis
from specviz.engines.server_api import TokenStream
from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress, ServerAnswer
from specviz.serving.engine_probe import REQUEST_SECONDS, drafts_of, model_at, stream_event

GREEDY: Mapping[str, float] = {"temperature": 0}


@dataclass(frozen=True, slots=True)
class StreamedToken:
    """A token that arrived `seconds` after the one before it.

    For the first token, `seconds` is the time since the request was sent.
    """

    token_id: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The engine's report after its last token.

    `drafted` and `accepted` are numbers of tokens in this answer. `steps` has both numbers for each
    verified draft, in order. All three are None if the engine does not report them. `is_whole`
    means that the model ended the text itself.
    """

    is_whole: bool
    drafted: int | None
    accepted: int | None
    steps: tuple[tuple[int, int], ...] | None


def token_stream(address: EngineAddress, engine: str) -> TokenStream:
    """Return the engine's stream of token ids.

    Raises InputError if the engine does not report the ids of its tokens.
    """
    able = {name: api.stream for name, api in server_apis().items() if api.stream is not None}
    if engine not in able:
        raise InputError(
            f"server at {address} must be {' or '.join(able)} to be followed token by token, "
            f"but is {engine}"
        )
    return able[engine]


def token_ids_of(address: EngineAddress, engine: str, text: str) -> list[int]:
    """Return the engine's token ids of a text, without special tokens."""
    body = token_stream(address, engine).tokenizing(text, lambda: model_at(address))
    answer = ServerAnswer(200, "".join(address.lines("/tokenize", body, REQUEST_SECONDS)))
    return _ids(answer.json().get("tokens"), address)


def stream_tokens(
    address: EngineAddress,
    engine: str,
    prompt_ids: Sequence[int],
    tokens: int,
    sampling: Mapping[str, float] = GREEDY,
    seconds: float = REQUEST_SECONDS,
) -> Generator[StreamedToken | StreamEnd]:
    """Yield at most `tokens` tokens that follow the prompt, then one StreamEnd.

    All must arrive within `seconds`. `sampling` has temperature, top_k, top_p, min_p and seed; at
    temperature 0 it has only the temperature. Penalties and other defaults of the server are
    switched off. Raises InputError if the server fails, perhaps after some tokens.
    """
    stream = token_stream(address, engine)
    body = stream.request(prompt_ids, tokens, sampling, lambda: model_at(address))
    before, is_whole, steps, count = time.perf_counter(), None, None, 0
    drafts: tuple[int | None, int | None] = (None, None)
    with closing(address.lines(stream.path, body, seconds)) as lines:
        for line in lines:
            event = stream_event(line)
            now = time.perf_counter()
            for token_id in _ids(stream.ids_in(event) or [], address):
                count += 1
                if count > tokens:
                    raise InputError(
                        f"server at {address} must answer with at most {tokens} tokens, but "
                        "sends more"
                    )
                yield StreamedToken(token_id, now - before)
                before = now
            reason = stream.end_in(event)
            if reason is not None:
                is_whole = reason in ("stop", "eos", "word")
            drafts, steps = drafts_of(event) or drafts, stream.steps_in(event) or steps
    if is_whole is None:
        raise InputError(
            f"server at {address} must answer {stream.path}, but its answer stops in the middle"
        )
    yield StreamEnd(is_whole, *drafts, steps)


def _ids(found: Any, address: EngineAddress) -> list[int]:
    if not isinstance(found, list) or any(type(each) is not int or each < 0 for each in found):
        raise InputError(f"server at {address} must answer with token ids, but does not")
    return found
