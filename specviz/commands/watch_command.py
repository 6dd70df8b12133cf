"""The command `watch`: it shows whether engines speculate, and how many drafts they accept."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import facts
from specviz.engines.server_api import Speculation
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters
from specviz.serving.engine_probe import EngineProbe, probe
from specviz.serving.engine_replicas import (
    CountedInterval,
    EngineReading,
    ask_each,
    check_replicas,
    differences,
    read_now,
)

# consecutive failed readings before the command ends; an engine that restarts answers none
_PATIENCE = 5
_KEPT = 1000  # largest number of readings that a watch keeps; it drops the oldest ones
_MOST_SECONDS = 3600.0


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "url",
        nargs="+",
        metavar="URL",
        help="address of a server, such as http://127.0.0.1:8000; several addresses count as "
        "replicas of one service, whose sum is shown as well; if a key is needed, put it into the "
        "environment variable SPECVIZ_ENGINE_KEY",
    )
    parser.add_argument(
        "--expected",
        action="store_true",
        help="exit with status 1 if a server does not speculate",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=2.0,
        metavar="X",
        help="seconds between two readings of a server's metrics (default %(default)s)",
    )
    parser.add_argument(
        "--readings", type=int, metavar="N", help="stop after N readings (default until Ctrl+C)"
    )


def watch(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Send each engine one request, then read its counters until Ctrl+C or `readings` times.

    For one engine the result holds its numbers. For several it holds each engine's numbers in
    "replicas", and their sums.
    """
    if not (math.isfinite(options.every) and 0.1 <= options.every <= _MOST_SECONDS):
        raise InputError(
            f"'every' must be from 0.1 to {_MOST_SECONDS:g} seconds, got {options.every}"
        )
    if options.readings is not None:
        whole_between(options.readings, "readings", 0, 1_000_000)
    key = Environment.read().engine_key
    addresses = [EngineAddress.of(each, key) for each in options.url]
    check_replicas(addresses)
    found = ask_each(addresses, lambda each: probe(each, options.expected))
    for address, each in zip(addresses, found, strict=True):
        progress(f"no answer: {each}" if isinstance(each, str) else each.sentence(address))
    known = [each for each in found if not isinstance(each, str)]
    if unlike := differences(known):
        progress(unlike)
    kept: deque[dict[str, Any]] = deque(maxlen=_KEPT)
    try:
        for parts in _intervals(addresses, found, options, progress):
            kept.append(_reading(addresses, parts))
            for line in _lines(addresses, parts):
                progress(line)
    except KeyboardInterrupt:
        progress("stopped watching")
    replicas = [_described(*each) for each in zip(addresses, found, strict=True)]
    together = {
        "replicas": replicas,
        "differences": unlike,
        "since_start": EngineCounters.total([e.metrics.counters for e in known]).described(),
    }
    head = replicas[0] if len(replicas) == 1 else together
    return head | {"expected": options.expected, "readings": list(kept)}


def _described(address: EngineAddress, found: EngineProbe | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"url": str(address), "problem": found}
    return {
        "url": str(address),
        "engine": found.engine,
        "version": found.version,
        "model": found.model,
        "speculation": found.speculation.value,
        "why": found.why,
        "first_token_seconds": found.first_token,
        "request_tokens": found.tokens,
        "request_seconds": found.seconds,
        "since_start": found.metrics.counters.described(),
    }


def _intervals(
    addresses: Sequence[EngineAddress],
    found: Sequence[EngineProbe | str],
    options: Namespace,
    progress: Progress,
) -> Iterator[list[CountedInterval | str]]:
    """Yield the new counts of each engine at every reading, or a sentence on why there are none."""
    last = [
        None if isinstance(each, str) else EngineReading(each.at, each.metrics) for each in found
    ]
    failures = done = 0
    while options.readings is None or done < options.readings:
        time.sleep(options.every)
        try:
            answers = ask_each(addresses, lambda each: read_now(each, len(addresses)))
        except InputError as error:
            failures += 1
            if failures == _PATIENCE:
                raise
            progress(f"no reading: {error}")
            continue
        parts: list[CountedInterval | str] = []
        for place, (before, now) in enumerate(zip(last, answers, strict=True)):
            if isinstance(now, str):
                parts.append(now)
                continue
            # An engine that answers for the first time has no earlier reading to compare with, so
            # the counts of this interval are 0.
            start = now if before is None else before
            parts.append(CountedInterval.between(start.metrics.counters, start.at, now))
            last[place] = now
        yield parts
        failures, done = 0, done + 1


def _together(parts: Sequence[CountedInterval | str]) -> CountedInterval:
    return CountedInterval.together([each for each in parts if not isinstance(each, str)])


