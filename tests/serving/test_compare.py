"""llama.cpp and our decoder write the same text; a difference is reported."""

import json

import pytest

from specviz.cli import main
from specviz.commands import compare_command


def compared(capsys, *flags: str):
    status = main(["compare", "--pair", "bundled", *flags, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


@pytest.mark.parametrize(
    "task, length, tokens",
    # The text of `maths` ends with an end token, the other texts with the limit of new tokens.
    [("story", 7, 48), ("maths", 3, 120), ("code", 4, 33)],
)
def test_every_token_and_every_count_equals_the_engine_s(task, length, tokens, capsys) -> None:
    flags = ("--task", task, "--draft-length", str(length), "--max-new-tokens", str(tokens))
    status, found, _ = compared(capsys, *flags, "--prompt-count", "2")
    assert status == 0 and found["same"] == found["prompts"] == 2
    assert found["ours"] == found["theirs"] and found["ours"]["accepted"] > 0
    assert len(found["ours"]["acceptance_per_position"]) == length
    assert found["ours"]["block_efficiency"] > 1


def test_a_difference_is_reported_with_its_prompt(monkeypatch, capsys) -> None:
    """The engine's text is made one token shorter."""
    written = compare_command._written
    monkeypatch.setattr(
        compare_command, "_written", lambda *where, most: written(*where, most=most - 1)
    )
    flags = ("--task", "code", "--prompt-count", "1", "--max-new-tokens", "9")
    status, found, err = compared(capsys, *flags)
    assert status == 1 and err.endswith("specviz: 1 prompt differs\n")
    assert found["differences"]["1"].startswith("the texts differ from token 9 on: ")
    assert found["differences"]["1"].endswith(" here, the end in llama.cpp")
