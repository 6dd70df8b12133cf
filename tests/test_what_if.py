"""A different draw gives a different walk, which follows from the record and the decoder's rule."""

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.golden import golden_trace
from specviz.records import Drawing, ExtraKind, FinishReason, Outcome, Round
from specviz.trace_file import decode, encode
from specviz.what_if import counterfactual, known_end_ids
from tests.random_rounds import random_round
from tests.random_traces import changed, random_trace

ACCEPTED, REJECTED, UNREACHED = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.UNREACHED


def fixed_round(acceptance, draws, widths=(1, 1, 1), rule="token"):
    """Return a round whose walk follows from these acceptance probabilities and draws.

    Node i has the token id i. If the walk ends at node i, the extra token has the id 11 + i; at the
    root it has the id 10.
    """
    made = random_round(widths=widths, rule=rule)
    nodes = tuple(
        dataclasses.replace(node, token_id=index) for index, node in enumerate(made.tree.nodes)
    )
    verdicts = tuple(
        dataclasses.replace(old, acceptance_prob=a, uniform_draw=u, outcome=UNREACHED)
        for old, a, u in zip(made.verdicts, acceptance, draws, strict=True)
    )
    tree = dataclasses.replace(made.tree, nodes=nodes)
    extra_ids = tuple(10 + row for row in range(len(nodes) + 1))
    blank = dataclasses.replace(made, tree=tree, verdicts=verdicts, extra_ids=extra_ids)
    walked = counterfactual(blank, {})
    outcomes = zip(verdicts, walked.outcomes, strict=True)
    extra = dataclasses.replace(
        made.extra,
        token_id=walked.extra_id,
        kind=walked.extra_kind,
        parent=walked.path[-1] if walked.path else -1,
    )
    return dataclasses.replace(
        blank,
        verdicts=tuple(dataclasses.replace(verdict, outcome=each) for verdict, each in outcomes),
        extra=extra,
    )


def test_a_lower_draw_accepts_a_rejected_token_and_the_walk_continues():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.8, 0.1])
    assert chain.emitted_ids == (0, 11)
    other = counterfactual(chain, {1: 0.4})
    assert other.outcomes == (ACCEPTED, ACCEPTED, ACCEPTED)
    assert (other.path, other.rejected) == ((0, 1, 2), ())
    assert (other.emitted_ids, other.extra_id) == ((0, 1, 2, 13), 13)
    assert other.extra_kind is ExtraKind.BONUS
    assert other.differs


def test_a_higher_draw_rejects_a_token_and_leaves_the_rest_unreached():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.2, 0.2])
    other = counterfactual(chain, {0: 0.7})
    assert other.outcomes == (REJECTED, UNREACHED, UNREACHED)
    assert (other.emitted_ids, other.extra_kind) == ((10,), ExtraKind.RECOVERED)


def test_the_comparison_is_strict_as_in_the_decoder():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.2, 0.2])
    assert counterfactual(chain, {0: 0.5}).outcomes[0] is REJECTED
    assert counterfactual(fixed_round([0.0, 1.0, 1.0], [0.5] * 3), {0: 0.0}).path == ()


def test_after_a_rejected_sibling_the_next_one_is_examined():
    # Children of each node: the root has 0 and 1, node 0 has 2 and 3, node 1 has 4 and 5.
    tree = fixed_round([0.6, 0.5, 0.9, 0.9, 0.9, 0.9], [0.1, 0.3, 0.2, 0.2, 0.95, 0.2], (2, 2))
    assert tree.accepted == (0, 2)
    other = counterfactual(tree, {0: 0.9})
    assert (other.path, other.rejected) == ((1, 5), (0, 4))
    assert other.emitted_ids == (1, 5, 16)


def test_a_draw_that_changes_no_verdict_changes_nothing():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.8, 0.1])
    for node, draw in ((0, 0.4999), (1, 0.5), (2, 0.99)):
        same = counterfactual(chain, {node: draw})
        assert not same.differs
        assert same.emitted_ids == chain.emitted_ids


