"""Find out with one request which engine answers, and whether it really speculates.

A health check does not show that. For example, an engine that refuses a draft model may serve
without speculation and report that it is healthy.
"""

from __future__ import annotations

import json
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from specviz.engines.engine_registry import server_apis
from specviz.engines.server_api import Speculation, whole_number
from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters, EngineMetrics, read_metrics
from specviz.serving.steady_clock import steady_time

# The prompt is program code, which repeats itself, so n-gram drafting also finds something to
# draft.
PROMPT = (
    "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    return a - b\n\n\n"
    "def multiply(a, b):\n"
)
TOKENS = 64  # largest number of tokens that the request may write
REQUEST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class EngineProbe:
    """The facts about an engine after one request.

    `version` and `model` are "" if the engine does not report them. `why` is a sentence that
    explains `speculation`. `first_token` and `seconds` are the times until the first token and
    until all `tokens` of the answer, prompt included. `metrics` were read after the request, at the
    Unix time `at`.
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
        """Return one sentence about the engine at this address and its speculation."""
        version = f" {self.version}" if self.version else ""
        state = self.speculation.value
        sentence = f"{self.engine}{version} at {address}: speculation is {state}: {self.why}"
        caveat = server_apis()[self.engine].caveat
        return f"{sentence} ({caveat})" if caveat else sentence


@dataclass(frozen=True, slots=True)
class WrittenText:
    """The answer to one request.

    `drafted` and `accepted` are None if the engine does not report them.
    """

    text: str
    tokens: int
    seconds: float
    first_token: float
    drafted: int | None
    accepted: int | None


def read_engine(address: EngineAddress, seconds: float | None = None) -> EngineMetrics:
    """Read the engine's metrics within `seconds`. Raises InputError if it gives none."""
    answer = address.get("/metrics", seconds)
    for api in server_apis().values():
        if answer.status in api.metrics_off:
            raise InputError(f"server at {address} {api.metrics_off[answer.status]}")
    if answer.status != 200:
        raise InputError(address.refused("/metrics", answer.status))
    return read_metrics(answer.text, str(address))


def probe(
    address: EngineAddress, is_expected: bool = False, seconds: float = REQUEST_SECONDS
) -> EngineProbe:
    """Find out which engine this is and whether it drafts, with a request for `TOKENS` tokens.

    The request may take `seconds`. `is_expected` means that the engine was started with
    speculation. Raises InputError if the server does not answer like a known engine.
    """
    before = read_engine(address)
    model = model_at(address)
    request = write_text(address, model, seconds=seconds)
    after, at = read_engine(address), steady_time()
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
    """Return the name of the served model. Raises InputError if there is none."""
    answer = address.get("/v1/models")
    if answer.status != 200:
        raise InputError(address.refused("/v1/models", answer.status))
    with suppress(LookupError, TypeError):
        return str(answer.json()["data"][0]["id"])
    raise InputError(f"server at {address} must name its model at /v1/models, but does not")


def version_at(address: EngineAddress, engine: str) -> str:
    """Return the version that the engine reports, or "" if it reports none."""
    return server_apis()[engine].version(address)


def write_text(
    address: EngineAddress,
    model: str,
    prompt: str = PROMPT,
    tokens: int = TOKENS,
    seconds: float = REQUEST_SECONDS,
    ends: bool = True,
) -> WrittenText:
    """Stream one greedy completion of at most `tokens` tokens within at most `seconds`.

    If `ends` is False, the engine continues after an end token, so that all answers have the same
    number of tokens.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({} if ends else {"ignore_eos": True}),
    }
    # Each engine ignores the fields of the others.
    for api in server_apis().values():
        body |= api.request_fields
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


def drafts_of(answer: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many tokens were drafted and accepted for one request, or None if unknown."""
    found = (api.drafts_of(answer) for api in server_apis().values())
    return next((each for each in found if each is not None), None)


def stream_event(line: str) -> dict[str, Any]:
    """Return the JSON object in one line of a stream, or {} if there is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line.removeprefix("data:"))
        if line.startswith("data:") and isinstance(found, dict):
            return found
    return {}


def _text(event: dict[str, Any]) -> str:
    with suppress(LookupError, TypeError):
        return str(event["choices"][0]["text"] or "")
    return ""


def _judged(
    address: EngineAddress,
    before: EngineMetrics,
    after: EngineMetrics,
    grown: EngineCounters,
    request: WrittenText,
    is_expected: bool,
) -> tuple[Speculation, str]:
    drafted, accepted = request.drafted, request.accepted
    # Some engines report drafts per request only if a flag asks for them.
    if drafted is None:
        drafted, accepted = int(grown.drafted), int(grown.accepted)
        if drafted and (before.running or grown.tokens > request.tokens):
            return Speculation.ACTIVE, "it counts more drafts, but other requests ran as well"
    if drafted:
        written = f"{drafted} tokens were drafted for the {request.tokens} of one request"
        return Speculation.ACTIVE, f"{written}, and {accepted} of them accepted"
    if grown.verifications:
        return Speculation.ACTIVE, f"it verified drafts in {grown.verifications:.0f} forwards"
    if earlier := _drafted_so_far(after):
        return Speculation.ACTIVE, f"{earlier} since it started, though none for this request"
    return server_apis()[after.engine].undrafted(address, after.has_drafts, is_expected)


def _drafted_so_far(metrics: EngineMetrics) -> str:
    """Describe earlier drafts that the metrics show. Return "" if they show none.

    The probe must not say that an engine never drafts if its metrics show drafts.
    """
    counters = metrics.counters
    if counters.drafted:
        return f"{counters.drafted:,.0f} tokens were drafted"
    if counters.verifications:
        return f"{counters.verifications:,.0f} forwards verified drafts"
    if metrics.latest_length is not None and metrics.latest_length > 1:
        return f"its forwards accepted drafts ({metrics.latest_length:.2f} tokens each)"
    return ""
