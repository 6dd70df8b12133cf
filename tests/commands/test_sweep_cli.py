"""`sweep` prints one JSON object or a table, and its file survives a kill."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.commands.sweep_command import sweep_text
from specviz.sizing.measured_times import read_measured

RATES = ("tokens_per_second", "ttft_seconds")
SMALL = [
    "sweep",
    "--device",
    "cpu",
    "--max-new-tokens",
    "6",
    "--prompt-count",
    "1",
    "--repeat",
    "1",
]


def test_a_sweep_prints_one_object_and_fills_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, table = tmp_path / "sweep.jsonl", tmp_path / "sweep.csv"
    files = ["--output", str(output), "--csv", str(table)]
    assert main([*SMALL, "--axis", "draft-length=1-3", *files, "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    lengths = [point["setting"]["draft-length"] for point in result["points"]]
    assert lengths == [1, 2, 3] and len(result["noise"]) == 1
    assert "3 of 3: draft-length 3" in err
    kept = [json.loads(line) for line in output.read_text().splitlines()[1:]]
    assert kept == result["points"]
    rows = list(csv.DictReader(table.open()))
    assert [row["draft-length"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["speedup"]) == result["points"][0]["speedup"]


def test_a_sweep_over_batches_contains_the_times_that_load_simulation_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one sequence, the time of a run's rounds is their number times the time of one round."""
    output = tmp_path / "sweep.jsonl"
    flags = ["--max-new-tokens", "48", "--axis", "batch-size=1,2", "--draft-length", "3"]
    assert main([*SMALL, *flags, "--output", str(output), "--json"]) == 0
    found = capsys.readouterr().out
    (point, _) = json.loads(found)["points"]
    times = read_measured(output.read_text(), "sweep.jsonl")
    assert times == read_measured(found, "sweep.json")
    (rows, each), (more, _) = times.rounds[3]
    assert (rows, more) == (1, 2)
    spent = sum(point[f"{name}_seconds"] for name in ("draft", "verify", "host"))
    assert point["rounds"] * each == pytest.approx(spent, rel=0.3)
    assert main(["size", "--measured", str(output), "--output-tokens", "16", "--load", "1"]) == 0
    said = capsys.readouterr().out
    assert "measured, not computed: the decoder here (sweep) with draft-model" in said


def test_a_sweep_whose_file_was_truncated_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "sweep.jsonl"
    command = [*SMALL, "--axis", "draft-length=1-2", "--output", str(output), "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)["points"][0]
    *before, last = output.read_text().splitlines(keepends=True)
    # simulates a machine that is switched off during the write
    output.write_text("".join(before) + last[:20])
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["points"]) == 2 and json.loads(out)["points"][0] == first
    assert output.read_text().startswith("".join(before)) and output.read_text().count("\n") == 3
    done = [line.split()[0] for line in err.splitlines() if " of 2:" in line]
    assert done == ["2"]  # points that are already in the file are not measured again


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_sweep_resumes_at_its_last_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: signal.Signals
) -> None:
    output = tmp_path / "sweep.jsonl"
    command = [*SMALL, "--axis", "draft-length=1-6", "--output", str(output)]
    run = subprocess.Popen(
        [sys.executable, "-m", "specviz", *command], stderr=subprocess.PIPE, text=True
    )
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("2 of 6"):
            break
    run.send_signal(how)
    run.wait(10)
    if how is signal.SIGTERM:
        assert run.stderr.read().splitlines()[-1] == "specviz: stopped"
    run.stderr.close()
    before = output.read_text()
    before = before[: before.rindex("\n") + 1]
    assert 3 <= before.count("\n") < 7
    output.write_text(before + '{"setting": {"draft-le')  # simulates a kill during the write
    assert main([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["points"]) == 6
    assert output.read_text().startswith(before) and output.read_text().count("\n") == 7
    done = [line.split()[0] for line in err.splitlines() if " of 6:" in line]
    assert done[-1] == "6" and int(done[0]) == before.count("\n")


def test_custom_prompts_are_swept_and_stored_with_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, output = tmp_path / "own.txt", tmp_path / "sweep.jsonl"
    texts.write_text("def add(a, b):\nclass Stack:\n")
    files = ["--prompt-file", str(texts), "--output", str(output), "--json"]
    small = ["sweep", "--device", "cpu", "--max-new-tokens", "6", "--repeat", "1"]
    command = [*small, "--axis", "draft-length=2", *files]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["texts"] == ["def add(a, b):", "class Stack:"]
    assert (result["task"], result["prompts"]) == (None, 2)
    texts.write_text("another one\n")
    assert main(command) == 2
    assert "must be new or from this sweep" in capsys.readouterr().err
    assert main([*command, "--axis", "task=code,story"]) == 2
    assert "task must not be an axis together with your own prompts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--axis", "width=1", "--axis", "width=2"], "axis must name one or two different axes"),
        (["--axis", "draft-length"], "axis must be NAME=VALUES, such as draft-length=1-8"),
        (["--axis", "speed=1"], "axis must be one of draft-length"),
        (
            ["--axis", "draft-length=1", "--prompt-count", "0"],
            "prompts must be a whole number from 1",
        ),
        (["--axis", "draft-length=1", "--task", "poems"], "task must be one of"),
        (["--axis", "draft-length=1", "--output", "/no/such/f"], "output file '/no/such/f' cannot"),
        (["--output", "/dev/null"], "output file '/dev/null' must be a regular file"),
        (["--csv", "/no/such/f"], "csv file '/no/such/f' cannot be written"),
        (["--csv", "x", "--output", "./x"], "csv must name another file than output"),
        (["--output", ""], "output must name a file, got ''"),
        (["--prompt-file", ""], "prompt-file must name a file, got ''"),
    ],
)
def test_an_impossible_sweep_is_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "--device", "cpu", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"specviz: {message}")


