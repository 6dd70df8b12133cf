"""A sweep that is measured once for many tests of the page."""

import threading
from typing import Any

import pytest

from specviz.ui.lab.lab_sweeps import sweep_order


@pytest.fixture(scope="session")
def measured() -> list[dict[str, Any]]:
    """Return all messages of a sweep over two axes."""
    from tests.ui.small_sweep import LENGTHS, asked

    order = sweep_order(asked(LENGTHS, {"name": "temperature", "values": "0,1"}))
    return list(order.messages(threading.Event()))
