"""What is sent is bounded, what is answered has its headers: on every route of the app."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from limits import RateLimitItemPerYear
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from specviz.environment import Environment
from specviz.ui import guard
from specviz.ui.guard import CLOSED, HEADERS, Guard
from specviz.ui.handlers import Handlers
from specviz.ui.page import launch_options
from specviz.ui.spending import Spending
from tests.ui.heard import awaited


async def size(request: Request) -> JSONResponse:
    return JSONResponse(len(await request.body()))


async def tolerant(request: Request) -> JSONResponse:
    """An app that makes an error of its own of whatever happens to a body."""
    try:
        return JSONResponse(len(await request.body()))
    except Exception:
        return JSONResponse("cannot be parsed", 400)


async def failing(request: Request) -> JSONResponse:
    raise KeyError("no such component\nat all")


def test_what_fails_is_one_line_for_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    app = Starlette(routes=[Route("/x", failing)], middleware=[Middleware(Guard)])
    answer = TestClient(app).get("/x")
    assert (answer.status_code, answer.text) == (400, "this question cannot be answered")
    (record,) = (each for each in caplog.records if each.name == "specviz")
    assert record.getMessage().startswith("'/x' failed: KeyError") and not record.exc_info
    assert "\n" not in record.getMessage()
    for _ in range(99):
        TestClient(app).get("/x")
    lines = len([each for each in caplog.records if each.name == "specviz"])
    assert 60 <= lines < 99, "60, and one more for each second"


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/{path:path}", size, methods=["GET", "POST"])]
    routes = [Route("/tolerant", tolerant, methods=["POST"]), *routes]
    app = Starlette(routes=routes, middleware=[Middleware(Guard)])
    return TestClient(app, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
        ({"Content-Type": ""}, 415),
        ({"Origin": "http://testserver"}, 200),
        ({"Origin": "https://proxied.org", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_other_sites_ask_nothing_and_programs_do(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.post(guard.PAGE_ASKS, content=b"{}", headers=headers).status_code == status
    assert (client.get("/", headers=headers).status_code == 403) == (status == 403)
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200, "a link"


def in_parts(count: int, part: bytes) -> Iterator[bytes]:
    """A body that does not say how long it is."""
    return (part for _ in range(count))


def test_behind_the_proxy_of_a_space_visitors_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPACE_ID", "owner/space")

    async def who(request: Request) -> JSONResponse:
        return JSONResponse(request.client and request.client.host)

    app = TestClient(Starlette(routes=[Route("/", who)], middleware=[Middleware(Guard)]))
    asked = [f"6.6.6.{number}, 1.2.3.{number % 2}" for number in range(4)]
    told = {app.get("/", headers={"X-Forwarded-For": each}).json() for each in asked}
    assert told == {"1.2.3.0", "1.2.3.1"}, "what a visitor adds in front is not believed"


def test_who_sends_much_again_and_again_has_to_wait(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "spending", Spending())
    monkeypatch.setattr(guard, "BYTE_SECONDS", 1e-6)
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    large = b"x" * 2_000_000
    assert [client.post("/asked", content=large).status_code for _ in range(4)] == [200] * 3 + [429]
    assert client.post("/asked", content=b"x").status_code == 200, "what is small is answered"
    assert {client.get(path).status_code for path in ("/", "/config", "/config/")} == {429}
    assert client.post("/gradio_api/run/claims", content=b"x").status_code == 429
    assert client.get("/page").status_code == 200
    spent = guard.spending._spent["testclient"][0]
    for _ in range(99):
        client.get("/")
    assert guard.spending._spent["testclient"][0] == spent, "what is refused costs no more waiting"


def test_who_sends_many_values_again_and_again_has_to_wait(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a megabyte of them takes as long as ten megabytes of text, while nobody is answered."""
    monkeypatch.setattr(guard, "spending", Spending(lambda: 0.0))
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    many = b"[]," * 90_000
    told = [client.post(guard.PAGE_ASKS, content=many).status_code for _ in range(40)]
    assert told == [200] * told.index(429) + [429] * (40 - told.index(429))
    assert client.post(guard.PAGE_ASKS, content=b"[]").status_code == 200


