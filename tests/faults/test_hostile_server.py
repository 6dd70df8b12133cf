"""A running server gets all hostile requests over HTTP, and some that no browser can send.

`tests.hostile_inputs` has the hostile requests.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from specviz.ui import served_routes
from specviz.ui.served_routes import Use
from tests.hostile_inputs import hostile_questions
from tests.load_run import resident_bytes, server_of

ENVIRONMENT = {"SPECVIZ_PUBLIC": "1"}
pytestmark = pytest.mark.slow
BYTES_OF_SLACK = 200_000_000
ADDRESSES = (
    *(
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/specviz-page/%2e%2e/app.py",
        "//etc/passwd",
    ),
    *("/gradio_api/file=/etc/passwd", "/gradio_api/file=../app.py", "/gradio_api/file=http://x/"),
    *(
        "/gradio_api/file/etc/passwd",
        "/static/../../x",
        "/assets/%00",
        "/theme.css?v=" + "x" * 9000,
    ),
    *("/gradio_api/queue/data", "/gradio_api/heartbeat/x", "/gradio_api/info/../config"),
    *("/?__theme=" + "<script>" * 99, "/?pair=custom&target=/etc/passwd", "/" + "a" * 20_000),
    *("/gradio_api/call/none/none", "/gradio_api/stream/x", "/svelte/../../x", "/login"),
)
BODIES = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"data": ' + b"[" * 50_000, b"{}" * 9999),
    *(b'{"session_hash": 5}', b'{"fn_index": -1, "data": null}', b'{"fn_name": "__init__"}'),
    *(b'{"data": [], "fn_index": 10000000000000000000000, "session_hash": "x"}', b"0" * 100_000),
)
ROUTES = (
    *("component_server", "queue/join", "run/race", "call/race", "api/race", "cancel", "reset"),
    *("upload", "call/v2/race", "process_recording", "startup-events", "nothing"),
)
_NUMBERS = count()


def ask(url: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Return the status and content of an answer; the request is sent without any correction.

    Every request comes from another address, because most would otherwise exceed the limits of one
    address.
    """
    source = (f"127.0.1.{next(_NUMBERS) % 250 + 1}", 0)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30, source_address=source)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        given = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body)
        answer = connection.getresponse()
        is_endless = "event-stream" in (answer.getheader("Content-Type") or "")
        return answer.status, answer.read1(1000) if is_endless else answer.read(1_000_000)
    finally:
        connection.close()


def questions_of(url: str) -> Iterator[tuple[str, Any, tuple[int, bytes]]]:
    config = json.loads(ask(url, "GET", "/config")[1])
    (page,) = (each["id"] for each in config["components"] if each["type"] == "html")
    for name, question in hostile_questions():
        body = {"session_hash": "hostile", "component_id": page, "fn_name": name, "data": question}
        content = json.dumps(body).encode()
        yield name, question, ask(url, "POST", "/gradio_api/component_server", content)


def test_a_server_refuses_hostile_requests_cleanly_and_keeps_serving(url: str, log: Path) -> None:
    count, wrong = 0, []
    for number in range(2):  # the second pass shows whether memory grows further
        for name, question, (status, content) in questions_of(url):
            count += 1
            told = json.loads(content) if status == 200 else None
            error = told["error"] if told else content.decode("utf-8", "replace")
            if status not in (200, 400, 413, 422, 429) or (error and "Traceback" in error):
                wrong.append((name, repr(question)[:100], status, content[:100]))
            if told and error and ("\n" in error or len(error) > 400):
                wrong.append((name, repr(question)[:100], status, error[:100]))
        for path in ADDRESSES:
            status, content = ask(url, "GET", path)
            count += 1
            if b"root:" in content or b"Traceback" in content or b"import " in content[:99]:
                wrong.append((path, "", status, content[:100]))
        for route in ROUTES:
            for body in BODIES:
                status, content = ask(url, "POST", f"/gradio_api/{route}", body)
                count += 1
                if b"Traceback" in content:
                    wrong.append((route, body[:50], status, content[:100]))
        for unused in served_routes.ROUTES:
            if unused.use is Use.UNUSED:
                assert ask(url, unused.method, unused.path, b"x" * 1000)[0] == 404
        if number == 0:
            held = resident_bytes(server_of(log))
    assert count > 2 * 300
    assert wrong == []
    assert ask(url, "POST", "/gradio_api/queue/join", Content_Length=str(10**12))[0] == 413
    assert ask(url, "GET", "/")[0] == 200
    assert resident_bytes(server_of(log)) < held + BYTES_OF_SLACK
    assert "Traceback" not in log.read_text()
