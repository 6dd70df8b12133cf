"""A run that continues from the middle of a text (a departure) equals a run from the beginning."""

import dataclasses
from contextlib import closing

import pytest

from specviz.decoding import speculative
from specviz.decoding.departure import Departure, ForcedDraws
from specviz.decoding.topology import tree_shape
from specviz.errors import InputError
from specviz.experiments.run.recorder import Recorder
from specviz.records import SPECULATIVE, FinishReason, Outcome, Round
from specviz.what_if import counterfactual
from tests.decoding.test_every_drafter import (
    ONE_KIND_EACH,
    ONE_KIND_QUICKLY,
    PROMPT,
    VARIANTS,
    config_of,
)
from tests.random_traces import changed, random_trace

# Methods that draft from more than the text. Lookahead's window and pool and the table of token
# recycling depend on earlier rounds.
# The quantised copy rounds the inputs of its matrix multiplications. These inputs differ slightly
# between a forward over several tokens and forwards over one token each, and rounding can magnify
# the difference. So the copy's cached keys and values depend on which tokens ran together.
HISTORY = {"lookahead", "quantised-self", "token-recycling"}
# Medusa rounds the input of its heads to bfloat16. The last bit of a hidden state differs between
# forwards over one token and over several, so q may differ in its third digit.
ROUNDED = {"medusa"}
CHAIN = VARIANTS[0].values


def run(target, drafter, config, end_ids=(), departure=None):
    return list(speculative.decode(target, drafter, PROMPT, config, end_ids, departure))


def trace_of(events, config):
    recorder = Recorder()
    for event in events:
        recorder.add(SPECULATIVE, event)
    header = changed(random_trace(0, rounds=0).unstarted, config=config)
    return recorder.fill(dataclasses.replace(header, prompt_ids=PROMPT))


def decisions(round_):
    """Return everything in a round that does not depend on rounding."""
    return (
        round_.index,
        round_.context_length,
        [(node.token_id, node.parent, node.depth) for node in round_.tree.nodes],
        [(verdict.uniform_draw, verdict.outcome) for verdict in round_.verdicts],
        round_.emitted_ids,
        round_.extra and (round_.extra.kind, round_.extra.parent),
        round_.extra_ids,
        [position.parent for position in round_.positions],
        round_.cache,
    )


def probabilities(round_):
    numbers = [number for verdict in round_.verdicts for number in dataclasses.astuple(verdict)]
    numbers += [node.draft_score for node in round_.tree.nodes]
    return [number for number in numbers if isinstance(number, float)]


@pytest.fixture
def whole(target, drafter_for):
    """Return a function that runs a method from the prompt on.

    It returns the run's configuration and trace.
    """

    def make(method, kind, end_ids=(), **changes):
        config = config_of(method, kind, **{"seed": 5, "max_new_tokens": 24} | changes)
        return config, trace_of(run(target, drafter_for(config, PROMPT), config, end_ids), config)

    return make


def first_round(target, drafter_for, trace, config, index, forced):
    departure = Departure.of(trace, index, forced)
    events = speculative.decode(
        target, drafter_for(config, PROMPT), PROMPT, config, departure=departure
    )
    with closing(events):
        return next(events)


def departed(target, drafter_for, trace, config):
    """Find the first round after round 0 that drafts nodes and repeat it as a departure.

    Returns: the trace up to that round, and the repeated round.
    """
    for index in range(1, len(trace.rounds)):
        record = first_round(target, drafter_for, trace, config, index, {})
        if record.tree.nodes:
            return changed(trace, rounds=(*trace.rounds[:index], record))
    raise AssertionError("no departure drafts")


