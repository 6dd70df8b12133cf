"""For every token of a text, its round, the examined nodes and their verdicts can be found."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from specviz.records import Drawing, Outcome
from specviz.trace_diff.arrival import Origin, arrival
from tests.random_traces import changed, random_trace


@given(
    seed=st.integers(0, 500),
    has_distributions=st.booleans(),
    branching=st.sampled_from([(), (3, 2)]),
)
def test_every_token_of_a_text_has_an_arrival(seed, has_distributions, branching):
    trace = random_trace(seed, rounds=4, has_distributions=has_distributions, branching=branching)
    for index, token_id in enumerate(trace.emitted_ids):
        found = arrival(trace, index)
        assert (found.index, found.token_id) == (index, token_id)
        if found.origin is Origin.ACCEPTED:
            assert found.examined[-1].verdict.outcome is Outcome.ACCEPTED
            assert found.uniform_draw < found.acceptance_prob
        rejected = [each for each in found.examined if each.verdict.outcome is Outcome.REJECTED]
        assert bool(rejected) or found.origin is not Origin.RECOVERED
    assert arrival(trace, len(trace.emitted_ids)) is None


def test_a_file_may_examine_siblings_after_the_accepted_one():
    """No decoder examines a sibling after an accepted one, but the file format allows it."""
    drawing = Drawing.CHOSEN  # siblings of a deterministic draft have different tokens
    traces = (random_trace(seed, rounds=1, branching=(3, 2), drawing=drawing) for seed in range(50))
    trace = next(trace for trace in traces if trace.rounds[0].accepted[:1] in ((0,), (1,)))
    each = trace.rounds[0]
    verdicts = tuple(
        dataclasses.replace(old, outcome=Outcome.REJECTED)
        if old.outcome is Outcome.UNREACHED
        else old
        for old in each.verdicts
    )
    odd = changed(trace, rounds=(dataclasses.replace(each, verdicts=verdicts),))
    assert arrival(odd, 1).token_id == odd.emitted_ids[1]
