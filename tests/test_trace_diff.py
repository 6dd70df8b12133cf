"""The first token in which two runs differ, and why, in numbers and in a sentence."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.diff_cause import Law, OtherDraw, OtherLaw, OtherProposal, Reason, TextEnded
from specviz.diff_sentence import sentence
from specviz.errors import InputError
from specviz.records import ExtraKind, ExtraToken, FinishReason, Outcome, ProposalKind
from specviz.trace_arrival import Origin, arrival
from specviz.trace_diff import difference, shared_texts, totals
from specviz.what_if import counterfactual
from tests.random_traces import random_trace

TEXTS = {i: f" t{i}" for i in range(100)}


def followed(trace, number, forced):
    """The trace as it would be up to the end of round `number`, its draws forced."""
    told = counterfactual(trace.rounds[number], forced)
    here = trace.rounds[number]
    verdicts = tuple(
        dataclasses.replace(old, outcome=outcome, uniform_draw=forced.get(node, old.uniform_draw))
        for node, (old, outcome) in enumerate(zip(here.verdicts, told.outcomes, strict=True))
    )
    extra = ExtraToken(told.extra_id, told.extra_kind, told.path[-1] if told.path else -1, 0.5)
    changed = dataclasses.replace(here, verdicts=verdicts, extra=extra)
    return dataclasses.replace(trace, rounds=(*trace.rounds[:number], changed), finish=None)


def rejected_in(trace):
    """Round (above 0), node and new-token index of the first rejection that may pass."""
    start = 1
    for each in trace.rounds:
        for node, verdict in enumerate(each.verdicts):
            if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0:
                if each.index and each.extra.token_id != each.tree.nodes[node].token_id:
                    return each.index, node, start + each.tree.nodes[node].depth - 1
        start += len(each.emitted_ids)
    raise AssertionError("choose another seed")


TRACE = random_trace(3, rounds=8)
ROUND, NODE, INDEX = rejected_in(TRACE)
FORCED = followed(TRACE, ROUND, {NODE: 0.0})


def test_equal_texts_have_no_difference():
    assert difference(TRACE, TRACE) is None
    assert difference(TRACE, dataclasses.replace(TRACE, rounds=TRACE.rounds, device="else")) is None
    assert sentence(None, TEXTS) == "Both texts are the same."


def test_a_forced_draw_is_told_as_another_draw_with_both_numbers():
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


def test_the_other_way_round_is_the_mirror_image():
    found, mirrored = difference(TRACE, FORCED), difference(FORCED, TRACE)
    assert (mirrored.a, mirrored.b) == (found.b, found.a)
    assert mirrored.cause == OtherDraw(found.cause.token_id, found.cause.draws[::-1])
    assert mirrored.totals == found.totals[::-1]


def test_totals_are_those_of_each_run():
    found = difference(TRACE, FORCED)
    assert found.totals == (totals(TRACE), totals(FORCED))
    assert totals(FORCED).rounds == ROUND + 1
    assert totals(TRACE).tokens == len(TRACE.emitted_ids)
    assert totals(TRACE).block_efficiency == pytest.approx((len(TRACE.emitted_ids) - 1) / 8)


def changed_place(trace, change):
    """`trace` with another extra token in ROUND, and its place there changed."""
    here = trace.rounds[ROUND]
    place = here.extra.parent
    other = next(i for i in range(40) if i not in (here.extra.token_id, *trace.emitted_ids))
    positions = tuple(change(each) if each.parent == place else each for each in here.positions)
    extra = dataclasses.replace(here.extra, token_id=other)
    changed = dataclasses.replace(here, positions=positions, extra=extra, extra_ids=())
    return dataclasses.replace(trace, rounds=(*trace.rounds[:ROUND], changed))


def test_another_law_of_the_target_comes_first():
    def halved(position):
        return dataclasses.replace(
            position, target_probs=tuple(p / 2 for p in position.target_probs)
        )

    other = changed_place(TRACE, halved)
    found = difference(TRACE, other)
    place = found.a.position
    likeliest = max(place.target_probs)
    assert found.reason is Reason.LAW
    assert found.cause.law is Law.TARGET
    assert found.cause.probs == (likeliest, likeliest / 2)
    assert found.cause.same_setting
    seeded = dataclasses.replace(other, config=dataclasses.replace(other.config, seed=99))
    assert difference(TRACE, seeded).cause == found.cause
    warm = dataclasses.replace(other, config=dataclasses.replace(other.config, temperature=0.2))
    assert not difference(TRACE, warm).cause.same_setting


def test_another_law_of_the_draft_or_another_rest_is_told_apart():
    def of_draft(position):
        return dataclasses.replace(position, draft_probs=tuple(q / 2 for q in position.draft_probs))

    def of_rest(position):
        rest = tuple(left / 2 for left in position.residual_probs)
        return dataclasses.replace(position, residual_probs=rest)

    for change, law in ((of_draft, Law.DRAFT), (of_rest, Law.RESIDUAL)):
        assert difference(TRACE, changed_place(TRACE, change)).cause.law is law


def test_the_targets_own_draw_is_another_where_laws_and_drafts_are_the_same():
    other = changed_place(TRACE, lambda position: position)
    assert difference(TRACE, other).cause == OtherDraw(None, (None, None))


def test_with_one_seed_the_same_place_has_one_draw_so_its_law_must_differ_a_hair():
    def a_hair(position):
        return dataclasses.replace(
            position, target_probs=tuple(p * (1 - 1e-6) for p in position.target_probs)
        )

    other = changed_place(TRACE, a_hair)
    found = difference(TRACE, other)
    assert found.cause.law is Law.TARGET and found.cause.same_setting
    seeded = dataclasses.replace(other, config=dataclasses.replace(other.config, seed=99))
    assert difference(TRACE, seeded).cause == OtherDraw(None, (None, None))


def with_verdict(trace, token_id=None, **changes):
    """`trace` with another drafted token or verdict at NODE."""
    here = trace.rounds[ROUND]
    nodes, verdicts = list(here.tree.nodes), list(here.verdicts)
    if token_id is not None:
        nodes[NODE] = dataclasses.replace(nodes[NODE], token_id=token_id)
    verdicts[NODE] = dataclasses.replace(verdicts[NODE], **changes)
    tree = dataclasses.replace(here.tree, nodes=tuple(nodes))
    changed = dataclasses.replace(here, tree=tree, verdicts=tuple(verdicts))
    rounds = (*trace.rounds[:ROUND], changed, *trace.rounds[ROUND + 1 :])
    return dataclasses.replace(trace, rounds=rounds)


def test_another_drafted_token_is_another_proposal():
    drafted = TRACE.rounds[ROUND].tree.nodes[NODE].token_id
    other = next(i for i in range(40) if i not in (drafted, TRACE.rounds[ROUND].extra.token_id))
    found = difference(TRACE, with_verdict(FORCED, token_id=other))
    assert found.cause == OtherProposal((drafted, other))


def test_a_draft_that_was_too_short_is_another_proposal():
    here = TRACE.rounds[ROUND]
    kept = here.accepted
    nodes = tuple(dataclasses.replace(here.tree.nodes[i]) for i in kept)
    assert kept == tuple(range(len(kept)))  # a chain
    extra = ExtraToken(39, ExtraKind.BONUS, len(kept) - 1, 0.5)
    shorter = dataclasses.replace(
        here,
        tree=dataclasses.replace(here.tree, nodes=nodes),
        verdicts=here.verdicts[: len(kept)],
        extra=extra,
        extra_ids=(),
    )
    found = difference(TRACE, dataclasses.replace(TRACE, rounds=(*TRACE.rounds[:ROUND], shorter)))
    drafted = here.tree.nodes[NODE].token_id
    assert found.cause == OtherProposal((drafted, None))
    assert found.b.origin is Origin.BONUS


def test_another_q_or_another_rule_lets_the_same_draft_fare_otherwise():
    q = TRACE.rounds[ROUND].verdicts[NODE].draft_prob
    found = difference(TRACE, with_verdict(FORCED, draft_prob=q / 2))
    assert found.cause == OtherLaw(
        Law.DRAFT, TRACE.rounds[ROUND].tree.nodes[NODE].token_id, (q, q / 2), False
    )
    found = difference(TRACE, with_verdict(FORCED, acceptance_prob=1.0))
    assert found.cause.law is Law.ACCEPTANCE


def test_the_same_draw_on_either_side_of_a_near_tie_same_setting():
    draw = TRACE.rounds[ROUND].verdicts[NODE].uniform_draw
    found = difference(TRACE, with_verdict(FORCED, uniform_draw=draw))
    assert found.cause.law is Law.ACCEPTANCE and found.cause.same_setting


def test_draws_that_nobody_saw_are_unknown_and_not_guessed():
    unseen = with_verdict(FORCED, uniform_draw=None, residual_prob=None)
    found = difference(TRACE, unseen)
    assert found.cause.draws == (TRACE.rounds[ROUND].verdicts[NODE].uniform_draw, None)
    assert found.b.residual_prob is None
    assert "unknown in b" in sentence(found, TEXTS)


def test_a_text_that_ended_says_which_and_why():
    shorter = dataclasses.replace(TRACE, rounds=TRACE.rounds[:3], finish=FinishReason.STOPPED)
    found = difference(TRACE, shorter)
    assert found.cause == TextEnded("b", FinishReason.STOPPED)
    assert (found.index, found.b) == (len(shorter.emitted_ids), None)
    assert found.a == arrival(TRACE, found.index)
    assert difference(shorter, TRACE).cause == TextEnded("a", FinishReason.STOPPED)


def test_other_prompts_are_the_reason_before_any_law():
    other = dataclasses.replace(random_trace(4, rounds=8))
    assert difference(TRACE, other).reason is Reason.PROMPT


def test_a_trace_without_a_speculative_lane_has_an_empty_text():
    empty = dataclasses.replace(TRACE, prefill=None, rounds=(), finish=None)
    found = difference(TRACE, empty)
    assert (found.index, found.a.origin, found.b) == (0, Origin.FIRST, None)
    assert difference(empty, empty) is None


def test_other_tokenizers_are_refused():
    other = dataclasses.replace(TRACE, token_texts=((0, "other"),))
    with pytest.raises(InputError) as refused:
        difference(TRACE, other)
    assert str(refused.value) == (
        "traces must have the same tokenizer, but token 0 is 'def' in a and 'other' in b"
    )


def test_texts_of_both_are_known_to_the_sentence():
    a = dataclasses.replace(TRACE, token_texts=((0, "x"),))
    b = dataclasses.replace(TRACE, token_texts=((1, "y"),))
    assert shared_texts(a, b) == {0: "x", 1: "y"}


@given(seed=st.integers(0, 500), has_laws=st.booleans(), branching=st.sampled_from([(), (3, 2)]))
def test_every_token_of_a_text_has_an_arrival_that_tells_it(seed, has_laws, branching):
    trace = random_trace(seed, rounds=4, has_laws=has_laws, branching=branching)
    for index, token_id in enumerate(trace.emitted_ids):
        found = arrival(trace, index)
        assert (found.index, found.token_id) == (index, token_id)
        if found.origin is Origin.ACCEPTED:
            assert found.examined[-1].verdict.outcome is Outcome.ACCEPTED
            assert found.uniform_draw < found.acceptance_prob
        rejected = [each for each in found.examined if each.verdict.outcome is Outcome.REJECTED]
        assert bool(rejected) or found.origin is not Origin.RECOVERED
    assert arrival(trace, len(trace.emitted_ids)) is None


def halved(field):
    return lambda position: dataclasses.replace(
        position, **{field: tuple(prob / 2 for prob in getattr(position, field))}
    )


def a_hair_less(position):
    probs = tuple(prob * (1 - 1e-6) for prob in position.target_probs)
    return dataclasses.replace(position, target_probs=probs)


def short_by(finish, rounds=3):
    return dataclasses.replace(TRACE, rounds=TRACE.rounds[:rounds], finish=finish)


BOTH = (
    "Token 5 is the first to differ: ' t27' (recovered after a rejection, round 2) in a, "
    "' t36' (an accepted draft, round 2) in b; "
)
EXTRAS = (
    "Token 5 is the first to differ: ' t27' (recovered after a rejection, round 2) in a, "
    "' t2' (recovered after a rejection, round 2) in b; "
)
DRAFTED = TRACE.rounds[ROUND].verdicts[NODE]
AGAIN = ", although target and sampling are the same"
GOLDEN = {
    "draw": (FORCED, BOTH + "the draw on ' t36' was 0.863 in a, 0 in b."),
    "proposal": (
        with_verdict(FORCED, token_id=5),
        BOTH.replace("t36", "t5") + "a had drafted ' t36' there, b ' t5'.",
    ),
    "draft law": (
        with_verdict(FORCED, draft_prob=DRAFTED.draft_prob / 2),
        BOTH + "the draft gives ' t36' probability 0.0702 in a, 0.0351 in b.",
    ),
    "rule": (
        with_verdict(FORCED, acceptance_prob=1.0),
        BOTH + "' t36' passes with probability 0.725 in a, 1 in b.",
    ),
    "near tie": (
        with_verdict(FORCED, uniform_draw=DRAFTED.uniform_draw),
        BOTH + "the draw on ' t36' all but equals its acceptance probability, 0.725.",
    ),
    "target law": (
        changed_place(TRACE, halved("target_probs")),
        EXTRAS + f"the target gives ' t20' probability 0.331 in a, 0.165 in b{AGAIN}.",
    ),
    "draft law behind rejections": (
        changed_place(TRACE, halved("draft_probs")),
        EXTRAS + "the draft gives ' t20' probability 0.166 in a, 0.0828 in b.",
    ),
    "residual": (
        changed_place(TRACE, halved("residual_probs")),
        EXTRAS + "after the rejections ' t20' has probability 0.449 in a, 0.224 in b.",
    ),
    "border": (
        changed_place(TRACE, a_hair_less),
        EXTRAS + "the target's own draw fell between two tokens, and rounding moved the border.",
    ),
    "own draw": (
        changed_place(TRACE, lambda position: position),
        EXTRAS + "the target drew it with another random number.",
    ),
    "stopped": (
        short_by(FinishReason.STOPPED),
        "The first 8 tokens are the same; b ends there because it was stopped, "
        "a goes on with ' t3' (an accepted draft, round 4).",
    ),
    "end of sequence": (
        short_by(FinishReason.END_OF_SEQUENCE, rounds=0),
        "The first token is the same; b ends there at the end of its sequence, "
        "a goes on with ' t30' (an accepted draft, round 1).",
    ),
    "unfinished": (
        dataclasses.replace(TRACE, prefill=None, rounds=(), finish=None),
        "b has no text yet, a begins with ' t6' (drawn behind the prompt).",
    ),
    "prompt": (
        random_trace(4, rounds=3),
        "Token 1 is the first to differ: ' t6' (drawn behind the prompt) in a, "
        "' t30' (drawn behind the prompt) in b; the prompts differ.",
    ),
}


@pytest.mark.parametrize("b, told", GOLDEN.values(), ids=GOLDEN)
def test_the_sentence_is_plain(b, told):
    assert sentence(difference(TRACE, b), TEXTS) == told


def test_texts_of_any_length_and_content_leave_one_short_line():
    texts = dict.fromkeys(range(100), "\x1b[2J\n" + "x" * 1_000_000)
    told = sentence(difference(TRACE, FORCED), texts)
    assert len(told) < 300 and told.isprintable()


def test_a_file_may_examine_a_sibling_behind_the_accepted_one():
    """No decoder does, but no rule of the format forbids it."""
    kind = ProposalKind.DETERMINISTIC  # siblings of different tokens
    traces = (random_trace(seed, rounds=1, branching=(3, 2), kind=kind) for seed in range(50))
    trace = next(trace for trace in traces if trace.rounds[0].accepted[:1] in ((0,), (1,)))
    each = trace.rounds[0]
    verdicts = tuple(
        dataclasses.replace(old, outcome=Outcome.REJECTED)
        if old.outcome is Outcome.UNREACHED
        else old
        for old in each.verdicts
    )
    odd = dataclasses.replace(trace, rounds=(dataclasses.replace(each, verdicts=verdicts),))
    assert arrival(odd, 1).token_id == odd.emitted_ids[1]


def test_a_token_without_a_text_is_told_by_its_number():
    assert "#36 (an accepted draft, round 2) in b" in sentence(difference(TRACE, FORCED), {})
