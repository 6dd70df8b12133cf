"""`load`: 1, 2, 4, … requests at once to a serving engine, until drafts lose twice in a row."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import FILE_HELP
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.prompts import TASKS, held_out_prompts, own_text, read_prompts
from specviz.records import read_integers
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_load import LoadLevel, load_level, percentiles
from specviz.serving.engine_probe import model_at, read_engine, version_at

_AT_ONCE = "1,2,4,8,16"
_MOST_AT_ONCE = 256
_WARM = 16  # texts, one after the other, before anything is measured
_PASSES = 2  # of each server at a level: one after the other, and then in the other order


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("url", help="of the server that speculates; its key: SPECVIZ_ENGINE_KEY")
    parser.add_argument("--plain", metavar="URL", help="of the same without drafts, beside it")
    parser.add_argument(
        "--at-once", default=_AT_ONCE, help="requests at once, rising (default %(default)s)"
    )
    parser.add_argument(
        "--each", type=int, default=8, help="requests of each (default %(default)s)"
    )
    parser.add_argument("--max-new-tokens", type=int, default=64, help="(default %(default)s)")
    parser.add_argument("--task", help=f"held-out texts: {', '.join(TASKS)} (default code)")
    parser.add_argument("--prompts", metavar="FILE", help=f"your own texts: {FILE_HELP}")


def load(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure level by level; Ctrl+C ends it with what is measured."""
    levels = read_integers("at-once", options.at_once)
    if not levels or list(levels) != sorted(set(levels)) or not 1 <= levels[0]:
        raise InputError(f"at-once must be rising numbers from 1, got {options.at_once!r}")
    whole_between(levels[-1], "at-once", 1, _MOST_AT_ONCE)
    whole_between(options.each, "each", 1, 100)
    whole_between(options.max_new_tokens, "max-new-tokens", 2, 4096)
    key, prompts = Environment.read().engine_key, _prompts(options)
    urls = {"speculative": options.url} | ({"plain": options.plain} if options.plain else {})
    servers = {name: EngineAddress.of(url, key) for name, url in urls.items()}
    models = {name: model_at(address) for name, address in servers.items()}
    for name, address in servers.items():  # the first requests of a server are slower
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
            progress(_line(found[-1]))
            if len(found) > 1 and all(map(_loses, found[-2:])):  # one may be noise
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
    """Whether drafts cost more than they bring; False where there is nothing beside them."""
    plain = level.get("plain", {"tokens_per_second": 0.0})
    return bool(level["speculative"]["tokens_per_second"] < plain["tokens_per_second"])


def _prompts(options: Namespace) -> list[str]:
    if options.prompts is not None and options.task is not None:
        raise InputError("task and prompts must not be given together")
    given = read_prompts(options.prompts) if options.prompts else None
    return [own_text(each) for each in given or held_out_prompts(options.task or "code", False)]


def _of(parts: Sequence[LoadLevel]) -> dict[str, Any]:
    """Both passes of a level as one."""
    firsts = [each for part in parts for each in part.first_tokens]
    later = [each for part in parts for each in part.later_tokens]
    (first, first_95), (token, token_95) = percentiles(firsts), percentiles(later)
    shares = [part.acceptance for part in parts if part.acceptance is not None]
    return {
        "tokens_per_second": sum(p.tokens for p in parts) / sum(p.seconds for p in parts),
        "first_token_p50": first,
        "first_token_p95": first_95,
        "token_p50": token,
        "token_p95": token_95,
        "acceptance": sum(shares) / len(shares) if shares else None,
        "passes": [asdict(part) for part in parts],
    }


def verdict(levels: Sequence[dict[str, Any]]) -> str:
    """Up to how many requests at once it pays, in one sentence; "" without both servers."""
    gains = {
        each["at_once"]: each["speculative"]["tokens_per_second"]
        / each["plain"]["tokens_per_second"]
        for each in levels
        if "plain" in each
    }
    if not gains:
        return ""
    pays = [at_once for at_once, gain in gains.items() if gain >= 1]
    if not pays:
        first, gain = next(iter(gains.items()))
        return f"Speculation does not pay: {gain:.2f}x with {first} at once."
    most = max(pays)
    told = f"Speculation pays up to {most} at once: {gains[most]:.2f}x the tokens a second"
    after = [at_once for at_once in gains if at_once > most]
    return f"{told}, and {gains[after[0]]:.2f}x with {after[0]}." if after else f"{told}."


def _line(level: dict[str, Any]) -> str:
    rates = [
        f"{level[name]['tokens_per_second']:.1f} tokens/s {words}"
        for name, words in (("speculative", "with drafts"), ("plain", "without"))
        if name in level
    ]
    return f"{level['at_once']} at once: {', '.join(rates)}"


def load_text(result: dict[str, Any]) -> str:
    """A row for each level and server, and up to where it pays."""
    rows = [
        {
            "at once": level["at_once"],
            "drafts": words,
            "tokens/s": level[name]["tokens_per_second"],
            "first p50 (ms)": _milliseconds(level[name]["first_token_p50"]),
            "first p95": _milliseconds(level[name]["first_token_p95"]),
            "token p50 (ms)": _milliseconds(level[name]["token_p50"]),
            "token p95": _milliseconds(level[name]["token_p95"]),
            "acceptance": level[name]["acceptance"],
        }
        for level in result["levels"]
        for name, words in (("speculative", "yes"), ("plain", "no"))
        if name in level
    ]
    parts = [table(rows)] if rows else ["nothing was measured"]
    return "\n\n".join([*parts, *filter(None, [result["verdict"]])])


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


COMMAND = Command(load, load_text, _add_flags)
