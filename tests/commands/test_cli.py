"""Every command prints one JSON value on stdout, or one line and status 2 for bad input."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from specviz.cli import COMMANDS, main
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.metrics import summarise
from specviz.models.files.chat_model import FOLDER
from specviz.models.pair_catalog import models_folder, pair_named
from specviz.prompts import held_out_prompt
from specviz.records import BASELINE, Drawing
from specviz.trace_file import load


def run(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys, *arguments):
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_app_py_takes_the_flags_of_serve():
    command = [sys.executable, "app.py", "--port", "x"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == "specviz: port must be a whole number, got 'x'\n"


def test_listing_the_commands_imports_no_library_of_models():
    code = "import sys; from specviz.cli import main; sys.argv[1:] = ['--help']\n"
    code += "try: main()\nexcept SystemExit: assert not {'torch', 'gradio'} & set(sys.modules)\n"
    code += "else: raise AssertionError('no help')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Compare a method with plain decoding" in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_list_has_its_own_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0 and f"python -m specviz {name}" in capsys.readouterr().out


def test_methods_lists_the_registry(capsys):
    listed = run_json(capsys, "methods")
    assert [method["name"] for method in listed] == list(DRAFTERS)
    assert {"name", "title", "drawings", "rules", "lossy", "needs"} <= set(listed[0])


def test_methods_says_how_far_lossy_rules_are_from_the_target(capsys):
    lossy = {each["name"]: each["lossy"] for each in run_json(capsys, "methods") if each["lossy"]}
    chosen = [method for method in DRAFTERS.values() if Drawing.CHOSEN in method.drawings]
    assert list(lossy) == [method.name for method in chosen]
    (typical,) = lossy["medusa"]
    assert typical["rule"] == "typical"
    assert typical["total_variation"] > 2 * typical["noise_floor"] > 0


def test_a_race_under_a_lossy_rule_says_so_in_result_and_trace(capsys, tmp_path):
    file = tmp_path / "lossy.json.gz"
    result = run_json(
        capsys, "race", "--method", "medusa", "--rule", "typical", "--temperature", "0.8",
        "--max-new-tokens", "8", "--repeat", "1", "--trace", str(file),
    )  # fmt: skip
    assert result["lossless"] is False
    trace = load(file)
    assert trace.config.rule == "typical"
    assert trace.main.total_variation is not None and trace.main.total_variation > 0.1


def test_a_race_with_an_adaptive_length_says_so_in_its_trace(capsys, tmp_path):
    file = tmp_path / "adaptive.json.gz"
    result = run_json(
        capsys, "race", "--pair", "bundled", "--method", "draft-model", "--draft-length", "8",
        "--length-policy", "adaptive", "--entropy-threshold", "0.3", "--max-new-tokens", "24",
        "--repeat", "1", "--trace", str(file),
    )  # fmt: skip
    assert result["identical"] is True
    config = load(file).config
    assert (config.length_policy, config.entropy_threshold) == ("adaptive", 0.3)


def test_models_prints_the_size_of_the_bundled_pair(capsys):
    bundled = run_json(capsys, "models")[1]
    assert bundled["name"] == "bundled" and bundled["source"] == "bundled"
    assert bundled["target"]["parameters"] > bundled["draft"]["parameters"] > 100_000
    assert bundled["methods"] == list(DRAFTERS)


def test_models_reports_on_two_models_before_they_are_loaded(capsys):
    pair = pair_named("bundled")
    report = run_json(capsys, "models", "--check", pair.target, pair.draft)[0]
    assert report["relation"] == "equal" and report["problems"] == []
    assert report["bytes_needed"] > 40_000_000
    assert set(report["methods"]) >= {"draft-model", "early-exit", "prompt-lookup"}
    status, out, err = run(capsys, "models", "--json", "--check", pair.target, pair.foreign_draft)
    (foreign,) = json.loads(out)
    assert status == 1 and "this pair cannot run: 1 problem" in err
    assert foreign["relation"] == "different" and foreign["problems"]
    assert "cross-vocabulary" in foreign["methods"] and "draft-model" not in foreign["methods"]


def test_a_downloaded_pair_is_listed_without_its_missing_parts(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "config.json").write_text("{}")
    (got,) = run_json(capsys, "models", "--get", "bundled")
    assert got["draft"] and all(got.values())
    status, out, _ = run(capsys, "models", "--get", "smollm2")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0 and all(len(words) > 1 and words[1] != "-" for words in lines)


def test_models_reports_on_a_target_alone(capsys):
    target = pair_named("bundled").target
    report = run_json(capsys, "models", "--check", target)[0]
    assert report["draft"] is None and report["relation"] is None and report["problems"] == []
    assert "prompt-lookup" in report["methods"] and "draft-model" not in report["methods"]
    status, _, err = run(capsys, "models", "--check", target, target, target)
    assert status == 2 and "'check' must name a target and at most one draft, got 3 models" in err


def test_the_report_on_two_models_uses_the_requested_precision(capsys):
    pair = pair_named("bundled")
    sizes = []
    for dtype in ("float32", "bfloat16", "float16"):
        words = ("models", "--check", pair.target, pair.draft, "--dtype", dtype)
        status, out, _ = run(capsys, *words)
        assert status == 0 and re.search(rf"\nprecision +{dtype}\n", out)
        assert not re.search(r"None|\(\)|[{\[]|\d{7}", out)
        sizes.append(run_json(capsys, *words)[0]["memory"]["weights"])
    # float16 weights are never packed; bfloat16 weights are packed only if the processor can
    # multiply them
    assert sizes[0] > 2 * sizes[2] and sizes[1] in (sizes[2], sizes[0] // 2)


def test_race_reports_both_lanes_and_saves_a_trace_that_loads(capsys, tmp_path):
    file = tmp_path / "race.json.gz"
    result = run_json(
        capsys, "race", "--max-new-tokens", "12", "--repeat", "2", "--trace", str(file)
    )
    assert result["identical"] is True and result["first_divergence"] is None
    assert result["baseline"]["text"] == result["speculative"]["text"] != ""
    assert result["baseline"]["tokens"] == result["speculative"]["tokens"] == 12
    low, high = result["speedup_spread"]
    assert low <= result["speedup"] <= high
    # the page and the report show the same summary
    saved = dataclasses.asdict(summarise(load(file)))
    for name in ("speedup", "speedup_tokens", "theory_speedup"):
        assert result[name] == pytest.approx(saved[name], rel=1e-5), name
    for lane in ("baseline", "speculative"):
        for name in ("tokens", "seconds", "tokens_per_second", "ttft_seconds"):
            assert result[lane][name] == pytest.approx(saved[lane][name], rel=1e-5), name
    limit, share = result["reading"], result["baseline"]["reading_share"]
    target = load(file).target
    # the output matrix is also the embedding, so it counts once
    assert limit["step_bytes"] == 4 * target.parameters
    assert 0 < share == pytest.approx(saved["baseline"]["reading_share"], rel=1e-4)
    rates = {"acceptance_rate", "block_efficiency", "target_forwards", "draft_utilization"}
    ours = {name: result["speculative"][name] for name in rates}
    assert ours == {name: saved["speculative"][name] for name in rates}
    setting = result["setting"]
    assert (setting["task"], setting["prompt"]) == ("code", held_out_prompt("code", 1))
    assert (setting["draft_length"], setting["max_new_tokens"], setting["repeat"]) == (5, 12, 2)
    assert set(setting) >= {"target", "draft", "dtype", "device", "top_p", "seed", "options"}
    trace = load(file)
    assert result["drafter_bytes"] > 1_000_000
    assert result["drafter_cache_bytes"] == trace.main.drafter_cache_bytes > 100_000
    assert len(trace.emitted_ids) == 12 and trace.emitted_ids == trace.lane(BASELINE).emitted_ids


# One method with a draft model, one with heads, and one with neither. The slow tests run the
# others.
FREE_TEXT = [
    pytest.param(
        name, marks=() if name in ("draft-model", "medusa", "lookahead") else pytest.mark.slow
    )
    for name in DRAFTERS
]


@pytest.mark.parametrize("method", FREE_TEXT)
def test_race_runs_every_method_on_free_text(capsys, method):
    result = run_json(
        capsys, "race", "--method", method, "--prompt", "one two one two one", "--repeat", "1",
        "--max-new-tokens", "8", "--temperature", "0.8", "--seed", "3",
    )  # fmt: skip
    assert result["method"] == method and result["identical"] is None
    assert result["speculative"]["target_forwards"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["token", "block", "traversal"])
def test_lossless_prints_a_verdict(rule, capsys):
    result = run_json(capsys, "lossless", "--samples", "100", "--draft-length", "2", "--rule", rule)
    assert (result["verdict"], result["rule"]) == ("lossless", rule)
    assert 0 < result["total_variation"] <= result["noise_ceiling"]


BAD = {
    "draft_length must be a whole number from 1 to 32, got 0": ["--draft-length", "0"],
    "draft_length must be a whole number from 1 to 32, got 1000000": ["--draft-length", "1000000"],
    "temperature must be 0 or from 0.001 to 5, got -1.0": ["--temperature", "-1"],
    "temperature must be 0 or from 0.001 to 5, got nan": ["--temperature", "nan"],
    "top_p must be above 0 and at most 1, got 0.0": ["--top-p", "0"],
    "top_k must be a whole number from 0 to 1,000,000, got -3": ["--top-k", "-3"],
    "method must be one of": ["--method", "nonsense"],
    "drawing must be independent for method draft-model, got 'x'": ["--drawing", "x"],
    "rule must be one of token, block, traversal, typical, got 'x'": ["--rule", "x"],
    "length_policy must be one of fixed, adaptive, got 'x'": ["--length-policy", "x"],
    "entropy_threshold must be at least 0 and below 1, got 1.0": ["--entropy-threshold", "1"],
    "branching must be empty for method draft-model": ["--branching", "2"],
    "branching must be whole numbers separated by commas": [
        "--method",
        "draft-tree",
        "--branching",
        "a",
    ],
    "at most 64 nodes": ["--method", "draft-tree", "--branching", "9,9"],
    "task must be one of": ["--task", "poetry"],
    "prompt-number must be from 1 to 40, got 41": ["--prompt-number", "41"],
    "prompt must have some text": ["--prompt", "  "],
    "prompt must have at most": ["--prompt", "word " * 3000],
    "prompt-file 'absent.txt' cannot be read": ["--prompt-file", "absent.txt"],
    "prompt and prompt-file must not be given together": ["--prompt", "a", "--prompt-file", "b"],
    "pair must be one of": ["--pair", "nonsense"],
    "draft must be given together with target": ["--draft", "somewhere"],
    "eagle must be given together with target": ["--eagle", "somewhere"],
    "medusa must be given together with target": ["--medusa", "somewhere"],
    "dtype must be one of": ["--dtype", "int3"],
    "device must be one of": ["--device", "abacus"],
    "repeat must be a whole number from 1": ["--repeat", "0"],
    "max_new_tokens must be a whole number from 1": ["--max-new-tokens", "0"],
    "--bogus is not a flag of this command": ["--bogus"],
    "draft-length must be a whole number, got 'many'": ["--draft-length", "many"],
    "half of a surrogate pair": ["--prompt", "a\ud800b"],
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_gives_one_line_and_status_2(capsys, sentence):
    status, out, err = run(capsys, "race", *BAD[sentence])
    assert status == 2 and out == ""
    assert sentence in err
    assert err.startswith("specviz: ") and err.count("\n") == 1


def test_a_nul_character_and_ten_thousand_emoji_do_not_crash_the_command(capsys):
    assert run(capsys, "race", "--prompt", "a\0b", "--max-new-tokens", "3")[0] == 0
    status, _, err = run(capsys, "race", "--prompt", "🦄" * 10_000)
    assert status == 2 and "prompt must have at most" in err


def test_a_target_without_a_draft_races_with_a_method_that_needs_none(capsys):
    target = ["--target", str(models_folder() / "target"), "--max-new-tokens", "8"]
    status, out, _ = run(capsys, "race", *target, "--method", "prompt-lookup", "--json")
    assert status == 0 and json.loads(out)["identical"]
    status, out, err = run(capsys, "race", *target, "--method", "draft-model")
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert "has no draft model: choose a method that needs none, or one of the pairs " in err
    assert " bundled, " in err


@pytest.mark.parametrize(
    "flags",
    [
        ("lossless", "--draft-length"),
        ("lossless", "--seed"),
        ("lossless", "--option"),
        ("compare", "--max-new-tokens"),
        ("load", "http://127.0.0.1:9", "--each"),
        ("sweep", "--axis"),
        ("race", "--branching"),
        ("size", "--precision"),
    ],
)
def test_a_very_long_value_is_shortened_in_the_message(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    *command, flag = flags
    assert main([*command, f"{flag}={'9' * 400}"]) == 2
    message = capsys.readouterr().err
    assert len(message) < 300 and message.count("\n") == 1
    assert "999...999" in message
