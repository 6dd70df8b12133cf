"""Read an engine's answer token by token, with what the engine reports about it."""

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
# If a request leaves a sampling setting out, vLLM takes it from the model's generation_config.json
# and llama.cpp from its command line. specviz's own decoders lack some of these settings. Therefore
# every request contains values that switch them off.
_NEUTRAL: Mapping[str, Mapping[str, float]] = {
    VLLM: {
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
        "top_k": -1,  # in vLLM, -1 switches top-k off
        "top_p": 1.0,
        "min_p": 0.0,
    },
    LLAMA_CPP: {
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "dry_multiplier": 0.0,
        "xtc_probability": 0.0,
        "typical_p": 1.0,
        "mirostat": 0,
        "dynatemp_range": 0.0,
    },
}
# llama.cpp must apply the sampling settings in the same order as our own sampler.
_LLAMA_CPP_ORDER = ("temperature", "top_k", "top_p", "min_p")


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


def check_tells_tokens(address: EngineAddress, engine: str) -> None:
    """Raise InputError if this engine does not report the ids of its tokens."""
    if engine not in (LLAMA_CPP, VLLM):
        raise InputError(
            f"server at {address} must be {LLAMA_CPP} or {VLLM} to be followed token by token, "
            f"but is {engine}"
        )


def token_ids_of(address: EngineAddress, engine: str, text: str) -> list[int]:
    """Return the engine's token ids of a text, without special tokens."""
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
    """Yield at most `tokens` tokens that follow the prompt, then one StreamEnd.

    All must arrive within `seconds`. `sampling` has temperature, top_k, top_p, min_p and seed; at
    temperature 0 it has only the temperature. Penalties and other defaults of the server are
    switched off. Raises InputError if the server fails, perhaps after some tokens.
    """
    is_vllm = engine == VLLM
    body: dict[str, Any] = {"prompt": list(prompt_ids), "stream": True}
    body |= {**_NEUTRAL.get(engine, {}), **sampling}
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
        raise InputError(
            f"server at {address} must answer {path}, but its answer stops in the middle"
        )
    yield StreamEnd(is_whole, *drafts, steps)


_IDS = {True: "token_ids", False: "tokens"}
_REASON = {True: "finish_reason", False: "stop_type"}


def _choice(event: dict[str, Any], is_vllm: bool) -> dict[str, Any]:
    """Return the part of a stream's event that contains the generated tokens."""
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
    """Return the numbers of drafted and accepted tokens per draft.

    Return None if they are not reported. Only vLLM reports them.
    """
    counts = speculation_of(event)
    drafted, accepted = counts.get("per_step_drafted"), counts.get("per_step_accepted")
    if not (isinstance(drafted, list) and isinstance(accepted, list)):
        return None
    if len(drafted) != len(accepted):
        return None
    return tuple(zip(map(whole_number, drafted), map(whole_number, accepted), strict=True))
