"""`watch`: whether a serving engine speculates, and what of its drafts is accepted."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import facts
from specviz.commands.flags import check_integer
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters
from specviz.serving.engine_probe import EngineProbe, Speculation, probe, read_engine

_PATIENCE = 5  # readings that may fail one behind the other: an engine that is started again
_KEPT = 1000  # readings, the last ones
_MOST_SECONDS = 3600.0


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("url", help="such as http://127.0.0.1:8000; its key: SPECVIZ_ENGINE_KEY")
    parser.add_argument(
        "--expected", action="store_true", help="it must speculate; exit status 1 if it does not"
    )
    parser.add_argument("--every", type=float, default=2.0, help="seconds (default %(default)s)")
    parser.add_argument("--count", type=int, help="readings (default until Ctrl+C)")


@dataclass(frozen=True, slots=True)
class WatchReading:
    """What was counted in `seconds`; `is_restarted`: the engine was started again meanwhile."""

    seconds: float
    counted: EngineCounters
    is_restarted: bool


def watch(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Probe the engine by one request, then read its counters until Ctrl+C or for `count` times."""
    if not (math.isfinite(options.every) and 0.1 <= options.every <= _MOST_SECONDS):
        raise InputError(
            f"every must be from 0.1 to {_MOST_SECONDS:g} seconds, got {options.every}"
        )
    if options.count is not None:
        check_integer("count", options.count, 0, 1_000_000)
    address = EngineAddress.of(options.url, Environment.read().engine_key)
    found = probe(address, options.expected)
    progress(found.sentence(address))
    kept: deque[WatchReading] = deque(maxlen=_KEPT)
    try:
        for reading in _readings(address, found, options, progress):
            kept.append(reading)
            progress(_line(reading))
    except KeyboardInterrupt:
        progress("stopped watching")
    return {
        "url": str(address),
        "engine": found.engine,
        "version": found.version,
        "model": found.model,
        "speculation": found.speculation.value,
        "why": found.why,
        "expected": options.expected,
        "first_token_seconds": found.first_token,
        "request_tokens": found.tokens,
        "request_seconds": found.seconds,
        "since_start": found.metrics.counters.described(),
        "readings": [
            {
                "seconds": each.seconds,
                "is_restarted": each.is_restarted,
                "tokens_per_second": each.counted.tokens / each.seconds,
                **each.counted.described(),
            }
            for each in kept
        ],
    }


def _readings(
    address: EngineAddress, found: EngineProbe, options: Namespace, progress: Progress
) -> Iterator[WatchReading]:
    """What is counted between one reading and the next."""
    last, at, failures, done = found.metrics.counters, time.perf_counter(), 0, 0
    while options.count is None or done < options.count:
        time.sleep(options.every)
        try:
            now = read_engine(address).counters
        except InputError as error:
            failures += 1
            if failures == _PATIENCE:
                raise
            progress(f"no reading: {error}")
            continue
        seconds = time.perf_counter() - at
        yield WatchReading(seconds, now.since(last), now.is_restarted(last))
        last, at, failures, done = now, time.perf_counter(), 0, done + 1


def _line(reading: WatchReading) -> str:
    """One reading as a person reads it."""
    counted = reading.counted
    parts = [f"{counted.tokens / reading.seconds:.1f} tokens/s"]
    if counted.acceptance is not None:
        parts += [
            f"acceptance {counted.acceptance:.2f}",
            f"by position {_places(counted)}",
            f"{counted.accepted_length:.2f} tokens/forward",
        ]
    elif counted.tokens:
        parts.append("nothing drafted")
    if counted.first_token is not None:
        parts.append(f"first token {1000 * counted.first_token:.0f} ms")
    if reading.is_restarted:
        parts.append("the engine was started again")
    return ", ".join(parts)


def _places(counted: EngineCounters) -> str:
    return " ".join(f"{each:.2f}" for each in counted.acceptance_per_position)


def watch_text(result: dict[str, Any]) -> str:
    """What was found, and what the engine has counted since it began."""
    counted = result["since_start"]
    places = [f"{each:.2f}" for each in counted["acceptance_per_position"]]
    rows = {
        "engine": f"{result['engine']} {result['version']}".strip(),
        "model": result["model"],
        "speculation": result["speculation"],
        "why": result["why"],
        "first token (ms)": 1000 * result["first_token_seconds"],
        "request": f"{result['request_tokens']} tokens in {result['request_seconds']:.2f} s",
        "drafted since start": int(counted["drafted"]),
        "accepted since start": int(counted["accepted"]),
        "acceptance": counted["acceptance"],
        "by position": " ".join(places) or None,
        "tokens per forward": counted["accepted_length"],
    }
    return facts(rows)


def shortfall(result: dict[str, Any]) -> str | None:
    """One line where --expected asks for speculation and there is none."""
    if not result["expected"] or result["speculation"] == Speculation.ACTIVE.value:
        return None
    return f"speculation is {result['speculation']}: {result['why']}"


COMMAND = Command(watch, watch_text, _add_flags, shortfall)
