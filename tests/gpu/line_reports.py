"""A pytest plugin that writes each test's outcome to a file as soon as the test ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "SPECVIZ_TEST_REPORTS"  # environment variable with the path of the file


class LineReports:
    """Writes one line for each test's call, or for the setup that failed before it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        line = {
            "name": report.nodeid,
            "outcome": report.outcome,
            "seconds": round(report.duration, 3),
            "text": report.longreprtext,
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin; with xdist, only in the process that distributes the tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LineReports(Path(os.environ[VARIABLE])))
