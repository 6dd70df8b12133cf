"""Many prompts can come from one file; a file without prompts is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.prompts import (
    Framing,
    all_held_out,
    held_out_prompt,
    prompt_from_json,
    prompt_json,
    prompts_of,
    read_prompts,
    split_prompts,
)
from specviz.records import Conversation, Prompt, RawText, Turn


def test_without_empty_lines_every_line_is_a_prompt() -> None:
    assert split_prompts("one two\nthree\r\nfour") == ("one two", "three", "four")


def test_empty_lines_separate_prompts_of_several_lines() -> None:
    text = "\n\ndef add(a, b):\n    return\n\n  \t\n\n    indented\nlast\n"
    assert split_prompts(text) == ("def add(a, b):\n    return", "    indented\nlast")


def test_an_empty_line_at_the_end_separates_nothing() -> None:
    assert split_prompts("one\ntwo\n\n\n") == ("one", "two")


def test_json_lines_may_hold_any_text_and_other_fields(tmp_path: Path) -> None:
    file = tmp_path / "prompts.JSONL"
    file.write_text('{"prompt": "one\\n\\ntwo", "id": 3}\n\n{"prompt": "é"}\n', encoding="utf-8")
    assert read_prompts(str(file)) == ("one\n\ntwo", "é")


def test_only_line_feeds_end_a_json_line_and_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "one\xe2\x80\xa8two"}\r\n{"prompt": "x\xc2\x85y"}\n')
    assert read_prompts(str(file)) == ("one\u2028two", "x\x85y")
    plain = tmp_path / "prompts.txt"
    plain.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert read_prompts(str(plain)) == ("one", "two")


def test_a_name_that_no_file_can_have_is_refused_by_name() -> None:
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
        ("a.jsonl", b'{"prompt": 3}', "line 1 is invalid: prompt must have some text, got 3"),
        ("a.jsonl", b'{"prompt": " "}', "line 1 is invalid: prompt must have some text, got ' '"),
        ("a.jsonl", b'["prompt"]', "prompts line 1 must be a JSON object"),
        ("a.jsonl", b"[" * 100_000, "prompts line 1 must be a JSON object"),
        (
            "a.jsonl",
            b'{"prompt": "x", "messages": []}',
            "prompts line 1 is invalid: 'prompt' and 'messages' must not be given together",
        ),
        ("a.jsonl", b'{"messages": []}', "line 1 is invalid: messages must be a list of turns"),
        ("a.jsonl", b'{"messages": ["x"]}', "messages must be objects with 'role' and 'content'"),
        (
            "a.jsonl",
            b'{"messages": [{"role": "robot", "content": "x"}]}',
            "role must be one of system, user, assistant, got 'robot'",
        ),
        ("a.jsonl", b'{"messages": [{"role": "user"}]}', "content must have some text, got None"),
        (
            "a.jsonl",
            b'{"messages": [{"role": "assistant", "content": "x"}]}',
            "messages must end with a turn of role user, got 'assistant'",
        ),
        ("a.jsonl", b'{"prompt": "x", "system": 3}', "system must be text, got 3"),
        ("a.jsonl", b'{"prompt": "x", "raw": 1}', "raw must be true or false, got 1"),
        (
            "a.jsonl",
            b'{"prompt": "x", "raw": true, "system": "y"}',
            "raw must not be given with a system prompt, got 'y'",
        ),
        (
            "a.jsonl",
            b'{"messages": [{"role": "user", "content": "x"}], "raw": true}',
            "raw must be used with plain texts only, got a prompt of messages",
        ),
    ],
)
def test_a_file_without_prompts_is_refused_in_one_line(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=said) as caught:
        read_prompts(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.txt' cannot be read: No such file"):
        read_prompts(str(tmp_path / "nowhere.txt"))


BRIEF, WHY = Turn("system", "Be brief."), Turn("user", "Why?")
TALK = (BRIEF, Turn("user", "Hello"), Turn("assistant", "Hi"), WHY)
LINES: list[tuple[str, Prompt]] = [
    ('{"prompt": "Why?"}', "Why?"),
    ('{"messages": [{"role": "user", "content": "Why?"}]}', Conversation((WHY,))),
    ('{"prompt": "Why?", "system": "Be brief."}', Conversation((BRIEF, WHY))),
    (
        '{"messages": [{"role": "user", "content": "Why?"}], "system": "Be brief."}',
        Conversation((BRIEF, WHY)),
    ),
    ('{"prompt": "<s>Why?", "raw": true}', RawText("<s>Why?")),
]


@pytest.mark.parametrize(("line", "prompt"), LINES)
def test_a_json_line_may_be_a_text_messages_a_system_prompt_or_raw(
    line: str, prompt: Prompt
) -> None:
    assert prompts_of(line, "a.jsonl") == (prompt,)


def test_json_lines_are_recognised_by_the_first_line_whatever_the_file_s_name() -> None:
    lines = "\n".join(line for line, _ in LINES)
    assert prompts_of(lines, "a.txt") == tuple(prompt for _, prompt in LINES)
    assert prompts_of('{"other": 1}\nx', "a.txt") == ('{"other": 1}', "x")


@pytest.mark.parametrize("prompt", ["Why?", Conversation(TALK), RawText("<s>")])
def test_a_prompt_survives_json_unchanged(prompt: Prompt) -> None:
    assert prompt_from_json(prompt_json(prompt)) == prompt


def test_a_prompt_s_own_system_prompt_is_kept() -> None:
    framing = Framing("Be long.")
    assert framing.of(Conversation(TALK)) == Conversation(TALK)
    assert framing.of("Why?") == Conversation((Turn("system", "Be long."), WHY))
    assert framing.of(RawText("Why?")) == RawText("Why?")


def test_the_error_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prompt-file 'nowhere' cannot be read"):
        read_prompts("nowhere", "prompt-file")


@pytest.mark.parametrize("is_chat", [False, True])
def test_every_task_has_different_prompts(is_chat: bool) -> None:
    for task, prompts in all_held_out(is_chat).items():
        assert len(prompts) > 10 and len(set(prompts)) == len(prompts), task


def test_messages_to_a_chat_model_are_whole_sentences() -> None:
    for prompts in all_held_out(is_chat=True).values():
        assert all(prompt[0].isupper() and prompt[-1] in ".?`\"'*" for prompt in prompts)


def test_only_chat_models_have_the_task_chat() -> None:
    assert held_out_prompt("chat", 1, is_chat=True).endswith("?")
    with pytest.raises(InputError, match="task must be one of code, .*, got 'chat'"):
        held_out_prompt("chat", 1)
