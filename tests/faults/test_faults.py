"""A process survives a full disk and a lack of memory, and says what happened.

Each fault is real. It happens in a separate process, which must print one clear line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.models.pair_catalog import models_folder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

LIMITED = """
import resource, sys
from pathlib import Path
from specviz.experiments.run.racing import start_race
from specviz.models.pair_loading import load_pair
from specviz.environment import Environment
from specviz.models.files.survey import survey_model
from specviz.models.pair_catalog import pair_named
from specviz.ui.settings_form import race_request
from specviz.ui.answers import error_sentence

survey_model(pair_named("bundled").target, Environment.read())  # imports all libraries

def limit(room):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room if room else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

def race(tokens):
    form = {"pair": "bundled", "prompt": "def add(a, b):" * 60, "method": "draft-model",
            "max_new_tokens": str(tokens), "temperature": "0", "device": "cpu"}
    try:
        run = start_race(race_request(form))
        try:
            list(run)
        finally:
            run.close()
        return "done"
    except Exception as error:
        return error_sentence(error, "a race")
"""


def limited(script: str) -> list[str]:
    """Run the script in a process with little memory; return the lines that it prints."""
    run = subprocess.run(
        [sys.executable, "-c", LIMITED + script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "Traceback" not in run.stderr
    return run.stdout.splitlines()


def test_a_model_that_does_not_fit_in_memory_is_one_error_line_and_the_next_load_works() -> None:
    first, second = limited(
        "limit(20_000_000); print(race(4)); limit(0); print(race(4))",
    )
    assert "memory" in first and second == "done"


def test_a_run_that_does_not_fit_in_memory_is_one_error_line_and_the_next_run_works() -> None:
    first, second, third = limited(
        "print(race(4)); limit(1_000_000); print(race(400)); limit(0); print(race(4))"
    )
    assert (first, third) == ("done", "done")
    assert "memory" in second


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 2 MB and yield a folder on it."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("part", ["the small files", "the weights"])
def test_the_error_on_a_full_disk_says_that_the_disk_is_full(
    small_disk: Path, tmp_path: Path, part: str
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    for file in (models_folder() / "target").iterdir():
        (repository / file.name).write_bytes(file.read_bytes())
    if part == "the small files":
        (repository / "vocab.json").write_bytes(b" " * 3_000_000)
    command = [sys.executable, "-m", "tests.faults.fake_hub", str(repository)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdout is not None
        address = hub.stdout.readline().strip()
        check = [sys.executable, "-m", "specviz", "race", "--target", "owner/model"]
        check += ["--method", "prompt-lookup", "--max-new-tokens", "4", "--task", "code"]
        there = {"HF_ENDPOINT": address, "HF_HOME": str(small_disk), "HF_HUB_DISABLE_XET": "1"}
        run = subprocess.run(
            check, cwd=ROOT, env=os.environ | there, capture_output=True, text=True, check=False
        )
        hub.kill()
    assert run.returncode == 2
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("specviz:")]
    is_told = "are free" in line if part == "the weights" else "is full" in line
    assert is_told and "cannot be reached" not in line
    assert "Traceback" not in run.stderr
