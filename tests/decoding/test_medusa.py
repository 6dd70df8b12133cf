"""From the last accepted node's state, Medusa drafts a static tree of its heads' choices."""

from dataclasses import replace

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.base import Observation
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.drafters.tree_budget import (
    best_node_count,
    by_depth,
    ranked_nodes,
)
from specviz.decoding.forward_times import TOKEN_COUNTS
from specviz.decoding.speculative import SpeculativeRun
from specviz.forward_curve import ForwardCurve
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing, Outcome, Prefill, Round
from tests.decoding.conftest import tiny_model
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_parts import HEADS, SHARES, medusa_for

PROMPT = (3, 5, 1, 3, 5, 2)
CONFIG = DecodingConfig(
    method="medusa",
    draft_length=HEADS,
    drawing=Drawing.CHOSEN,
    max_new_tokens=30,
    options=(("nodes", 9),),
)


@pytest.fixture(scope="module")
def setup():
    target = tiny_model(1, 2, "target")
    return Setup(target, Parts(medusa=medusa_for(target)), CONFIG, 400)


def events_of(setup, config=CONFIG):
    drafter = make_drafter(replace(setup, config=config))
    return list(speculative.decode(setup.target, drafter, PROMPT, config))


def feature_of(target, tokens):
    """Return the hidden state of the last token, from a plain forward over all `tokens`."""
    ids, positions = torch.tensor([tokens]), torch.arange(len(tokens))[None]
    cache = target.new_cache(len(tokens))
    return target.forward(ids, positions, cache, feature_layers=(target.info.layers,)).features[
        0, -1
    ]


def test_the_tree_has_the_nodes_with_the_best_products_of_accuracies():
    nodes = ranked_nodes(tuple(map(tuple, SHARES)), 9)
    every = sorted(_products(SHARES), reverse=True)
    assert [node.gain for node in nodes] == pytest.approx(every[:9])
    for node in nodes:
        above = nodes[node.parent].gain if node.parent >= 0 else 1.0
        assert node.gain == pytest.approx(above * SHARES[node.depth - 1][node.rank])


def _products(shares):
    level = [1.0]
    for head in shares:
        level = [above * share for above in level for share in head]
        yield from level


def test_the_order_by_level_keeps_siblings_in_order_and_a_smaller_tree_is_a_prefix():
    nodes = ranked_nodes(tuple(map(tuple, SHARES)), 20)
    ordered = by_depth(nodes)
    assert sorted(node.gain for node in ordered) == sorted(node.gain for node in nodes)
    assert [node.depth for node in ordered] == sorted(node.depth for node in ordered)
    for index, node in enumerate(ordered):
        assert node.parent < index
        assert node.depth == 1 + (ordered[node.parent].depth if node.parent >= 0 else 0)
        ranks = [each.rank for each in ordered[: index + 1] if each.parent == node.parent]
        assert ranks == list(range(len(ranks)))


@pytest.mark.parametrize("rule", ["token", "typical"])
def test_every_node_is_its_head_s_choice_after_the_last_accepted_token(setup, rule):
    """The feature belongs to the token before the root and equals that of a plain forward."""
    config = replace(CONFIG, rule=rule, temperature=0.9)
    text = list(PROMPT)
    nodes = by_depth(ranked_nodes(tuple(map(tuple, SHARES)), 9))
    checked = 0
    for event in events_of(setup, config):
        if isinstance(event, Prefill):
            text.append(event.extra.token_id)
        if not isinstance(event, Round):
            continue
        distributions = setup.parts.medusa.logits(feature_of(setup.target, text[:-1])).softmax(-1)
        best = distributions.topk(3).indices.tolist()
        for node, planned in zip(event.tree.nodes, nodes, strict=False):
            assert (node.parent, node.depth) == (planned.parent, planned.depth)
            assert node.token_id == best[node.depth - 1][planned.rank]
            score = float(distributions[node.depth - 1, node.token_id])
            assert node.draft_score == pytest.approx(score, abs=1e-4)
            checked += 1
        text += event.emitted_ids
    assert checked > 50


