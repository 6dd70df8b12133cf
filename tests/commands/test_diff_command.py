"""`diff` on two trace files prints one JSON value, or the same result as text."""

import dataclasses
import json
from argparse import Namespace

import pytest

from specviz import trace_file
from specviz.commands.diff_command import diff, diff_text
from specviz.errors import InputError
from specviz.records import FinishReason
from tests.random_traces import changed
from tests.trace_diff.test_trace_diff import FORCED, INDEX, TRACE


@pytest.fixture
def files(tmp_path):
    """Return a function that saves traces and returns the command-line arguments for `diff`."""

    def save(*traces):
        names = [str(tmp_path / f"{index}.json.gz") for index in range(len(traces))]
        for trace, name in zip(traces, names, strict=True):
            trace_file.save(trace, name)
        return Namespace(traces=names)

    return save


def run(options):
    return diff(options, lambda line: None)


def test_the_result_has_the_index_the_reason_and_numbers_of_both_runs(files):
    options = files(TRACE, FORCED)
    result = run(options)
    assert json.loads(json.dumps(result, allow_nan=False)) == json.loads(json.dumps(result))
    assert (result["identical"], result["index"]) == (False, INDEX)
    assert result["reason"] == "another draw"
    assert result["cause"]["draws"][1] == 0.0
    assert [result[name]["file"] for name in "ab"] == options.traces
    assert result["a"]["token"]["origin"] == "recovered"
    accepted = result["b"]["token"]
    assert accepted["origin"] == "accepted" and accepted["u"] == 0.0 < accepted["accept"]
    assert set(accepted) == {
        *("id", "text", "origin", "round", "p", "residual", "q", "accept", "u")
    }
    assert result["a"]["tokens"] == len(TRACE.emitted_ids)
    assert result["sentence"].startswith("Token 5 is the first to differ: ")


def test_the_same_text_twice_is_identical(files):
    result = run(files(TRACE, TRACE))
    assert result["identical"] is True
    assert result["index"] is result["reason"] is result["cause"] is result["a"]["token"] is None
    assert diff_text(result).startswith("Both texts are the same.\n\nrun")


def test_enumerations_are_written_as_words(files):
    shorter = changed(TRACE, rounds=TRACE.rounds[:2], finish=FinishReason.STOPPED)
    result = run(files(TRACE, shorter))
    assert result["cause"] == {"which": "b", "finish": "stopped"}
    assert result["b"]["token"] is None


def test_the_text_has_the_sentence_a_table_and_both_tokens(files):
    result = run(files(TRACE, FORCED))
    parts = diff_text(result).split("\n\n")
    assert parts[0] == result["sentence"]
    assert parts[1].split()[:3] == ["run", "method", "tokens"]
    assert [part.splitlines()[0] for part in parts[2:]] == ["in a", "in b"]


def test_text_from_a_file_cannot_control_the_terminal(files):
    nasty = "\x1b[2J\nowned\u202e"
    config = dataclasses.replace(TRACE.config, method=nasty)
    texts = tuple((token_id, nasty) for token_id, _ in TRACE.token_texts)
    hostile = dataclasses.replace(changed(TRACE, config=config), token_texts=texts)
    other = dataclasses.replace(changed(FORCED, config=config), token_texts=texts)
    shown = diff_text(run(files(hostile, other)))
    assert "\\x1b[2J\\nowned\\u202e" in shown
    assert not {"\x1b", "\u202e"} & set(shown) and "\nowned" not in shown.replace("\\n", "")


def test_a_file_that_is_no_trace_is_refused(files, tmp_path):
    options = Namespace(traces=[files(TRACE).traces[0], str(tmp_path / "no such file")])
    with pytest.raises(InputError, match="path must be an existing file"):
        run(options)
