"""Starts an app in a process of its own and waits until it answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 90  # a busy machine; a quiet one takes a tenth


def serve(command: list[str], log: Path) -> Generator[str]:
    port = free_port()
    environment = os.environ | {"PORT": str(port), "HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *command, str(port)],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}/"
            wait_until_served(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the app did not start:\n{log.read_text()}")
