"""A fork lets the real decoder continue from a recorded round of the bundled pair."""

import dataclasses
from functools import cache

import pytest

from specviz import trace_file
from specviz.decoding.drafters import self_draft
from specviz.decoding.drafters.registry import method_named
from specviz.decoding.drafters.tree_budget import NODES
from specviz.errors import InputError
from specviz.experiments.run.fork_parent import copied_baseline, pair_of
from specviz.experiments.run.forking import ForkRequest, start_fork
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.records import (
    BASELINE,
    SPECULATIVE,
    DecodingConfig,
    Drawing,
    FinishReason,
    Outcome,
    Prefill,
    Round,
)
from specviz.what_if import counterfactual
from tests.random_traces import changed, random_trace

BUNDLED = pair_named("bundled")
PROMPT, LENGTH = "def read_lines(path):\n", 20


def config_of(method="draft-model", **changes):
    entry = method_named(method)
    values = {"temperature": 0.8, "seed": 3, "max_new_tokens": LENGTH, "draft_length": 4}
    return DecodingConfig(
        method=method,
        branching=entry.default_branching,
        drawing=entry.drawings[0],
        **values | changes,
    )


@cache
def parent_of(method="draft-model", **changes):
    race = start_race(RaceRequest(BUNDLED, PROMPT, config_of(method, **changes), device="cpu"))
    for _ in race:
        pass
    race.close()
    return race.trace()


def request_of(parent, round_index, pair=BUNDLED, forced=(), **changes):
    config = dataclasses.replace(parent.config, **changes)
    return ForkRequest(parent, round_index, pair, config, forced, device="cpu")


def forked(parent, round_index, **changes):
    fork = start_fork(request_of(parent, round_index, **changes))
    events = list(fork)
    fork.close()
    return fork.trace(), events


def is_whole(trace):
    """Return whether the trace has LENGTH tokens, or ends with the only end token in it."""
    if trace.finish is FinishReason.END_OF_SEQUENCE:
        return trace.emitted_ids[-1] == 0 and 0 not in trace.emitted_ids[:-1]
    return trace.finish is FinishReason.LENGTH and len(trace.emitted_ids) == LENGTH


def decisions(rounds):
    return [
        (
            each.index,
            each.context_length,
            [(node.token_id, node.parent) for node in each.tree.nodes],
            [(verdict.uniform_draw, verdict.outcome) for verdict in each.verdicts],
            each.emitted_ids,
            each.extra_ids,
        )
        for each in rounds
    ]


