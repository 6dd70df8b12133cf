"""A trace that is written and read again has the same fields, with numbers rounded as documented.

This holds for files and for the messages to the browser.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.golden import golden_names, golden_trace
from specviz.records import (
    BASELINE,
    Drawing,
    Prefill,
    ReadingLimit,
    Round,
    TokenStep,
    Trace,
)
from specviz.trace_file import decode, decode_trace, dumps, encode, encode_trace, load, loads, save
from tests.random_rounds import random_round
from tests.random_traces import changed, random_trace

TRACES = st.builds(
    random_trace,
    seed=st.integers(0, 2**31),
    rounds=st.integers(0, 5),
    branching=st.sampled_from([(), (2, 2), (3,)]),
    drawing=st.sampled_from([Drawing.INDEPENDENT, Drawing.CHOSEN]),
    has_distributions=st.booleans(),
    cut=st.booleans(),
    temperature=st.sampled_from([0.0, 0.7, 1]),
)


def same_but_for_digits(first: object, second: object) -> bool:
    """Return whether two records are equal; floats must agree in the digits that a file keeps."""
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-5, abs_tol=1e-9)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(same_but_for_digits, first, second))
    names = getattr(first, "__dataclass_fields__", None)
    if names is None:
        return first == second
    return type(first) is type(second) and all(
        same_but_for_digits(getattr(first, name), getattr(second, name)) for name in names
    )


def test_a_file_from_before_the_settings_of_draft_lengths_has_their_defaults() -> None:
    trace = random_trace(0, rounds=2)
    file = encode_trace(trace)
    for lane in file["lanes"]:
        del lane["config"]["length_policy"], lane["config"]["entropy_threshold"]
    assert decode_trace(file).config == trace.config


@given(TRACES)
def test_a_trace_survives_the_file(trace: Trace) -> None:
    assert same_but_for_digits(loads(dumps(trace)), trace)


def test_a_file_says_how_the_run_was_measured_and_an_older_file_does_not() -> None:
    reading = ReadingLimit(2.5e10, 68_000_000)
    trace = replace(random_trace(rounds=1), beside=2, waited=0.25, reading=reading)
    trace = replace(trace, processor="AMD EPYC", made_by="specviz 0.1.0 (1a2b3c4d)")
    value = encode_trace(trace)
    assert decode_trace(value) == loads(dumps(trace))
    assert same_but_for_digits(loads(dumps(trace)), trace)
    newer = ("beside", "waited", "reading", "processor", "made_by")
    older = {key: each for key, each in value.items() if key not in newer}
    without = dict(beside=0, waited=None, reading=None, processor="", made_by="")
    assert decode_trace(older) == replace(decode_trace(value), **without)


@given(TRACES)
def test_writing_and_reading_a_second_time_changes_nothing(trace: Trace) -> None:
    once = loads(dumps(trace))
    assert loads(dumps(once)) == once


def test_a_trace_that_has_not_started_survives_the_file() -> None:
    trace = changed(random_trace(0).unstarted, draft=None)
    assert loads(dumps(trace)) == trace


def test_the_records_that_are_sent_to_the_browser_survive() -> None:
    trace = random_trace(5, rounds=2)
    assert trace.prefill is not None
    wire = json.loads(json.dumps([encode(trace.prefill), encode(trace.rounds[1])]))
    assert same_but_for_digits(decode(Prefill, wire[0], "prefill"), trace.prefill)
    assert same_but_for_digits(decode(Round, wire[1], "round"), trace.rounds[1])
    step = trace.lane(BASELINE).steps[1]
    assert same_but_for_digits(decode(TokenStep, encode(step), "step"), step)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz", "run"])
def test_save_and_load_agree_on_every_name(tmp_path: Path, name: str) -> None:
    trace = loads(dumps(random_trace(1, rounds=3)))
    save(trace, tmp_path / name)
    assert load(tmp_path / name) == trace


def test_unknown_values_stay_unknown() -> None:
    trace = loads(dumps(random_trace(3, rounds=1)))
    (each,) = trace.rounds
    unseen = tuple(replace(v, residual_prob=None, uniform_draw=None) for v in each.verdicts)
    blind = changed(trace, rounds=(replace(each, verdicts=unseen, extra_ids=()),))
    assert loads(dumps(blind)) == blind


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = random_trace(1, rounds=2)
    for name in ("a.gz", "b.gz"):
        save(trace, tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_round_takes_a_few_kilobytes() -> None:
    assert len(json.dumps(encode(random_round(0)), separators=(",", ":"))) < 4000


def test_a_probability_slightly_outside_0_to_1_is_rounded_to_the_bound() -> None:
    each = random_round(0)
    verdict = replace(each.verdicts[0], target_prob=1.0000003, residual_prob=-1e-9)
    encoded = encode(replace(each, verdicts=(verdict, *each.verdicts[1:])))
    assert encoded["verdicts"]["p"][0] == 1 and encoded["verdicts"]["residual"][0] == 0


@pytest.mark.parametrize("name", golden_names())
def test_every_recorded_run_says_which_version_made_it(name: str) -> None:
    assert re.fullmatch(r"specviz \d\.\d\.\d \([0-9a-f]{8}\)", golden_trace(name).made_by)
