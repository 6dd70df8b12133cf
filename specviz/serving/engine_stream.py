"""One answer of a serving engine, token by token as it comes, with what the engine tells of it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress, ServerAnswer
from specviz.serving.engine_counters import LLAMA_CPP, VLLM
from specviz.serving.engine_probe import (
    REQUEST_SECONDS,
    drafts_of,
    model_at,
    speculation_of,
    stream_event,
    whole_number,
)

GREEDY: Mapping[str, float] = {"temperature": 0}
_LLAMA_CPP_ORDER = ("temperature", "top_k", "top_p", "min_p")  # in which it is to apply them


@dataclass(frozen=True, slots=True)
class StreamedToken:
    """A token, `seconds` after the one before it; the first one after the request was sent."""

    token_id: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """What the engine says behind its last token.

    `drafted` and `accepted` count tokens of this answer, `steps` are the same of each verified
    draft, in order: None where it does not tell. `is_whole`: the text came to its own end.
    """

    is_whole: bool
    drafted: int | None
    accepted: int | None
    steps: tuple[tuple[int, int], ...] | None


def check_tells_tokens(address: EngineAddress, engine: str) -> None:
    """InputError for an engine whose tokens are not read here."""
    if engine not in (LLAMA_CPP, VLLM):
        raise InputError(
            f"server at {address} must be {LLAMA_CPP} or {VLLM} to be followed token by token, "
            f"but is {engine}"
        )


def token_ids_of(address: EngineAddress, engine: str, text: str) -> list[int]:
    """What the engine reads a text as, with nothing around it."""
    body: dict[str, Any] = {"content": text}
    if engine == VLLM:
        body = {"model": model_at(address), "prompt": text, "add_special_tokens": False}
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
    """At most so many tokens behind the prompt, in at most so many seconds, and last a StreamEnd.

    `sampling`: temperature, top_k, top_p, min_p and seed; of none but the temperature where that
    is 0. Raises InputError where the server fails, also behind the first tokens.
    """
    is_vllm = engine == VLLM
    body: dict[str, Any] = {"prompt": list(prompt_ids), "stream": True, **sampling}
    if is_vllm:
        body |= {"model": model_at(address), "max_tokens": tokens, "return_token_ids": True}
        body |= {"stream_options": {"include_usage": True}}
    else:
        body |= {"n_predict": tokens, "return_tokens": True, "cache_prompt": False}
        body |= {"samplers": _LLAMA_CPP_ORDER} if sampling["temperature"] else {}
    path = "/v1/completions" if is_vllm else "/completion"
    before, is_whole, steps, count = time.perf_counter(), None, None, 0
    drafts: tuple[int | None, int | None] = (None, None)
    with closing(address.lines(path, body, seconds)) as lines:
        for line in lines:
            event = stream_event(line)
            now = time.perf_counter()
            for token_id in _ids(_choice(event, is_vllm).get(_IDS[is_vllm]) or [], address):
                count += 1
                if count > tokens:
                    raise InputError(
                        f"server at {address} must answer with at most {tokens} tokens, but "
                        "sends more"
                    )
                yield StreamedToken(token_id, now - before)
                before = now
            reason = _choice(event, is_vllm).get(_REASON[is_vllm])
            if reason not in (None, "none"):
                is_whole = reason in ("stop", "eos", "word")
            drafts, steps = drafts_of(event) or drafts, _steps(event) or steps
    if is_whole is None:
        raise InputError(f"server at {address} must answer {path}, but ends in the middle of it")
    yield StreamEnd(is_whole, *drafts, steps)


_IDS = {True: "token_ids", False: "tokens"}
_REASON = {True: "finish_reason", False: "stop_type"}


def _choice(event: dict[str, Any], is_vllm: bool) -> dict[str, Any]:
    """The part of an event that holds its tokens."""
    if not is_vllm:
        return event
    with suppress(LookupError, TypeError):
        found = event["choices"][0]
        return found if isinstance(found, dict) else {}
    return {}


def _ids(found: Any, address: EngineAddress) -> list[int]:
    if not isinstance(found, list) or any(type(each) is not int or each < 0 for each in found):
        raise InputError(f"server at {address} must answer with token ids, but does not")
    return found


def _steps(event: dict[str, Any]) -> tuple[tuple[int, int], ...] | None:
    """Drafted and accepted tokens of each draft, where vLLM tells them in detail."""
    counts = speculation_of(event)
    drafted, accepted = counts.get("per_step_drafted"), counts.get("per_step_accepted")
    if not (isinstance(drafted, list) and isinstance(accepted, list)):
        return None
    if len(drafted) != len(accepted):
        return None
    return tuple(zip(map(whole_number, drafted), map(whole_number, accepted), strict=True))
