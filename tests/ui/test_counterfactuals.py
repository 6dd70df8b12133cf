"""What the page asks of a round's walk with another draw, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.golden import golden_trace
from specviz.records import Outcome
from specviz.trace_file import encode_round
from specviz.ui.counterfactuals import told_counterfactual
from specviz.ui.handlers import Handlers

TRACE = golden_trace("draft-model.code")
ROUND, NODE = next(
    (each, node)
    for each in TRACE.rounds
    for node, verdict in enumerate(each.verdicts)
    if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0
)


QUESTION = {"record": encode_round(ROUND), "forced": {str(NODE): 0.0}, "ends": []}


def told(**changes: Any) -> dict[str, Any]:
    return told_counterfactual(QUESTION | changes)


def test_a_lower_draw_accepts_and_the_walk_goes_on() -> None:
    found = told()
    assert found["differs"] and found["outcomes"][NODE] == "accepted"
    assert len(found["emitted"]) > NODE + 1 and found["extra"] in ("recovered", "bonus")


def test_the_record_s_own_draws_change_nothing() -> None:
    assert not told(forced={})["differs"]


def test_a_path_ends_at_a_token_that_ends_the_text() -> None:
    end = ROUND.tree.nodes[NODE].token_id
    found = told(ends=[end])
    assert found["emitted"][-1] == end and found["extra"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record": None}, "must be an object"),
        ({"forced": [1]}, "forced must name draws by node"),
        ({"forced": None}, "forced must name draws by node"),
        ({"forced": {"x": 0.5}}, "forced must name numbers by node"),
        ({"forced": {"0": "y"}}, "forced must name numbers by node"),
        ({"forced": {"0": -0.1}}, "must be from 0 to below 1"),
        ({"forced": {"99": 0.5}}, "node must be from 0 to"),
        ({"forced": {"0": 2}}, "must be from 0 to below 1"),
        ({"ends": "0"}, "ends must be a list of token ids"),
        ({"ends": ["0"]}, "ends must be a list of token ids"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    reply = Handlers().what_if(QUESTION | changes)
    assert message in reply["error"] and "\n" not in reply["error"]
