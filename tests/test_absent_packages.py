"""Measuring works on machines that have torch and transformers but not the web app's packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FEW = "--device cpu --max-new-tokens 4 --repeat 1"
COMMANDS = (
    "methods",
    "models",
    f"race {FEW} --prompt Hello",
    "steps --device cpu --repeat 1",
    f"bench {FEW} --tasks code --prompt-count 1 --methods prompt-lookup --draft-lengths 2",
    "lossless --device cpu --samples 100",
)


def run_without(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module in a Python process without the packages in `absent_packages.ABSENT`."""
    command = (sys.executable, "-m", "tests.absent_packages", *arguments)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_measuring_commands_run_without_the_packages_of_the_web_app() -> None:
    code = f"""
import sys
from tests.absent_packages import ABSENT, hide

hide()
from specviz.cli import main

failed = [each for each in {COMMANDS} if main([*each.split(), "--json"]) != 0]
sys.exit(f"failed: {{failed}}" if failed or ABSENT & sys.modules.keys() else 0)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_cuda_tests_can_be_collected_without_a_browser_or_the_web_app() -> None:
    ran = run_without("pytest", "-m", "cuda", "--collect-only", "-n", "0")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "tests/models/test_captured_work.py::" in ran.stdout


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("serve",), "command serve needs the package "),
        (("--print-completion", "bash"), "print-completion needs the package shtab"),
        (("race", "--target", "MODEL.gguf"), "needs the package gguf, which is not installed"),
    ],
)
def test_a_command_names_the_package_that_is_missing(
    arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    named = [str(model) if each == "MODEL.gguf" else each for each in arguments]
    ran = run_without("specviz", *named)
    assert ran.returncode == 2 and told in ran.stderr
    assert "Traceback" not in ran.stderr
