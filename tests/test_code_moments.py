"""The table of moments names lines of docs/sixty_lines.py, and each named line exists there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.sixty_lines import MOMENTS, SOURCE, code_lines, sixty_lines

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "assets" / "player" / "shared" / "code_moments.js"


def test_every_moment_marks_lines_of_the_shown_code_that_have_its_text() -> None:
    found = sixty_lines()
    lines = {
        moment["name"]: [found["lines"][at].strip() for at in moment["lines"]]
        for moment in found["moments"]
    }
    assert SOURCE.read_text("utf-8").splitlines()[found["first"] - 1] == found["lines"][0]
    assert "next_probs(draft" in lines["draft"][0] and "next_probs(target" in lines["verify"][0]
    assert lines["accepted"][1] == "n += 1" and lines["rejected"][1] == "break"
    assert all('uniform("verify"' in lines[name][0] for name in ("accepted", "rejected"))
    assert "residual" in "".join(found["lines"]) and "rest" in lines["extra"][0]


@pytest.mark.parametrize("text", ["                break", "        round_index += 1"])
def test_a_marked_line_that_is_missing_or_occurs_twice_is_named(text: str) -> None:
    source, moments = SOURCE.read_text("utf-8"), MOMENTS.read_text("utf-8")
    for changed in (source.replace(text + "\n", ""), source.replace(text, f"{text}\n{text}")):
        with pytest.raises(InputError, match="must have this line once, got it [02] times"):
            code_lines(changed, moments)


def test_the_browser_computes_every_value_that_a_moment_shows() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    for moment in sixty_lines()["moments"]:
        for value in moment["values"]:
            assert re.search(rf'["\s{{]{re.escape(value)}"?:', script), value
