"""What the page asks of serving engines that a visitor names: who they are, their counters, a text.

What was read before comes with the next question, and a page that has gone is watched for by
nobody: kept here is only the last reading of each server, for all pages that watch it. In public
only the owner's addresses are asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from specviz.errors import InputError, short
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_permission import permitted, permitted_addresses
from specviz.serving.engine_probe import EngineProbe, model_at, probe, write_text
from specviz.serving.engine_replicas import (
    EngineReading,
    ask_each,
    check_replicas,
    differences,
    read_now,
)
from specviz.serving.shared_readings import SharedReadings
from specviz.ui.engine_readings import ROW_HEADS, Watched, WatchedServer, shown

EVERY_SECONDS = 2.0  # that a page reads the counters
AT_ONCE = 8  # engines that are asked, each by a thread of those that answer all questions
PATIENCE_SECONDS = 5.0  # that a question waits for its turn
TEXT_SECONDS = 60.0
TEXT_TOKENS = 64
LONGEST_PROMPT = 8_000  # characters
_turns = threading.BoundedSemaphore(AT_ONCE)
_readings = SharedReadings(EVERY_SECONDS)


def watching_offer() -> dict[str, Any]:
    """What the page's form needs: `allowed` is None where every address may be asked.

    InputError for an address of the owner's that is none.
    """
    return {
        "allowed": permitted_addresses(),
        "every_seconds": EVERY_SECONDS,
        "heads": ROW_HEADS,
        "tokens": TEXT_TOKENS,
        "longest": LONGEST_PROMPT,
    }


def attached_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"url", "key", "expected"} -> which engines answer, whether they speculate, and a reading.

    `url` is one address, or those of several replicas of one service with spaces or commas between;
    `expected`: they should speculate. What is wrong with one is told while others answer.
    """
    addresses, is_expected = _addresses(question), question.get("expected", False)
    if not isinstance(is_expected, bool):
        raise InputError(f"expected must be true or false, got {short(is_expected)}")

    def attached(address: EngineAddress) -> tuple[EngineReading, EngineProbe]:
        return read_now(address), probe(address, is_expected, TEXT_SECONDS)

    with _turn():
        found = ask_each(addresses, attached)
    servers: list[WatchedServer] = []
    answers: list[EngineReading | str] = []
    sentences: list[str] = []
    for address, each in zip(addresses, found, strict=True):
        if isinstance(each, str):
            servers.append(WatchedServer())
            answers.append(each)
            sentences.append(f"No answer: {each}")
            continue
        before, probed = each
        servers.append(WatchedServer(before.at, before.metrics.counters))
        answers.append(EngineReading(probed.at, probed.metrics))
        sentences.append(probed.sentence(address))
    unlike = differences([each[1] for each in found if not isinstance(each, str)])
    return {
        "sentences": [each for each in (*sentences, unlike) if each],
        **shown(addresses, answers, Watched(tuple(servers))),
    }


def reading_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"url", "key", "kept": that of the answer before} -> one more reading, with charts and facts
    of them all.
    """
    addresses, kept = _addresses(question), Watched.read(question["kept"])
    with _turn():
        answers = ask_each(addresses, lambda each: _readings.read(each, len(addresses)))
    return shown(addresses, answers, kept)


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


def _addresses(question: Mapping[str, Any]) -> list[EngineAddress]:
    """Where the question goes; InputError where it may not."""
    url = question["url"]
    parts = url.replace(",", " ").split() if isinstance(url, str) else []
    addresses = [permitted(each, question["key"]) for each in parts or [url]]
    check_replicas(addresses)
    return addresses
