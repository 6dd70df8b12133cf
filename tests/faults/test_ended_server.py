"""A server that receives a signal to end keeps the results of its runs, and its process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.app_server import ROOT, free_port

pytestmark = pytest.mark.slow
TICKET = "a-ticket-of-a-slow-test"
FORM = {"pair": "bundled", "method": "prompt-lookup", "prompt": "def f(", "max_new_tokens": "900"}


def answered(url: str, name: str, question: dict[str, Any]) -> dict[str, Any]:
    config = httpx.get(url + "config").json()
    (page,) = (each["id"] for each in config["components"] if each["type"] == "html")
    body = {"session_hash": "x", "component_id": page, "fn_name": name, "data": question}
    answer = httpx.post(url + "gradio_api/component_server", json=body, timeout=10)
    reply: dict[str, Any] = answer.json()
    return reply


def test_on_a_signal_runs_keep_their_results_and_the_process_ends_within_seconds(
    tmp_path: Path,
) -> None:
    port, log = free_port(), tmp_path / "log.txt"
    url = f"http://127.0.0.1:{port}/"
    there = os.environ | {"PORT": str(port), "SPECVIZ_PAIR": "bundled", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        command = [sys.executable, "app.py"]
        server = subprocess.Popen(command, cwd=ROOT, env=there, stdout=output, stderr=output)
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + 90
    try:
        while not messages and time.monotonic() < deadline:
            try:
                answered(url, "join", {"ticket": TICKET, "form": FORM})
                break
            except httpx.HTTPError:
                time.sleep(0.3)
        while len(messages) < 20 and time.monotonic() < deadline:
            found = answered(url, "look", {"ticket": TICKET, "after": 0})
            messages = [json.loads(text) for text in found["messages"]]
            time.sleep(0.05)
        assert len(messages) >= 20
        server.send_signal(signal.SIGTERM)
        began = time.monotonic()
        while server.poll() is None and time.monotonic() < began + 20:
            try:
                found = answered(url, "look", {"ticket": TICKET, "after": 0})
                messages = [json.loads(text) for text in found["messages"]]
            except (httpx.HTTPError, ValueError):
                time.sleep(0.05)
        assert time.monotonic() - began < 10
    finally:
        server.kill()
        server.wait()
    assert messages[-1]["kind"] == "end"
    assert messages[-1]["limit"] == "ended with the server; what was measured is kept"
    assert "Traceback" not in log.read_text()
