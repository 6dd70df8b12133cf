"""Many prompts from one file, and a sentence for every file that holds none."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.prompts import read_prompts, split_prompts


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


def test_only_line_feeds_end_a_json_line_and_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "one\xe2\x80\xa8two"}\r\n{"prompt": "x\xc2\x85y"}\n')
    assert read_prompts(str(file)) == ("one\u2028two", "x\x85y")
    plain = tmp_path / "prompts.txt"
    plain.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert read_prompts(str(plain)) == ("one", "two")


def test_a_name_that_no_file_can_have_is_named() -> None:
    with pytest.raises(InputError, match="prompts must be the name of a file, got"):
        read_prompts("a\0b")


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
