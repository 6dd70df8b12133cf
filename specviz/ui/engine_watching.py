"""What the page asks of a serving engine that a visitor names: who it is, its counters, one text.

Nothing is kept between two questions: what was read before comes with the next one, and a page that
has gone is watched for by nobody. In public only the owner's addresses are asked.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import pairwise
from typing import Any

from specviz.errors import InputError, short
from specviz.figures.engine_charts import over_time_figure, positions_figure
from specviz.serving.engine_counters import MOST_POSITIONS, EngineCounters, EngineMetrics
from specviz.serving.engine_permission import permitted, permitted_addresses
from specviz.serving.engine_probe import model_at, probe, read_engine, write_text

EVERY_SECONDS = 2.0  # that a page reads the counters
MOST_READINGS = 300  # that are drawn: ten minutes
AT_ONCE = 8  # engines that are asked, each by a thread of those that answer all questions
PATIENCE_SECONDS = 5.0  # that a question waits for its turn
TEXT_SECONDS = 60.0
TEXT_TOKENS = 64
LONGEST_PROMPT = 8_000  # characters
UNKNOWN = "not told"
NOTHING = "nothing drafted"
_LARGEST = 1e15  # of a count that can be
_COUNTS = tuple(each.name for each in fields(EngineCounters) if each.name != "per_position")
_turns = threading.BoundedSemaphore(AT_ONCE)


def watching_offer() -> dict[str, Any]:
    """What the page's form needs: `allowed` is None where every address may be asked.

    InputError for an address of the owner's that is none.
    """
    return {
        "allowed": permitted_addresses(),
        "every_seconds": EVERY_SECONDS,
        "kept": MOST_READINGS,
        "tokens": TEXT_TOKENS,
        "longest": LONGEST_PROMPT,
    }


def attached_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"url", "key"} -> which engine it is, whether it speculates, and two readings."""
    address = permitted(question["url"], question["key"])
    with _turn():
        before = _reading(read_engine(address))
        found = probe(address, seconds=TEXT_SECONDS)
    return {
        "address": str(address),
        "model": found.model,
        "speculation": found.speculation.value,
        "sentence": found.sentence(address),
        "kept": [before],
        **_read(found.metrics, [before]),
    }


def reading_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"url", "key", "kept": earlier readings} -> one more, with charts and facts of them all."""
    address, kept = permitted(question["url"], question["key"]), _kept(question["kept"])
    with _turn():
        metrics = read_engine(address)
    return _read(metrics, kept)


def written_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"url", "key", "prompt"} -> a greedy text of `TEXT_TOKENS` tokens, with its times."""
    address, prompt = permitted(question["url"], question["key"]), question["prompt"]
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > LONGEST_PROMPT:
        rule = f"a text of at most {LONGEST_PROMPT:,} characters"
        raise InputError(f"prompt must be {rule}, got {short(prompt)}")
    with _turn():
        written = write_text(address, model_at(address), prompt, TEXT_TOKENS, TEXT_SECONDS)
    return asdict(written)


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=PATIENCE_SECONDS):
        raise InputError("other servers are being asked: try again in a moment")
    try:
        yield
    finally:
        _turns.release()


# ---- readings


def _reading(metrics: EngineMetrics) -> dict[str, Any]:
    counters = metrics.counters
    return {"at": time.time(), **asdict(counters), "per_position": list(counters.per_position)}


def _kept(values: Any) -> list[dict[str, Any]]:
    """Readings as `_reading` makes them, at most `MOST_READINGS`, the last ones."""
    if not isinstance(values, list) or len(values) > MOST_READINGS:
        raise InputError(f"kept must be at most {MOST_READINGS} readings, got {short(values)}")
    return [_checked(each) for each in values]


def _checked(value: Any) -> dict[str, Any]:
    names = {"at", "per_position", *_COUNTS}
    if not isinstance(value, dict) or set(value) != names:
        raise InputError(f"kept must be readings of an engine, got {short(value)}")
    places = value["per_position"]
    if not isinstance(places, list) or len(places) > MOST_POSITIONS:
        raise InputError(f"per_position must be a list of counts, got {short(places)}")
    for each in (*(value[name] for name in names - {"per_position"}), *places):
        is_number = type(each) in (int, float) and math.isfinite(each)
        if not is_number or not 0 <= each <= _LARGEST:
            raise InputError(f"kept must hold counts, got {short(each)}")
    return value


def _counters(reading: Mapping[str, Any]) -> EngineCounters:
    counts = {name: reading[name] for name in _COUNTS}
    return EngineCounters(**counts, per_position=tuple(reading["per_position"]))


def _read(metrics: EngineMetrics, kept: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The new reading, and what all of them say."""
    reading = _reading(metrics)
    readings = [*kept[-(MOST_READINGS - 1) :], reading]
    counters = [_counters(each) for each in readings]
    times = [each["at"] - readings[0]["at"] for each in readings]
    grown = [now.since(before) for before, now in pairwise(counters)]
    spans = [max(1e-3, then - first) for first, then in pairwise(times)]
    total = EngineCounters.total(grown) if grown else EngineCounters()
    restarts = sum(now.is_restarted(before) for before, now in pairwise(counters))
    rates = [each.tokens / span for each, span in zip(grown, spans, strict=True)]
    return {
        "reading": reading,
        "restarts": restarts,
        "facts": _facts(metrics, total, rates),
        "figures": {
            "acceptance": over_time_figure(
                times[1:], [each.acceptance for each in grown], "accepted", is_share=True
            ),
            "positions": positions_figure(total.acceptance_per_position),
            "length": over_time_figure(
                times[1:], [each.accepted_length for each in grown], "expected"
            ),
            "rate": over_time_figure(times[1:], rates, "verify_time"),
        },
    }


def _facts(
    metrics: EngineMetrics, total: EngineCounters, rates: Sequence[float]
) -> list[tuple[str, str]]:
    """Since the page attached; what the engine does not say is said to be unknown."""
    first = total.first_token
    return [
        ("accepted of drafted", _told(_percent(total.acceptance), "{:.0f} %", NOTHING)),
        ("drafted tokens", f"{total.drafted:,.0f}" if metrics.has_drafts else NOTHING),
        ("tokens a forward", _told(total.accepted_length, "{:.2f}", NOTHING)),
        ("tokens written", f"{total.tokens:,.0f}"),
        ("tokens a second now", _told(rates[-1] if rates else None, "{:.1f}")),
        ("first token", UNKNOWN if first is None else f"{1000 * first:.0f} ms"),
        ("requests running", _told(metrics.running, "{:.0f}")),
        ("requests waiting", _told(metrics.waiting, "{:.0f}")),
        ("cache in use", _told(_percent(metrics.cache), "{:.0f} %")),
    ]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _told(value: float | None, form: str, otherwise: str = UNKNOWN) -> str:
    return otherwise if value is None else form.format(value)
