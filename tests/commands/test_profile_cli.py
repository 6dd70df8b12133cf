"""`profile` prints tables or JSON, saves traces, and fails below a required acceptance rate."""

from __future__ import annotations

import pytest

from specviz.acceptance_profile import TITLES
from specviz.cli import main
from specviz.records import Outcome
from specviz.trace_file import load
from tests.commands.test_cli import run, run_json

SHORT = ["--max-new-tokens", "24", "--prompt-count", "3"]


def test_profile_ranks_losses_and_saves_the_traces_of_its_examples(capsys, tmp_path):
    folder = tmp_path / "runs" / "new"
    result = run_json(
        capsys, "profile", "--temperature", "0.8", "--traces", str(folder), *SHORT
    )  # fmt: skip
    assert result["prompts"] == 3 and result["method"] == "draft-model"
    assert set(result["rankings"]) == set(TITLES)
    assert [load(name).prompt for name in result["traces"]]
    assert (result["pair"], result["max_new_tokens"]) == ("bundled", 24)
    assert result["milliseconds_lost"] < 1000 * result["typical_seconds"]
    assert result["milliseconds_lost_as_measured"] < 1000 * result["seconds"]
    assert result["min_block_efficiency"] is None
    assert result["block_efficiency"] == pytest.approx(result["tokens"] / result["rounds"])
    assert result["tokens_per_second"] == pytest.approx(result["tokens"] / result["seconds"])
    for groups in result["rankings"].values():
        assert sum(each["rejections"] for each in groups) == result["rejections"]
        example = groups[0]["examples"][0]
        trace = load(result["traces"][example["trace"]])
        round_ = trace.rounds[example["round"]]
        texts = dict(trace.token_texts)
        assert round_.verdicts[example["node"]].outcome is Outcome.REJECTED
        assert texts[round_.tree.nodes[example["node"]].token_id] == example["drafted"]
        assert texts[round_.extra.token_id] == example["wanted"]


def test_profile_shows_tables_on_stdout_and_progress_on_stderr(capsys):
    status, out, err = run(capsys, "profile", "--temperature", "0.8", *SHORT)
    assert status == 0
    assert all(title in out for title in TITLES.values()) and "ms lost" in out
    assert "24 tokens a prompt" in out and "median time" in out
    assert [line.split(":")[0] for line in err.splitlines()] == [
        f"prompt {number} of 3" for number in (1, 2, 3)
    ]


def test_a_method_without_a_draft_can_be_profiled(capsys, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("one two three one two\n\na b\na b\na b\n")
    result = run_json(
        capsys, "profile", "--prompt-file", str(file), "--method", "prompt-lookup",
        "--max-new-tokens", "12",
    )  # fmt: skip
    assert result["prompts"] == 2 and result["traces"] is None


def test_a_rate_below_the_required_minimum_fails_in_one_line(capsys):
    result = run_json(capsys, "profile", "--min-block-efficiency", "1", *SHORT)
    assert result["min_block_efficiency"] == 1
    status, out, err = run(capsys, "profile", "--min-block-efficiency", "33", "--json", *SHORT)
    assert status == 1 and out.startswith("{")
    said = f"specviz: block efficiency is {result['block_efficiency']:.3f}, below "
    assert err.splitlines()[-1] == said + "min-block-efficiency 33"


def test_a_rate_that_could_not_be_measured_fails_the_requirement(capsys):
    arguments = ["--prompt-count", "1", "--max-new-tokens", "1", "--min-block-efficiency", "2"]
    status, out, err = run(capsys, "profile", *arguments)
    assert status == 1 and "unknown: no round was needed" in err.splitlines()[-1]
    assert "prompts" in out


BAD = {
    "min-block-efficiency must be a number from 1 to 33, got 0.5": [
        "--min-block-efficiency",
        "0.5",
    ],
    "min-block-efficiency must be a number from 1 to 33, got nan": [
        "--min-block-efficiency",
        "nan",
    ],
    "prompt-count must be a whole number from 1 to 40, got 0": ["--prompt-count", "0"],
    "prompt-count must be a whole number from 1 to 40, got 41": ["--prompt-count", "41"],
    "prompt-file '/nowhere' cannot be read": ["--prompt-file", "/nowhere"],
    "task must be one of": ["--task", "cooking"],
    "traces folder '/dev/null/x' cannot be written": ["--traces", "/dev/null/x"],
}


@pytest.mark.parametrize("said", BAD)
def test_bad_input_gives_one_line_and_status_2(capsys, said):
    status, out, err = run(capsys, "profile", *BAD[said])
    assert status == 2 and out == ""
    assert len(err.splitlines()) == 1 and said in err


def test_too_many_prompts_are_refused_unless_a_number_is_given(capsys, tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("line\n" * 501)
    status, _, err = run(capsys, "profile", "--prompt-file", str(file))
    assert status == 2 and "prompt-file must have at most 500 prompts, got 501" in err
    assert (
        main(
            ["profile", "--prompt-file", str(file), "--prompt-count", "1", "--max-new-tokens", "4"]
        )
        == 0
    )
