"""`size` prints a sentence and then the numbers; every error is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.sizing.published import RUNS
from tests.sizing.test_file_acceptance import point, text
from tests.sizing.test_measured_times import SWEEP, lines


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["size", *arguments]) == 0
    return capsys.readouterr().out


def test_the_answer_is_one_sentence_followed_by_its_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = run(capsys, "--output-tokens", "16", "--simulate")
    assert said.startswith("Perhaps: with 8 requests at once, a whole request takes ")
    assert "published measurements" in said and "at random" in said


def test_json_contains_every_number_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "--acceptance", "0.5", "--draft-length", "3", "--json"))
    assert (found["size"]["acceptance"], found["size"]["draft_length"]) == (0.5, 3)
    assert found["load"] is None


def test_trust_prints_every_published_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "--trust")
    assert (
        f"half of all {len(RUNS)} published measurements, the error is at most"
        in told.splitlines()[0]
    )
    assert all(run.setting in told for run in RUNS)
    assert "llama-3-2-1b" in run(capsys, "--list")


def test_an_unlisted_model_is_read_from_its_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    own = json.loads(run(capsys, "--target", str(file), "--gpus", "1", "--json"))["size"]
    preset = json.loads(run(capsys, "--target", "llama-3-1-8b", "--gpus", "1", "--json"))["size"]
    assert own["speedup"] == preset["speedup"] and own["target"] == str(file)


def test_the_acceptance_rate_can_come_from_a_sweep_and_names_its_source(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(text(point(400, 240), point(400, 320)))
    found = json.loads(run(capsys, "--from-sweep", str(file), "--json"))["size"]
    assert found["acceptance"] == pytest.approx(0.7)
    told = "0.70 for the pair bundled with draft-model, from 400 examined guesses in"
    assert told in found["reasons"][-2]
    file.write_text(text(point(6, 6)))
    assert main(["size", "--from-sweep", str(file)]) == 2
    assert "must have at least 300 examined guesses" in capsys.readouterr().err


def test_rates_that_would_round_to_the_same_number_get_more_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = {"target": "qwen2-5-7b", "draft": "qwen2-5-0-5b", "gpus": "1", "precision": "fp8"}
    flags = [each for name, value in small.items() for each in (f"--{name}", value)]
    ways = json.loads(run(capsys, *flags, "--json"))["size"]
    hours = [ways[way]["card_hours_per_million"] for way in ("plain", "speculative")]
    assert f"{hours[0]:.2f}" == f"{hours[1]:.2f}" and hours[0] != hours[1]
    lines = run(capsys, *flags).splitlines()
    cells = [line.split()[-1] for line in lines if line.startswith(("plain ", "speculative "))]
    assert cells[0] != cells[1]
    assert list(map(float, cells)) == pytest.approx(hours, rel=0.01)


def test_measured_times_do_not_change_the_computed_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(lines(SWEEP))
    with_times = json.loads(run(capsys, "--measured", str(file), "--json"))
    assert with_times["size"] == json.loads(run(capsys, "--json"))["size"]
    assert "the plan has Llama 3.1 or 3.3 70B with" in " ".join(with_times["measured"])


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--gpus", "0"], "gpus must be a whole number from 1 to 64, got '0'"),
        (["--gpu", "h300"], "gpu must be one of a100-40"),
        (["--from-sweep", "nowhere.jsonl"], "from-sweep must be a readable file"),
        (["--from-trace", "nowhere.json"], "must be an existing file"),
        (["--measured", "nowhere.json"], "measured must be a readable file, got 'nowhere.json'"),
        (
            ["--measured", "pyproject.toml"],
            "measured must be the JSON of load, of bench over batch",
        ),
        (["--target", "pyproject.toml"], "has a broken config.json"),
        (["--target", "llama-3-3-70b"], "got 'llama-3-3-70b'; did you mean llama-3-1-70b?"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["size", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
