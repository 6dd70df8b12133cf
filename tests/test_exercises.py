"""The exercises are small notebooks without outputs, and all their cells run in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "exercises"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_is_a_notebook_for_each_exercise() -> None:
    words = ["speedup", "sweep", "acceptance", "task", "gpt2", "quantised", "engine"]
    assert len(NOTEBOOKS) == len(words)
    assert all(word in path.stem for word, path in zip(words, NOTEBOOKS, strict=True))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_first_checks_its_answers_and_has_no_outputs(path: Path) -> None:
    assert "redict" in cells(path, "markdown")[0]
    assert any("assert " in source for source in cells(path, "code"))
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert path.stat().st_size < 10_000
    for number, source in enumerate(cells(path, "code")):
        compile(source, f"{path.name}, cell {number}", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for source in cells(path, "code"):
        exec(source, namespace)


def test_theory_predicts_a_slowdown_for_gpt2_and_distilgpt2() -> None:
    """A draft step costs c = 82 / 124 of a target step, so at 65 % acceptance decoding is slower.

    Theory needs no model.
    """
    namespace: dict[str, Any] = {}
    for source in cells(FOLDER / "5_gpt2_and_distilgpt2.ipynb", "code")[:-1]:
        exec(source, namespace)
    assert max(namespace["speedups"].values()) < 1 < namespace["prediction"]
