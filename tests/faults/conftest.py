"""Start one server for each test file, and keep its log.

The test file names the server's environment variables in ENVIRONMENT.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.browser.app_server import serve


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log.txt"


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest, log: Path) -> Iterator[str]:
    with patch.dict(os.environ, request.module.ENVIRONMENT):
        yield from serve("app.py", log)
