import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource, torch
from specviz.training.__main__ import keep_freed_memory
assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(4_000_000)
before = faults()
for _ in range(20):
    torch.ones(4_000_000)
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_memory_is_fetched_once() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000  # 16 MB are 4,000 pages of 4 KiB: fetched anew, 80,000