TREES = [(), (1,), (1, 1, 1), (3, 2, 1), (2, 2)]
JUDGED = [
    (drawing, rule, widths)
    for drawing, rule in (
        (Drawing.INDEPENDENT, "token"),
        (Drawing.CHOSEN, "token"),
        (Drawing.CHOSEN, "typical"),
        (Drawing.INDEPENDENT, "block"),
        (Drawing.CHOSEN, "block"),
        (Drawing.INDEPENDENT, "traversal"),
        (Drawing.CHOSEN, "traversal"),
    )
    for widths in TREES
    if rule != "block" or max(widths, default=1) == 1
]


@given(
    seed=st.integers(0, 10_000),
    judged=st.sampled_from(JUDGED),
    in_file=st.booleans(),
)
def test_without_forced_draws_every_round_is_as_recorded(seed, judged, in_file):
    drawing, rule, widths = judged
    round_ = random_round(seed, widths, drawing, rule=rule)
    if in_file:
        round_ = decode(Round, encode(round_), "round")
    same = counterfactual(round_, {})
    assert same.outcomes == tuple(verdict.outcome for verdict in round_.verdicts)
    assert same.path == round_.accepted
    assert (same.emitted_ids, same.differs) == (round_.emitted_ids, False)
    assert (same.extra_id, same.extra_kind) == (round_.extra.token_id, round_.extra.kind)
    assert same.extra_prob == round_.extra.prob


def test_the_recorded_verdict_of_a_near_tie_survives_rounding_to_six_digits():
    """The draw 0.12345601 is below p/q = 0.12345602, but a file stores 0.123456 for both."""
    chain = fixed_round([0.12345602, 0.5, 0.5], [0.12345601, 0.8, 0.1])
    read = decode(Round, encode(chain), "round")
    assert read.verdicts[0].uniform_draw == read.verdicts[0].acceptance_prob
    assert counterfactual(read, {}).path == (0,)
    assert counterfactual(read, {0: 0.123456}).path == ()


def test_in_a_block_the_longest_draft_that_passes_decides():
    chain = fixed_round([0.2, 0.3, 0.6], [0.1, 0.8, 0.5], rule="block")
    assert chain.accepted == (0, 1, 2)
    assert not counterfactual(chain, {1: 0.9}).differs
    other = counterfactual(chain, {2: 0.6})
    assert (other.path, other.rejected, other.emitted_ids) == ((0,), (1, 2), (0, 11))
    assert counterfactual(chain, {0: 0.5, 2: 0.6}).emitted_ids == (10,)


def test_an_end_token_cuts_the_path_and_leaves_no_extra_token():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.8, 0.1])
    other = counterfactual(chain, {1: 0.1}, end_ids={1})
    assert (other.emitted_ids, other.path) == ((0, 1), (0, 1))
    assert (other.extra_id, other.extra_kind) == (None, None)
    assert other.outcomes[2] is UNREACHED
    assert counterfactual(chain, {0: 0.9}, end_ids={1}).emitted_ids == (10,)


def test_siblings_rejected_below_the_end_token_were_never_reached():
    tree = fixed_round([0.9, 0.9, 0.1, 0.1, 0.1, 0.1], [0.95, 0.1, 0.5, 0.5, 0.5, 0.5], (2, 2))
    cut = counterfactual(tree, {}, end_ids={1})
    assert (cut.path, cut.rejected) == ((1,), (0,))
    assert cut.differs  # the recorded round continues after the end token


def test_a_path_that_was_cut_in_the_record_is_cut_at_the_same_token():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.2, 0.2])
    verdicts = (*chain.verdicts[:2], dataclasses.replace(chain.verdicts[2], outcome=UNREACHED))
    ended = dataclasses.replace(chain, verdicts=verdicts, extra=None)
    same = counterfactual(ended, {})
    assert (same.emitted_ids, same.extra_kind, same.differs) == ((0, 1), None, False)
    assert counterfactual(ended, {1: 0.9}).emitted_ids == (0, 11)


