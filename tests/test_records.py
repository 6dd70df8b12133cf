"""The records refuse bad settings and derive tokens from the accepted path."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.records import BASELINE, DecodingConfig, DraftNode, DraftTree, Drawing, Outcome
from tests.random_rounds import random_round
from tests.random_traces import random_trace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draft_length": 0}, "draft_length must be a whole number from 1 to 32, got 0"),
        ({"draft_length": True}, "draft_length must be a whole number from 1 to 32, got True"),
        ({"draft_length": 2.0}, "draft_length must be a whole number from 1 to 32, got 2.0"),
        (
            {"max_new_tokens": 5000},
            "max_new_tokens must be a whole number from 1 to 4,096, got 5000",
        ),
        ({"seed": -1}, "seed must be a whole number from 0 to 9,007,199,254,740,991, got -1"),
        ({"temperature": -0.1}, "temperature must be 0 or from 0.001 to 5, got -0.1"),
        ({"temperature": float("nan")}, "temperature must be 0 or from 0.001 to 5, got nan"),
        ({"temperature": "hot"}, "temperature must be 0 or from 0.001 to 5, got 'hot'"),
        ({"top_p": 0}, "top_p must be above 0 and at most 1, got 0"),
        ({"min_p": 1.0}, "min_p must be at least 0 and below 1, got 1.0"),
        ({"min_p": -0.1}, "min_p must be at least 0 and below 1, got -0.1"),
        ({"top_k": -1}, "top_k must be a whole number from 0 to 1,000,000, got -1"),
        ({"top_k": 10**20}, f"top_k must be a whole number from 0 to 1,000,000, got {10**20}"),
        ({"method": ""}, "method must be a name, got ''"),
        ({"drawing": "independent"}, "drawing must be a Drawing, got 'independent'"),
        (
            {"branching": [2]},
            "branching must be a tuple of whole numbers >= 1, got an array of 1 item",
        ),
        ({"branching": (2, 0)}, "branching must be a tuple of whole numbers >= 1, got (2, 0)"),
        ({"draft_length": 1, "branching": (2, 2)}, "branching must have at most draft_length"),
        (
            {"branching": (65,)},
            "branching must give at most 64 nodes with a draft length of 5, got 65,",
        ),
    ],
)
def test_a_bad_setting_is_refused_by_name_rule_and_value(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as error:
        DecodingConfig(**options)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_levels_deeper_than_the_branching_have_one_child_per_node() -> None:
    config = DecodingConfig(draft_length=4, branching=(3, 2))
    assert config.widths == (3, 2, 1, 1)
    assert config.node_count == 3 + 6 + 6 + 6


def test_a_chain_is_a_tree_of_width_one() -> None:
    assert DecodingConfig(draft_length=5).node_count == 5


def test_children_are_in_draw_order_and_paths_start_below_the_root() -> None:
    # The root has the children 0 and 1, node 0 has the child 2, and node 1 has the child 3.
    parents = (-1, -1, 0, 1)
    nodes = tuple(DraftNode(7, parent, 1 + (parent >= 0), 0.5, 0.5) for parent in parents)
    tree = DraftTree(Drawing.INDEPENDENT, nodes)
    assert tree.children(-1) == (0, 1)
    assert tree.path(3) == (1, 3)
    assert tree.path(-1) == ()


def test_a_round_emits_its_accepted_path_and_then_the_extra_token() -> None:
    each = next(r for s in range(100) if len((r := random_round(s, (2, 2))).accepted) == 2)
    assert each.extra is not None
    path = [each.tree.nodes[i].token_id for i in each.accepted]
    assert each.emitted_ids == (*path, each.extra.token_id)
    cut = dataclasses.replace(each, extra=None)
    assert cut.emitted_ids == tuple(path)


def test_every_node_has_a_verdict_and_unreached_nodes_are_not_rejected() -> None:
    each = next(r for s in range(100) if not (r := random_round(s)).accepted)
    outcomes = [verdict.outcome for verdict in each.verdicts]
    assert outcomes == [Outcome.REJECTED] + [Outcome.UNREACHED] * 4


def test_the_tokens_of_a_trace_are_the_first_token_and_those_of_all_rounds() -> None:
    trace = random_trace(3, rounds=4, temperature=0.0)
    assert len(trace.emitted_ids) == 1 + sum(len(each.emitted_ids) for each in trace.rounds)
    assert trace.emitted_ids == trace.lane(BASELINE).emitted_ids


def test_a_lane_that_has_not_started_has_no_tokens() -> None:
    trace = random_trace(0, rounds=1).unstarted
    assert trace.emitted_ids == () and trace.lane(BASELINE).emitted_ids == ()


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        random_round(0).index = 1  # type: ignore[misc]