@pytest.mark.parametrize(
    "method", ["draft-model", "draft-tree", "dynamic-tree", "eagle", "prompt-lookup"]
)
def test_a_fork_without_a_change_repeats_the_rounds_of_its_parent(method):
    # The tree size is fixed, because a measured size would depend on how busy the machine is. It is
    # also small, because the ninth best node of this run is nearly as good as the tenth. The fork
    # runs its own prefill, so rounding errors could change the order of these two nodes.
    fixed = ((NODES.name, 5),) if NODES in method_named(method).options else ()
    parent = parent_of(method, options=fixed)
    trace, _ = forked(parent, len(parent.rounds) // 2)
    assert decisions(trace.rounds) == decisions(parent.rounds)
    assert (trace.finish, trace.emitted_ids) == (parent.finish, parent.emitted_ids)


@pytest.mark.parametrize("start", [0, -1])
def test_a_fork_may_start_before_the_first_round_and_before_the_last(start):
    parent = parent_of()
    trace, _ = forked(parent, range(len(parent.rounds))[start])
    assert decisions(trace.rounds) == decisions(parent.rounds)


def test_the_parent_s_rounds_stay_unchanged_and_new_ones_continue_its_clock():
    parent = parent_of()
    trace, events = forked(parent, 3, draft_length=7)
    assert trace.rounds[:3] == parent.rounds[:3] and trace.prefill == parent.prefill
    assert trace.config == dataclasses.replace(parent.config, draft_length=7)
    assert [each.index for each in trace.rounds] == list(range(len(trace.rounds)))
    before = parent.prefill.seconds + sum(each.seconds for each in parent.rounds[:3])
    assert trace.rounds[3].spans[0].start == pytest.approx(before)
    assert {len(each.tree.nodes) for each in trace.rounds[3:-3]} <= {7}
    clocks = [event.clock for event in events if event.lane == SPECULATIVE]
    assert clocks == sorted(clocks)
    assert clocks[-1] == pytest.approx(
        parent.prefill.seconds + sum(each.seconds for each in trace.rounds)
    )
    assert len(trace.emitted_ids) == LENGTH


def test_a_fork_yields_the_events_of_a_race_with_the_whole_trace():
    parent = parent_of()
    trace, events = forked(parent, 2)
    speculative = [event.event for event in events if event.lane == SPECULATIVE]
    assert isinstance(speculative[0], Prefill)
    assert tuple(each for each in speculative if isinstance(each, Round)) == trace.rounds
    assert speculative[-1] is trace.finish
    baseline = [event.event for event in events if event.lane == BASELINE]
    assert tuple(baseline[1:-1]) == parent.baseline.steps == trace.baseline.steps


def test_a_fork_can_be_saved_as_a_trace_file():
    trace, _ = forked(parent_of(), 2, temperature=1.2, seed=8)
    again = trace_file.loads(trace_file.dumps(trace))
    assert again.emitted_ids == trace.emitted_ids
    assert again.config == trace.config
    texts = dict(trace.token_texts)
    assert all(token_id in texts for token_id in (*trace.emitted_ids, *trace.prompt_ids))


def test_a_trace_from_a_file_can_be_forked_like_one_in_memory():
    parent = parent_of()
    read = trace_file.loads(trace_file.dumps(parent))
    trace, _ = forked(read, 2)
    assert trace.emitted_ids == parent.emitted_ids


def test_a_fork_uses_as_many_bits_for_the_quantised_copy_as_its_parent(monkeypatch):
    parent = parent_of("quantised-self", max_new_tokens=8)
    assert parent.config.options == (("bits", 8),)
    drafted = []
    monkeypatch.setattr(self_draft, "usual_bits", lambda target: 4)
    taken = self_draft.quantised
    monkeypatch.setattr(
        self_draft, "quantised", lambda target, bits: drafted.append(bits) or taken(target, bits)
    )
    trace, _ = forked(parent, 1)
    assert set(drafted) == {8} and trace.config == parent.config
    older = changed(parent, config=dataclasses.replace(parent.config, options=()))
    trace, _ = forked(older, 1)
    assert trace.config.options == (("bits", 4),)


def test_a_forced_draw_changes_the_verdict_as_predicted_and_the_text_continues():
    parent = parent_of()
    index, node = next(
        (each.index, node)
        for each in parent.rounds
        for node, verdict in enumerate(each.verdicts)
        if verdict.outcome is Outcome.REJECTED and verdict.acceptance_prob > 0
    )
    told = counterfactual(parent.rounds[index], {node: 0.0})
    trace, _ = forked(parent, index, forced=((node, 0.0),))
    here = trace.rounds[index]
    assert told.differs and here.accepted == told.path
    assert here.emitted_ids == told.emitted_ids
    assert here.verdicts[node].uniform_draw == 0.0
    assert len(trace.rounds) > index + 1 and is_whole(trace)


def test_a_forced_draw_is_refused_if_the_fork_does_not_draft_its_token():
    parent = parent_of()
    lookup = {"method": "prompt-lookup", "drawing": Drawing.CHOSEN}
    fork = start_fork(request_of(parent, 1, forced=((0, 0.5),), **lookup))
    with pytest.raises(InputError, match="another tree, which lacks that token at depth 1: fork"):
        list(fork)
    fork.close()
    assert fork.trace().rounds == parent.rounds[:1]


def test_a_fork_may_use_another_method_or_pair_with_the_same_tokenizer():
    parent = parent_of()
    for method in ("lookahead", "pre-speculation", "cross-vocabulary"):
        kind = method_named(method).drawings[0]
        trace, _ = forked(parent, 2, method=method, drawing=kind)
        assert trace.config.method == method and is_whole(trace)
    other = dataclasses.replace(BUNDLED, name="other", target=BUNDLED.draft)
    trace, _ = forked(parent, 2, pair=other)
    assert trace.target.layers == 2 and is_whole(trace)
    assert trace.baseline is None


def test_a_pair_with_another_tokenizer_is_refused_in_one_sentence():
    foreign = BUNDLED.foreign_draft
    with pytest.raises(InputError) as refused:
        start_fork(request_of(parent_of(), 2, pair=custom_pair(foreign, foreign)))
    sentence = str(refused.value)
    assert sentence.startswith("pair 'custom' must have the tokenizer of the trace: token ")
    assert sentence.endswith(" here") and "\n" not in sentence


def test_a_token_that_the_pair_does_not_have_is_refused():
    parent = parent_of()
    prompt_ids = (*parent.prompt_ids[:-1], 4096)
    with pytest.raises(InputError) as refused:
        start_fork(request_of(dataclasses.replace(parent, prompt_ids=prompt_ids), 2))
    assert str(refused.value).endswith("token 4096 is used in the trace and no token here")


def test_the_limit_counts_the_whole_text_and_an_ended_text_can_be_extended():
    parent = parent_of()
    trace, _ = forked(parent, len(parent.rounds), max_new_tokens=LENGTH + 6)
    assert trace.emitted_ids[:LENGTH] == parent.emitted_ids
    assert len(trace.emitted_ids) == LENGTH + 6
    assert trace.rounds[: len(parent.rounds)] == parent.rounds
    assert trace.baseline.finish is FinishReason.STOPPED
    with pytest.raises(InputError) as refused:
        request_of(parent, len(parent.rounds), max_new_tokens=LENGTH)
    assert str(refused.value) == (
        f"max_new_tokens must be above {LENGTH}, the tokens written before round "
        f"{len(parent.rounds) + 1}, got {LENGTH}"
    )


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"round_index": -1}, "round must be from 1 to 5, got 0"),
        ({"round_index": 5}, "round must be from 1 to 5, got 6"),
        (
            {"round_index": 4, "forced": ((0, 0.5),)},
            "forced draws must belong to one of the trace's 4",
        ),
        ({"round_index": 0, "forced": ((99, 0.5),)}, "node must be from 0 to 4 in round 1, got 99"),
        ({"round_index": 0, "forced": ((0, 1.0),)}, "forced draw of node 0 must be from 0"),
    ],
)
def test_a_fork_from_a_round_that_does_not_exist_is_refused(change, sentence):
    with pytest.raises(InputError) as refused:
        request_of(random_trace(1, rounds=4), **change)
    assert str(refused.value).startswith(sentence)


