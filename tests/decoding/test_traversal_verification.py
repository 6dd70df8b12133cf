"""Runs with traversal verification have the target's distribution, for every method.

`test_exactness` proves the rule itself by enumeration.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.rules.traversal import walk_up
from specviz.decoding.sampling import Sampler
from specviz.decoding.topology import tree_shape
from specviz.records import Drawing, ExtraKind, Outcome, Round
from tests.decoding.batch_runs import PROMPTS, batch_steps, events_of, setups_of, single_run
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.table_model import TableModel
from tests.decoding.test_batch import story
from tests.decoding.test_every_drafter import PROMPT, VARIANTS, baseline_text, config_of
from tests.decoding.test_whole_decoder_distribution import LENGTH, deviations, exact_distribution
from tests.decoding.test_whole_decoder_distribution import PROMPT as TABLE_PROMPT
from tests.decoding.tiny_parts import pair_for, parts_for

TREE = DRAFTERS["draft-tree"]
DRAWN = [Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT]


def tree_of(method, drawing, **changes):
    return config_of(method, drawing, rule="traversal", **changes)


def rounds_of(target, drafter_for, config):
    events = speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config)
    return [event for event in events if isinstance(event, Round)]


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.value)
def test_four_tokens_have_the_joint_distribution_of_the_target(drawing):
    """Four tokens take two or more rounds, so the rounds must not share draws."""
    target, draft = pair_for(TREE, tiny_model)
    config = tree_of(TREE, drawing, draft_length=3, max_new_tokens=LENGTH, temperature=0.8)
    config = replace(config, branching=(2, 2, 1))
    counts: dict = {}
    for seed in range(800):
        seeded = replace(config, seed=seed)
        drafter = make_drafter(Setup(target, parts_for(target, draft), seeded, 300))
        ids = tuple(tokens_of(speculative.decode(target, drafter, TABLE_PROMPT, seeded)))
        counts[ids] = counts.get(ids, 0) + 1
    assert deviations(counts, exact_distribution(target, Sampler(0.8))) < 4


@pytest.mark.parametrize("method, drawing", VARIANTS)
def test_no_two_nodes_of_a_text_are_judged_with_the_same_draw(method, drawing, target, drafter_for):
    """The rule reads draws of several branches, and of nodes that it does not accept.

    If the nodes of one depth shared a draw, or a round judged with draws that an earlier round has
    read, the verdicts would not be independent.
    """
    config = tree_of(method, drawing, temperature=0.8, max_new_tokens=60)
    rounds = rounds_of(target, drafter_for, config)
    draws = [verdict.uniform_draw for each in rounds for verdict in each.verdicts]
    assert len(set(draws)) == len(draws)


@pytest.mark.parametrize("method, drawing", VARIANTS)
def test_greedy_text_is_the_baseline_text(method, drawing, target, drafter_for):
    config = tree_of(method, drawing)
    found = tokens_of(speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config))
    assert found == baseline_text(target, PROMPT)


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.value)
def test_each_row_of_a_batch_equals_its_single_run(drawing, target, parts):
    config = tree_of(TREE, drawing, temperature=0.8, seed=5)
    setups = setups_of(target, parts, config)
    ends = {tokens_of(single_run(setups[2], PROMPTS[2]))[11]}
    steps = batch_steps(target, parts, config, end_ids=ends)
    for row, (setup, prompt) in enumerate(zip(setups, PROMPTS, strict=True)):
        assert story(events_of(steps, row)) == story(single_run(setup, prompt, ends))


def post_order(children, row=0):
    """Return the nodes below a row (0 is the root, i + 1 is node i), each after its children."""
    return [node for child in children[row] for node in (*post_order(children, child + 1), child)]


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.value)
def test_the_first_node_in_post_order_whose_draw_passes_is_accepted(drawing, target, drafter_for):
    config = tree_of(TREE, drawing, temperature=0.8, max_new_tokens=120)
    recovered = made_up_for = 0
    for each in (made for made in rounds_of(target, drafter_for, config) if made.tree.nodes):
        shape = tree_shape(tuple(node.parent for node in each.tree.nodes))
        order = post_order(shape.groups)
        passes = [each.verdicts[i].uniform_draw < each.verdicts[i].acceptance_prob for i in order]
        failed = order[: passes.index(True)] if any(passes) else order
        end = order[len(failed)] if any(passes) else None
        path = () if end is None else each.tree.path(end)
        assert each.rule == "traversal" and each.accepted == tuple(path)
        outcomes = [verdict.outcome for verdict in each.verdicts]
        assert {i for i, outcome in enumerate(outcomes) if outcome is Outcome.REJECTED} == set(
            failed
        )
        has_children = shape.groups[0 if end is None else end + 1]
        assert each.extra.kind is (ExtraKind.RECOVERED if has_children else ExtraKind.BONUS)
        recovered += each.extra.kind is ExtraKind.RECOVERED
        made_up_for += any(
            each.verdicts[i].uniform_draw >= each.verdicts[i].acceptance_prob for i in path[:-1]
        )
    assert recovered > 0
    assert made_up_for > 0, "a later guess must have made up for an earlier one"


def test_a_draft_that_equals_the_target_is_accepted_along_its_first_branch():
    model = TableModel(1)
    config = tree_of(TREE, Drawing.INDEPENDENT, temperature=0.9, max_new_tokens=60)
    drafter = make_drafter(Setup(model, parts_for(model, model), config, 500))
    events = speculative.decode(model, drafter, TABLE_PROMPT, config)
    for each in (event for event in events if isinstance(event, Round)):
        assert len(each.accepted) == max((node.depth for node in each.tree.nodes), default=0)


def test_a_walk_examines_each_node_after_its_children():
    tree = [[0, 1], [2, 3], [4], [], [], []]
    nothing = walk_up(tree, [0] * 5, [0] * 5)
    assert nothing.path == () and nothing.rejected == (2, 3, 0, 4, 1)
    assert walk_up(tree, [0, 0, 0, 0, 1], [0] * 5).path == (1, 4)
    assert walk_up(tree, [1, 1, 0, 0, 1], [0] * 5).path == (0,)
    assert walk_up([[]], [], []).path == ()


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_every_method_offers_the_rule(method):
    assert "traversal" in [rule.name for rule in method.rules]
