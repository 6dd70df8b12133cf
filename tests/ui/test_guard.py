"""Every route of the app limits the requests that it accepts and sets headers in its answers."""

from __future__ import annotations

import asyncio
import json
import re
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
from starlette.websockets import WebSocketDisconnect

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.ui import guard
from specviz.ui.guard import Guard, headers_of
from specviz.ui.handlers import Handlers
from specviz.ui.page import launch_options
from specviz.ui.served_routes import MCP, ROUTES, ServedRoute, Use
from specviz.ui.spending import Spending
from tests.ui.heard import awaited

PAGE_ASKS = "/gradio_api/component_server"
ASKED, TOLERANT, FILE = "/gradio_api/cancel", "/gradio_api/reset", "/favicon.ico"
HERE = "http://127.0.0.1"


async def size(request: Request) -> JSONResponse:
    return JSONResponse(len(await request.body()))


async def tolerant(request: Request) -> JSONResponse:
    """Answer with status 400, as some apps do, if reading the request's body fails."""
    try:
        return JSONResponse(len(await request.body()))
    except Exception:
        return JSONResponse("cannot be parsed", 400)


async def failing(request: Request) -> JSONResponse:
    raise KeyError("no such component\nat all")


def test_a_failure_is_one_line_in_the_answer_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Starlette(routes=[Route(FILE, failing)], middleware=[Middleware(Guard)])
    answer = TestClient(app).get(FILE)
    assert (answer.status_code, answer.text) == (400, "this question cannot be answered")
    (record,) = (each for each in caplog.records if each.name == "specviz")
    assert record.getMessage().startswith("'/favicon.ico' failed: KeyError") and not record.exc_info
    assert "\n" not in record.getMessage()
    for _ in range(99):
        TestClient(app).get(FILE)
    lines = len([each for each in caplog.records if each.name == "specviz"])
    assert 60 <= lines < 99, "60, and one more for each second"


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/{path:path}", size, methods=["GET", "POST"])]
    routes = [Route(TOLERANT, tolerant, methods=["POST"]), *routes]
    app = Starlette(routes=routes, middleware=[Middleware(Guard)])
    return TestClient(app, HERE, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
        ({"Content-Type": ""}, 415),
        ({"Origin": HERE}, 200),
        ({"Origin": "https://proxied.org", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": HERE, "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_other_sites_are_refused_and_programs_are_not(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.post(PAGE_ASKS, content=b"{}", headers=headers).status_code == status
    assert (client.get("/", headers=headers).status_code == 403) == (status == 403)
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200, "a link"


def in_parts(count: int, part: bytes) -> Iterator[bytes]:
    """Yield the parts of a body whose length is not declared."""
    return (part for _ in range(count))


def test_behind_the_proxy_of_a_space_visitors_are_distinguished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPACE_ID", "owner/space")

    async def who(request: Request) -> JSONResponse:
        return JSONResponse(request.client and request.client.host)

    app = TestClient(Starlette(routes=[Route("/", who)], middleware=[Middleware(Guard)]), HERE)
    asked = [f"6.6.6.{number}, 1.2.3.{number % 2}" for number in range(4)]
    told = {app.get("/", headers={"X-Forwarded-For": each}).json() for each in asked}
    assert told == {"1.2.3.0", "1.2.3.1"}, "what a visitor adds in front is not believed"


def test_a_visitor_who_keeps_sending_much_must_wait(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "spending", Spending())
    monkeypatch.setattr(guard, "BYTE_SECONDS", 1e-6)
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    large = b"x" * 2_000_000
    assert [client.post(ASKED, content=large).status_code for _ in range(4)] == [200] * 3 + [429]
    assert client.post(ASKED, content=b"x").status_code == 200, "what is small is answered"
    assert {client.get(path).status_code for path in ("/", "/config", "/config/")} == {429}
    assert client.post("/gradio_api/call/claims", content=b"x").status_code == 429
    assert client.get(FILE).status_code == 200
    spent = guard.spending._spent["testclient"][0]
    for _ in range(99):
        client.get("/")
    assert guard.spending._spent["testclient"][0] == spent, "what is refused costs no more waiting"


def test_a_visitor_who_keeps_sending_many_values_must_wait(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsing half a megabyte of JSON values takes as long as ten megabytes of text.

    During that time the server answers nobody.
    """
    monkeypatch.setattr(guard, "spending", Spending(lambda: 0.0))
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    many = b"[]," * 90_000
    told = [client.post(PAGE_ASKS, content=many).status_code for _ in range(40)]
    assert told == [200] * told.index(429) + [429] * (40 - told.index(429))
    assert client.post(PAGE_ASKS, content=b"[]").status_code == 200


@pytest.mark.parametrize("path", [ASKED, TOLERANT])
def test_a_body_is_limited_with_and_without_a_declared_length(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_BYTES", 1000)
    assert client.post(path, content=b"x" * 1000).json() == 1000
    assert client.post(path, content=b"x" * 1001).status_code == 413
    assert client.post(path, content=in_parts(10, b"x" * 100)).json() == 1000
    assert client.post(path, content=in_parts(11, b"x" * 100)).status_code == 413


def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(client: TestClient) -> None:
    for path, most in ((PAGE_ASKS, 200_000), (ASKED, 20_000)):
        assert client.post(path, content=b"[]," * (most // 2)).status_code == 200
        found = client.post(path, content=b"[]," * (most // 2 + 1))
        told = (413, f"a question must hold at most {most} values")
        assert (found.status_code, found.text) == told


def test_a_body_counts_with_the_memory_that_its_values_take(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of nested objects takes forty megabytes of memory."""
    nested = (b'{"":' * 400 + b"0" + b"}" * 400 + b",") * 400
    tracemalloc.start()
    kept = json.loads(b"[" + nested + b"0]")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept and taken > 30 * len(nested)
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", taken - len(nested))
    assert client.post(PAGE_ASKS, content=nested).status_code == 503
    monkeypatch.setattr(guard, "BODIES_OF_ADDRESS", 2 * taken)
    for _ in range(3):
        assert client.post(PAGE_ASKS, content=nested).json() == len(nested), "it was given back"


def test_all_bodies_together_are_limited_and_finished_ones_are_released(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_BODIES_BYTES", 1000)
    monkeypatch.setattr(guard, "SMALL_BYTES", 0)
    for _ in range(3):
        assert client.post(ASKED, content=b"x" * 500).json() == 500
        assert client.post(ASKED, content=b"x" * 501).status_code == 503


class Sender:
    """A client that sends `parts` of a request's body and never sends the rest."""

    path = ASKED

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
    """A client that reads only the first `reads` parts of the answer."""

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
    """Wait until at least `ended` of the clients have finished and all others are waiting.

    Return the messages that each client received.
    """
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


def test_bodies_that_never_end_do_not_keep_others_from_sending(
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


def test_an_unread_answer_is_sent_in_parts_and_counts_until_it_is_given_up(
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


def test_an_address_has_a_limit_of_simultaneous_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "OPEN_OF_ADDRESS", 2)
    guarded = Guard(read)
    waiting = [Sender(guarded, "10.0.0.1", []) for _ in range(3)]
    other = Sender(guarded, "10.0.0.2", [])
    assert awaited(once_all_wait(*waiting, other)) == [[], [], [429], []]


class Agent(Sender):
    """A client that calls a tool."""

    path = MCP


def test_agents_have_a_limit_of_simultaneous_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MCP_OF_ADDRESS", 2)
    monkeypatch.setattr(guard, "MCP_AT_ONCE", 3)
    guarded = Guard(read)
    agents = [Agent(guarded, f"10.0.0.{number}", []) for number in (1, 1, 1, 2, 2)]
    other = Sender(guarded, "10.0.0.1", [])
    assert awaited(once_all_wait(*agents, other)) == [[], [], [429], [], [429], []]


def test_gradio_s_internal_requests_for_an_agent_count_as_the_agent_s() -> None:
    async def told(request: Request) -> JSONResponse:
        return JSONResponse(request.headers.getlist("x-forwarded-for"))

    app = Starlette(routes=[Route("/{path:path}", told)], middleware=[Middleware(Guard)])
    forged = {"X-Forwarded-For": "6.6.6.6"}
    for path in (MCP, f"{MCP}/"):
        assert TestClient(app, HERE).get(path, headers=forged).json() == ["testclient"]


def test_a_very_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    slow, fast = (Sender(Guard(read), "10.0.0.1", [b"x" * size]) for size in (10, 5_000_000))
    assert awaited(once_all_wait(slow, fast, ended=1)) == [[408], []]


def test_on_a_public_server_an_address_has_a_limit_of_requests_per_minute(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PER_MINUTE", 3)
    monkeypatch.setattr(guard, "RateLimitItemPerMinute", RateLimitItemPerYear)
    assert {client.post(ASKED).status_code for _ in range(9)} == {200}
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    assert [client.post(ASKED).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert client.get(FILE).status_code == 200


@pytest.mark.parametrize("unused", [each for each in ROUTES if each.use is Use.UNUSED])
def test_routes_that_nobody_needs_do_not_exist(client: TestClient, unused: ServedRoute) -> None:
    path = re.sub(r"{[^}]*}", "x", unused.path)
    answer = client.request(unused.method, path, content=b"x")
    assert (answer.status_code, answer.text) == (404, "specviz has no such page")


@pytest.mark.parametrize(
    "path",
    [
        *("/gradio_api/file=http://100.64.0.1/", "/gradio_api/file/http://100.64.0.1/b"),
        *("/gradio_api/file%3Dhttp://x/", "/gradio_api//file=x", "/gradio_api/call/a/b/c"),
        *("/nothing", "/assets", "/gradio_api", "/gradio_api/mcp/http", "/docs", "/redoc"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_routes_that_are_not_in_the_table_do_not_exist(
    client: TestClient, method: str, path: str
) -> None:
    assert client.request(method, HERE + path, content=b"{}").status_code == 404


def test_a_route_accepts_only_its_own_methods(client: TestClient) -> None:
    assert client.head("/health").status_code == 200
    assert {client.request(each, "/health").status_code for each in ("POST", "PUT")} == {404}
    assert client.get(PAGE_ASKS).status_code == 404


def test_no_web_socket_is_opened(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/gradio_api/queue/join"):
        pass


def test_every_answer_has_the_headers_even_a_refusal(client: TestClient) -> None:
    headers = headers_of(Environment.read())
    for answer in (client.get(FILE), client.post("/upload"), client.post(ASKED)):
        assert {name: answer.headers.get(name) for name in headers} == headers


def shown_by(variables: dict[str, str]) -> str:
    policy = headers_of(Environment.read(variables))["Content-Security-Policy"]
    return policy.partition("frame-ancestors ")[2]


def test_only_a_space_may_be_framed_and_only_by_hugging_face_and_itself() -> None:
    assert shown_by({}) == shown_by({"SPECVIZ_PUBLIC": "1"}) == "'self'"
    space = {"SPACE_ID": "owner/space", "SPACE_HOST": "owner-space.hf.space"}
    assert shown_by(space) == "'self' https://huggingface.co https://owner-space.hf.space"
    assert shown_by({"SPACE_HOST": "owner-space.hf.space"}) == "'self'"
    with pytest.raises(InputError, match="SPACE_HOST must be host names"):
        shown_by(space | {"SPACE_HOST": "x; script-src *"})


def test_query_parameters_that_gradio_would_misread_are_removed() -> None:
    async def query(request: Request) -> JSONResponse:
        return JSONResponse(request.url.query)

    app = Starlette(routes=[Route("/", query)], middleware=[Middleware(Guard)])
    answer = TestClient(app, HERE).get("/?page=learn&view=step&deep_link=..%2F..&round=3")
    assert answer.json() == "view=step&round=3"


def test_the_app_is_served_behind_the_guard() -> None:
    options: dict[str, Any] = launch_options(Environment(), Handlers())
    assert options["app_kwargs"]["middleware"][0].cls is Guard


def test_an_address_is_the_client_s_and_for_ipv6_that_of_the_household() -> None:
    headers = [(b"x-forwarded-for", b"1.2.3.4")]
    for peer, expected in {
        "10.0.0.1": "10.0.0.1",
        "2001:db8:1:2ff:3:4:5:6": "20010db8000102/56",
        "testclient": "testclient",
    }.items():
        assert guard._address({"client": (peer, 1), "headers": headers}) == expected