@pytest.mark.parametrize("drafted", [(9, 2, 11, 5), (7,)], ids=["four tokens", "one token"])
def test_heads_with_a_draft_vocabulary_propose_its_tokens(drafted):
    """A head may have more measured ranks than its draft vocabulary has tokens."""
    target = tiny_model(1, 2, "target")
    heads = medusa_for(target, drafted=drafted)
    drafter = make_drafter(Setup(target, Parts(medusa=heads), CONFIG, 400))
    run = SpeculativeRun(target, drafter, PROMPT, CONFIG, ())
    run.prefill()
    tree = run.round().tree
    logits = heads.logits(feature_of(target, PROMPT))
    assert tree.nodes and logits.shape[-1] == len(drafted)
    for node in tree.nodes:
        index = drafted.index(node.token_id)
        score = float(logits.softmax(-1)[node.depth - 1, index])
        assert node.draft_score == pytest.approx(score, abs=1e-4)


def test_the_feature_belongs_to_the_last_accepted_node(setup):
    """If no node of the last round was accepted, the feature belongs to the root."""
    drafter = make_drafter(setup)
    run = SpeculativeRun(setup.target, drafter, PROMPT, CONFIG, ())
    run.prefill()
    run.round()
    rows = torch.arange(10.0)[:, None].expand(10, 32)
    for path, row in (((), 0), ((1,), 2), ((0, 4), 5)):
        drafter.observe(Observation(path, path, (1,), rows, ()))
        assert float(drafter._feature[0]) == row


@pytest.mark.parametrize("room", range(5))
def test_no_tree_is_deeper_than_the_remaining_text_or_the_number_of_heads(setup, room):
    drafter = make_drafter(setup)
    run = SpeculativeRun(setup.target, drafter, PROMPT, CONFIG, ())
    run.prefill()
    run.round()
    proposal = drafter.propose(PROMPT, room, 1)
    assert proposal.topology.height == min(room, HEADS)


def test_draft_length_limits_the_depth_and_nodes_limits_the_size(setup):
    config = replace(CONFIG, draft_length=1, options=(("nodes", 64),))
    rounds = [event for event in events_of(setup, config) if isinstance(event, Round)]
    # At depth 1, the head has three choices with a known accuracy, so the tree has three nodes.
    assert {len(each.tree.nodes) for each in rounds[:-1]} == {3}


def test_without_a_given_size_the_tree_maximises_expected_tokens_over_time(setup, monkeypatch):
    """All nodes are drafted if tokens take no time, and one node if time grows with the tokens."""
    gains = [node.gain for node in ranked_nodes(tuple(map(tuple, SHARES)), 64)]
    for times, count in (((1.0,) * len(TOKEN_COUNTS), len(gains)), (TOKEN_COUNTS, 1)):
        monkeypatch.setattr(
            "specviz.decoding.drafters.tree_budget.forward_curve",
            lambda model, t=times: ForwardCurve(TOKEN_COUNTS, t),
        )
        assert best_node_count(setup.target, gains) == count
        drafter = make_drafter(replace(setup, config=replace(CONFIG, options=())))
        assert drafter._trees[-1].topology.size == count


def test_typical_acceptance_accepts_tokens_that_are_probable_enough_for_the_entropy():
    """The rule accepts exactly the tokens with p(x) > min(0.09, 0.3 exp(-entropy)) (2401.10774)."""
    target = TableModel(1, vocab=8)
    config = replace(CONFIG, rule="typical", temperature=0.7, options=(), max_new_tokens=80)
    setup = Setup(target, Parts(medusa=medusa_for(target)), config, 400)
    text, outcomes = list(PROMPT), set()
    for event in events_of(setup, config):
        if isinstance(event, Prefill):
            text.append(event.extra.token_id)
        if not isinstance(event, Round):
            continue
        for node, verdict in zip(event.tree.nodes, event.verdicts, strict=True):
            above = [event.tree.nodes[i].token_id for i in event.tree.path(node.parent)]
            p = (target.distribution(text + above) / 0.7).softmax(-1)
            threshold = min(0.09, 0.3 * float(p.log().mul(p).sum().exp()))
            assert verdict.acceptance_prob == float(p[node.token_id] > threshold)
            outcomes.add(verdict.outcome)
        text += event.emitted_ids
    assert {Outcome.ACCEPTED, Outcome.REJECTED} <= outcomes


def test_the_method_s_memory_is_the_weights_of_the_heads(setup):
    assert make_drafter(setup).memory.weights == setup.parts.medusa.bytes > 0
