import multiprocessing
import sys
from multiprocessing.connection import Connection

import pytest
import torch

from specviz.training.__main__ import keep_freed_memory


def count_faults(line: Connection) -> None:
    import resource  # which other systems do not have

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    assert keep_freed_memory()
    for _ in range(5):
        torch.ones(4_000_000)
    before = faults()
    for _ in range(20):
        torch.ones(4_000_000)
    line.send(faults() - before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_memory_is_fetched_once() -> None:
    """In a copy of this process: the allocator's options are for the rest of its life."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=count_faults, args=(theirs,))
    process.start()
    theirs.close()
    count = ours.recv()
    process.join()
    assert count < 20_000  # 16 MB are 4,000 pages of 4 KiB: fetched anew, 80,000