@pytest.mark.parametrize("path", ["/asked", "/tolerant"])
def test_a_body_is_bounded_whether_it_says_its_length_or_not(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_BYTES", 1000)
    assert client.post(path, content=b"x" * 1000).json() == 1000
    assert client.post(path, content=b"x" * 1001).status_code == 413
    assert client.post(path, content=in_parts(10, b"x" * 100)).json() == 1000
    assert client.post(path, content=in_parts(11, b"x" * 100)).status_code == 413


def test_a_body_of_many_values_is_refused_before_it_is_parsed(client: TestClient) -> None:
    for path, most in ((guard.PAGE_ASKS, 200_000), ("/asked", 20_000)):
        assert client.post(path, content=b"[]," * (most // 2)).status_code == 200
        found = client.post(path, content=b"[]," * (most // 2 + 1))
        told = (413, f"a question must hold at most {most} values")
        assert (found.status_code, found.text) == told


def test_a_body_counts_among_all_as_what_its_values_take_in_memory(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of nested objects becomes forty."""
    nested = (b'{"":' * 400 + b"0" + b"}" * 400 + b",") * 400
    tracemalloc.start()
    kept = json.loads(b"[" + nested + b"0]")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept and taken > 30 * len(nested)
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", taken - len(nested))
    assert client.post(guard.PAGE_ASKS, content=nested).status_code == 503
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", 2 * taken)
    for _ in range(3):
        assert client.post(guard.PAGE_ASKS, content=nested).json() == len(nested), (
            "it was given back"
        )


def test_bodies_under_way_are_bounded_together_and_given_back(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_BODIES_BYTES", 1000)
    monkeypatch.setattr(guard, "SMALL_BYTES", 0)
    for _ in range(3):
        assert client.post("/asked", content=b"x" * 500).json() == 500
        assert client.post("/asked", content=b"x" * 501).status_code == 503


class Sender:
    """Sends the first parts of a body, and then nothing."""

    path = "/asked"

    def __init__(self, app: Guard, address: str, parts: list[bytes]) -> None:
        self._app, self._address, self._parts = app, address, parts
        self.answers: list[int] = []

    async def receive(self) -> Message:
        if not self._parts:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": self._parts.pop(0), "more_body": True}

    async def send(self, message: Message) -> None:
        self.answers += [message["status"]] if message["type"] == "http.response.start" else []

    async def ask(self) -> None:
        scope: Scope = {"type": "http", "path": self.path, "method": "POST", "query_string": b""}
        scope |= {"headers": [(b"content-type", b"application/json")]}
        await self._app(scope | {"client": (self._address, 1)}, self.receive, self.send)


class Reader(Sender):
    """Asks, and reads so many parts of the answer."""

    def __init__(self, app: Guard, address: str, reads: int) -> None:
        super().__init__(app, address, [b"x"])
        self.reads, self.given = reads, list[int]()

    async def receive(self) -> Message:
        return await super().receive() | {"more_body": False}

    async def send(self, message: Message) -> None:
        await super().send(message)
        if message["type"] == "http.response.body":
            self.given.append(len(message["body"]))
            if len(self.given) > self.reads:
                await asyncio.sleep(3600)


async def once_all_wait(*senders: Sender, ended: int = 0) -> list[list[int]]:
    """The answers once nobody has more to do, and so many have ended, which may take a moment."""
    asked = [asyncio.create_task(each.ask()) for each in senders]
    async with asyncio.timeout(60):
        while sum(each.done() for each in asked) < ended:
            await asyncio.sleep(0.01)
    for _ in range(100):
        await asyncio.sleep(0)
    for task in asked:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return [each.answers for each in senders]


async def read(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse(len(await Request(scope, receive).body()))(scope, receive, send)


def test_bodies_that_never_end_keep_nobody_else_from_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", 4000)
    monkeypatch.setattr(guard, "MAX_BODIES_BYTES", 7500)
    monkeypatch.setattr(guard, "SMALL_BYTES", 100)
    guarded, part = Guard(read), b"x" * 1500
    greedy = [Sender(guarded, f"10.0.0.{number}", [part]) for number in (1, 1, 1, 2, 2)]
    other, small = Sender(guarded, "10.0.0.3", [part]), Sender(guarded, "10.0.0.1", [part[:100]])
    found = awaited(once_all_wait(*greedy, other, small))
    assert found == [[], [], [503], [], [503], [], []], "no address takes more than it leaves"


async def long(scope: Scope, receive: Receive, send: Send) -> None:
    await Request(scope, receive).body()
    await PlainTextResponse(b"y" * 1000)(scope, receive, send)


def test_an_answer_that_nobody_reads_is_handed_on_in_parts_and_counts_until_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", 900)
    monkeypatch.setattr(guard, "SMALL_BYTES", 100)
    monkeypatch.setattr(guard, "PART_BYTES", 300)
    guarded = Guard(long)
    idle, second = Reader(guarded, "10.0.0.1", 1), Reader(guarded, "10.0.0.1", 9)
    other = Reader(guarded, "10.0.0.2", 9)
    assert awaited(once_all_wait(idle, second, other)) == [[200], [503], [200]]
    assert idle.given == [300, 300] and other.given == [300, 300, 300, 100]
    monkeypatch.setattr(guard, "READ_SECONDS", 0.1)
    idle, second = Reader(guarded, "10.0.0.1", 1), Reader(guarded, "10.0.0.1", 9)
    awaited(once_all_wait(idle, ended=1))
    assert awaited(once_all_wait(second)) == [[200]] and idle.given == [300, 300]


def test_an_address_has_so_many_questions_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "OPEN_OF_ADDRESS", 2)
    guarded = Guard(read)
    waiting = [Sender(guarded, "10.0.0.1", []) for _ in range(3)]
    other = Sender(guarded, "10.0.0.2", [])
    assert awaited(once_all_wait(*waiting, other)) == [[], [], [429], []]


class Agent(Sender):
    """Calls a tool."""

    path = guard.MCP


def test_agents_have_so_many_calls_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MCP_OF_ADDRESS", 2)
    monkeypatch.setattr(guard, "MCP_AT_ONCE", 3)
    guarded = Guard(read)
    agents = [Agent(guarded, f"10.0.0.{number}", []) for number in (1, 1, 1, 2, 2)]
    other = Sender(guarded, "10.0.0.1", [])
    assert awaited(once_all_wait(*agents, other)) == [[], [], [429], [], [429], []]


def test_what_gradio_asks_of_itself_for_an_agent_counts_as_the_agent_s() -> None:
    async def told(request: Request) -> JSONResponse:
        return JSONResponse(request.headers.getlist("x-forwarded-for"))

    app = Starlette(routes=[Route("/{path:path}", told)], middleware=[Middleware(Guard)])
    forged = {"X-Forwarded-For": "6.6.6.6"}
    for path in (guard.MCP, f"{guard.MCP}/", f"{guard.MCP}/http"):
        assert TestClient(app).get(path, headers=forged).json() == ["testclient"]


def test_a_body_that_comes_in_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    slow, fast = (Sender(Guard(read), "10.0.0.1", [b"x" * size]) for size in (10, 5_000_000))
    assert awaited(once_all_wait(slow, fast, ended=1)) == [[408], []]


def test_an_address_has_so_many_questions_a_minute_in_public(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_LIMIT", RateLimitItemPerYear(3))
    assert {client.post("/asked").status_code for _ in range(9)} == {200}
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    assert [client.post("/asked").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert client.get("/page").status_code == 200


@pytest.mark.parametrize("path", CLOSED)
def test_routes_that_nobody_needs_are_closed(client: TestClient, path: str) -> None:
    assert client.post(path, content=b"x").status_code == 404
    assert client.get(path + "/more").status_code == 404


def test_every_answer_has_the_headers_refusals_too(client: TestClient) -> None:
    for answer in (client.get("/page"), client.post("/upload"), client.post("/asked")):
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


def test_a_page_that_gradio_does_not_have_is_not_asked_of_it() -> None:
    async def query(request: Request) -> JSONResponse:
        return JSONResponse(request.url.query)

    app = Starlette(routes=[Route("/", query)], middleware=[Middleware(Guard)])
    answer = TestClient(app).get("/?page=learn&view=step&deep_link=..%2F..&round=3")
    assert answer.json() == "view=step&round=3"


def test_the_app_is_served_behind_the_guard() -> None:
    options: dict[str, Any] = launch_options(Environment(), Handlers())
    assert options["app_kwargs"]["middleware"][0].cls is Guard


def test_an_address_is_the_peer_s_and_of_ipv6_a_household_s() -> None:
    headers = [(b"x-forwarded-for", b"1.2.3.4")]
    for peer, expected in {
        "10.0.0.1": "10.0.0.1",
        "2001:db8:1:2ff:3:4:5:6": str(0x20010DB8000102),
        "testclient": "testclient",
    }.items():
        assert guard._address({"client": (peer, 1), "headers": headers}) == expected
