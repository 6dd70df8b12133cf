"""For every way in which transformers drafts, the recording is a complete trace.

The trace contains only what code outside of transformers can observe.
"""

import pytest
import torch

from specviz.acceptance_profile import acceptance_profile
from specviz.metrics import levels, root_ids, summarise
from specviz.records import ExtraKind, FinishReason, Outcome
from specviz.trace_file import dumps, loads
from tests.generate_recording.watched_call import PROMPT, WAYS, watched


def repetitive(model):
    """Make every token depend only on the token before it, so that the text soon repeats."""
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.01
            layer.mlp.down_proj.weight *= 0.01
        model.lm_head.weight *= 4
    return model


@pytest.fixture(params=[*WAYS, "lookup", "sampled lookup", "early exit", "sampled early exit"])
def trace(request, target, draft):
    name = request.param
    options = dict(WAYS["sampled" if "sampled" in name else "greedy"])
    if name in WAYS:
        return watched(target, assistant_model=draft, **WAYS[name])
    if "lookup" in name:
        return watched(repetitive(target), prompt_lookup_num_tokens=3, **options)
    target.generation_config.num_assistant_tokens = 3
    target.generation_config.assistant_confidence_threshold = 0.0
    return watched(target, assistant_early_exit=1, **options)


def test_every_reader_accepts_a_recording_as_a_trace(trace):
    assert len(trace.emitted_ids) == 40 and trace.finish is FinishReason.LENGTH
    again = loads(dumps(trace))
    assert again.emitted_ids == trace.emitted_ids and dumps(again) == dumps(trace)
    numbers = summarise(trace).speculative
    assert numbers.tokens == 40 and numbers.target_forwards == 1 + len(trace.rounds)
    assert numbers.block_efficiency == 39 / len(trace.rounds)
    assert acceptance_profile([trace]).acceptance_rate == numbers.acceptance_rate
    texts = dict(trace.token_texts)
    assert "".join(texts[token] for token in trace.prompt_ids) == PROMPT == trace.prompt


def test_accepted_tokens_add_up_to_the_text(trace):
    accepted = sum(len(each.accepted) for each in trace.rounds)
    extras = sum(each.extra is not None for each in trace.rounds)
    assert 1 + accepted + extras == len(trace.emitted_ids) and accepted > 0
    ids = (*trace.prompt_ids, *trace.emitted_ids)
    for each, root in zip(trace.rounds, root_ids(trace), strict=True):
        count = each.context_length
        assert root == ids[count - 1]
        assert each.emitted_ids == ids[count : count + len(each.emitted_ids)]
        assert [node.parent for node in each.tree.nodes] == list(
            range(-1, len(each.tree.nodes) - 1)
        )
        is_full = len(each.accepted) == len(each.tree.nodes)
        if each.extra is not None:
            whole = ExtraKind.BONUS if each.tree.nodes else ExtraKind.PLAIN
            assert each.extra.kind is (whole if is_full else ExtraKind.RECOVERED)
        assert levels(each).reached - levels(each).passed == (not is_full)


def test_values_that_generate_hides_are_unknown_and_not_guessed(trace):
    for each in trace.rounds:
        assert each.extra_ids == ()
        assert all(verdict.uniform_draw is None for verdict in each.verdicts)
        assert all(verdict.residual_prob is None for verdict in each.verdicts)
        assert all(position.residual_probs == () for position in each.positions)


def test_every_way_of_drafting_has_at_least_one_rejection(trace):
    outcomes = {verdict.outcome for each in trace.rounds for verdict in each.verdicts}
    assert {Outcome.ACCEPTED, Outcome.REJECTED} <= outcomes
