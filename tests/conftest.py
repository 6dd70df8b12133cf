"""One thread for all tests: on a shared machine, threads that wait for each other cost the most.

Files that take long are handed out first, so that all workers end together.
"""

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("specviz", deadline=None)  # other work must not fail a test
settings.load_profile("specviz")

LONG_FIRST = ("browser/", "test_bundled", "training/", "experiments/", "commands/", "decoding/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files in which xdist hands them out; within a file nothing moves."""

    def turn(item: pytest.Item) -> int:
        parts = (i for i, part in enumerate(LONG_FIRST) if f"tests/{part}" in item.nodeid)
        return next(parts, len(LONG_FIRST))

    items.sort(key=turn)
