"""The page shows the numbers of a real llama.cpp, and invalid requests reach no server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import pytest

from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters
from specviz.serving.engine_permission import permitted
from specviz.serving.llama_cpp.llama_cpp_process import RunningEngine
from specviz.serving.shared_readings import SharedReadings
from specviz.ui import engine_watching
from specviz.ui.engine_readings import MOST_READINGS, NOTHING, WatchedPoint, WatchedServer
from specviz.ui.engine_watching import watching_offer
from specviz.ui.handlers import Handlers
from tests.serving.odd_server import says, server

KEY = "open-sesame"


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with engine_with(pair_named("bundled"), EngineMethod.DRAFT_MODEL, 3, "Q8_0") as running:
        yield running


def attach(url: str, **question: Any) -> dict[str, Any]:
    """Return the server's answer to "attach" as the browser receives it."""
    reply = Handlers().serving.attach({"url": url, "key": "", "expected": False} | question)
    found = json.loads(json.dumps(reply))
    assert isinstance(found, dict)
    return found


def test_a_server_can_be_attached_and_its_metrics_read(engine: RunningEngine) -> None:
    serving = Handlers().serving
    asked = {"url": f"{engine.url}/v1", "key": KEY}
    reply = attach(**asked)
    assert reply["error"] is None and len(reply["rows"]) == 1
    assert re.match(rf"llama.cpp .*{engine.url}: speculation is active", reply["sentences"][0])
    [server], [point] = reply["kept"]["servers"], reply["kept"]["points"]
    drafted, accepted = (server["total"][name] for name in ("drafted", "accepted"))
    facts = dict(reply["facts"])
    assert facts["drafted tokens"] == f"{drafted:,.0f}" and drafted > 0
    assert facts["draft utilization"] == f"{accepted / drafted:.0%}"
    assert facts["prompt tokens read"] == f"{server['total']['prompt_tokens']:.0f}" != "0"
    assert len(reply["figures"]["positions"]["data"][0]["y"]) == 3
    text = serving.written(asked | {"prompt": "def add(a, b):\n"})
    assert text["error"] is None and text["text"] and 0 < text["accepted"] <= text["drafted"]
    again = serving.reading(asked | {"kept": reply["kept"]})
    [after] = again["kept"]["servers"]
    assert after["total"]["drafted"] == drafted + text["drafted"]
    assert dict(again["facts"])["tokens written"] == f"{after['total']['tokens']:,.0f}"
    assert len(again["figures"]["rate"]["data"][0]["x"]) == 2 and again["restarts"] == 0
    many = {"servers": [server], "points": [point] * MOST_READINGS}
    assert len(serving.reading(asked | {"kept": many})["kept"]["points"]) == MOST_READINGS
    assert KEY not in str([reply, again, text, watching_offer()])


def test_counting_continues_after_an_engine_was_restarted(engine: RunningEngine) -> None:
    kept = attach(engine.url)["kept"]
    before = asdict(EngineCounters(*[1e6] * 9)) | {"per_position": [9e5, 5e5, 1e5]}
    kept["servers"][0] |= {"last": before, "at": kept["servers"][0]["at"] - 2}
    again = Handlers().serving.reading({"url": engine.url, "key": "", "kept": kept})
    assert again["restarts"] == 1
    assert again["kept"]["servers"][0]["last"]["tokens"] < 1e6


def test_a_chart_that_an_engine_has_no_numbers_for_is_absent_with_a_reason() -> None:
    with engine_with(pair_named("bundled"), EngineMethod.NONE, 3, "Q8_0") as plain:
        reply, expected = attach(plain.url), attach(plain.url, expected=True)
    facts = dict(reply["facts"])
    assert "speculation is off" in reply["sentences"][0]
    assert "asked for but not active: llama.cpp keeps serving without" in expected["sentences"][0]
    assert facts["draft utilization"] == NOTHING
    assert facts["first token"] == facts["cache in use"] == "not reported"
    assert facts["requests waiting"] == "0" and float(facts["tokens per second now"]) > 0
    assert set(reply["figures"]) == {"rate", "requests"}
    assert reply["absent"] == [
        "No chart of first token and cache in use: llama.cpp does not count that.",
        "No chart of draft utilization, accepted by guess and tokens per forward: nothing was "
        "drafted since you attached.",
    ]


def test_replicas_are_shown_in_sum_and_one_by_one_and_a_missing_one_is_named(
    engine: RunningEngine,
) -> None:
    serving, gone = Handlers().serving, "http://127.0.0.1:9"
    with engine_with(pair_named("bundled"), EngineMethod.DRAFT_MODEL, 5, "Q8_0") as second:
        urls = f"{engine.url}, {second.url}\n{gone}"
        reply = attach(urls)
        assert [each["problem"] == "" for each in reply["rows"]] == [True, True, False]
        assert "nothing listens there" in reply["rows"][2]["problem"]
        assert reply["sentences"][3] == ("These servers are not alike: draft lengths 3 and 5")
        totals = [each["total"]["drafted"] for each in reply["kept"]["servers"]]
        assert all(totals[:2]) and totals[2] == 0
        assert dict(reply["facts"])["drafted tokens"] == f"{sum(totals):,.0f}"
        rates = [float(each["cells"][4]) for each in reply["rows"][:2]]
        assert float(dict(reply["facts"])["tokens per second now"]) == pytest.approx(
            sum(rates), abs=0.11
        )
    again = serving.reading({"url": urls, "key": "", "kept": reply["kept"]})
    assert again["error"] is None and [each["problem"] == "" for each in again["rows"]] == [
        *(True, False, False)
    ]
    assert dict(again["facts"])["drafted tokens"] == f"{sum(totals):,.0f}"
    alone = serving.reading({"url": f"{gone} {second.url}", "key": "", "kept": reply["kept"]})
    assert alone["error"].startswith(
        "none of the 2 servers answers; the error of the first one: server at"
    )


