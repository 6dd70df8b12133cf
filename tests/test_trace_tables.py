"""In the tables of a trace every row matches the records, and pandas reads them unchanged."""

from __future__ import annotations

import dataclasses

import pandas
import pytest

from specviz.metrics import acceptance_by_depth, block_efficiency
from specviz.records import Drawing, Outcome, Trace
from specviz.trace_tables import nodes_table, rounds_table, tokens_table
from tests.random_traces import changed, random_trace
from tests.tiny_trace import tiny_trace

TRACES = [
    tiny_trace(),
    random_trace(1, branching=(3, 2), drawing=Drawing.WITHOUT_REPLACEMENT),
    random_trace(2, has_distributions=False, cut=True),
    random_trace(3).unstarted,
]


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("table", [rounds_table, nodes_table, tokens_table])
def test_pandas_reads_every_table_and_all_columns_have_the_same_length(table, trace: Trace) -> None:
    columns = table(trace)
    frame = pandas.DataFrame(columns)
    assert list(frame.columns) == list(columns)
    assert {len(values) for values in columns.values()} == {len(frame)}


@pytest.mark.parametrize("trace", TRACES)
def test_the_rows_of_the_token_table_are_the_text_in_order(trace: Trace) -> None:
    tokens = tokens_table(trace)
    assert tuple(tokens["token_id"]) == trace.emitted_ids
    assert tokens["token"] == list(range(len(trace.emitted_ids)))
    for origin, round_, node in zip(*(tokens[k] for k in ("origin", "round", "node")), strict=True):
        assert (origin == "accepted") == (node is not None)
        assert (origin == "first") == (round_ is None)


@pytest.mark.parametrize("trace", TRACES)
def test_rounds_add_up_to_the_metrics(trace: Trace) -> None:
    rounds = rounds_table(trace)
    assert len(rounds["round"]) == len(trace.rounds)
    if trace.rounds:
        assert sum(rounds["emitted"]) / len(trace.rounds) == block_efficiency(trace.rounds)
        reached = sum(depth.reached for depth in acceptance_by_depth(trace.rounds))
        assert sum(rounds["reached"]) == reached


def test_the_tables_of_the_hand_made_race_have_its_numbers() -> None:
    rounds = rounds_table(tiny_trace())
    assert rounds["accepted"] == [1, 3] and rounds["emitted"] == [2, 4]
    assert rounds["extra"] == ["recovered", "bonus"] and rounds["drafted"] == [3, 3]
    assert rounds["end_seconds"] == pytest.approx([0.1 + 0.14, 0.1 + 0.14 + 0.16])
    nodes = nodes_table(tiny_trace())
    assert nodes["outcome"] == ["accepted", "rejected", "unreached", *["accepted"] * 3]
    assert nodes["entropy"] == [None] * 6  # the rounds of this trace have no recorded distributions
    assert tokens_table(tiny_trace())["end_seconds"] == pytest.approx(
        [0.1] + [0.24] * 2 + [0.4] * 4
    )


def test_an_examined_node_has_the_entropy_of_its_own_position() -> None:
    trace = random_trace(5, branching=(2, 2))
    nodes = pandas.DataFrame(nodes_table(trace))
    judged = nodes[nodes.outcome != Outcome.UNREACHED.value]
    assert judged.entropy.notna().all() and nodes.entropy.isna().any()
    first = nodes.iloc[0]
    assert first.overlap == trace.rounds[0].positions[0].overlap


def test_values_that_were_not_recorded_are_missing_in_the_table() -> None:
    trace = random_trace(1, rounds=1)
    verdicts = tuple(
        dataclasses.replace(each, uniform_draw=None, residual_prob=None)
        for each in trace.rounds[0].verdicts
    )
    hidden = changed(
        dataclasses.replace(trace, token_texts=()),
        rounds=(dataclasses.replace(trace.rounds[0], verdicts=verdicts),),
    )
    frame = pandas.DataFrame(nodes_table(hidden))
    assert frame.uniform_draw.isna().all() and frame.residual_prob.isna().all()
    assert frame.text[0] == f"#{frame.token_id[0]}"
