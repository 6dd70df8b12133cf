"""`translate` on the command line reads configurations of engines and models on this machine."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.folders import ASSETS

MODELS = ASSETS / "models"


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = main(["translate", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_flags_without_a_program_are_read_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text = "--speculative-model org/d --num-speculative-tokens 5 --use-v2-block-manager"
    assert main(["translate", text]) == 0
    told = capsys.readouterr().out
    assert "--use-v2-block-manager  gone: since 0.10: there is one block" in told
    assert "vllm serve MODEL" in told and '"num_speculative_tokens": 5' in told


def test_the_text_comes_from_a_file_or_from_stdin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "llama-server -m big.gguf -md small.gguf --draft-max 16\n"
    file = tmp_path / "old.sh"
    file.write_text(command, encoding="utf-8")
    by_file = answer(capsys, "--file", str(file), "--to", "vllm")
    monkeypatch.setattr("sys.stdin", io.StringIO(command))
    assert by_file == answer(capsys, "--to", "vllm")
    assert by_file[1]["deployment"]["draft_tokens"] == 16


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hello"], "text must be a command, Python code or a configuration"),
        (["vllm serve t", "--to", "tgi"], "engine must be one of vllm, sglang, llama.cpp"),
        (
            ["vllm serve t", "--to", "sglang", "--form", "kubernetes"],
            "or all for SGLang, got 'kubernetes'",
        ),
        (["vllm serve t", "--form", "xml"], "form must be one of command, yaml"),
        (["--file", "/nowhere"], "file '/nowhere' cannot be read"),
        (["vllm serve t", "--file", "x"], "'text' and 'file' must not be given together"),
        (["vllm serve t", "--schedule", "/nowhere"], "schedule '/nowhere' cannot be read"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", *words]) == 2
    line = capsys.readouterr().err
    assert message in line and line.count("\n") == 1


def test_models_on_this_machine_are_compared_before_a_server_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first pair has different tokenizers, and four Medusa heads draft at most four tokens."""
    command = "vllm serve {} --speculative-config.num_speculative_tokens 5"
    target = command.format(MODELS / "target")
    fits = f"{target} --speculative-config.model {MODELS / 'draft'}"
    assert answer(capsys, fits)[0] == 0
    foreign = f"{target} --speculative-config.model {MODELS / 'foreign-draft'}"
    status, found = answer(capsys, foreign)
    assert status == 1 and found["forms"] == {}
    assert found["problems"][0].startswith("target and draft must have")
    heads = f"{target} --spec-method medusa --spec-model {MODELS / 'medusa'}"
    assert "at most 4, the number of Medusa heads" in answer(capsys, heads)[1]["problems"][-1]
