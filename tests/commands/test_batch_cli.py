"""Batches on the command line report totals and rows, save traces, and refuse bad input."""

import json
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.decoding.batch_options import row_seed
from specviz.prompts import held_out_prompt, held_out_prompts, held_out_rows
from specviz.records import BASELINE, BatchRound
from specviz.sizing.measured_times import read_measured
from specviz.trace_file import load
from tests.commands.test_cli import run, run_json

SHORT = ["--max-new-tokens", "8", "--repeat", "1"]


def test_race_reports_the_batch_and_every_row_and_saves_a_trace_of_each(capsys, tmp_path):
    file = tmp_path / "race.json.gz"
    result = run_json(
        capsys, "race", "--batch-size", "3", "--prompt-number", "39", "--trace", str(file),
        "--max-new-tokens", "12", "--repeat", "2",
    )  # fmt: skip
    baseline, speculative, rows = (result[key] for key in ("baseline", "speculative", "rows"))
    assert result["identical"] is True and result["batch_size"] == len(rows) == 3
    assert sum(row["tokens"] for row in rows) == speculative["tokens"] == baseline["tokens"]
    low, high = result["speedup_spread"]
    assert low <= result["speedup"] <= high
    assert speculative["padding"] == speculative["slot_waste"] * speculative["slots"]
    assert [row["seed"] for row in rows] == [row_seed(0, number) for number in range(3)]
    for number, row in enumerate(rows):
        assert Path(row["trace"]) == tmp_path / f"race-row{number}.json.gz"
        trace = load(row["trace"])
        assert trace.prompt == held_out_rows("code", 3, 39)[number]
        assert (
            trace.emitted_ids == trace.lane(BASELINE).emitted_ids
            and len(trace.emitted_ids) == row["tokens"]
        )
        assert trace.config.seed == row["seed"]
        notes = [each.notes[-1] for each in trace.rounds]
        assert all(isinstance(note, BatchRound) and note.row == number for note in notes)


@pytest.mark.slow
def test_each_row_equals_a_race_with_its_prompt_and_seed_alone(capsys):
    sampled = ["--temperature", "0.8", "--max-new-tokens", "16", "--repeat", "1"]
    row = run_json(capsys, "race", "--batch-size", "2", "--seed", "4", *sampled)["rows"][1]
    alone = run_json(
        capsys, "race", "--prompt-number", "2", "--seed", str(row["seed"]), *sampled
    )["speculative"]  # fmt: skip
    assert row["identical"] is None
    same = ("text", "tokens", "target_forwards", "acceptance_rate", "block_efficiency")
    assert [row[name] for name in same] == [alone[name] for name in same]


