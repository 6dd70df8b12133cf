"""Many prompts from one file, and a sentence for every file that holds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.prompt_file import read_prompts, split_prompts


def test_without_an_empty_line_every_line_is_a_prompt() -> None:
    assert split_prompts("one two\nthree\r\nfour") == ("one two", "three", "four")


def test_empty_lines_between_texts_make_blocks_that_keep_their_lines() -> None:
    text = "\n\ndef add(a, b):\n    return\n\n  \t\n\n    indented\nlast\n"
    assert split_prompts(text) == ("def add(a, b):\n    return", "    indented\nlast")


def test_an_empty_line_at_the_end_does_not_make_blocks() -> None:
    assert split_prompts("one\ntwo\n\n\n") == ("one", "two")


def test_json_lines_may_hold_any_text_and_other_fields(tmp_path: Path) -> None:
    file = tmp_path / "prompts.JSONL"
    file.write_text('{"prompt": "one\\n\\ntwo", "id": 3}\n\n{"prompt": "é"}\n', encoding="utf-8")
    assert read_prompts(str(file)) == ("one\n\ntwo", "é")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty.txt", b" \n\n", "prompts must have at least one text, got none in"),
        ("bytes.txt", b"\xff\xfe", "must be UTF-8 text"),
        (
            "a.jsonl",
            b'{"prompt": "x"}\n{"text": "y"}',
            "prompts line 2 must be a JSON object with a",
        ),
        ("a.jsonl", b'{"prompt": 3}', "prompts line 1 must be a JSON object"),
        ("a.jsonl", b'{"prompt": " "}', "prompts line 1 must be a JSON object"),
        ("a.jsonl", b'["prompt"]', "prompts line 1 must be a JSON object"),
        ("a.jsonl", b"[" * 100_000, "prompts line 1 must be a JSON object"),
    ],
)
def test_a_file_without_prompts_is_refused_in_one_line(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        read_prompts(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.txt' cannot be read: No such file"):
        read_prompts(str(tmp_path / "nowhere.txt"))
