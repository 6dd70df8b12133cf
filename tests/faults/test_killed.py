"""A real server ends runs whose browsers were killed, and survives a machine that sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from specviz.models.pair_catalog import BUNDLED
from tests.browser.app_server import ROOT
from tests.faults.test_ended_server import answered
from tests.load_run import server_of

ENVIRONMENT = {"SPECVIZ_PAIR": BUNDLED}
pytestmark = pytest.mark.slow
# After 12 s of silence the server treats a browser as gone. It then ends the run at the next step,
# within three more seconds.
FREED_SECONDS = 15.0
ASLEEP_SECONDS = 60.0
FORM = {"pair": "bundled", "method": "prompt-lookup", "prompt": "def f(", "max_new_tokens": "900"}
RACE = ("join", {"form": FORM, "held": True})  # a race that waits until a user lets it continue
SWEEP_FORM = {"pair": "bundled", "method": "draft-model", "draft_length": "4", "task": "code"}
SWEEP = {
    "what": "sweep",
    "form": SWEEP_FORM | {"max_new_tokens": "256"},
    "prompts": {"count": "8"},
    "axes": [{"name": "draft-length", "values": "1-8"}],
    "repeats": "9",
}
VISITOR = """
import sys, time
from tests.faults.test_ended_server import answered
from tests.faults.test_killed import RACE, SWEEP
url, name = sys.argv[1:]
ask, question = RACE if name == "race" else ("measure", SWEEP)
told = answered(url, ask, {"ticket": f"a-ticket-of-a-{name}"} | question)
assert told["error"] is None, told
while True:
    answered(url, "look", {"ticket": f"a-ticket-of-a-{name}", "after": 0})
    print("looked", flush=True)
    time.sleep(0.2)
"""


def live(url: str) -> float:
    """Return the number of runs that the server has now.

    The server does not count this request as a visit.
    """
    metrics = httpx.get(url + "metrics", timeout=10).text
    states = [line for line in metrics.splitlines() if line.startswith("specviz_runs{")]
    assert states, metrics
    return sum(float(line.split()[-1]) for line in states)


def until(url: str, count: int, seconds: float) -> float:
    began = time.monotonic()
    while live(url) != count:
        assert time.monotonic() - began < seconds, live(url)
        time.sleep(0.3)
    return time.monotonic() - began


@pytest.mark.parametrize("name", ["race", "sweep"])
def test_a_killed_browser_leaves_no_run_behind(url: str, name: str) -> None:
    command = [sys.executable, "-c", VISITOR, url, name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as visitor:
        assert visitor.stdout is not None
        visitor.stdout.readline()
        until(url, 1, 30)
        visitor.kill()
        until(url, 0, FREED_SECONDS)


def test_a_run_continues_after_the_machine_has_slept_for_a_minute(url: str, log: Path) -> None:
    asked: dict[str, Any] = {"ticket": "a-ticket-of-a-sleeper"}
    assert answered(url, "measure", asked | SWEEP)["error"] is None
    while not answered(url, "look", asked | {"after": 0})["messages"]:
        time.sleep(0.1)
    process = server_of(log)
    os.kill(process, signal.SIGSTOP)
    time.sleep(ASLEEP_SECONDS)
    os.kill(process, signal.SIGCONT)
    time.sleep(2.0)  # no page asks in these 2 s, but the server must let the run continue
    assert answered(url, "look", asked | {"after": 0})["state"] == "running"
    answered(url, "stop", asked)
    until(url, 0, 15)
    assert "Traceback" not in log.read_text()
