"""The profile's loss of time through rejected tokens equals numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import pytest

from specviz.acceptance_profile import (
    EXAMPLES,
    TITLES,
    AcceptanceProfiler,
    acceptance_profile,
)
from specviz.acceptance_profile.level_visits import level_visits, seconds_lost, tokens_lost
from specviz.acceptance_profile.token_classes import TokenClass
from specviz.metrics import acceptance_by_depth, acceptance_rate, block_efficiency
from specviz.records import (
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    Outcome,
    Trace,
)
from tests.random_traces import changed, random_trace
from tests.tiny_trace import chain, tiny_trace

RANDOM = [
    random_trace(1),
    random_trace(2, branching=(3, 2), drawing=Drawing.WITHOUT_REPLACEMENT),
    random_trace(3, branching=(4,), drawing=Drawing.CHOSEN),
    random_trace(4, has_distributions=False),
    random_trace(5, cut=True),
]


def wanting(trace: Trace, texts: dict[int, str], extra_id: int) -> Trace:
    """Return `trace` with the token texts in `texts`, a map from token id to text.

    The extra token of round 0, which follows the trace's first rejection, gets the id `extra_id`.
    """
    first = trace.rounds[0]
    assert first.extra is not None
    extra = dataclasses.replace(first.extra, token_id=extra_id)
    rounds = (dataclasses.replace(first, extra=extra, extra_ids=()), *trace.rounds[1:])
    return dataclasses.replace(changed(trace, rounds=rounds), token_texts=tuple(texts.items()))


def test_a_rejection_loses_the_share_of_its_round_that_gave_no_token() -> None:
    # Round 0 drafts 3 tokens, accepts 1 of them and takes 0.14 s. It could have written 4 tokens
    # but wrote 2, so it loses 2 tokens and half of its time, 0.07 s. Round 1 accepts all its tokens
    # and loses nothing.
    first, second = tiny_trace().rounds
    assert seconds_lost(first) == pytest.approx(0.07) and tokens_lost(first) == 2
    assert seconds_lost(second) == 0 and tokens_lost(second) == 0
    profile = acceptance_profile([tiny_trace()])
    assert profile.milliseconds_lost_as_measured == pytest.approx(70)
    # Round 0 loses 2 of 4 tokens, so its loss is half of the median round, which takes 0.15 s.
    assert profile.milliseconds_lost == pytest.approx(75)
    assert profile.typical_seconds == pytest.approx(0.30)
    assert (profile.rejections, profile.tokens_lost, profile.prompts) == (1, 2, 1)
    assert (profile.rounds, profile.tokens, profile.undrafted_rounds) == (2, 6, 0)
    assert profile.seconds == pytest.approx(0.30)


def test_the_drafter_s_prefill_is_not_a_cost_of_rejections() -> None:
    trace = tiny_trace()
    first, *others = trace.rounds
    reading = dataclasses.replace(first, draft_prefill_seconds=5.0)
    assert reading.seconds == pytest.approx(5.14) and seconds_lost(reading) == seconds_lost(first)
    late = changed(trace, rounds=(reading, *others))
    assert acceptance_profile([late]) == acceptance_profile([trace])


def test_without_rejections_the_text_would_be_finished_sooner_by_the_loss() -> None:
    # Round 0 writes 2 of its 4 possible tokens. If it wrote all 4, these 2 would take half of its
    # time.
    rounds = tiny_trace().rounds
    perfect = 0.14 * 2 / 4 + 0.16
    assert sum(each.seconds - seconds_lost(each) for each in rounds) == pytest.approx(perfect)


def test_a_group_counts_its_levels_and_the_loss_of_its_rejected_ones() -> None:
    (group,) = acceptance_profile([tiny_trace()]).ranking("token_class").groups
    # The text of every token is a comma, so every level counts as punctuation.
    assert (group.name, group.examined, group.accepted) == ("punctuation", 5, 4)
    assert group.rate == pytest.approx(0.8) and group.share == pytest.approx(1)
    by_depth = {
        each.name: each for each in acceptance_profile([tiny_trace()]).ranking("depth").groups
    }
    assert by_depth["depth 2"].milliseconds_lost == pytest.approx(75)
    assert by_depth["depth 2"].milliseconds_lost_as_measured == pytest.approx(70)
    assert by_depth["depth 2"].rejections == 1 and by_depth["depth 2"].examined == 2
    assert by_depth["depth 1"].milliseconds_lost == by_depth["depth 3"].milliseconds_lost == 0


def test_a_level_belongs_to_the_quarter_of_the_text_that_it_was_written_in() -> None:
    # The run has 7 tokens. The prefill writes the token at index 0 of the text. The levels of round
    # 0 belong to the text's tokens 1 and 2, those of round 1 to tokens 3, 4 and 5.
    assert [visit.quarter for visit in level_visits(tiny_trace())] == [1, 2, 2, 3, 3]


def test_a_rejected_level_has_the_class_of_the_recovered_token() -> None:
    trace = wanting(tiny_trace(), {5: " the", 6: "\n"}, extra_id=6)
    visits = list(level_visits(trace))
    assert visits[1].token_class is TokenClass.LINE_BREAK and visits[1].drafted_id == 5
    groups = {each.name: each for each in acceptance_profile([trace]).ranking("token_class").groups}
    assert groups["line break"].rate == 0 and groups["line break"].share == pytest.approx(1)
    assert groups["word start"].rate == 1
    (example,) = groups["line break"].examples
    assert (example.trace, example.round, example.node) == (0, 0, 1)
    assert (example.drafted, example.wanted) == (" the", "\n")


def test_all_nodes_below_a_rejected_level_of_a_tree_are_lost() -> None:
    # The root has children 0 and 1; 1 (accepted) has 2 and 3, both rejected; 3 has 4, and 0 has 5.
    parents, depths = (-1, -1, 1, 1, 3, 0), (1, 1, 2, 2, 3, 2)
    nodes = tuple(DraftNode(5, p, d, 0.5, 0.5) for p, d in zip(parents, depths, strict=True))
    letters = {1: Outcome.ACCEPTED, 0: Outcome.REJECTED, 2: Outcome.REJECTED, 3: Outcome.REJECTED}
    base = chain(6, 0, 0.04, 0.10, 0.02)
    verdicts = tuple(
        dataclasses.replace(base.verdicts[0], outcome=letters.get(i, Outcome.UNREACHED))
        for i in range(6)
    )
    tree = dataclasses.replace(
        base,
        tree=DraftTree(Drawing.WITHOUT_REPLACEMENT, nodes),
        verdicts=verdicts,
        extra=ExtraToken(5, ExtraKind.RECOVERED, 1, 0.5),
        extra_ids=(),
    )
    # The lost tokens are the rejected nodes 2 and 3, and node 4 below them.
    assert tokens_lost(tree) == 3
    assert seconds_lost(tree) == pytest.approx(0.16 * (3 - 1) / (3 + 1))
    visits = list(level_visits(changed(tiny_trace(), rounds=(tree,))))
    assert [(visit.node, visit.is_passed) for visit in visits] == [(1, True), (2, False)]


@pytest.mark.parametrize("number", range(len(RANDOM)))
def test_lost_tokens_are_those_whose_path_passes_the_rejected_level(number: int) -> None:
    for each in RANDOM[number].rounds:
        path, count = each.accepted, len(each.accepted)
        paths = (each.tree.path(node) for node in range(len(each.tree.nodes)))
        behind = sum(len(one) > count and one[:count] == path for one in paths)
        failed = any(node.parent == (path[-1] if path else -1) for node in each.tree.nodes)
        assert tokens_lost(each) == (behind if failed and each.extra is not None else 0)


def test_the_text_before_a_token_decides_between_word_start_and_continuation() -> None:
    kinds = []
    for before in ("ret", "("):
        trace = wanting(tiny_trace(), {5: before, 6: "urn"}, extra_id=6)
        kinds.append(list(level_visits(trace))[1].token_class)
    assert kinds == [TokenClass.WORD_CONTINUATION, TokenClass.WORD_START]


def test_a_round_cut_short_and_a_round_without_a_draft_lose_nothing() -> None:
    cut = dataclasses.replace(chain(3, 2, 0.03, 0.1, 0.01), extra=None)
    empty = chain(0, 0, 0.0, 0.1, 0.0)
    profile = acceptance_profile([changed(tiny_trace(), rounds=(cut, empty))])
    assert profile.milliseconds_lost == 0 and profile.rejections == 0
    assert profile.undrafted_rounds == 1
    assert profile.ranking("depth").groups[0].share == 0


@pytest.mark.parametrize("number", range(len(RANDOM)))
def test_levels_agree_with_the_metrics(number: int) -> None:
    trace = RANDOM[number]
    profile = acceptance_profile([trace])
    assert profile.acceptance_rate == acceptance_rate(trace.rounds)
    assert profile.block_efficiency == block_efficiency(trace.rounds)
    by_depth = {each.name: each for each in profile.ranking("depth").groups}
    for depth in acceptance_by_depth(trace.rounds):
        group = by_depth[f"depth {depth.depth}"]
        assert (group.examined, group.accepted) == (depth.reached, depth.passed)


@pytest.mark.parametrize("dimension", TITLES)
def test_the_shares_of_all_groups_of_a_dimension_add_up_to_1(dimension: str) -> None:
    profile = acceptance_profile(RANDOM)
    groups = profile.ranking(dimension).groups
    assert sum(each.rejections for each in groups) == profile.rejections > 0
    assert sum(each.tokens_lost for each in groups) == profile.tokens_lost
    assert sum(each.milliseconds_lost for each in groups) == pytest.approx(
        profile.milliseconds_lost
    )
    assert sum(each.share for each in groups) == pytest.approx(1)
    assert all(a.milliseconds_lost >= b.milliseconds_lost for a, b in pairwise(groups))


def test_an_example_names_a_rejected_node_of_its_trace() -> None:
    for ranking in acceptance_profile(RANDOM).rankings:
        for group in ranking.groups:
            assert len(group.examples) == min(EXAMPLES, group.rejections)
            for example in group.examples:
                round_ = RANDOM[example.trace].rounds[example.round]
                assert round_.verdicts[example.node].outcome is Outcome.REJECTED


def test_examples_come_from_different_traces_first() -> None:
    profile = acceptance_profile([tiny_trace()] * 7)
    examples = profile.ranking("depth").groups[0].examples
    assert [example.trace for example in examples] == [0, 1, 2, 3, 4]


def test_the_largest_losses_are_the_first_examples() -> None:
    traces = [
        changed(tiny_trace(), rounds=(chain(drafted, 0, 0.1, 0.1, 0.1),) * 2)
        for drafted in (2, 5, 3)
    ]
    examples = acceptance_profile(traces).ranking("depth").groups[0].examples
    assert [(each.trace, each.node) for each in examples] == [
        (1, 0),
        (1, 0),
        (2, 0),
        (2, 0),
        (0, 0),
    ]


def test_certainty_groups_levels_by_their_recorded_distributions() -> None:
    trace = RANDOM[0]  # the distributions at all positions of this trace have an entropy of 1.25
    names = {each.name for each in acceptance_profile([trace]).ranking("certainty").groups}
    assert names and all(name.startswith("entropy 0.5 to 1.5, overlap") for name in names)
    assert acceptance_profile([tiny_trace()]).ranking("certainty").groups == ()


def test_without_a_draft_distribution_the_overlap_is_the_p_of_the_token() -> None:
    trace = RANDOM[3]
    for visit in level_visits(trace):
        round_ = trace.rounds[visit.round]
        parent = round_.tree.nodes[visit.node].parent
        first = round_.tree.children(parent)[0]
        assert visit.overlap == round_.verdicts[first].raw_target_prob


def test_prompts_with_the_same_beginning_are_different_groups() -> None:
    names = [each.name for each in acceptance_profile(RANDOM[:1] * 2).ranking("prompt").groups]
    assert len(names) == 2 and sorted(name[:2] for name in names) == ["1:", "2:"]


def test_the_profile_of_no_traces_has_no_rates_and_can_be_written_as_json() -> None:
    empty = AcceptanceProfiler().profile()
    assert empty.acceptance_rate is None and empty.block_efficiency is None
    assert json.loads(json.dumps(empty.to_dict()))["rankings"]["depth"] == []
    full = json.loads(json.dumps(acceptance_profile(RANDOM).to_dict(), allow_nan=False))
    assert set(full["rankings"]) == set(TITLES)
    assert full["rankings"]["depth"][0]["examples"][0].keys() == {
        *("trace", "round", "node", "drafted", "wanted")
    }


def slow(trace: Trace, seconds: float) -> Trace:
    """Return `trace` with a first round that takes `seconds` longer because of other work."""
    first = trace.rounds[0]
    late = dataclasses.replace(first, host_seconds=first.host_seconds + seconds)
    return changed(trace, rounds=(late, *trace.rounds[1:]))


def test_one_delayed_round_does_not_lead_the_ranking() -> None:
    # The six runs (five, and one that may be delayed) are equal: one round takes 0.14 s and loses 2
    # of its 4 possible tokens, the other takes 0.16 s and loses none. So the median round takes
    # 0.15 s.
    runs = [tiny_trace()] * 5
    calm, hiccup = (acceptance_profile([*runs, slow(tiny_trace(), by)]) for by in (0, 60.0))
    assert calm.milliseconds_lost == pytest.approx(6 * 150 * 2 / 4)
    assert hiccup.milliseconds_lost == pytest.approx(6 * 160 * 2 / 4)
    assert hiccup.milliseconds_lost_as_measured == pytest.approx(6 * 70 + 30_000)
    assert hiccup.typical_seconds == pytest.approx(12 * 0.16)
    assert hiccup.seconds == pytest.approx(6 * 0.30 + 60)
    by_prompt = hiccup.ranking("prompt").groups
    assert [group.share for group in by_prompt] == pytest.approx([1 / 6] * 6)


def test_a_round_costs_the_median_of_rounds_with_the_same_number_of_levels() -> None:
    long_rounds = [chain(5, 0, 0.1, 0.1, 0.1)] * 5
    short_rounds = [chain(1, 0, 0.01, 0.01, 0.01)] * 5
    rounds = tuple(long_rounds + short_rounds)
    profile = acceptance_profile([changed(tiny_trace(), rounds=rounds)])
    assert profile.milliseconds_lost == pytest.approx(5 * 300 * 5 / 6 + 5 * 30 * 1 / 2)
    assert profile.milliseconds_lost == pytest.approx(profile.milliseconds_lost_as_measured)