def test_the_prompts_of_a_file_become_the_rows_of_the_batch(capsys, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("def f():\n    return\n\n  \nthree four five\n")
    result = run_json(
        capsys, "race", "--batch-size", "2", "--prompt-file", str(file), *SHORT,
        "--method", "prompt-lookup",
    )  # fmt: skip
    alone = run_json(
        capsys, "race", "--batch-size", "1", "--prompt", "def f():\n    return", *SHORT,
        "--method", "prompt-lookup",
    )  # fmt: skip
    assert result["rows"][0]["prompt_tokens"] == alone["rows"][0]["prompt_tokens"]
    status, _, err = run(capsys, "race", "--batch-size", "4", "--prompt-file", str(file))
    assert status == 2
    assert "prompt-file must have at least 4 prompts, one for each row of the batch, got 2" in err


@pytest.mark.slow
def test_a_typed_prompt_is_in_every_row_with_different_draws(capsys):
    result = run_json(
        capsys, "race", "--batch-size", "3", "--prompt", "x = ", "--temperature", "1",
        "--max-new-tokens", "24", "--repeat", "1", "--draft-budget", "4", "--speculate-up-to", "2",
    )  # fmt: skip
    assert len({row["text"] for row in result["rows"]}) == 3
    assert result["speculation_limits"] == [2] and result["draft_budget"] == 4


def test_a_measured_memory_limit_is_shown(capsys):
    result = run_json(capsys, "race", "--batch-size", "2", "--speculate-up-to", "0", *SHORT)
    assert result["speculate_up_to"] == 0 and result["speculation_limits"][-1] == 2


def test_bench_prints_a_table_by_batch_size(capsys):
    arguments = [
        "bench", "--batch-size", "1,2", "--tasks", "code", "--methods", "draft-model",
        "--draft-lengths", "3", *SHORT,
    ]  # fmt: skip
    result = run_json(capsys, *arguments)
    assert [row["batch_size"] for row in result["rows"]] == [1, 2]
    for row in result["rows"]:
        ratio = row["tokens_per_second"] / row["baseline_tokens_per_second"]
        assert row["speedup"] == pytest.approx(ratio)
        assert 0 <= row["slot_waste"] < 1 and row["block_efficiency"] >= 1
    times = read_measured(json.dumps(result), "bench.json")  # `size --measured` reads this file
    for curve, name in ((times.steps, "step_seconds"), (times.rounds[3], "round_seconds")):
        assert curve == tuple((row["batch_size"], row[name]) for row in result["rows"])
    assert times.prefills is not None
    (end,) = result["pays_up_to"]
    won = [row["batch_size"] for row in result["rows"] if row["speedup"] > 1]
    assert end["batch_size"] in (0, *won)
    assert main(arguments) == 0
    assert "pays up to a batch of" in capsys.readouterr().out


def test_race_shows_a_batch_as_tables(capsys):
    status, out, _ = run(capsys, "race", "--batch-size", "2", *SHORT)
    assert status == 0 and "2 rows" in out and "slots wasted" in out
    assert not out.startswith("{")


BAD = {
    "batch_size must be a whole number from 1 to 64, got 0": ["race", "--batch-size", "0"],
    "batch_size must be a whole number from 1 to 64, got 65": ["race", "--batch-size", "65"],
    "batch-size must be a whole number, got 'many'": ["race", "--batch-size", "many"],
    "batch_size must be a whole number from 1 to 64, got 99": ["bench", "--batch-size", "1,99"],
    "batch-size must be whole numbers separated by commas": ["bench", "--batch-size", "1,a"],
    "batch-size must name at least one size": ["bench", "--batch-size", ","],
    "speculate_up_to must be given together with batch-size": ["race", "--speculate-up-to", "3"],
    "draft_budget must be given together with batch-size": ["bench", "--draft-budget", "3"],
    "length_policy must be one of fixed, adaptive, got 'x'": ["bench", "--length-policy", "x"],
    "draft_budget must be a whole number from 0 to 4,096, got -1": [
        *("race", "--batch-size", "2", "--draft-budget", "-1")
    ],
    "speculate_up_to must be a whole number from 0 to 64, got 65": [
        *("race", "--batch-size", "2", "--speculate-up-to", "65")
    ],
    "prompt must have at most": ["race", "--batch-size", "2", "--prompt", "word " * 3000],
    "method must be one of": ["race", "--batch-size", "2", "--method", "nonsense"],
    "trace file": ["race", "--batch-size", "2", "--trace", "/nowhere/at/all.json"],
    "prompt-number must be from 1 to 40": ["race", "--batch-size", "2", "--prompt-number", "0"],
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_gives_one_line_and_status_2(capsys, sentence):
    status, out, err = run(capsys, *BAD[sentence])
    assert status == 2 and out == ""
    assert sentence in err and err.startswith("specviz: ") and err.count("\n") == 1


def test_after_the_last_prompt_the_rows_continue_with_the_first():
    count = len(held_out_prompts("maths"))
    rows = held_out_rows("maths", count + 1, 3)
    assert rows[0] == rows[-1] == held_out_prompt("maths", 3) and len(set(rows)) == count
