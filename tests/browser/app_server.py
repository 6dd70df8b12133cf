"""Start an app in a separate process and wait until it answers.

The processes are forked from one that has already imported the modules that apps need, because the
imports take seconds.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import runpy
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
# Limit for the start of an app on a busy machine; an idle one needs a tenth of it.
START_SECONDS = 90

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["specviz.ui.page", "specviz.ui.preload"])


def serve(name: str, log: Path, port: int = 0) -> Generator[str]:
    """Start the app `name`, a file or a module; yield its address."""
    port = port or free_port()
    log.touch()
    environment = {"PORT": str(port), "HF_HUB_OFFLINE": "1"}
    # The first start also starts the server process from which apps are forked.
    with patch.dict(os.environ, environment):
        process = _forks.Process(target=run, args=(name, dict(os.environ), log))
        process.start()
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_until_served(url, process, log)
        yield url
    finally:
        process.terminate()
        process.join(20)


def exit_code(target: Callable[[], None]) -> int | None:
    """Run `target` in a new process that has imported only what apps need; return its exit code."""
    process = _forks.Process(target=target)
    process.start()
    process.join(START_SECONDS)
    return process.exitcode


def run(name: str, environment: dict[str, str], log: Path) -> None:
    """Run the app like `python NAME` or `python -m NAME`, with this environment and log file."""
    gc.freeze()  # later garbage collections then skip the imported modules
    with log.open("w") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    os.chdir(ROOT)
    os.environ |= environment
    sys.argv = [name]
    start = runpy.run_path if name.endswith(".py") else runpy.run_module
    start(name, run_name="__main__")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until_served(url: str, process: BaseProcess, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_alive():
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the app did not start:\n{log.read_text()}")