def some_starts(trace):
    """Return the indices of the first, a middle and the last round."""
    count = len(trace.rounds)
    return sorted({0, count // 2, count - 1})


def from_round(target, drafter_for, trace, config, index, forced=None, end_ids=()):
    departure = Departure.of(trace, index, forced or {})
    return run(target, drafter_for(config, PROMPT), config, end_ids, departure)


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_a_departure_with_the_same_settings_repeats_the_rounds(
    method, kind, target, drafter_for, whole
):
    config, trace = whole(method, kind, temperature=0.9)
    for index in [0] if method.name in HISTORY else some_starts(trace):
        again = from_round(target, drafter_for, trace, config, index)
        expected = trace.rounds[index:]
        assert again[-1] is trace.finish
        assert [decisions(each) for each in again[:-1]] == [decisions(each) for each in expected]
        for one, other in zip(again[:-1], expected, strict=True):
            within = {"rel": 3e-2} if method.name in ROUNDED else {"rel": 1e-3}
            assert probabilities(one) == pytest.approx(probabilities(other), abs=1e-5, **within)


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_a_greedy_text_is_the_same_from_wherever_it_is_continued(
    method, kind, target, drafter_for, whole
):
    config, trace = whole(method, kind)
    for index in some_starts(trace):
        rounds = from_round(target, drafter_for, trace, config, index)[:-1]
        ids = [token_id for each in rounds for token_id in each.emitted_ids]
        assert ids == list(trace.emitted_ids[-len(ids) :])
        assert len(ids) == 24 - len(Departure.of(trace, index, {}).written)


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_forced_draws_decide_as_the_record_predicts(method, kind, target, drafter_for, whole):
    config, trace = whole(method, kind, temperature=0.9)
    if method.name in HISTORY:
        trace = departed(target, drafter_for, trace, config)
        record = trace.rounds[-1]
    else:
        record = next(each for each in trace.rounds if each.tree.nodes)
    for node, verdict in enumerate(record.verdicts[:5]):
        for draw in (0.0, min(verdict.acceptance_prob, 1 - 1e-9), 1 - 1e-9):
            forced = {node: draw}
            first = first_round(target, drafter_for, trace, config, record.index, forced)
            told = counterfactual(record, forced)
            assert first.verdicts[node].uniform_draw == draw
            if abs(draw - verdict.acceptance_prob) < 1e-6 and draw > 0:
                continue  # the draw is so close to the threshold that rounding decides
            assert tuple(verdict.outcome for verdict in first.verdicts) == told.outcomes
            assert first.emitted_ids == told.emitted_ids
            assert first.extra.kind is told.extra_kind


def test_draws_are_forced_in_the_first_round_only(target, drafter_for, whole):
    config, trace = whole(*CHAIN, temperature=0.9)
    forced = dict.fromkeys(range(4), 0.0)
    first, *rest, _ = from_round(target, drafter_for, trace, config, 1, forced)
    assert [verdict.uniform_draw for verdict in first.verdicts] == [0.0] * 4
    assert rest and all(0.0 not in [v.uniform_draw for v in each.verdicts] for each in rest)


def test_forced_draws_also_apply_to_a_longer_draft(target, drafter_for, whole):
    config, trace = whole(*CHAIN, temperature=0.9)
    longer = dataclasses.replace(config, draft_length=6)
    forced = {0: 0.0, 1: 0.9999999}
    first = from_round(target, drafter_for, trace, longer, 1, forced)[0]
    assert len(first.tree.nodes) == 6
    assert [verdict.uniform_draw for verdict in first.verdicts[:2]] == [0.0, 0.9999999]
    assert first.verdicts[1].outcome is not Outcome.ACCEPTED


def test_a_forced_draw_is_refused_if_its_token_is_no_longer_drafted(target, drafter_for, whole):
    config, trace = whole(*CHAIN, temperature=0.9)
    shorter = dataclasses.replace(config, draft_length=2)
    with pytest.raises(InputError) as refused:
        from_round(target, drafter_for, trace, shorter, 1, {3: 0.5})
    assert "with these settings round 2 drafts another tree" in str(refused.value)
    assert "lacks that token at depth 4: fork without the forced draw" in str(refused.value)


def test_forced_draws_distinguish_siblings_with_the_same_token():
    tree = random_trace(0, rounds=1, branching=(2,), draft_length=1).rounds[0].tree
    nodes = tuple(dataclasses.replace(node, token_id=7) for node in tree.nodes)
    record = dataclasses.replace(
        random_trace(0, rounds=1, branching=(2,), draft_length=1).rounds[0],
        tree=dataclasses.replace(tree, nodes=nodes),
    )
    for node, expected in ((0, (0.25, 0.5)), (1, (0.5, 0.25))):
        draws = ForcedDraws.of(record, {node: 0.25})
        assert draws is not None
        assert draws.applied(tree_shape((-1, -1)), [7, 7], [0.5, 0.5]) == expected


def test_a_first_forced_draw_may_end_the_text(target, drafter_for, whole):
    config, trace = whole(*CHAIN, temperature=0.9)
    record = next(each for each in trace.rounds if each.verdicts[0].outcome is Outcome.REJECTED)
    end = record.tree.nodes[0].token_id
    events = from_round(target, drafter_for, trace, config, record.index, {0: 0.0}, {end})
    assert record.verdicts[0].acceptance_prob > 0
    assert [type(event) for event in events] == [Round, FinishReason]
    assert (events[0].emitted_ids, events[0].extra) == ((end,), None)
    assert events[1] is FinishReason.END_OF_SEQUENCE


def test_clock_and_round_numbers_continue_and_the_limit_counts_the_whole_text(
    target, drafter_for, whole
):
    config, trace = whole(*CHAIN, temperature=0.9)
    index = len(trace.rounds) - 1
    longer = dataclasses.replace(config, max_new_tokens=30)
    departure = Departure.of(trace, index, {})
    rounds = from_round(target, drafter_for, trace, longer, index)[:-1]
    assert departure.seconds == pytest.approx(
        trace.prefill.seconds + sum(each.seconds for each in trace.rounds[:-1])
    )
    assert rounds[0].spans[0].start == departure.seconds
    assert [each.index for each in rounds] == list(range(index, index + len(rounds)))
    assert len(departure.written) + sum(len(each.emitted_ids) for each in rounds) == 30


def test_a_departure_may_begin_at_the_end_of_a_trace(target, drafter_for, whole):
    config, trace = whole(*CHAIN, temperature=0.9)
    longer = dataclasses.replace(config, max_new_tokens=40)
    departure = Departure.of(trace, len(trace.rounds), {})
    assert departure.written == trace.emitted_ids
    events = run(target, drafter_for(longer, PROMPT), longer, (), departure)
    assert sum(len(each.emitted_ids) for each in events[:-1]) == 40 - 24