def test_without_the_prepared_extra_tokens_the_extra_token_is_unknown():
    chain = dataclasses.replace(fixed_round([0.5] * 3, [0.2, 0.8, 0.1]), extra_ids=())
    other = counterfactual(chain, {1: 0.1, 2: 0.9})
    assert (other.emitted_ids, other.extra_id) == ((0, 1), None)
    assert other.extra_kind is ExtraKind.RECOVERED


@pytest.mark.parametrize("name", ["draft-model.code", "draft-tree.story", "eagle.chat.smollm2"])
def test_the_distribution_after_an_examined_node_gives_the_recorded_probability(name):
    """`counterfactual` can find the extra token's probability in the recorded distribution.

    The test replaces the recorded extra token, so that its own record of the probability cannot be
    used.
    """
    for round_ in (each for each in golden_trace(name).rounds if each.extra):
        extra = round_.extra
        elsewhere = dataclasses.replace(round_, extra=dataclasses.replace(extra, token_id=-5))
        found = counterfactual(elsewhere, {})
        position = next(each for each in round_.positions if each.parent == extra.parent)
        if extra.token_id in position.token_ids:
            assert found.extra_prob == pytest.approx(extra.prob, rel=1e-4)
        else:
            assert found.extra_prob is None


def test_after_a_node_that_was_not_examined_the_probability_is_unknown():
    chain = fixed_round([0.5, 0.5, 0.5], [0.2, 0.8, 0.1])
    other = counterfactual(chain, {1: 0.4})
    assert other.extra_id == 13 and other.extra_prob is None


@pytest.mark.parametrize(
    "forced, sentence",
    [
        ({1: 1.0}, "forced draw of node 1 must be from 0 to below 1, got 1"),
        ({1: -0.1}, "forced draw of node 1 must be from 0 to below 1, got -0.1"),
        ({1: float("nan")}, "forced draw of node 1 must be from 0 to below 1, got nan"),
        ({3: 0.5}, "node must be from 0 to 2 in round 1, got 3"),
        ({-1: 0.5}, "node must be from 0 to 2 in round 1, got -1"),
    ],
)
def test_draws_that_cannot_be_forced_are_refused_by_name(forced, sentence):
    with pytest.raises(InputError) as refused:
        counterfactual(fixed_round([0.5] * 3, [0.2] * 3), forced)
    assert str(refused.value) == sentence


def test_a_round_without_a_tree_has_nothing_to_force():
    with pytest.raises(InputError, match="must be left out: nothing was drafted in round 1, got 0"):
        counterfactual(random_round(widths=()), {0: 0.5})


def test_a_round_whose_draws_are_unknown_is_refused():
    chain = fixed_round([0.5] * 3, [0.2] * 3)
    unseen = tuple(dataclasses.replace(verdict, uniform_draw=None) for verdict in chain.verdicts)
    with pytest.raises(InputError, match="round 1 must be recorded with its uniform draws"):
        counterfactual(dataclasses.replace(chain, verdicts=unseen), {0: 0.5})


def test_a_trace_shows_an_end_token_only_if_a_lane_ended_with_one():
    trace = changed(random_trace(3, rounds=4), finish=FinishReason.END_OF_SEQUENCE)
    assert known_end_ids(trace) == {trace.emitted_ids[-1]}
    assert known_end_ids(changed(trace, finish=FinishReason.LENGTH)) == frozenset()


def test_reading_comparing_and_measuring_traces_loads_no_model_library():
    modules = "trace_file", "trace_diff", "trace_tables", "metrics", "acceptance_profile"
    imports = ", ".join(f"specviz.{name}" for name in modules)
    script = f"import sys, {imports}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
