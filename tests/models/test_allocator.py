"""Tensors of a round's size reuse memory instead of fetching its pages again."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.connection import Connection

import pytest
import torch

from specviz.models.allocator import keep_freed_memory

ROUND = (6, 49_152)  # rows of logits over a chat model's vocabulary


def count_faults(line: Connection) -> None:
    import resource  # which other systems do not have

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def one_round() -> None:
        held = [torch.ones(ROUND) for _ in range(6)]
        held.clear()

    assert keep_freed_memory()
    for _ in range(5):
        one_round()
    before = faults()
    for _ in range(20):
        one_round()
    line.send(faults() - before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_the_tensors_of_a_round_are_fetched_once() -> None:
    """In a copy of this process: the allocator's options are for the rest of its life."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=count_faults, args=(theirs,))
    process.start()
    theirs.close()
    count = ours.recv()
    process.join()
    assert count < 2_000  # 7 MB are 1,700 pages of 4 KiB: fetched anew, 34,000