def _reading(
    addresses: Sequence[EngineAddress], parts: Sequence[CountedInterval | str]
) -> dict[str, Any]:
    found = _figures(_together(parts))
    if len(parts) == 1:
        return found
    each = [
        {"url": str(address), **({"problem": part} if isinstance(part, str) else _figures(part))}
        for address, part in zip(addresses, parts, strict=True)
    ]
    return found | {"replicas": each}


def _figures(interval: CountedInterval) -> dict[str, Any]:
    return {
        "seconds": interval.seconds,
        "is_restarted": interval.restarts > 0,
        "tokens_per_second": interval.tokens_per_second,
        **interval.counted.described(),
        "acceptance_rate": interval.acceptance_rate,
        "draft_utilization": interval.draft_utilization,
        "block_efficiency": interval.block_efficiency,
        "running": interval.running,
        "waiting": interval.waiting,
        "cache": interval.cache,
    }


def _lines(addresses: Sequence[EngineAddress], parts: Sequence[CountedInterval | str]) -> list[str]:
    """Return the lines about one reading of the counters.

    For one engine this is a single line. For several engines there is a line for their sum and for
    each engine.
    """
    together = _line(_together(parts))
    if len(parts) == 1:
        return [together]
    apart = [
        f"  {address}: {f'no reading: {part}' if isinstance(part, str) else _line(part)}"
        for address, part in zip(addresses, parts, strict=True)
    ]
    return [f"together: {together}", *apart]


def _line(interval: CountedInterval) -> str:
    parts = [f"{interval.tokens_per_second:.1f} tokens/s"]
    if interval.acceptance_rate is not None:
        parts.append(f"acceptance rate {interval.acceptance_rate:.2f}")
    if interval.draft_utilization is not None:
        parts.append(f"draft utilization {interval.draft_utilization:.2f}")
    elif interval.counted.tokens and not interval.counted.verifications:
        parts.append("nothing drafted")
    if places := interval.counted.acceptance_per_position:
        parts.append("by position " + " ".join(f"{each:.2f}" for each in places))
    if interval.block_efficiency is not None:
        parts.append(f"{interval.block_efficiency:.2f} tokens/forward")
    if interval.first_token is not None:
        parts.append(f"first token {1000 * interval.first_token:.0f} ms")
    if interval.running or interval.waiting:
        parts.append(f"{interval.running or 0:.0f} running, {interval.waiting or 0:.0f} waiting")
    if interval.cache is not None:
        parts.append(f"cache {interval.cache:.0%}")
    if interval.restarts:
        parts.append("an engine was started again")
    return ", ".join(parts)


def watch_text(result: dict[str, Any]) -> str:
    """Return tables of what the probe found, and of the counts since the engines started."""
    if "replicas" not in result:
        return facts(_seen(result) | _counted(result["since_start"]))
    apart = [facts({"server": each["url"]} | _probed(each)) for each in result["replicas"]]
    together = facts({"together": f"{len(apart)} servers"} | _counted(result["since_start"]))
    return "\n\n".join([*apart, together])


def _probed(replica: Mapping[str, Any]) -> dict[str, Any]:
    if "problem" in replica:
        return {"no answer": replica["problem"]}
    return _seen(replica) | _counted(replica["since_start"])


def _seen(replica: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "engine": f"{replica['engine']} {replica['version']}".strip(),
        "model": replica["model"],
        "speculation": replica["speculation"],
        "why": replica["why"],
        "first token (ms)": 1000 * replica["first_token_seconds"],
        "request": f"{replica['request_tokens']} tokens in {replica['request_seconds']:.2f} s",
    }


def _counted(counted: Mapping[str, Any]) -> dict[str, Any]:
    places = [f"{each:.2f}" for each in counted["acceptance_per_position"]]
    # SGLang does not count drafted tokens.
    is_untold = counted["verifications"] > 0 and not counted["drafted"]
    return {
        "drafted since start": None if is_untold else int(counted["drafted"]),
        "accepted since start": None if is_untold else int(counted["accepted"]),
        "acceptance rate (accepted / examined)": counted["acceptance_rate"],
        "draft utilization (accepted / drafted)": counted["draft_utilization"],
        "by position": " ".join(places) or None,
        "tokens per forward": counted["block_efficiency"],
    }


def shortfall(result: dict[str, Any]) -> str | None:
    """Return one line if the user gave `--expected` and a server does not speculate."""
    if not result["expected"]:
        return None
    for each in result.get("replicas", [result]):
        if "problem" in each:
            return str(each["problem"])
        if each["speculation"] != Speculation.ACTIVE.value:
            return f"speculation at {each['url']} is {each['speculation']}: {each['why']}"
    return None


COMMAND = Command(
    watch,
    watch_text,
    _add_flags,
    shortfall,
    example="http://127.0.0.1:8000 --expected",
)
