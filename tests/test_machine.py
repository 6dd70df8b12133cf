"""A measurement names the processor and the specviz version that made it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz import __version__, machine


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Clear the remembered processor and version before and after a test.

    Without this, the values of one test would stay until the process ends.
    """
    for each in (machine.processor_name, machine.version):
        each.cache_clear()
    yield
    for each in (machine.processor_name, machine.version):
        each.cache_clear()


def test_the_processor_has_the_name_that_the_system_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text("processor : 0\nmodel name\t: Fast 9000 @ 2 GHz\nmodel name : other\n")
    monkeypatch.setattr(machine, "_CPU_FACTS", facts)
    assert machine.processor_name() == "Fast 9000 @ 2 GHz"


@pytest.mark.parametrize("text", ["", "processor: 0"])
def test_a_processor_without_a_name_is_called_by_its_architecture(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(text)
    monkeypatch.setattr(machine, "_CPU_FACTS", facts)
    monkeypatch.setattr(machine.platform, "machine", lambda: "riscv64")
    assert machine.processor_name() == "riscv64"


def test_a_system_without_processor_information_still_gives_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_CPU_FACTS", tmp_path / "missing")
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine.processor_name() == "arm"


def _git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", "-C", str(folder), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_version_of_a_clone_names_its_commit_and_whether_files_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    # The folder has no git history, as in an installed package.
    assert machine.version() == __version__
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("first")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "--quiet", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "--short=8", "HEAD")
    machine.version.cache_clear()
    assert machine.version() == f"{__version__} ({commit})"
    (tmp_path / "file").write_text("second")
    machine.version.cache_clear()
    assert machine.version() == f"{__version__} ({commit}, changed)"


def test_a_machine_without_git_gives_the_version_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.version() == __version__
