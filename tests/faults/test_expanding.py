"""Nine addresses send data that expands to gigabytes; the server's memory stays bounded."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from specviz.models.pair_catalog import BUNDLED
from tests.load_run import resident_bytes, server_of
from tests.ui.heard import awaited

ENVIRONMENT = {"SPECVIZ_PUBLIC": "1", "SPECVIZ_PAIR": BUNDLED}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc"),
]
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 11)]
# The memory limit of the server in this test: 400 MB for files, 160 MB for requests and their
# texts, and space for one more file.
MOST_BYTES = 1_000_000_000
SECONDS = 6.0
HEAD = b'{"format": "specviz-trace", "version": 1, "x": '
tickets = (f"an-expanding-ticket-{number}" for number in itertools.count())


def nested(count: int) -> bytes:
    """Return a JSON text of about `count` objects: 5 bytes each as text, 184 bytes in memory."""
    return b"[" + (b'{"":' * 400 + b"0" + b"}" * 400 + b",") * (count // 400) + b"0]"


def packed(text: bytes) -> str:
    return base64.b64encode(gzip.compress(text, 1)).decode()


OBJECTS = packed(HEAD + nested(4_900_000) + b"}")
FEWER = packed(HEAD + nested(600_000) + b"}")
WIDE = packed(HEAD + b'"' + b"a" * 60_000_000 + "\U0001f600".encode() + b'"}')
BODIES = (nested(960_000), nested(150_000), b'"' + b"a" * 15_000_000 + "\U0001f600".encode() + b'"')


def bodies(component: int) -> Iterator[bytes]:
    """Yield request bodies for the page's own routes; each expands to much more memory."""

    def asked(name: str, question: bytes) -> bytes:
        words = {"fn_name": name, "component_id": component, "session_hash": "x"}
        return json.dumps(words).encode()[:-1] + b', "data": ' + question + b"}"

    while True:
        for data in (OBJECTS, FEWER, FEWER, WIDE):
            question = {"ticket": next(tickets), "data": data}
            yield asked("open", json.dumps(question).encode())
            yield asked("diff", json.dumps({"a": question, "b": question}).encode())
        for body in BODIES:
            yield asked("hear", b'{"ticket": "x", "after": 1, "more": ' + body + b"}")


async def attack(url: str, component: int, address: str, until: float) -> None:
    transport = httpx.AsyncHTTPTransport(local_address=address)
    questions = bodies(component)
    async with httpx.AsyncClient(base_url=url, transport=transport, timeout=60) as client:

        async def send() -> None:
            while time.monotonic() < until:
                head = {"Content-Type": "application/json"}
                answer = await client.post(
                    "gradio_api/component_server", content=next(questions), headers=head
                )
                assert answer.status_code in (200, 413, 429, 503), answer.text

        await asyncio.gather(*(send() for _ in range(4)))


async def most_memory(url: str, process: int) -> tuple[int, float]:
    """Return the server's largest memory in bytes and another visitor's longest wait in seconds.

    The other visitor keeps asking for `/health` during the attack.
    """
    most, longest, until = 0, 0.0, time.monotonic() + SECONDS
    async with httpx.AsyncClient(base_url=url, timeout=60) as visitor:
        config = (await visitor.get("config")).json()
        component = next(each["id"] for each in config["components"] if each["type"] == "html")
        attacks = [asyncio.create_task(attack(url, component, each, until)) for each in ADDRESSES]
        while not all(each.done() for each in attacks):
            began = time.monotonic()
            (await visitor.get("health")).raise_for_status()
            longest = max(longest, time.monotonic() - began)
            most = max(most, resident_bytes(process))
            await asyncio.sleep(0.02)
        await asyncio.gather(*attacks)
    return most, longest


def test_data_that_expands_takes_bounded_memory_even_from_nine_addresses_at_once(
    url: str, log: Path
) -> None:
    while httpx.get(f"{url}ready").status_code != 200:
        time.sleep(0.2)
    process = server_of(log)
    before = resident_bytes(process)
    most, longest = awaited(most_memory(url, process))
    print(f"{before / 1e6:.0f} MB, at most {most / 1e6:.0f} MB; /health within {longest:.2f} s")
    assert most - before < MOST_BYTES and longest < 10
    assert "Traceback" not in log.read_text()
