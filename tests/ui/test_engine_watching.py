"""What the page learns of a real llama.cpp, and what is asked of no server at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_permission import permitted
from specviz.serving.engine_process import RunningEngine
from specviz.ui import engine_watching
from specviz.ui.engine_watching import MOST_READINGS, NOTHING, watching_offer
from specviz.ui.handlers import Handlers

KEY = "open-sesame"


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with engine_with(pair_named("bundled"), EngineMethod.DRAFT_MODEL, 3, "Q8_0") as running:
        yield running


def test_a_server_is_attached_read_and_asked(engine: RunningEngine) -> None:
    serving = Handlers().serving
    asked = {"url": f"{engine.url}/v1", "key": KEY}
    reply = serving.attach(asked)
    assert reply["error"] is None and reply["speculation"] == "active"
    assert reply["sentence"].startswith("llama.cpp ") and engine.url in reply["sentence"]
    drafted, accepted = (reply["reading"][name] for name in ("drafted", "accepted"))
    facts = dict(reply["facts"])
    assert facts["drafted tokens"] == f"{drafted:,.0f}" and drafted > 0
    assert facts["accepted of drafted"] == f"{100 * accepted / drafted:.0f} %"
    assert len(reply["figures"]["positions"]["data"][0]["y"]) == 3
    kept = [*reply["kept"], reply["reading"]]
    text = serving.written(asked | {"prompt": "def add(a, b):\n"})
    assert text["error"] is None and text["text"] and 0 < text["accepted"] <= text["drafted"]
    again = serving.reading(asked | {"kept": kept})
    assert again["reading"]["drafted"] == drafted + text["drafted"]
    assert dict(again["facts"])["tokens written"] == f"{again['reading']['tokens']:,.0f}"
    assert len(again["figures"]["rate"]["data"][0]["x"]) == 2 and again["restarts"] == 0
    many = [kept[0]] * MOST_READINGS
    assert len(serving.reading(asked | {"kept": many})["figures"]["rate"]["data"][0]["x"]) < 300
    assert KEY not in str([reply, again, text, watching_offer()])


def test_an_engine_that_was_started_again_is_counted_on(engine: RunningEngine) -> None:
    serving = Handlers().serving
    asked = {"url": engine.url, "key": ""}
    reply = serving.reading(asked | {"kept": []})
    before = {name: 1e6 for name in reply["reading"]} | {"per_position": [9e5, 5e5, 1e5]}
    before["at"] = reply["reading"]["at"] - 2
    again = serving.reading(asked | {"kept": [before]})
    assert again["restarts"] == 1 and again["reading"]["tokens"] < 1e6


def test_what_an_engine_does_not_say_is_unknown_and_what_it_never_drafted_is_nothing() -> None:
    with engine_with(pair_named("bundled"), EngineMethod.NONE, 3, "Q8_0") as plain:
        reply = Handlers().serving.attach({"url": plain.url, "key": ""})
    facts = dict(reply["facts"])
    assert reply["speculation"] == "off" and facts["accepted of drafted"] == NOTHING
    assert facts["first token"] == facts["cache in use"] == "not told"
    assert facts["requests waiting"] == "0" and float(facts["tokens a second now"]) > 0


READING = {
    **dict.fromkeys(("at", "drafts", "drafted", "accepted", "tokens", "decoding_seconds"), 1),
    **dict.fromkeys(("first_token_seconds", "first_tokens"), 1.0),
    "per_position": [1],
}


@pytest.mark.parametrize(
    "asked, question, said",
    [
        ("attach", {"url": "", "key": ""}, "url must be the address of a server, such as"),
        ("attach", {"url": 3, "key": ""}, "url must be the address of a server, such as"),
        ("attach", {"url": "file:///etc/passwd", "key": ""}, "url must be the address of a server"),
        ("attach", {"url": "http://host", "key": "a\r\nb"}, "key must be printable ASCII"),
        ("attach", {"url": "http://host", "key": 3}, "key must be printable ASCII"),
        ("attach", {"url": f"http://u:{KEY}@host", "key": ""}, "url must hold no key"),
        ("attach", {"url": "http://127.0.0.1:9", "key": ""}, "nothing listens there"),
        ("attach", {"key": ""}, "url is missing"),
        ("written", {"url": "http://host", "key": "", "prompt": " "}, "prompt must be a text of"),
        ("written", {"url": "http://host", "key": "", "prompt": "x" * 8001}, "at most 8,000 char"),
        ("reading", {"url": "http://host", "key": "", "kept": 3}, "kept must be at most 300"),
        ("reading", {"url": "http://host", "key": "", "kept": [READING] * 301}, "at most 300"),
        ("reading", {"url": "http://host", "key": "", "kept": [{}]}, "kept must be readings"),
        (
            "reading",
            {"url": "http://host", "key": "", "kept": [READING | {"tokens": float("nan")}]},
            "kept must hold counts, got nan",
        ),
        (
            "reading",
            {"url": "http://host", "key": "", "kept": [READING | {"per_position": [True]}]},
            "kept must hold counts, got True",
        ),
    ],
)
def test_a_wrong_question_is_one_line(asked: str, question: dict[str, Any], said: str) -> None:
    error = getattr(Handlers().serving, asked)(question)["error"]
    assert said in error and "\n" not in error and KEY not in error


def test_in_public_only_the_owners_addresses_are_asked(
    monkeypatch: pytest.MonkeyPatch, engine: RunningEngine
) -> None:
    serving = Handlers().serving
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    question = {"url": engine.url, "key": "", "kept": []}
    assert "none, for its owner names none" in serving.reading(question)["error"]
    assert watching_offer()["allowed"] == []
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", f"http://elsewhere:1, {engine.url}/v1")
    assert serving.reading(question)["error"] is None
    other = engine.url.replace("127.0.0.1", "localhost")
    for url in (other, "http://169.254.169.254", f"{engine.url}/other", "http://[::1]:80"):
        for asked in ("attach", "reading", "written"):
            error = getattr(serving, asked)(question | {"url": url, "prompt": "x"})["error"]
            assert error.startswith("url must be, on this public page, one of http://elsewhere:1,")


def test_more_servers_than_may_be_asked_at_once_wait_their_turn_or_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_watching, "PATIENCE_SECONDS", 0.05)
    serving, taken = Handlers().serving, [engine_watching._turn() for _ in range(8)]
    question = {"url": "http://127.0.0.1:9", "key": "", "kept": []}
    for each in taken:
        each.__enter__()
    assert "other servers are being asked" in serving.reading(question)["error"]
    for each in taken:
        each.__exit__(None, None, None)
    assert "nothing listens there" in serving.reading(question)["error"]


def test_the_owners_key_goes_to_the_owners_servers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_ENGINE_KEY", KEY)
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", "http://owned:8000/v1")
    for url, typed, sent in (
        ("http://owned:8000", "", KEY),
        ("http://owned:8000", "another", "another"),
        ("http://elsewhere", "", ""),
        ("http://elsewhere", "another", "another"),
    ):
        address = permitted(url, typed)
        assert isinstance(address, EngineAddress) and address.key == sent
        assert not sent or sent not in repr(address)


def test_a_wrong_address_of_the_owners_is_told_as_the_page_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", "10.0.0.5:8000")
    with pytest.raises(InputError, match="^SPECVIZ_ENGINES_ALLOWED, each of its addresses, must"):
        watching_offer()
