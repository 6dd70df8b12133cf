"""The recorder of the runs that the page teaches with; `make traces` calls it.

Every method that runs on the chat model decodes the same prompt, so that the methods can be
compared. Some methods also decode a prompt of a task that suits them. The page opens with the run
of the chat model's default method, which has the page's default settings. Methods that need a draft
model use the bundled pair, whose draft was trained for its target. Users can fork the runs of the
bundled pair without the chat model. For a lesson, one of these runs uses block verification.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS, method_named
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.golden import SUFFIX
from specviz.models.pair_catalog import BUNDLED, CHAT, GET_CHAT_MODEL, Pair, pair_named
from specviz.models.pair_check import needs_missing
from specviz.prompts import held_out_prompt, tasks
from specviz.records import SETTINGS
from specviz.trace_file import dumps

TOKENS = 72
TEMPERATURE = 0.7  # high enough for accepted, recovered and bonus tokens to occur
SEED = 7
PROMPT = 3

COMMON_TASK = "chat"  # the task on which every method of the chat model is recorded
# The second task on which a method is recorded, unless OWN_TASKS names one that suits it better.
OWN_TASK = "code"
OWN_TASKS = {"prompt-lookup": "summarise", "suffix": "summarise", "hybrid": "summarise"}
COMMON_ONLY = (
    "dynamic-tree",
    "early-exit",
    "layer-skip",
    "lookahead",
    "medusa",
)  # methods with only one recording, because a second one would show nothing new
BUNDLED_TASKS = {
    "draft-model": "code",
    "draft-tree": "story",
    "cross-vocabulary": "code",
    "pre-speculation": "story",
}


def golden_requests(pair: Pair) -> Iterator[RaceRequest]:
    """Yield the request of every golden run on a pair; the methods are in the order of DRAFTERS."""
    if pair.name == CHAT:
        able = (each for each in DRAFTERS.values() if not needs_missing(pair, each.needs))
        for method in able:
            yield _request(pair, method, COMMON_TASK, 1, TEMPERATURE)
            if method.name == pair.method:
                yield opening_request(pair)
            elif method.name not in (*BUNDLED_TASKS, *COMMON_ONLY):
                yield _request(pair, method, OWN_TASKS.get(method.name, OWN_TASK), 1, 0.0)
    else:
        for name, task in BUNDLED_TASKS.items():
            yield _request(pair, method_named(name), task, PROMPT, TEMPERATURE)
        yield block_request(pair)


def opening_request(pair: Pair) -> RaceRequest:
    """Return the request of the opening run: the pair's default method with default settings."""
    task = tasks(pair.instruct)[0]
    config = method_named(pair.method).usual(SETTINGS["draft_length"].default)
    return RaceRequest(pair, held_out_prompt(task, 1, pair.instruct), config, task)


def block_request(pair: Pair) -> RaceRequest:
    """Return the request of the run that block verification judges.

    In one of its rounds, one drafted token has a low p/q. Token-by-token verification would have
    rejected it, but block verification accepts it, because other tokens of the draft compensate
    for it.
    """
    config = method_named("draft-model").usual(
        5, temperature=1.0, rule="block", seed=SEED, max_new_tokens=TOKENS
    )
    return RaceRequest(pair, held_out_prompt("story", 2, pair.instruct), config, "story")


def _request(pair: Pair, method: Method, task: str, number: int, temperature: float) -> RaceRequest:
    config = method.usual(4, temperature=temperature, seed=SEED, max_new_tokens=TOKENS)
    return RaceRequest(pair, held_out_prompt(task, number, pair.instruct), config, task)


def file_name(request: RaceRequest) -> str:
    """Return the name of a recording's file, by which `golden` finds it."""
    pair = "" if request.pair.name == BUNDLED else f".{request.pair.name}"
    rule = request.config.rule
    task = request.task if rule == SETTINGS["rule"].default else rule
    task = "opening" if request == opening_request(request.pair) else task
    return f"{request.config.method}.{task}{pair}{SUFFIX}"


def record(folder: Path, pair: Pair, methods: Collection[str] = ()) -> None:
    """Record the pair's golden runs, of the named methods or of all, into `folder`.

    The developer tool zopfli compresses the files, because they are written once and read often.
    """
    from zopfli.gzip import compress

    folder.mkdir(parents=True, exist_ok=True)
    for request in golden_requests(pair):
        if methods and request.config.method not in methods:
            continue
        race = start_race(request)
        for _ in race:
            pass
        path = folder / file_name(request)
        path.write_bytes(compress(in_microseconds(dumps(race.trace()))))
        print(f"{path.name}: {path.stat().st_size} bytes", file=sys.stderr)


def in_microseconds(trace: bytes) -> bytes:
    """Return a trace's JSON with all times rounded to microseconds, to make it shorter.

    >>> in_microseconds(b'{"host_seconds":0.0012345,"start":[1.5000004],"p":[0.1234567]}')
    b'{"host_seconds":0.001234,"start":[1.5],"p":[0.1234567]}'
    """
    return json.dumps(_rounded(json.loads(trace), False), separators=(",", ":")).encode()


def _rounded(value: Any, is_time: bool) -> Any:
    if isinstance(value, dict):
        ends = ("seconds", "start", "end")
        return {key: _rounded(each, is_time or key.endswith(ends)) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each, is_time) for each in value]
    return round(value, 6) if is_time and isinstance(value, float) else value


def main(folder: str, pair_name: str = "", *methods: str) -> None:
    """Record the golden runs of the pair that the user names, or of both pairs.

    The user may also name the methods to record; otherwise all methods are recorded.
    """
    unknown = set(methods) - set(DRAFTERS)
    if unknown:
        raise InputError(f"methods must be among {', '.join(DRAFTERS)}, got {min(unknown)!r}")
    for pair in map(pair_named, [pair_name] if pair_name else [BUNDLED, CHAT]):
        if pair.is_here:
            record(Path(folder), pair, methods)
        else:
            print(f"{pair.name}: not on this machine; {GET_CHAT_MODEL}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
