"""One thread for all tests: on a shared machine, threads that wait for each other cost the most.

Files that take long are handed out first, so that all workers end together, and those of the
browser all to one worker: each worker that has any pays for two servers, a browser, and pages that
open for the first time. Whatever names no pair runs on the bundled one, whether the chat model is
on this machine or not.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

os.environ["SPECVIZ_PAIR"] = "bundled"  # of browser tests, too: their app inherits it
# what tests start hears Ctrl-C, even where they themselves run in the background of a shell
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("specviz", deadline=None)  # other work must not fail a test
settings.load_profile("specviz")

BROWSER = "tests/browser/"
LONG_FIRST = (BROWSER, "test_bundled", "training/", "experiments/", "commands/", "decoding/")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Torch is imported here: what only hands tests out has no use for it."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair is loaded; those that other tests have loaded are there again afterwards."""
    from specviz.models import pair_loading

    store = pair_loading.Store(pair_loading.MODELS_IN_MEMORY)
    monkeypatch.setattr(pair_loading, "_store", store)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files in which xdist hands them out; within a file nothing moves."""

    def turn(item: pytest.Item) -> int:
        parts = (i for i, part in enumerate(LONG_FIRST) if part in item.nodeid)
        return next(parts, len(LONG_FIRST))

    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects of libraries and of tests come and stay: the collector passes them by."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class BrowserApart(LoadFileScheduling):
    """The first worker has the browser's files, the others the rest, and then what is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        wants_browser = node is self.nodes[0]
        files = (file for file in self.workqueue if (BROWSER in file) == wants_browser)
        if (wanted := next(files, None)) is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)  # where xdist is switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BrowserApart | None:
    return BrowserApart(config, log) if config.getoption("dist") == "loadfile" else None
