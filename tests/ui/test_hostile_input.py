"""Hundreds of hostile requests get one line each, log nothing and leave no memory in use."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from inspect import iscoroutine
from typing import Any

import pytest

from specviz.ui.answers import UNEXPECTED
from specviz.ui.handlers import Handlers
from tests.hostile_inputs import hostile_questions
from tests.ui.heard import awaited
from tests.ui.random_race import RandomRace

MOST_GROWN = 150_000_000  # bytes by which the process may grow; it reads files of 30 MB


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield


def answer(handlers: Handlers, name: str, question: Any) -> dict[str, Any]:
    owners: tuple[Any, ...] = (
        *(handlers, handlers.lab, handlers.course, handlers.rooms, handlers.serving),
    )
    (owner,) = (each for each in owners if hasattr(each, name))
    found = getattr(owner, name)(question)
    told: dict[str, Any] = awaited(found) if iscoroutine(found) else found
    return told


@pytest.mark.usefixtures("public")
def test_hostile_requests_are_answered_with_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    questions = hostile_questions()
    assert len(questions) > 300
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    handlers = Handlers(start=RandomRace)  # type: ignore[arg-type]
    wrong = []
    with caplog.at_level(logging.WARNING):
        for name, question in questions:
            error = answer(handlers, name, question)["error"]
            if error is None:
                continue
            if "\n" in error or len(error) > 400 or error == UNEXPECTED or "Traceback" in error:
                wrong.append((name, repr(question)[:200], error[:200]))
    assert wrong == []
    assert [record.getMessage() for record in caplog.records] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MOST_GROWN


@pytest.mark.usefixtures("public")
def test_on_a_public_server_no_source_named_by_a_visitor_is_examined() -> None:
    handlers = Handlers()
    refused = [
        answer(handlers, name, question)["error"]
        for name, question in hostile_questions()
        if name == "check" and isinstance(question, dict) and "form" in question
    ]
    assert all(refused)
    assert not any("does not exist" in error or "got the file" in error for error in refused)
