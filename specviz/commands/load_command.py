"""The command `load`: it sends more and more requests at once, until drafts slow an engine down.

The command stops after two consecutive load levels at which the server with drafts is slower than
the server without.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import acceptance_columns, table
from specviz.commands.flags import add_flag, add_prompt_file_flag
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.prompts import TASKS, held_out_prompts, own_text, read_prompts
from specviz.records import SETTINGS, read_integers
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_load import (
    FEWEST,
    LoadLevel,
    interval,
    load_level,
    percentiles,
)
from specviz.serving.engine_probe import model_at, read_engine, version_at

_AT_ONCE = "1,2,4,8,16"
_MOST_AT_ONCE = 256
# Number of requests that warm up a server, one after the other, before the measurement starts.
_WARM = 16
_PASSES = 3  # measurements per server and load level; the servers alternate
_FEWEST = 2 * FEWEST  # a load level with fewer requests gets no verdict


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        help="address of the server that speculates; if a key is needed, put it into the "
        "environment variable SPECVIZ_ENGINE_KEY",
    )
    parser.add_argument(
        "--plain",
        metavar="URL",
        help="address of a server that runs the same model without drafts, for comparison "
        "(default none)",
    )
    parser.add_argument(
        "--concurrency",
        default=_AT_ONCE,
        metavar="N,N",
        help="how many requests to send at once, in rising order, separated by commas "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--each",
        type=int,
        default=8,
        metavar="N",
        help="number of requests per load level, as a multiple of the requests at once: with 4 at "
        "once and N = 8, 32 requests (default %(default)s)",
    )
    add_flag(parser, SETTINGS["max_new_tokens"], default=64)
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="use held-out prompts (not used for training) of this task: "
        f"{', '.join(TASKS)} (default code)",
    )
    add_prompt_file_flag(parser)


def load(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure one load level after the other; Ctrl+C ends this and keeps the measured levels."""
    levels = read_integers("concurrency", options.concurrency)
    if not levels or list(levels) != sorted(set(levels)) or not 1 <= levels[0]:
        raise InputError(
            "concurrency must be whole numbers from 1 in rising order, such as 1,2,4, got "
            f"{options.concurrency!r}"
        )
    whole_between(levels[-1], "concurrency", 1, _MOST_AT_ONCE)
    whole_between(options.each, "'each'", 1, 100)
    whole_between(options.max_new_tokens, "max-new-tokens", 2, 4096)
    key, prompts = Environment.read().engine_key, _prompts(options)
    urls = {"speculative": options.url} | ({"plain": options.plain} if options.plain else {})
    servers = {name: EngineAddress.of(url, key) for name, url in urls.items()}
    models = {name: model_at(address) for name, address in servers.items()}
    # A server answers its first requests more slowly, so these are not measured.
    for name, address in servers.items():
        load_level(address, models[name], prompts[:_WARM], 1, options.max_new_tokens)
    found: list[dict[str, Any]] = []
    try:
        for at_once in levels:
            sent = [prompts[i % len(prompts)] for i in range(at_once * options.each)]
            parts: dict[str, list[LoadLevel]] = {name: [] for name in servers}
            for turn in range(_PASSES):
                for name in (list(servers), list(reversed(servers)))[turn % 2]:
                    level = load_level(
                        servers[name], models[name], sent, at_once, options.max_new_tokens
                    )
                    parts[name].append(level)
            found.append({"at_once": at_once} | {n: _of(each) for n, each in parts.items()})
            found[-1] |= _gain(parts)
            progress(_line(found[-1]))
            # Stop only if the drafts were slower at two load levels in a row. One level may be
            # slower by chance.
            if len(found) > 1 and all(map(_loses, found[-2:])):
                break
    except KeyboardInterrupt:
        progress("stopped")
    metrics = read_engine(servers["speculative"])
    version = version_at(servers["speculative"], metrics.engine)
    return {
        **{name: str(address) for name, address in servers.items()},
        "engine": f"{metrics.engine} {version}".strip(),
        "draft_length": metrics.draft_length,
        "max_new_tokens": options.max_new_tokens,
        "levels": found,
        "verdict": verdict(found),
    }


def _loses(level: dict[str, Any]) -> bool:
    """Return whether drafts make the server slower; return False if there is no plain server."""
    plain = level.get("plain", {"tokens_per_second": 0.0})
    return bool(level["speculative"]["tokens_per_second"] < plain["tokens_per_second"])


def _prompts(options: Namespace) -> list[str]:
    if options.prompt_file is not None and options.task is not None:
        raise InputError("task and prompt-file must not be given together")
    given = read_prompts(options.prompt_file, "prompt-file") if options.prompt_file else None
    return [own_text(each) for each in given or held_out_prompts(options.task or "code", False)]


