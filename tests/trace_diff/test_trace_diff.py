"""The diff of two runs finds the first token that differs and the numbers that explain it."""

import dataclasses

import pytest

from specviz.errors import InputError
from specviz.records import ExtraKind, ExtraToken, FinishReason
from specviz.trace_diff import difference, shared_texts, totals
from specviz.trace_diff.arrival import Origin, arrival
from specviz.trace_diff.cause import (
    Distribution,
    OtherDistribution,
    OtherDraw,
    OtherProposal,
    Reason,
    TextEnded,
)
from tests.random_traces import changed, random_trace
from tests.trace_diff.two_runs import (
    FORCED,
    INDEX,
    NODE,
    ROUND,
    TRACE,
    a_hair_less,
    changed_place,
    halved,
    with_verdict,
)


def test_equal_texts_have_no_difference():
    assert difference(TRACE, TRACE) is None
    assert difference(TRACE, dataclasses.replace(TRACE, device="else")) is None


def test_a_forced_draw_is_reported_as_another_draw_with_both_numbers():
    found = difference(TRACE, FORCED)
    node = TRACE.rounds[ROUND].tree.nodes[NODE]
    recorded = TRACE.rounds[ROUND].verdicts[NODE]
    assert (found.index, found.reason) == (INDEX, Reason.DRAW)
    assert found.cause == OtherDraw(node.token_id, (recorded.uniform_draw, 0.0))
    assert (found.a.round_index, found.a.origin) == (ROUND, Origin.RECOVERED)
    assert (found.b.round_index, found.b.origin) == (ROUND, Origin.ACCEPTED)
    assert found.b.token_id == node.token_id
    assert (found.b.target_prob, found.b.draft_prob) == (recorded.target_prob, recorded.draft_prob)
    assert (found.b.acceptance_prob, found.b.uniform_draw) == (recorded.acceptance_prob, 0.0)
    assert found.b.residual_prob == recorded.residual_prob
    extra = TRACE.rounds[ROUND].extra
    assert (found.a.token_id, found.a.residual_prob) == (extra.token_id, extra.prob)
    assert found.a.uniform_draw is None


def test_swapping_the_two_runs_mirrors_the_difference():
    found, mirrored = difference(TRACE, FORCED), difference(FORCED, TRACE)
    assert (mirrored.a, mirrored.b) == (found.b, found.a)
    assert mirrored.cause == OtherDraw(found.cause.token_id, found.cause.draws[::-1])
    assert mirrored.totals == found.totals[::-1]


def test_each_run_has_its_own_totals():
    found = difference(TRACE, FORCED)
    assert found.totals == (totals(TRACE), totals(FORCED))
    assert totals(FORCED).rounds == ROUND + 1
    assert totals(TRACE).tokens == len(TRACE.emitted_ids)
    assert totals(TRACE).block_efficiency == pytest.approx((len(TRACE.emitted_ids) - 1) / 8)


def test_a_difference_in_the_target_s_distribution_is_reported_first():
    other = changed_place(TRACE, halved("target_probs"))
    found = difference(TRACE, other)
    distributions = dict(
        zip(found.a.position.token_ids, found.a.position.target_probs, strict=True)
    )
    drawn = distributions[found.a.token_id]
    assert found.reason is Reason.DISTRIBUTION
    assert found.cause.distribution is Distribution.TARGET
    # The cause has the probabilities of the token that differs, not those of a more probable third
    # token.
    assert found.cause.probs == (drawn, drawn / 2)
    assert found.cause.same_setting
    seeded = changed(other, config=dataclasses.replace(other.config, seed=99))
    assert difference(TRACE, seeded).cause == found.cause
    for change in ({"temperature": 0.2}, {"top_p": 0.5}, {"min_p": 0.1}, {"top_k": 7}):
        sampled = changed(other, config=dataclasses.replace(other.config, **change))
        assert not difference(TRACE, sampled).cause.same_setting


def test_a_third_token_is_named_only_if_the_drawn_tokens_do_not_differ():
    def moved(position):
        ids, probs = position.token_ids, list(position.target_probs)
        third = next(i for i, each in enumerate(ids) if each != TRACE.rounds[ROUND].extra.token_id)
        probs[third] /= 2
        return dataclasses.replace(position, target_probs=tuple(probs))

    found = difference(TRACE, changed_place(TRACE, moved))
    assert found.cause.distribution is Distribution.TARGET
    assert found.cause.token_id not in (found.a.token_id, found.b.token_id)


def test_differences_in_the_draft_and_in_the_residual_are_distinguished():
    for field, distribution in (
        ("draft_probs", Distribution.DRAFT),
        ("residual_probs", Distribution.RESIDUAL),
    ):
        assert (
            difference(TRACE, changed_place(TRACE, halved(field))).cause.distribution
            is distribution
        )


def test_with_equal_distributions_and_drafts_the_target_s_draw_is_the_difference():
    other = changed_place(TRACE, lambda position: position)
    assert difference(TRACE, other).cause == OtherDraw(None, (None, None))


