"""The exercises with llama.cpp use real servers and stop them afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.ui.course import engine_orders
from specviz.ui.course.course import course_offer
from specviz.ui.course.engine_orders import MODELS, quantised_order, servers_order
from specviz.ui.course.lesson_recordings import recorded
from specviz.ui.lab.lab_order import LabOrder

Started = list[Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Shorten the exercises; return a list that receives every server that they start."""
    found: Started = []
    begin = engine_orders.serving

    @contextmanager
    def serving(*arguments: Any, **more: Any) -> Iterator[Any]:
        with begin(*arguments, **more) as engine:
            found.append(engine)
            yield engine

    monkeypatch.setattr(engine_orders, "serving", serving)
    less = {"PASSES": 2, "TEXTS": 1, "TOKENS": 16, "AT_ONCE": (1, 2), "COMPARED": 1, "SHORT": 12}
    for name, value in less.items():
        monkeypatch.setattr(engine_orders, name, value)
    return found


def result(order: LabOrder) -> dict[str, Any]:
    *progress, found, end = list(order.messages(threading.Event()))
    json.dumps(found, allow_nan=False)
    assert end == {"kind": "end", "reason": "done"}
    assert [each["done"] for each in progress] == list(range(1, progress[0]["points"] + 1))
    return found


def are_gone(started: Started) -> bool:
    return all(each.process.poll() is not None for each in started)


def test_smaller_files_agree_less_and_change_no_text_when_they_draft(
    started: Started,
) -> None:
    found = result(quantised_order({"model": "bundled"}))
    assert len(started) == 4 and are_gone(started)
    sizes = list(found["bytes"].values())
    assert sizes == sorted(sizes, reverse=True)
    assert found["agreed"]["F16"] == found["tokens"]["F16"] >= found["agreed"]["Q4_0"]
    assert found["is_same"] and found["drafts"]["drafted"] >= found["drafts"]["accepted"] > 0
    assert all(len(each) == 2 and min(each) > 0 for each in found["seconds"].values())
    assert min(found["looks"]) > 0


def test_a_real_engine_is_shown_to_speculate_is_counted_and_put_under_load(
    started: Started,
) -> None:
    found = result(servers_order({}))
    assert len(started) == 3 and are_gone(started)
    plain, draft, foreign = found["servers"]
    assert {each["health"] for each in found["servers"]} == {"ok"}
    states = [each["state"] for each in found["servers"]]
    assert states == ["off", "active", "asked for but not active"]
    assert draft["drafted"] > 0 == plain["drafted"] == foreign["drafted"]
    assert "another vocabulary" in foreign["refusal"] and not draft["refusal"]
    compared = found["compared"]
    assert compared["same"] == compared["prompts"] and compared["ours"] == compared["theirs"]
    assert [each["at_once"] for each in found["levels"]] == [1, 2]
    assert all(len(each["plain"]) == len(each["draft"]) == 2 for each in found["levels"])


def test_a_stopped_exercise_closes_its_servers_and_sends_no_result(started: Started) -> None:
    stop = threading.Event()
    sent = []
    for message in servers_order({}).messages(stop):
        sent.append(message["kind"])
        if started and message["kind"] == "progress":
            assert not are_gone(started)
            stop.set()
    assert sent[-1] == "end" and "servers" not in sent and len(started) == 1
    assert are_gone(started)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("public", "must be started on a machine of your own: this one is public"),
        ("missing", 'must be installed to be started: pip install "specviz\\[llama-cpp\\]"'),
    ],
)
def test_if_engines_may_not_be_started_none_is_and_the_page_says_why(
    why: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "public":
        monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    else:
        monkeypatch.setattr(engine_orders, "is_installed", lambda: False)
    assert course_offer()["no_engine"] == why
    for take, question in ((servers_order, {}), (quantised_order, {"model": "bundled"})):
        with pytest.raises(InputError, match=f"engine llama.cpp {words}"):
            take(question)


def test_only_our_own_models_are_quantised() -> None:
    with pytest.raises(InputError, match="model must be one of bundled, smollm2, got 'gpt2'"):
        quantised_order({"model": "gpt2"})


def test_a_recorded_exercise_shows_what_the_lessons_say() -> None:
    sent = {name: each["messages"][0] for name, each in recorded().items()}
    for name in MODELS:
        found = sent[f"quantised-{name}"]
        assert found["is_same"] and found["agreed"]["F16"] == found["tokens"]["F16"]
        drafts = found["drafts"]
        assert drafts["accepted"] / drafts["drafted"] < found["agreed"]["Q4_0"] / 96
    servers = sent["servers"]
    assert servers["compared"]["same"] == servers["compared"]["prompts"]
    assert servers["servers"][-1]["health"] == "ok" and servers["servers"][-1]["drafted"] == 0
