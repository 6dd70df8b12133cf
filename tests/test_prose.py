"""The prose check finds the fragments and phrases that newcomers did not understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prose

FRAGMENTS = (
    "Of one guess for each row.",
    "None where the method is refused, which is noted.",
    "As the page calls it.",
    "Whether a flag was typed as it is called.",
    "What wrote a token of a serving engine's answer.",
    "Those that no change tells.",
    "for who asked",
)
PHRASES = (
    "A fault gets a test before it is mended.",
    "The page is told.",
    "Wait for whoever reads slowly.",
    "The kernel runs beside it.",
)
PLAIN = (
    "Return the acceptance probability of every node.",
    "Where nothing is left, p stays as it is.",
    "For each row, return the tokens that the rule accepts.",
    "What is not built is absent from the screen.",
    "The stream of rounds is the only instrumentation.",
    "[T, I] -> [T, O]",
    "Of one guess for each row.  prose: ok",
)


@pytest.mark.parametrize("text", FRAGMENTS + PHRASES)
def test_a_sentence_that_fails_at_first_reading_is_found(text: str) -> None:
    assert prose.fault(text)


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_sentence_passes(text: str) -> None:
    assert prose.fault(text) is None


def test_docstrings_and_comments_are_found_with_their_line_numbers(tmp_path: Path) -> None:
    python, script = tmp_path / "a.py", tmp_path / "a.js"
    python.write_text('"""One."""\n\n# two\n# more\nx = 1  # three\n\ndef f():\n    """Four."""\n')
    script.write_text('// one\n// more\nconst a = "https://x"; // two\n/* three\n * more */\n')
    found = sorted((each.line, each.text) for each in prose.prose_of(python))
    assert found == [(1, "One."), (3, "two more"), (5, "three"), (8, "Four.")]
    found = [(each.line, each.text) for each in prose.prose_of(script)]
    assert found == [(1, "one\nmore"), (3, "two"), (4, "three\nmore")]


def test_rewritten_folders_stay_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main([]) == 0, capsys.readouterr().out


def test_every_folder_that_is_not_yet_rewritten_exists() -> None:
    assert all((prose.ROOT / each).exists() for each in prose.UNREAD)
