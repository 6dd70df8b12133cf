"""The page asks what another draw would change in a round, and gets the answer."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.figures.labels import visible_text
from specviz.figures.tree_layout import EXTRA
from specviz.golden import golden_trace
from specviz.records import Outcome
from specviz.trace_file import encode
from specviz.ui.counterfactuals import counterfactual_answer
from specviz.ui.handlers import Handlers

TRACE = golden_trace("draft-model.code")
ROUND, NODE = next(
    (each, node)
    for each in TRACE.rounds
    for node, verdict in enumerate(each.verdicts)
    if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0
)


TEXTS = {str(i): text for i, text in TRACE.token_texts}
QUESTION = {
    "record": encode(ROUND),
    "forced": {str(NODE): 0.0},
    "ends": [],
    "texts": TEXTS,
    "root": None,
}


def answered(**changes: Any) -> dict[str, Any]:
    return counterfactual_answer(QUESTION | changes)


def test_a_lower_draw_accepts_the_token_and_the_walk_continues() -> None:
    found = answered()
    assert found["differs"] and found["outcomes"][NODE] == "accepted"
    assert len(found["emitted"]) > NODE + 1 and found["extra"]["kind"] in ("recovered", "bonus")


def test_the_recorded_draws_change_nothing() -> None:
    found = answered(forced={})
    assert not found["differs"] and found["tree"] is None


def marked(tree: dict[str, Any], role: str) -> dict[int, str]:
    """Return the text of the card of each node of the tree that has the given role."""
    nodes = tree["layout"]["meta"]["nodes"]
    return {node["node"]: "\n".join(node["card"]) for node in nodes if node["role"] == role}


def test_the_tree_shows_the_other_walk_and_the_token_that_the_target_would_add() -> None:
    found = answered()
    assert NODE in marked(found["tree"], "accepted")
    card = marked(found["tree"], found["extra"]["kind"])[EXTRA]
    assert "probability unknown" in card and found["extra"]["prob"] is None
    labels = [node["token"]["text"] for node in found["tree"]["layout"]["meta"]["nodes"]]
    assert visible_text(TEXTS[str(found["emitted"][-1])]) in labels


def test_a_token_with_a_recorded_distribution_has_its_probability() -> None:
    """A higher draw rejects the first drafted token, and the target adds a token in its place.

    If the record has the distribution at this position, it has the added token's probability.
    """
    known = (
        counterfactual_answer(QUESTION | {"record": encode(each), "forced": {"0": 0.999999}})
        for each in TRACE.rounds
        if each.verdicts[0].outcome is Outcome.ACCEPTED and each.verdicts[0].acceptance_prob < 0.9
    )
    extras = [found["extra"] for found in known]
    assert {extra["kind"] for extra in extras} == {"recovered"}
    assert {extra["parent"] for extra in extras} == {-1}
    probs = [extra["prob"] for extra in extras if extra["prob"] is not None]
    assert probs and all(0 < prob <= 1 for prob in probs)


def test_a_path_ends_at_an_end_token() -> None:
    end = ROUND.tree.nodes[NODE].token_id
    found = answered(ends=[end])
    assert found["emitted"][-1] == end and found["extra"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record": None}, "must be an object"),
        ({"forced": [1]}, "'forced' must be an object from node to draw"),
        ({"forced": None}, "'forced' must be an object from node to draw"),
        ({"forced": {"x": 0.5}}, "'forced' must have only numbers as nodes and draws"),
        ({"forced": {"0": "y"}}, "'forced' must have only numbers as nodes and draws"),
        ({"forced": {"0": 10**400}}, "'forced' must have only numbers as nodes and draws"),
        ({"forced": {"9" * 5000: 0.5}}, "'forced' must have only numbers as nodes and draws"),
        ({"forced": {"0": "9" * 400}}, "must be from 0 to below 1, got inf"),
        ({"forced": {"0": -0.1}}, "must be from 0 to below 1"),
        ({"forced": {"99": 0.5}}, "node must be from 0 to"),
        ({"forced": {"0": 2}}, "must be from 0 to below 1"),
        ({"ends": "0"}, "'ends' must be a list of token ids"),
        ({"ends": ["0"]}, "'ends' must be a list of token ids"),
        ({"texts": None}, "texts must be an object from token id to text"),
        ({"texts": {"x": "y"}}, "texts must be an object from token id to text"),
        ({"texts": {"1": 2}}, "texts must be an object from token id to text"),
        ({"root": "1"}, "root must be a token id or null"),
    ],
)
def test_invalid_requests_are_refused_in_one_sentence(
    changes: dict[str, Any], message: str
) -> None:
    reply = Handlers().what_if(QUESTION | changes)
    assert message in reply["error"] and "\n" not in reply["error"]