def _gain(parts: Mapping[str, Sequence[LoadLevel]]) -> dict[str, Any]:
    """Return the speedup at a load level with its 95 % interval.

    Every pass measures both servers, one right after the other, and gives one speedup.
    """
    if "plain" not in parts:
        return {"requests": sum(len(each.first_tokens) for each in parts["speculative"])}
    pairs = zip(parts["speculative"], parts["plain"], strict=True)
    ratios = [fast.tokens_per_second / plain.tokens_per_second for fast, plain in pairs]
    ends = interval(ratios)
    return {
        "requests": min(sum(len(each.first_tokens) for each in way) for way in parts.values()),
        "speedup": math.exp(fmean(map(math.log, ratios))),
        "speedup_interval": None if ends is None else list(ends),
    }


def _of(parts: Sequence[LoadLevel]) -> dict[str, Any]:
    """Return one server's rates and times at a load level, over all passes of that level."""
    firsts = [each for part in parts for each in part.first_tokens]
    later = [each for part in parts for each in part.later_tokens]
    (first, first_95), (token, token_95) = percentiles(firsts), percentiles(later)
    rates, ends = {}, interval([part.tokens_per_second for part in parts])
    for name in ("acceptance_rate", "draft_utilization", "block_efficiency"):
        values = [each for part in parts if (each := getattr(part, name)) is not None]
        rates[name] = fmean(values) if values else None
    return {
        "tokens_per_second": sum(p.tokens for p in parts) / sum(p.seconds for p in parts),
        "tokens_per_second_interval": None if ends is None else list(ends),
        "first_token_p50": first,
        "first_token_p95": first_95,
        "token_p50": token,
        "token_p95": token_95,
        **rates,
        "passes": [asdict(part) for part in parts],
    }


def verdict(levels: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the largest number of requests at once for which drafts pay.

    Return "" if no plain server was measured. A load level with at least `_FEWEST` requests has a
    clear result if the 95 % interval of its speedup is entirely above or entirely below 1.
    """
    compared = [each for each in levels if "speedup" in each]
    if not compared:
        return ""
    most = max(each["requests"] for each in compared)
    if most < _FEWEST:
        return (
            f"No verdict: a level needs at least {_FEWEST} requests per server, but the largest "
            f"has {most}; raise --each."
        )
    clear = [each for each in compared if each["requests"] >= _FEWEST and each["speedup_interval"]]
    pays = [each for each in clear if each["speedup_interval"][0] > 1]
    loses = [each for each in clear if each["speedup_interval"][1] < 1]
    if pays:
        sentence = f"With {_at_once(pays[-1])}, speculation pays: {_times(pays[-1])}."
        lost = [each for each in loses if each["at_once"] > pays[-1]["at_once"]]
        more = f" With {lost[0]['at_once']}, it does not: {_times(lost[0])}." if lost else ""
        return f"{sentence}{more}{_unclear(compared, [*pays, *loses])}"
    if loses:
        first = loses[0]
        sentence = f"With {_at_once(first)}, speculation does not pay: {_times(first)}."
        return f"{sentence}{_unclear(compared, loses)}"
    return f"No verdict.{_unclear(compared, [])}"


def _times(level: dict[str, Any]) -> str:
    low, high = level["speedup_interval"]
    return f"{level['speedup']:.2f}x the tokens per second ({low:.2f} to {high:.2f})"


def _at_once(level: dict[str, Any]) -> str:
    return f"{level['at_once']} request{'s' if level['at_once'] > 1 else ''} at once"


def _unclear(levels: Sequence[dict[str, Any]], decided: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that lists the load levels without a clear result, or ""."""
    counts = [str(each["at_once"]) for each in levels if each not in decided]
    if not counts:
        return ""
    return f" With {', '.join(counts)} requests at once, the result is unclear."


def _line(level: dict[str, Any]) -> str:
    rates = [
        f"{level[name]['tokens_per_second']:.1f} tokens/s {words}"
        for name, words in (("speculative", "with drafts"), ("plain", "without"))
        if name in level
    ]
    gain = f": {_times(level)}" if level.get("speedup_interval") else ""
    return f"{level['at_once']} at once: {', '.join(rates)}{gain}"


def load_text(result: dict[str, Any]) -> str:
    """Return a table with one row per load level and server, then the verdict."""
    rows = [
        {
            "at once": level["at_once"],
            "drafts": words,
            "tokens/s": level[name]["tokens_per_second"],
            "95 %": level[name]["tokens_per_second_interval"],
            "first p50 (ms)": _milliseconds(level[name]["first_token_p50"]),
            "first p95": _milliseconds(level[name]["first_token_p95"]),
            "token p50 (ms)": _milliseconds(level[name]["token_p50"]),
            "token p95": _milliseconds(level[name]["token_p95"]),
            **acceptance_columns(level[name]),
        }
        for level in result["levels"]
        for name, words in (("speculative", "yes"), ("plain", "no"))
        if name in level
    ]
    parts = [table(rows)] if rows else ["nothing was measured"]
    return "\n\n".join([*parts, *filter(None, [result["verdict"]])])


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


COMMAND = Command(
    load,
    load_text,
    _add_flags,
    example="http://127.0.0.1:8000 --plain http://127.0.0.1:8001",
)
