"""A written file is either complete or unchanged, and a failed write does not lose a result."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specviz import cli, trace_file
from specviz.commands.flags import check_writable
from specviz.errors import InputError
from specviz.experiments.sweep.sweep_file import write_csv
from specviz.whole_file import write_whole
from tests.random_traces import random_trace


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit the size of every file that this process writes, in bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


def test_if_the_new_content_does_not_fit_the_old_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "x"
    write_whole(file, b"older")
    with full_disk(1000), pytest.raises(OSError):
        write_whole(file, b"x" * 100_000)
    assert file.read_bytes() == b"older" and list(tmp_path.iterdir()) == [file]
    write_whole(file, b"newer")
    assert file.read_bytes() == b"newer"


def test_writing_to_a_link_or_a_device_keeps_the_link_or_the_device(tmp_path: Path) -> None:
    file, link = tmp_path / "x", tmp_path / "link"
    link.symlink_to(file)
    write_whole(link, b"content")
    assert link.is_symlink() and file.read_bytes() == b"content"
    write_whole("/dev/null", b"content")
    with pytest.raises(OSError):
        write_whole("/dev/full", b"content")
    assert Path("/dev/null").is_char_device()


def test_a_full_disk_does_not_leave_a_truncated_trace_or_table(tmp_path: Path) -> None:
    trace = random_trace(1, rounds=8)
    with full_disk(1000):
        with pytest.raises(OSError):
            trace_file.save(trace, tmp_path / "run.json")
        points = [{"setting": {"x": number}, "speedup_spread": (1, 2)} for number in range(999)]
        with pytest.raises(InputError, match="csv file .* cannot be written"):
            write_csv(points, str(tmp_path / "points.csv"))
    assert list(tmp_path.iterdir()) == []


def test_checking_whether_a_file_can_be_written_leaves_no_file(tmp_path: Path) -> None:
    check_writable("trace file", str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("kept")
    check_writable("trace file", str(tmp_path / "old"))
    assert (tmp_path / "old").read_text() == "kept"


def test_a_race_on_a_full_disk_still_prints_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json.gz"
    options = ["--pair", "bundled", "--prompt", "a", "--max-new-tokens", "8", "--trace", str(file)]
    with full_disk(100):
        status = cli.main(["race", *options, "--json"])
    told = capsys.readouterr()
    result = json.loads(told.out)
    assert status == 1 and result["speedup"] > 0
    assert result["unwritten"] == [f"trace file {str(file)!r} cannot be written: File too large"]
    assert "cannot be written" in told.err and not file.exists()
