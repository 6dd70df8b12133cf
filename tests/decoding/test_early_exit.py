"""Early exit drafts with the target's own layers and cache, and computes nothing twice."""

from dataclasses import replace

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.errors import InputError
from specviz.models.llama.self_model import SelfDrafting
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing, Prefill, Round
from tests.decoding.conftest import tiny_model
from tests.decoding.table_model import TableModel

PROMPT = (0, 2, 1, 0, 2)
PARTS = Parts(self_drafting=SelfDrafting(2, ()))
CONFIG = DecodingConfig(method="early-exit", draft_length=3, temperature=0.8, max_new_tokens=40)


def rounds_of(target, config=CONFIG, parts=PARTS):
    drafter = make_drafter(Setup(target, parts, config, 300))
    events = speculative.decode(target, drafter, PROMPT, config)
    return [event for event in events if isinstance(event, Round)]


@pytest.mark.parametrize("branching", [(), (2,), (2, 2)])
def test_every_layer_runs_every_token_exactly_once(branching):
    """The tokens are those of the prompt, the roots and the drafted nodes."""
    target = TableModel(5, 6, 7, 8)
    rounds = rounds_of(target, replace(CONFIG, branching=branching))
    fed = len(PROMPT) + sum(1 + len(each.tree.nodes) for each in rounds)
    assert target.executions == 4 * fed


def test_the_draft_has_the_distribution_of_the_exit_layer():
    target = TableModel(5, 6, 7, 8)
    drafter = make_drafter(Setup(target, PARTS, CONFIG, 300))
    prefill, first, *_ = speculative.decode(target, drafter, PROMPT, CONFIG)
    distribution = target.distribution([PROMPT[-1], prefill.extra.token_id], layer=1).softmax(-1)
    node = first.tree.nodes[0]
    assert node.draft_score == pytest.approx(float(distribution[node.token_id]), abs=1e-6)


def test_an_exit_whose_distribution_is_the_target_s_is_always_accepted():
    target = TableModel(5, 7, 7)
    for each in rounds_of(target, parts=Parts(self_drafting=SelfDrafting(2, ()))):
        assert len(each.accepted) == len(each.tree.nodes)


def test_the_exit_layer_can_be_chosen_and_must_be_below_the_last():
    target = TableModel(5, 6, 7, 8)
    chosen = replace(CONFIG, options=(("exit_layer", 3),))
    same = Parts(self_drafting=SelfDrafting(3, ()))
    by_option = [each.tree for each in rounds_of(target, chosen)]
    assert by_option == [each.tree for each in rounds_of(target, CONFIG, same)]
    with pytest.raises(
        InputError, match="exit_layer must be below 4, the number of layers of table, got 4"
    ):
        rounds_of(target, replace(CONFIG, options=(("exit_layer", 4),)))


@pytest.mark.parametrize("kind", [Drawing.INDEPENDENT, Drawing.CHOSEN])
@pytest.mark.parametrize("branching", [(), (3, 2)])
def test_the_recorded_distributions_equal_those_of_a_whole_forward(kind, branching):
    """With real layers, p of every examined position equals p of a plain forward over its path."""
    target = tiny_model(1, 4, "target", vocab=8)
    config = replace(CONFIG, branching=branching, drawing=kind, temperature=1.0)
    context = list(PROMPT)
    drafter = make_drafter(Setup(target, PARTS, config, 300))
    for event in speculative.decode(target, drafter, PROMPT, config):
        if not isinstance(event, Round):
            context += [event.extra.token_id] if isinstance(event, Prefill) else []
            continue
        for position in event.positions:
            path = event.tree.path(position.parent)
            tokens = context + [event.tree.nodes[node].token_id for node in path]
            ids, places = torch.tensor([tokens]), torch.arange(len(tokens))[None]
            cache = target.new_cache(len(tokens))
            distribution = (
                target.forward(ids, places, cache, last_only=True).logits[0, 0].softmax(-1)
            )
            shown = dict(zip(position.token_ids, position.target_probs, strict=True))
            for token_id, prob in shown.items():
                assert prob == pytest.approx(float(distribution[token_id]), abs=1e-5)
        context += event.emitted_ids


def test_the_method_needs_no_weights_beyond_the_target_s():
    assert make_drafter(Setup(TableModel(5, 6, 7), PARTS, CONFIG, 300)).memory.weights == 0