def test_a_trace_without_a_speculative_lane_has_no_round_to_fork_from():
    with pytest.raises(InputError, match="trace must have a speculative lane"):
        request_of(random_trace(1).unstarted, 0)


def test_a_text_with_an_end_token_cannot_be_continued():
    parent = parent_of()
    # Token 0 is the end token of this pair.
    end = dataclasses.replace(parent.rounds[-1].extra, token_id=0)
    last = dataclasses.replace(parent.rounds[-1], extra=end)
    ended = changed(parent, rounds=(*parent.rounds[:-1], last))
    with pytest.raises(InputError, match="round must be before the end of the text, got"):
        start_fork(request_of(ended, len(ended.rounds), max_new_tokens=LENGTH + 9))


def test_a_stopped_fork_keeps_its_rounds_and_frees_its_decoder():
    fork = start_fork(request_of(parent_of(), 2))
    for event in fork:
        if isinstance(event.event, Round) and event.event.index == 3:
            break
    fork.close()
    fork.close()
    trace = fork.trace()
    assert (len(trace.rounds), trace.finish) == (4, None)


def test_the_baseline_is_copied_only_if_it_has_the_fork_s_settings():
    parent = changed(random_trace(2, rounds=6), BASELINE, finish=FinishReason.LENGTH)
    count = len(parent.baseline.emitted_ids)

    def copied(header=parent, **changes):
        config = dataclasses.replace(parent.config, **changes)
        return copied_baseline(parent, changed(header.unstarted, config=config))

    same = copied(seed=9, draft_length=2, max_new_tokens=count)
    assert same.emitted_ids == parent.baseline.emitted_ids
    assert same.finish is FinishReason.LENGTH
    cut = copied(max_new_tokens=5)
    assert cut.emitted_ids == parent.baseline.emitted_ids[:5]
    assert cut.finish is FinishReason.LENGTH
    assert copied(max_new_tokens=count + 1).finish is FinishReason.STOPPED
    for other in (
        copied(temperature=0.0),
        copied(top_k=3),
        copied(dataclasses.replace(parent, device="cuda")),
        copied(dataclasses.replace(parent, target=parent_of().target)),
    ):
        assert other is None


def test_a_fork_uses_its_trace_s_pair_only_if_the_pair_has_a_name():
    other = pair_named("gpt2")
    assert pair_of(parent_of(), other) == BUNDLED
    named = dataclasses.replace(parent_of().target, name="somebody/weights")
    assert pair_of(dataclasses.replace(parent_of(), target=named), other) == other
    for pair in (pair_named("smollm2"), pair_named("smollm2-360m")):
        target = dataclasses.replace(parent_of().target, name=pair.model_name("target"))
        draft = dataclasses.replace(parent_of().main.draft, name=pair.model_name("draft"))
        trace = dataclasses.replace(changed(parent_of(), draft=draft), target=target)
        assert pair_of(trace, other) == pair
        alone = changed(trace, draft=None)  # the trace of a method that needs no draft model
        assert pair_of(alone, pair) == pair


def test_a_fork_s_trace_says_where_it_left_its_parent():
    parent = parent_of()
    trace, _ = forked(parent, 2, draft_length=2)
    assert [(each.round_index, each.config) for each in trace.main.forks] == [(2, parent.config)]
    assert {len(each.tree.nodes) for each in trace.rounds[2:-1]} == {2}
    assert trace_file.loads(trace_file.dumps(trace)).config_of(1).draft_length == 4
