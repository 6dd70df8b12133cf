"""Answers about serving engines that a visitor names.

The answers say whether an engine speculates, what its counters are, and how it writes a test text.

The page sends its earlier readings with each question. The server keeps only the last reading of
each engine, for all pages that watch it, so nothing runs for a page that has left. A public server
contacts only the addresses that its owner allows.
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

EVERY_SECONDS = 2.0  # time between two readings that a page requests
# The largest number of questions that may contact engines at the same time; each occupies one
# thread.
AT_ONCE = 8
PATIENCE_SECONDS = 5.0  # longest time that a question waits until it may contact engines
TEXT_SECONDS = 60.0
TEXT_TOKENS = 64
LONGEST_PROMPT = 8_000  # largest number of characters in the prompt of a test text
_turns = threading.BoundedSemaphore(AT_ONCE)
_readings = SharedReadings(EVERY_SECONDS)


def watching_offer() -> dict[str, Any]:
    """Return what the page's form needs.

    `allowed` is None if every address may be contacted. Raises InputError for an invalid address in
    the owner's list.
    """
    return {
        "allowed": permitted_addresses(),
        "every_seconds": EVERY_SECONDS,
        "heads": ROW_HEADS,
        "tokens": TEXT_TOKENS,
        "longest": LONGEST_PROMPT,
    }


def attached_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return which engines answer, whether they speculate, and a first reading.

    The question is {"url", "key", "expected"}. "url" holds one address, or several replicas of one
    service, separated by spaces or commas. "expected" is true if the user expects the engines to
    speculate. A fault of one server does not hide the answers of the others.
    """
    addresses, is_expected = _addresses(question), question.get("expected", False)
    if not isinstance(is_expected, bool):
        raise InputError(f"'expected' must be true or false, got {short(is_expected)}")

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
    """Return a new reading of the watched engines, with its charts and facts.

    The question is {"url", "key", "kept"}. "kept" is the state in the previous answer.
    """
    addresses, kept = _addresses(question), Watched.read(question["kept"])
    with _turn():
        answers = ask_each(addresses, lambda each: _readings.read(each, len(addresses)))
    return shown(addresses, answers, kept)


def written_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a greedy text of `TEXT_TOKENS` tokens that an engine wrote, with its times.

    The question is {"url", "key", "prompt"}.
    """
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
    """Return the addresses in the question. Raises InputError if one must not be contacted."""
    url = question["url"]
    parts = url.replace(",", " ").split() if isinstance(url, str) else []
    addresses = [permitted(each, question["key"]) for each in parts or [url]]
    check_replicas(addresses)
    return addresses
