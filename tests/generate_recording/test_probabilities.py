"""Recorded probabilities equal those that both models give outside of `generate`."""

import pytest
import torch

from specviz.records import ExtraKind
from tests.generate_recording.watched_call import WAYS, watched

# Version 5.23 of transformers applies every processor of the assistant's logits twice. So the
# temperature 0.9 acts like 0.9 * 0.9 = 0.81.
DRAFT_TEMPERATURE = 0.81


def distributions(model, ids, temperature):
    """Return the model's distributions after every token of `ids`, one row for each token."""
    with torch.inference_mode():
        return (model(torch.tensor([ids])).logits[0] / temperature).softmax(-1)


def test_recorded_p_and_q_equal_the_distributions_of_both_models(target, draft):
    trace = watched(target, assistant_model=draft, **WAYS["sampled"])
    ids = [*trace.prompt_ids, *trace.emitted_ids]
    for each in trace.rounds:
        known = [*ids[: each.context_length], *(node.token_id for node in each.tree.nodes)]
        p, q = distributions(target, known, 0.9), distributions(draft, known, DRAFT_TEMPERATURE)
        raw_p, raw_q = distributions(target, known, 1), distributions(draft, known, 1)
        for row, verdict in enumerate(each.verdicts):
            token, place = each.tree.nodes[row].token_id, each.context_length - 1 + row
            assert verdict.target_prob == pytest.approx(p[place, token].item(), abs=1e-4)
            assert verdict.draft_prob == pytest.approx(q[place, token].item(), abs=1e-4)
            assert verdict.raw_target_prob == pytest.approx(raw_p[place, token].item(), abs=1e-4)
            assert verdict.raw_draft_prob == pytest.approx(raw_q[place, token].item(), abs=1e-4)
            ratio = min(1.0, verdict.target_prob / verdict.draft_prob)
            assert verdict.acceptance_prob == pytest.approx(ratio)
        for position in each.positions:
            place = each.context_length + position.parent
            entropy = -(raw_p[place] * raw_p[place].log()).sum()
            assert position.entropy == pytest.approx(entropy.item(), abs=1e-3)
            if position.draft_probs:
                overlap = torch.minimum(p[place], q[place]).sum().item()
                assert position.overlap == pytest.approx(overlap, abs=1e-4)


def test_the_extra_token_s_probability_follows_from_the_seen_distributions(target, draft):
    trace = watched(target, assistant_model=draft, **WAYS["sampled"])
    ids = [*trace.prompt_ids, *trace.emitted_ids]
    kinds = set()
    for each in trace.rounds:
        place = each.context_length - 1 + len(each.accepted)
        distribution = distributions(target, ids[: place + 1], 0.9)[place]
        if each.extra.kind is ExtraKind.RECOVERED:
            left = (
                distribution - distributions(draft, ids[: place + 1], DRAFT_TEMPERATURE)[place]
            ).clamp(min=0)
            distribution = left / left.sum()
        assert each.extra.prob == pytest.approx(distribution[each.extra.token_id].item(), abs=1e-3)
        kinds.add(each.extra.kind)
    assert kinds == {ExtraKind.RECOVERED, ExtraKind.BONUS, ExtraKind.PLAIN}
