"""Which engine answers at an address, and whether it really speculates: by one request.

Its health says nothing of it: llama.cpp serves on without a draft model that it refuses.
"""

from __future__ import annotations

import json
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import (
    SGLANG,
    UNVERIFIED,
    VLLM,
    EngineCounters,
    EngineMetrics,
    read_metrics,
)

# code repeats itself, so that n-grams find something, too
PROMPT = (
    "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return a - b\n\n\n"
    "def multiply(a, b):\n"
)
TOKENS = 64  # that the request may write
REQUEST_SECONDS = 120.0
MOST_COUNTED = 10**9  # of a request's tokens: more is no count
_REFUSED = (
    "llama.cpp serves on without a draft model that it refuses, most often one of another "
    "vocabulary, and says so in its log alone: specviz models --check TARGET DRAFT compares two"
)
_NOTHING_DRAFTED = (
    "it is set up to speculate, but drafted nothing: n-grams draft where a text repeats itself, "
    "and a draft model only while it is sure enough (--spec-draft-p-min)"
)


class Speculation(Enum):
    """What an engine makes of speculation."""

    ACTIVE = "active"
    IDLE = "asked for but not active"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class EngineProbe:
    """What is known of an engine after one request.

    `version` and `model` are "" where it does not say them. `why` is a sentence. The request's
    `first_token` took so many seconds, all its `tokens` so many `seconds`, the prompt included.
    `metrics` are those after it, read `at` so many seconds since 1970.
    """

    engine: str
    version: str
    model: str
    speculation: Speculation
    why: str
    tokens: int
    seconds: float
    first_token: float
    metrics: EngineMetrics
    at: float

    def sentence(self, address: EngineAddress) -> str:
        """What was found at the address, in one sentence."""
        version = f" {self.version}" if self.version else ""
        state = self.speculation.value
        told = f"{self.engine}{version} at {address}: speculation is {state}: {self.why}"
        return f"{told} ({caveat})" if (caveat := UNVERIFIED.get(self.engine)) else told


@dataclass(frozen=True, slots=True)
class WrittenText:
    """What came of one request; the engine says `drafted` and `accepted`, or not (None)."""

    text: str
    tokens: int
    seconds: float
    first_token: float
    drafted: int | None
    accepted: int | None


def read_engine(address: EngineAddress, seconds: float | None = None) -> EngineMetrics:
    """The engine's metrics now, in at most so many seconds; InputError where there are none."""
    answer = address.get("/metrics", seconds)
    if answer.status == 404:
        told = "no metrics at /metrics: SGLang needs --enable-metrics, others have them there"
        raise InputError(f"server at {address} gives {told}")
    if answer.status == 501:
        raise InputError(f"server at {address} gives no metrics: start llama.cpp with --metrics")
    if answer.status != 200:
        raise InputError(address.refused("/metrics", answer.status))
    return read_metrics(answer.text, str(address))


def probe(
    address: EngineAddress, is_expected: bool = False, seconds: float = REQUEST_SECONDS
) -> EngineProbe:
    """Ask who answers, then for up to `TOKENS` tokens, and see whether any were drafted.

    They may take so many `seconds`. `is_expected`: the engine was started with speculation. Raises
    InputError where it does not answer as llama.cpp, vLLM or SGLang do.
    """
    before = read_engine(address)
    model = model_at(address)
    request = write_text(address, model, seconds=seconds)
    after, at = read_engine(address), time.time()
    grown = after.counters.since(before.counters)
    speculation, why = _judged(address, before, after, grown, request, is_expected)
    return EngineProbe(
        engine=after.engine,
        version=version_at(address, after.engine),
        model=model,
        speculation=speculation,
        why=why,
        tokens=request.tokens,
        seconds=request.seconds,
        first_token=request.first_token,
        metrics=after,
        at=at,
    )


def model_at(address: EngineAddress) -> str:
    """The name of the model that is served; InputError where there is none."""
    answer = address.get("/v1/models")
    if answer.status != 200:
        raise InputError(address.refused("/v1/models", answer.status))
    with suppress(LookupError, TypeError):
        return str(answer.json()["data"][0]["id"])
    raise InputError(f"server at {address} must name its model at /v1/models, but does not")


def version_at(address: EngineAddress, engine: str) -> str:
    """As the engine says it; "" where it does not."""
    if engine == VLLM:
        return str(address.get("/version").json().get("version", ""))
    if engine == SGLANG:
        return str(address.get("/server_info").json().get("version", ""))
    build = str(address.get("/props").json().get("build_info", ""))
    return "" if build.endswith("unknown") else build  # built without the history of its source


