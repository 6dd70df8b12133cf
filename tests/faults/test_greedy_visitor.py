"""One visitor tries to block the server in every way at once; others wait only seconds longer."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from specviz.models.pair_catalog import BUNDLED
from tests.load_run import Findings, Person, learner
from tests.ui.heard import awaited

ENVIRONMENT = {"SPECVIZ_PUBLIC": "1", "SPECVIZ_PAIR": BUNDLED}
pytestmark = pytest.mark.slow
SECONDS = 60.0
OTHERS = 4
MOST_DELAY = 10.0  # longest wait of another visitor, in seconds
FORM = {"pair": BUNDLED, "method": "draft-model", "max_new_tokens": "900"}
BOMB = base64.b64encode(
    gzip.compress(b'{"format": "specviz-trace", "x": "' + b" " * 60_000_000)
).decode()
tickets = (f"a-ticket-of-greed-{number}" for number in itertools.count())


class Greedy:
    """A client with its own address that attacks the server."""

    def __init__(self, url: str, component: int) -> None:
        transport = httpx.AsyncHTTPTransport(
            local_address="127.0.0.2", limits=httpx.Limits(max_connections=500)
        )
        kind = {"Content-Type": "application/json"}
        self.client = httpx.AsyncClient(base_url=url, headers=kind, transport=transport, timeout=30)
        self.place = urlsplit(url)
        self.person = Person(self.client, component, Findings(), time.monotonic() + SECONDS)
        self.numbers = itertools.count()

    def ways(self) -> list[Callable[[], Awaitable[object]]]:
        """Return the attacks that run at the same time; each is repeated until the test ends."""
        join_api = [self.joins_the_api_and_leaves] * 3
        slow = [self.sends_slowly] * 50 + [self.listens_for_ever] * 50
        large = [self.sends_a_bomb] * 4 + [self.sends_much] * 3
        listens = [self.races_on_and_on] * 44 + [self.measures_all] * 4 + [self.holds] * 10
        return [*join_api, *slow, *large, *listens, self.joins_and_leaves, self.joins_and_stops]

    def form(self) -> dict[str, str]:
        """Return the form of a race with a new prompt, so that no two races are shared."""
        words = f"{next(self.numbers)} " + "def add(a, b):\n" * 40
        return FORM | {"prompt": words}

    async def joins_and_leaves(self) -> None:
        await self.person.ask("join", {"ticket": next(tickets), "form": self.form()})

    async def joins_and_stops(self) -> None:
        ticket = next(tickets)
        await self.person.ask("join", {"ticket": ticket, "form": self.form()})
        await self.person.ask("look", {"ticket": ticket, "after": 0})
        await asyncio.sleep(0.3)
        await self.person.ask("stop", {"ticket": ticket})

    async def joins_the_api_and_leaves(self) -> None:
        await self.client.post("gradio_api/call/v2/race", json={"prompt": str(next(self.numbers))})
        await asyncio.sleep(0.2)

    async def races_on_and_on(self) -> None:
        await self._listened("join", {"form": self.form()})

    async def holds(self) -> None:
        await self._listened("join", {"form": self.form(), "held": True})

    async def measures_all(self) -> None:
        form = FORM | {"task": "code", "draft_length": "4", "max_new_tokens": "256"}
        axes = [{"name": "draft-length", "values": "1-16"}]
        question = {"what": "sweep", "form": form, "prompts": {"count": 8}, "axes": axes}
        await self._listened("measure", question | {"repeats": str(random.randrange(3, 9))})

    async def _listened(self, name: str, question: dict[str, Any]) -> None:
        """Start a run and ask for its state just often enough that the server keeps it."""
        ticket, state = next(tickets), ""
        reply = await self.person.ask(name, {"ticket": ticket, **question})
        while reply["error"] is None and state != "done":
            seen = await self.person.ask("look", {"ticket": ticket, "after": 10**9})
            state = seen.get("state", "done")
            await asyncio.sleep(5)

    async def sends_a_bomb(self) -> None:
        await self.person.ask("open", {"ticket": next(tickets), "data": BOMB})
        await self.person.ask("diff", {"a": {"data": BOMB}, "b": {"data": BOMB}})

    async def sends_much(self) -> None:
        await self.client.post("gradio_api/component_server", content=b"[" + b" " * 40_000_000)

    async def sends_slowly(self) -> None:
        head = b"POST /gradio_api/component_server HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
        await self._slow(head, b"X-More: 1\r\n")

    async def listens_for_ever(self) -> None:
        head = f"GET /gradio_api/heartbeat/{next(self.numbers)} HTTP/1.1\r\nHost: x\r\n\r\n"
        await self._slow(head.encode(), b"")

    async def _slow(self, head: bytes, more: bytes) -> None:
        there = (self.place.hostname, self.place.port)
        _, writer = await asyncio.open_connection(*there, local_addr=("127.0.0.2", 0))
        try:
            writer.write(head)
            for _ in range(10):
                await asyncio.sleep(1)
                writer.write(more)
        finally:
            writer.close()


async def again_and_again(way: Callable[[], Awaitable[object]], until: float) -> None:
    while time.monotonic() < until:
        with suppress(httpx.HTTPError, OSError, ValueError):
            await asyncio.wait_for(way(), max(0.1, until - time.monotonic()))
        await asyncio.sleep(0.05)


async def others(url: str, is_greedy: bool) -> Findings:
    findings, until = Findings(), time.monotonic() + SECONDS
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        config = (await client.get("config")).json()
        component = next(each["id"] for each in config["components"] if each["type"] == "html")
        people = [Person(client, component, findings, until) for _ in range(OTHERS)]
        greedy = Greedy(url, component)
        work = [again_and_again(way, until) for way in greedy.ways()] if is_greedy else []
        luck = [random.Random(number) for number in range(OTHERS)]
        work += [
            learner(person, BUNDLED, each, until) for person, each in zip(people, luck, strict=True)
        ]
        with suppress(TimeoutError):
            await asyncio.gather(*work, return_exceptions=True)
        await greedy.client.aclose()
    return findings


def test_a_visitor_who_tries_to_block_the_server_delays_others_by_seconds_only(
    url: str, log: Path
) -> None:
    alone = awaited(others(url, is_greedy=False))
    beside = awaited(others(url, is_greedy=True))
    print(alone.report(), beside.report(), sep="\n")
    assert not alone.failures and not beside.failures
    for name, found in beside.seconds.items():
        if not name.endswith("whole"):
            usual = max(alone.seconds.get(name, [0.0]))
            assert max(found) < usual + MOST_DELAY, name
    assert sum(beside.done.values()) > 0
    assert "Traceback" not in log.read_text()
