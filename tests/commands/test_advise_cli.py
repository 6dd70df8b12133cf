"""`advise` prints one JSON object, or a text with reasons; every error is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.experiments.advice import advice_check, advising

SHORT = ["advise", "--device", "cpu", "--max-new-tokens", "8", "--seconds", "4"]
SHORT += ["--methods", "draft-model,prompt-lookup"]


@pytest.fixture(autouse=True)
def two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the advisor to two passes, with enough time to probe everything on any machine.

    Other tests show that passes continue until the time is over.
    """
    monkeypatch.setattr(advising, "MOST_PASSES", 2)
    monkeypatch.setattr(advising, "own_time", float)


def test_advice_is_one_object_that_names_its_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--prompt-count", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["pair"] == "bundled" and result["batch_size"] == 1
    assert result["speculate"] is (result["method"] is not None)
    low, high = result["interval"]
    assert low <= result["speedup"] <= high
    assert "probe: draft-model, K = 8" in err


def test_outputs_of_one_token_get_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--max-new-tokens", "1", "--prompt-count", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["max_new_tokens"] == 1 and result["best"]["speedup"] > 0


@pytest.mark.slow
def test_the_text_has_the_verdict_the_reasons_and_the_method_of_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "mine.txt"
    prompts.write_text("def add(a, b):\n\nclass Tree:\n")
    assert main([*SHORT, "--prompt-file", str(prompts)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(("Speculate with ", "Do not speculate: "))
    assert "of the examined guesses pass" in out and "Interval, 95 %" in out


@pytest.mark.slow
def test_a_check_says_how_much_of_the_best_speedup_the_choice_reaches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(advice_check, "PASSES", 1)
    monkeypatch.setattr(advice_check, "PROMPTS", 1)
    short = ["--methods", "prompt-lookup", "--max-new-tokens", "3"]
    assert main([*SHORT, *short, "--prompt-count", "2", "--check"]) == 0
    out = capsys.readouterr().out
    assert "Compared with 6 measured settings: the advice gives " in out and " it reaches " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "0"], "batch_size must be a whole number from 1 to 64"),
        (["--methods", "magic"], "methods must be among"),
        (["--methods", ","], "methods must name at least one"),
        (["--task", "poems"], "task must be one of"),
        (["--seconds", "0"], "seconds must be a positive number, got 0"),
        (["--temperature", "-1"], "temperature must be 0 or from"),
        (["--prompt-file", "/no/such/file"], "prompt-file"),
        (["--draft", "x"], "draft must be given together with target"),
    ],
)
def test_a_request_that_cannot_get_advice_is_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", "--device", "cpu", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"specviz: {message}")


def test_methods_that_the_pair_cannot_run_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    models = ["--target", "assets/models/target", "--draft", "assets/models/draft"]
    assert main(["advise", *models, "--methods", "eagle", "--seconds", "4"]) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith(
        "specviz: methods must name one that this pair can run, got eagle; the first is refused: "
    )
