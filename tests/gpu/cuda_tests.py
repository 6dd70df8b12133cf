"""Run the CUDA tests in a child process, because a failed CUDA test may break the process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tests.gpu import line_reports
from tests.gpu.probe_results import FAILED, OK, Entry, Results
from tests.gpu.scale import Scale
from tests.gpu.step import PROBLEM, Measure

ROOT = Path(__file__).resolve().parents[2]
STEP, NEEDED = "tests", ("pytest", "xdist", "hypothesis")
LOG, REPORTS = "cuda-tests.log", "cuda-tests.jsonl"
NO_TESTS_LEFT = 5  # exit status of pytest if no test was selected


def parts(scale: Scale, results: Results) -> Iterator[tuple[str, Measure]]:
    yield "run", partial(run_tests, scale, results)


def run_tests(scale: Scale, results: Results) -> dict[str, Any]:
    """Run every test that has not passed yet; the result of each test is an entry."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return {PROBLEM: f"packages are missing: {', '.join(missing)}"}
    reports = results.folder / REPORTS
    reports.write_text("")
    passed = [
        label.removeprefix(f"{STEP}/")
        for label, entry in results.latest().items()
        if "::" in label and entry.status == OK
    ]
    command = (
        *(sys.executable, "-m", "pytest", "-m", "cuda", "-n", str(scale.test_workers), "-rfE"),
        *("-p", line_reports.__name__, *scale.test_paths),
        *(f"--deselect={name}" for name in passed),
    )
    try:
        with (results.folder / LOG).open("w") as log:
            status = _run(command, {line_reports.VARIABLE: str(reports)}, log)
    finally:  # the reports are collected even if the time limit interrupts the tests
        outcomes = _collect(reports, results)
    counts = Counter(outcomes.values())
    wrong = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
    values: dict[str, Any] = {**counts, "passed before": len(passed), "wrong": wrong}
    if status not in (0, NO_TESTS_LEFT):
        values[PROBLEM] = f"pytest ended with status {status}, {len(wrong)} tests failed: see {LOG}"
    return values


def _run(command: tuple[str, ...], variables: dict[str, str], log: TextIO) -> int:
    """Run a command and wait for it; if an exception ends the wait, kill all its processes."""
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _collect(reports: Path, results: Results) -> dict[str, str]:
    """Add an entry for each finished test; return test name -> passed, failed or skipped."""
    outcomes = {}
    for line in reports.read_text().splitlines():
        report = json.loads(line)
        name, outcome = report["name"], report["outcome"]
        outcomes[name] = outcome
        status = FAILED if outcome == "failed" else OK
        results.add(
            Entry(
                f"{STEP}/{name}",
                status,
                report["seconds"],
                {"outcome": outcome},
                report["text"].strip().rpartition("\n")[2] if outcome == "failed" else "",
                report["text"],
            )
        )
    return outcomes
