"""Lets the tests of the page import what stands beside them and one folder up; a sweep for many."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from specviz.ui.lab.lab_sweeps import sweep_order

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]


@pytest.fixture(scope="session")
def measured() -> list[dict[str, Any]]:
    """All messages of a sweep over two axes."""
    from small_sweep import LENGTHS, asked

    order = sweep_order(asked(LENGTHS, {"name": "temperature", "values": "0,1"}))
    return list(order.messages(threading.Event()))
