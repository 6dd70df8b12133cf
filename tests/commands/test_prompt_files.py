"""Every command reads a prompt file by the same rules and warns of control tokens in prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.trace_file import load
from tests.chat_folder import chat_folder

SHORT = ["--device", "cpu", "--max-new-tokens", "4", "--method", "prompt-lookup"]
LINES = [
    {"prompt": "Why?", "system": "Be brief."},
    {"messages": [{"role": "user", "content": "<|story|>user\nWhy?<|endoftext|>"}]},
    {"prompt": "<|story|>user\nWhy?<|endoftext|><|story|>assistant\n", "raw": True},
]
WARNED = "holds <|endoftext|>, which the model's chat template adds as well"


@pytest.fixture
def chat(tmp_path: Path) -> list[str]:
    return ["--target", chat_folder(tmp_path)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return str(path)


def raced(tmp_path: Path, chat: list[str], *options: str) -> tuple[int, ...]:
    """Run a race with the chat model; return the token ids of its prompt."""
    trace = tmp_path / "run.json.gz"
    saved = ["--trace", str(trace), "--repeat", "1"]
    assert main(["race", *chat, *SHORT, *saved, *options]) == 0
    return load(trace).prompt_ids


def test_a_race_takes_one_prompt_of_the_file_and_says_which(
    tmp_path: Path, chat: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = raced(tmp_path, chat, "--prompt-file", file)
    assert f"prompt 1 of the 3 in {file}" in capsys.readouterr().err
    assert first == raced(tmp_path, chat, "--prompt", "Why?", "--system", "Be brief.")
    third = raced(tmp_path, chat, "--prompt-file", file, "--prompt-number", "3")
    assert third == raced(tmp_path, chat, "--prompt", "Why?") != first
    assert main(["race", *chat, "--prompt-file", file, "--prompt-number", "4"]) == 2
    assert "prompt-number must be from 1 to 3, got 4" in capsys.readouterr().err


def test_a_prompt_with_control_tokens_is_reported_and_a_raw_one_is_not(
    tmp_path: Path, chat: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    raced(tmp_path, chat, "--prompt-file", file, "--prompt-number", "2")
    assert f"specviz: the prompt {WARNED}" in capsys.readouterr().err
    raced(tmp_path, chat, "--prompt-file", file, "--prompt-number", "3")
    raced(tmp_path, chat, "--prompt", "<|endoftext|>", "--raw")
    assert "template" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["profile", *SHORT, "--prompt-file"],
        ["advise", *SHORT[:4], "--methods", "prompt-lookup", "--seconds", "1", "--prompt-file"],
        ["sweep", *SHORT, "--repeat", "1", "--axis", "draft-length=2", "--prompt-file"],
        ["race", *SHORT, "--repeat", "1", "--batch-size", "3", "--prompt-file"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_reads_the_file_by_the_same_rules(
    command: list[str], chat: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, file, *chat]) == 0
    assert capsys.readouterr().err.count(f"prompt 2 of 3 {WARNED}") == 1


def test_raw_and_a_system_prompt_are_refused_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["race", "--raw", "--system", "Be brief."]) == 2
    said = capsys.readouterr().err
    assert said == "specviz: raw must not be given with a system prompt, got 'Be brief.'\n"
