"""The tensors of a round reuse memory and do not request new pages from the system."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.connection import Connection

import pytest
import torch

from specviz.models.allocator import keep_freed_memory

ROUND = (6, 49_152)  # logits of six tokens over a chat model's vocabulary
STEP = (10_000_000,)  # one tensor of 40 MB, as in training


def count_faults(line: Connection, shape: tuple[int, ...], of_any_size: bool) -> None:
    import resource  # the module `resource` does not exist on all systems

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def one_round() -> None:
        held = [torch.ones(shape) for _ in range(3)]
        held.clear()

    assert keep_freed_memory(of_any_size)
    for _ in range(5):
        one_round()
    before = faults()
    for _ in range(20):
        one_round()
    line.send(faults() - before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
@pytest.mark.parametrize(("shape", "of_any_size"), [(ROUND, False), (STEP, True)])
def test_the_tensors_of_a_round_and_of_training_request_their_memory_once(
    shape: tuple[int, ...], of_any_size: bool
) -> None:
    """The test runs in a forked process, because the allocator's options cannot be undone."""
    ours, theirs = multiprocessing.Pipe()
    arguments = (theirs, shape, of_any_size)
    process = multiprocessing.get_context("fork").Process(target=count_faults, args=arguments)
    process.start()
    theirs.close()
    count = ours.recv()
    process.join()
    # The number of page faults that would occur if every tensor requested new pages.
    pages = 20 * 3 * 4 * torch.Size(shape).numel() // 4096
    assert count < pages / 10