def write_text(
    address: EngineAddress,
    model: str,
    prompt: str = PROMPT,
    tokens: int = TOKENS,
    seconds: float = REQUEST_SECONDS,
    ends: bool = True,
) -> WrittenText:
    """Stream one greedy completion of at most so many tokens, in at most so many seconds.

    With `ends` false a text goes on behind its end, so that each has as many tokens.
    """
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_spec_tokens_details": True,  # of SGLang; others pass over it
        **({} if ends else {"ignore_eos": True}),
    }
    began, first, parts, written = time.perf_counter(), None, [], 0
    drafted = accepted = None
    with closing(address.lines("/v1/completions", body, seconds)) as lines:
        for line in lines:
            event = stream_event(line)
            parts.append(_text(event))
            if first is None and parts[-1]:
                first = time.perf_counter() - began
            usage = event.get("usage")
            if isinstance(usage, dict):
                written = whole_number(usage.get("completion_tokens")) or written
            drafted, accepted = drafts_of(event) or (drafted, accepted)
    if first is None:
        raise InputError(
            f"server at {address} must write a text at /v1/completions, but wrote none"
        )
    seconds = time.perf_counter() - began
    return WrittenText("".join(parts), written, seconds, first, drafted, accepted)


def speculation_of(answer: dict[str, Any]) -> dict[str, Any]:
    """What vLLM counted for one request, where it was started with
    `--per-request-spec-decode-metrics`; empty where it was not, or does not speculate.
    """
    with suppress(LookupError, TypeError):
        found = answer["metrics"]["speculative_decoding"]
        return found if isinstance(found, dict) else {}
    return {}


def drafts_of(answer: dict[str, Any]) -> tuple[int, int] | None:
    """Tokens that were drafted for one request, and accepted; None where it does not say."""
    own = answer.get("timings")
    if isinstance(own, dict):  # of llama.cpp; without speculation it has no such field
        return whole_number(own.get("draft_n")), whole_number(own.get("draft_n_accepted"))
    if counts := speculation_of(answer):
        drafted, accepted = counts.get("num_draft_tokens"), counts.get("num_accepted_draft_tokens")
        return whole_number(drafted), whole_number(accepted)
    if counts := _sglang_speculation_of(answer):
        drafted, accepted = (
            counts.get("spec_num_proposed_drafts"),
            counts.get("spec_num_correct_drafts"),
        )
        return whole_number(drafted), whole_number(accepted)
    return None


def _sglang_speculation_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The `spec_*` figures of a request's `meta_info`, as SGLang sends them at /v1/completions."""
    with suppress(LookupError, TypeError):
        found = answer["sglext"]["spec_tokens_details"]
        return found if isinstance(found, dict) else {}
    return {}


def stream_event(line: str) -> dict[str, Any]:
    """What a line of a stream holds; nothing where it holds no object."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line.removeprefix("data:"))
        if line.startswith("data:") and isinstance(found, dict):
            return found
    return {}


def _text(event: dict[str, Any]) -> str:
    with suppress(LookupError, TypeError):
        return str(event["choices"][0]["text"] or "")
    return ""


def whole_number(value: Any) -> int:
    """A count of an engine's answer; 0 for what is none."""
    return value if type(value) is int and 0 < value <= MOST_COUNTED else 0


def _judged(
    address: EngineAddress,
    before: EngineMetrics,
    after: EngineMetrics,
    grown: EngineCounters,
    request: WrittenText,
    is_expected: bool,
) -> tuple[Speculation, str]:
    drafted, accepted = request.drafted, request.accepted
    if drafted is None:  # vLLM says it of a request only where it was told to
        drafted, accepted = int(grown.drafted), int(grown.accepted)
        if drafted and (before.running or grown.tokens > request.tokens):
            return Speculation.ACTIVE, "its drafts grow; other requests ran meanwhile"
    if drafted:
        written = f"{drafted} tokens were drafted for the {request.tokens} of one request"
        return Speculation.ACTIVE, f"{written}, and {accepted} of them accepted"
    if after.engine == VLLM:
        if after.has_drafts:
            return Speculation.IDLE, "it counts drafts, but drafted nothing for one request"
        missing = "it counts no drafts: it was started without --speculative-config"
        return (Speculation.IDLE if is_expected else Speculation.OFF), missing
    if after.engine == SGLANG:
        return _judged_sglang(address, grown, is_expected)
    if _has_speculative_slot(address):
        return Speculation.IDLE, _NOTHING_DRAFTED
    if is_expected:
        return Speculation.IDLE, _REFUSED
    return Speculation.OFF, f"nothing was drafted; if it was started with a draft: {_REFUSED}"


def _judged_sglang(
    address: EngineAddress, grown: EngineCounters, is_expected: bool
) -> tuple[Speculation, str]:
    """Where it says nothing of the request's own drafts."""
    if grown.verifications:
        return Speculation.ACTIVE, f"it verified drafts in {grown.verifications:.0f} forwards"
    if algorithm := address.get("/server_info").json().get("speculative_algorithm"):
        told = f"it is set up to speculate by {str(algorithm)[:40]}, but verified no draft"
        return Speculation.IDLE, f"{told} for one request"
    missing = "it verified no draft: it was started without --speculative-algorithm"
    return (Speculation.IDLE if is_expected else Speculation.OFF), missing


def _has_speculative_slot(address: EngineAddress) -> bool:
    """Of llama.cpp: whether a place for requests is set up to speculate, as far as it says so."""
    with suppress(ValueError, RecursionError, TypeError, AttributeError):
        return any(slot.get("speculative") for slot in json.loads(address.get("/slots").text))
    return False
