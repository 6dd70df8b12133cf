"""Two traces are enough to find out what a fork of the bundled pair changed."""

from specviz.records import Drawing, Outcome
from specviz.trace_diff import difference
from specviz.trace_diff.cause import Distribution, OtherDraw, Reason
from tests.experiments.run.test_forking import forked, parent_of


def first_difference(parent, index, **changes):
    trace, _ = forked(parent, index, **changes)
    found = difference(parent, trace)
    assert found is not None
    assert found.index >= 1 + sum(len(each.emitted_ids) for each in parent.rounds[:index])
    return found


def test_the_reason_for_a_difference_can_be_a_forced_draw():
    parent = parent_of()
    record, node = next(
        (each, node)
        for each in parent.rounds
        for node, verdict in enumerate(each.verdicts)
        if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0
    )
    found = first_difference(parent, record.index, forced=((node, 0.0),))
    drawn = record.verdicts[node].uniform_draw
    assert found.cause == OtherDraw(record.tree.nodes[node].token_id, (drawn, 0.0))
    assert found.a.round_index == found.b.round_index == record.index


def test_another_temperature_changes_the_target_s_distribution():
    found = first_difference(parent_of(), 1, temperature=2.0)
    assert found.reason is Reason.DISTRIBUTION
    assert found.cause.distribution is Distribution.TARGET and not found.cause.same_setting


def test_another_seed_changes_a_draw_or_the_draft():
    assert first_difference(parent_of(), 1, seed=99).reason in (Reason.DRAW, Reason.PROPOSAL)


def test_another_method_changes_the_draft():
    changes = {"method": "prompt-lookup", "drawing": Drawing.CHOSEN}
    assert first_difference(parent_of(), 0, **changes).reason is Reason.PROPOSAL


def test_an_unchanged_fork_has_no_difference():
    assert difference(parent_of(), forked(parent_of(), 2)[0]) is None
