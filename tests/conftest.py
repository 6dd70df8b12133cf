"""Settings and fixtures for all tests.

Each worker process uses one thread, because threads that wait for each other are slow on a shared
machine. Files with long tests start first, so that all workers end at about the same time. One
worker gets all browser files, because each worker with browser files must start two servers and a
browser and must open its own pages. Tests that name no model pair use the bundled pair, even if the
chat model has been downloaded.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

os.environ["SPECVIZ_PAIR"] = "bundled"  # the apps of browser tests inherit this variable
# Child processes must react to Ctrl-C even if the tests run in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The ordinary run tries the same examples each time, so that it fails only because of the change
# under test. `make slow` searches among new random examples.
settings.register_profile("specviz", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("specviz")

BROWSER = "tests/browser/"
# Every file with CUDA tests contains at least one of these texts.
NAMES_CUDA = ("mark.cuda", "tests.devices")
LONG_FIRST = (BROWSER, "test_bundled", "training/", "experiments/", "commands/", "decoding/")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Limit torch to one thread.

    Torch is imported inside the function: the main pytest process, which only distributes the tests
    to workers, does not need it.
    """
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a test without any loaded model pair; restore the loaded pairs afterwards."""
    from specviz.models import pair_loading

    store = pair_loading.Store(pair_loading.MODELS_IN_MEMORY)
    monkeypatch.setattr(pair_loading, "_store", store)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only files that contain CUDA tests if pytest runs with `-m cuda`.

    The other files take most of the collection time, and they import packages that a machine with a
    GPU may lack.
    """
    if config.option.markexpr != "cuda":
        return None
    is_file = collection_path.is_file()
    files = [collection_path] if is_file else collection_path.rglob("test_*.py")
    has_tests = any(word in file.read_text() for file in files for word in NAMES_CUDA)
    return None if has_tests else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests so that files with long tests start first; keep the order within a file."""

    def turn(item: pytest.Item) -> int:
        parts = (i for i, part in enumerate(LONG_FIRST) if part in item.nodeid)
        return next(parts, len(LONG_FIRST))

    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the objects that collection creates from garbage collection.

    They are about a million objects of libraries and tests, and they live until the process ends.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class BrowserApart(LoadFileScheduling):
    """A scheduler that gives the browser tests to the first worker and all others to other workers.

    If no more files of its own kind are left, a worker takes files of the other kind.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        wants_browser = node is self.nodes[0]
        files = (file for file in self.workqueue if (BROWSER in file) == wants_browser)
        if (wanted := next(files, None)) is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)  # pytest may run without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BrowserApart | None:
    return BrowserApart(config, log) if config.getoption("dist") == "loadfile" else None
