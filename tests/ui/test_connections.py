"""Idle connections are closed, used ones are not, and each address has a limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from specviz.ui import connections
from specviz.ui.connections import bound_connections
from tests.browser.app_server import free_port
from tests.ui.heard import awaited

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
LONG = 0.8  # seconds until the answer; longer than the time limit for a request's headers


async def slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(LONG if scope["path"] == "/long" else 0)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    config = uvicorn.Config(slow, port=free_port(), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    bound_connections(config)
    try:
        yield config.port
    finally:
        server.should_exit = True
        await running


async def answer_to(port: int, *parts: bytes, host: str = "127.0.0.5") -> bytes:
    """Send the parts of a request; return everything that arrives until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.15)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b"closed"
    finally:
        writer.close()


def test_an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)

    async def ask() -> list[bytes]:
        async with served() as port:
            drops = [b"X: 1\r\n"] * 9
            return await asyncio.gather(
                answer_to(port),
                answer_to(port, HEAD, *drops),
                answer_to(port, HEAD + b"\r\n", HEAD, *drops),
                answer_to(port, HEAD.replace(b"/", b"/long", 1) + b"Connection: close\r\n\r\n"),
            )

    idle, drops, second, long = awaited(ask())
    assert {idle, drops} <= {b"", b"closed"}
    assert second.count(b"204") <= 1
    assert long.count(b"204") == 1


def test_a_connection_stays_open_after_an_answer_longer_than_headers_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the server closes the connection too early, a request that is on its way is lost."""
    assert connections.KEPT_SECONDS > 60, "so long a proxy holds a connection as a rule"
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)

    async def ask() -> bytes:
        async with served() as port:
            last = HEAD + b"Connection: close\r\n\r\n"
            return await answer_to(port, HEAD + b"\r\n", *[b""] * 4, last)

    assert awaited(ask()).count(b"204") == 2


def test_an_address_has_a_limit_of_connections_and_a_proxy_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_OF_ADDRESS", 2)
    # In this test, all addresses 127.0.0.* count as one visitor.
    monkeypatch.setattr(connections, "visitor_at", lambda host: host[:7])

    async def ask() -> tuple[list[bool], bytes]:
        async with served() as port:
            hosts = [f"127.0.0.{n}" for n in (5, 6, 7, 8)] + ["127.0.0.1"] * 4
            asked = [asyncio.create_task(answer_to(port, host=each)) for each in hosts]
            for closed in islice(asyncio.as_completed(asked), 2):
                await closed
            await asyncio.sleep(0.3)  # no other connection is closed in the next 0.3 s
            are_open = [not each.done() for each in asked]
            for each in asked:
                each.cancel()
            while connections._open["127.0.0"]:
                await asyncio.sleep(0.01)
            return are_open, await answer_to(port, HEAD + b"Connection: close\r\n\r\n")

    are_open, after = awaited(ask())
    assert sum(are_open[:4]) == 2 and all(are_open[4:])
    assert after.count(b"204") == 1, "what has ended makes room"


def test_clients_cannot_fill_the_log() -> None:
    bound_connections(uvicorn.Config(slow))
    line = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "no HTTP", None, None)
    passed = [logging.getLogger("uvicorn.error").filter(line) for _ in range(199)]
    assert passed[0] and not passed[-1]
    assert sum(map(bool, passed)) <= 2 * connections.LINES_A_MINUTE, "a minute may end meanwhile"