COUNTERS = asdict(EngineCounters()) | {"per_position": [1]}
SERVER = asdict(WatchedServer(1.0)) | {"last": COUNTERS, "total": COUNTERS}
POINT = asdict(WatchedPoint(1.0, 2.0, *[None] * 6))


def kept(*, points: Any = (), **server: Any) -> dict[str, Any]:
    """Return a request with earlier measurements; the arguments replace some of their values."""
    held = {"servers": [SERVER | server], "points": list(points)}
    return {"url": "http://host", "key": "", "kept": held}


@pytest.mark.parametrize(
    "asked, question, said",
    [
        ("attach", {"url": "", "key": ""}, "url must be the address of a server, such as"),
        ("attach", {"url": 3, "key": ""}, "url must be the address of a server, such as"),
        ("attach", {"url": "file:///etc/passwd", "key": ""}, "url must be the address of a server"),
        ("attach", {"url": "http://host", "key": "a\r\nb"}, "key must be printable ASCII"),
        ("attach", {"url": "http://host", "key": 3}, "key must be printable ASCII"),
        (
            "attach",
            {"url": f"http://u:{KEY}@host", "key": ""},
            "url must contain no user and no key",
        ),
        ("attach", {"url": "http://127.0.0.1:9", "key": ""}, "nothing listens there"),
        ("attach", {"key": ""}, "'url' must be given in the request"),
        ("written", {"url": "http://host", "key": "", "prompt": " "}, "prompt must be a text of"),
        ("written", {"url": "http://host", "key": "", "prompt": "x" * 8001}, "at most 8,000 char"),
        ("attach", {"url": "http://host", "key": "", "expected": 1}, "'expected' must be true or"),
        ("attach", {"url": "http://a http://a/v1", "key": ""}, "url must name each server once"),
        ("attach", {"url": "http://a " * 9, "key": ""}, "url must be at most 8 addresses, got 9"),
        ("attach", {"url": "http://host,ftp://a", "key": ""}, "url must be the address of a"),
        ("reading", kept() | {"kept": 3}, "'kept' must be the value in the previous answer, got 3"),
        ("reading", kept(points=[POINT] * 301), "points must be a list of at most 300"),
        ("reading", kept(points=[{}]), "'kept' must be the value in the previous answer"),
        (
            "reading",
            kept(points=[POINT | {"cache": "x"}]),
            "each number in 'kept' must be from 0 to 1e+15, got 'x'",
        ),
        (
            "reading",
            kept(at=float("nan")),
            "each number in 'kept' must be from 0 to 1e+15, got nan",
        ),
        (
            "reading",
            kept(last=COUNTERS | {"tokens": -1}),
            "each number in 'kept' must be from 0 to 1e+15, got -1",
        ),
        (
            "reading",
            kept(total=COUNTERS | {"per_position": [True]}),
            "each number in 'kept' must be from 0 to 1e+15, got True",
        ),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(
    asked: str, question: dict[str, Any], said: str
) -> None:
    error = getattr(Handlers().serving, asked)(question)["error"]
    assert said in error and "\n" not in error and KEY not in error


def test_on_a_public_server_only_the_owner_s_addresses_are_asked(
    monkeypatch: pytest.MonkeyPatch, engine: RunningEngine
) -> None:
    serving = Handlers().serving
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    question = kept() | {"url": engine.url, "expected": False}
    assert "must be empty: its owner allows no server" in serving.reading(question)["error"]
    assert watching_offer()["allowed"] == []
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", f"http://elsewhere:1, {engine.url}/v1")
    assert serving.reading(question)["error"] is None
    other = engine.url.replace("127.0.0.1", "localhost")
    for url in (
        other,
        "http://169.254.169.254",
        f"{engine.url}/other",
        "http://[::1]:80",
    ):
        for asked in ("attach", "reading", "written"):
            error = getattr(serving, asked)(question | {"url": url, "prompt": "x"})["error"]
            assert error.startswith("url on this public page must be one of http://elsewhere:1,")
    error = serving.reading(question | {"url": f"{engine.url} {other}"})["error"]
    assert error.startswith("url on this public page must be one of")


def test_requests_to_too_many_servers_at_once_wait_and_then_fail_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_watching, "PATIENCE_SECONDS", 0.05)
    serving, taken = Handlers().serving, [engine_watching._turn() for _ in range(8)]
    question = kept() | {"url": "http://127.0.0.1:9"}
    for each in taken:
        each.__enter__()
    assert "other servers are being asked" in serving.reading(question)["error"]
    for each in taken:
        each.__exit__(None, None, None)
    assert "nothing listens there" in serving.reading(question)["error"]


def test_forty_pages_watching_one_server_cause_one_request_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_watching, "_readings", SharedReadings(60))
    metrics = says(200, "text/plain", b"vllm:generation_tokens_total 1\n")
    with server(metrics) as (served, url), ThreadPoolExecutor(40) as pool:
        replies = list(pool.map(Handlers().serving.reading, [kept() | {"url": url}] * 40))
    assert {each["error"] for each in replies} == {None} and len(served.keys) == 1


def test_the_owner_s_key_is_sent_only_to_the_owner_s_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_wrong_address_in_the_owner_s_settings_is_reported_when_the_page_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", "10.0.0.5:8000")
    with pytest.raises(InputError, match="^each address in SPECVIZ_ENGINES_ALLOWED must"):
        watching_offer()