def test_batch_sizes_are_swept_resumed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, table = tmp_path / "batches.jsonl", tmp_path / "batches.csv"
    command = [*SMALL, "--axis", "batch-size=1,2", "--output", str(output)]
    assert main([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["points"]
    lines = output.read_text().splitlines(keepends=True)
    output.write_text("".join(lines[:2]))  # simulates a kill after the first point
    assert main([*command, "--csv", str(table), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["points"]
    assert again[0] == first[0] and again[1]["setting"] == {"batch-size": 2}
    assert [row["batch-size"] for row in csv.DictReader(table.open())] == ["1", "2"]


def test_a_file_with_too_many_prompts_is_refused_and_not_truncated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "many.txt"
    texts.write_text("\n".join(f"def f{i}():" for i in range(41)))
    assert main(["sweep", "--device", "cpu", "--prompt-file", str(texts)]) == 2
    assert "prompt-file must have at most 40 prompts, got 41" in capsys.readouterr().err


def test_without_an_axis_the_draft_length_is_swept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--max-new-tokens", "3", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [point["setting"] for point in points] == [{"draft-length": K} for K in range(1, 9)]


def test_two_axes_give_a_table_that_shows_where_speculation_loses() -> None:
    speedups = {("eagle", 1): 2.0, ("eagle", 8): 0.9, ("medusa", 1): 1.5, ("medusa", 8): 1.2}
    names = ("theory_speedup", "acceptance_rate", "rejection_rate", "block_efficiency")
    usual = dict.fromkeys((*names, "draft_utilization"))
    lanes = [f"{lane}{what}" for lane in ("", "baseline_") for what in RATES]
    rates = dict.fromkeys(lanes, 1.0)
    points = [
        {"setting": {"method": method, "batch-size": size}, "speedup": speedup}
        | {"speedup_spread": [speedup, speedup], **usual, **rates}
        for (method, size), speedup in speedups.items()
    ]
    axes = [["method", ["eagle", "medusa"]], ["batch-size", [1, 8]]]
    text = sweep_text({"axes": axes, "points": points, "noise": [1.0]})
    grid = text.split("Speedup by batch-size:\n")[1].splitlines()
    assert grid[0].split() == ["method", "1", "8", "loses", "at"]
    assert [line.split() for line in grid[1:3]] == [
        ["eagle", "2.00", "0.90", "8"],
        ["medusa", "1.50", "1.20", "-"],
    ]


@pytest.mark.parametrize("text", ["{}\n", "hello", "\x00\n"])
def test_a_file_with_other_content_is_not_overwritten(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "sweep.jsonl"
    output.write_text(text)
    assert main([*SMALL, "--axis", "draft-length=1", "--output", str(output)]) == 2
    assert "must be new or from this sweep" in capsys.readouterr().err
    assert output.read_text() == text