def test_with_one_seed_different_tokens_mean_different_distributions():
    other = changed_place(TRACE, a_hair_less)
    found = difference(TRACE, other)
    assert found.cause.distribution is Distribution.TARGET and found.cause.same_setting
    seeded = changed(other, config=dataclasses.replace(other.config, seed=99))
    assert difference(TRACE, seeded).cause == OtherDraw(None, (None, None))


def test_another_drafted_token_is_another_draft():
    drafted = TRACE.rounds[ROUND].tree.nodes[NODE].token_id
    other = next(i for i in range(40) if i not in (drafted, TRACE.rounds[ROUND].extra.token_id))
    found = difference(TRACE, with_verdict(FORCED, token_id=other))
    assert found.cause == OtherProposal((drafted, other))


def test_a_shorter_draft_is_another_draft():
    here = TRACE.rounds[ROUND]
    kept = here.accepted
    nodes = tuple(dataclasses.replace(here.tree.nodes[i]) for i in kept)
    assert kept == tuple(range(len(kept)))  # the accepted nodes form a chain
    extra = ExtraToken(39, ExtraKind.BONUS, len(kept) - 1, 0.5)
    shorter = dataclasses.replace(
        here,
        tree=dataclasses.replace(here.tree, nodes=nodes),
        verdicts=here.verdicts[: len(kept)],
        extra=extra,
        extra_ids=(),
    )
    found = difference(TRACE, changed(TRACE, rounds=(*TRACE.rounds[:ROUND], shorter)))
    drafted = here.tree.nodes[NODE].token_id
    assert found.cause == OtherProposal((drafted, None))
    assert found.b.origin is Origin.BONUS


def test_another_q_or_another_rule_gives_the_same_draft_another_verdict():
    q = TRACE.rounds[ROUND].verdicts[NODE].draft_prob
    found = difference(TRACE, with_verdict(FORCED, draft_prob=q / 2))
    assert found.cause == OtherDistribution(
        Distribution.DRAFT, TRACE.rounds[ROUND].tree.nodes[NODE].token_id, (q, q / 2), True
    )
    found = difference(TRACE, with_verdict(FORCED, acceptance_prob=1.0))
    assert found.cause.distribution is Distribution.ACCEPTANCE


def test_equal_draws_with_different_verdicts_are_a_near_tie():
    draw = TRACE.rounds[ROUND].verdicts[NODE].uniform_draw
    found = difference(TRACE, with_verdict(FORCED, uniform_draw=draw))
    assert found.cause.distribution is Distribution.ACCEPTANCE and found.cause.same_setting


def test_draws_that_differ_more_than_the_file_s_rounding_are_different():
    draw = TRACE.rounds[ROUND].verdicts[NODE].uniform_draw
    for apart, cause in ((2e-6, OtherDistribution), (1e-3, OtherDraw)):
        found = difference(TRACE, with_verdict(FORCED, uniform_draw=draw - apart))
        assert type(found.cause) is cause


def test_unknown_draws_stay_unknown_and_are_not_guessed():
    unseen = with_verdict(FORCED, uniform_draw=None, residual_prob=None)
    found = difference(TRACE, unseen)
    assert found.cause.draws == (TRACE.rounds[ROUND].verdicts[NODE].uniform_draw, None)
    assert found.b.residual_prob is None


def test_a_text_that_ended_is_named_with_its_reason():
    shorter = changed(TRACE, rounds=TRACE.rounds[:3], finish=FinishReason.STOPPED)
    found = difference(TRACE, shorter)
    assert found.cause == TextEnded("b", FinishReason.STOPPED)
    assert (found.index, found.b) == (len(shorter.emitted_ids), None)
    assert found.a == arrival(TRACE, found.index)
    assert difference(shorter, TRACE).cause == TextEnded("a", FinishReason.STOPPED)


def test_different_prompts_are_the_reason_before_any_distribution():
    other = dataclasses.replace(random_trace(4, rounds=8))
    assert difference(TRACE, other).reason is Reason.PROMPT


def test_a_trace_without_a_speculative_lane_has_an_empty_text():
    empty = changed(TRACE, prefill=None, rounds=(), finish=None)
    found = difference(TRACE, empty)
    assert (found.index, found.a.origin, found.b) == (0, Origin.FIRST, None)
    assert difference(empty, empty) is None


def test_different_tokenizers_are_refused():
    other = dataclasses.replace(TRACE, token_texts=((0, "other"),))
    with pytest.raises(InputError) as refused:
        difference(TRACE, other)
    assert str(refused.value) == (
        "traces must have the same tokenizer, but token 0 is 'def' in the first trace "
        "and 'other' in the second"
    )


def test_the_sentence_uses_token_texts_from_both_traces():
    a = dataclasses.replace(TRACE, token_texts=((0, "x"),))
    b = dataclasses.replace(TRACE, token_texts=((1, "y"),))
    assert shared_texts(a, b) == {0: "x", 1: "y"}
