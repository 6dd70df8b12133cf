"""Dynamic trees against a slow search over plain lists, and what decides their size."""

import math

import pytest
import torch

from specviz.decoding.drafters.dynamic_tree import DRAFT_AGREEMENT, STEP, DynamicTree
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.drafters.source import ModelSource
from specviz.decoding.drafters.tree_budget import best_node_count, ranked_nodes
from specviz.decoding.forward_times import TOKEN_COUNTS
from specviz.decoding.topology import device_topology, topology
from specviz.forward_curve import ForwardCurve
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, ProposalKind
from tests.decoding.table_model import TableModel

PROMPT = (3, 5, 1)
VOCAB = 9


def searched(model, depth, width, count, temperature):
    """Paths of the best `count` nodes, by the definition."""
    scores = {(): 0.0}
    level = [()]
    for _ in range(depth):
        found = {}
        for path in level:
            logits = model.distribution([*PROMPT, *path])
            best = logits.topk(width).indices.tolist()
            distributions = (logits / temperature).softmax(-1).tolist()
            for token in best:
                found[(*path, token)] = scores[path] + math.log(distributions[token]) - STEP
        scores |= found
        level = sorted(found, key=found.get, reverse=True)[:width]
    del scores[()]
    return set(sorted(scores, key=scores.get, reverse=True)[:count])


def paths_of(proposal):
    parents, tokens = proposal.topology.parents.tolist(), proposal.token_ids.tolist()
    paths = []
    for parent, token in zip(parents, tokens, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


def grown(model, depth, width, count, temperature=1.0, room=10):
    source = ModelSource(model, 300, VOCAB)
    tree = DynamicTree(depth, width, count, temperature)
    return tree.grow(source, PROMPT, room, 0), source


@pytest.mark.parametrize("temperature", [0.45, 1.0])
@pytest.mark.parametrize("depth, width, count", [(1, 4, 3), (3, 2, 7), (4, 3, 12), (5, 4, 64)])
def test_the_tree_is_the_best_paths_of_all_that_were_scored(depth, width, count, temperature):
    for seed in range(5):
        model = TableModel(seed, vocab=VOCAB)
        paths = paths_of(grown(model, depth, width, count, temperature)[0])
        assert len(set(paths)) == len(paths)
        assert set(paths) == searched(model, depth, width, count, temperature)


def test_of_a_draft_that_is_sure_of_everything_no_child_is_kept_without_its_parent():
    """Probability 1 in float32: a child would tie with its parent."""
    for count in range(1, 11):
        proposal, _ = grown(TableModel(3, vocab=VOCAB, sharpness=200.0), 8, 2, count, 0.45)
        known = topology(tuple(proposal.topology.parents.tolist()), torch.device("cpu"))
        assert torch.equal(proposal.topology.offsets, known.offsets)
        assert known.height == count or count > 8  # the sure path comes first


def test_its_tables_are_those_that_follow_from_the_parents():
    proposal, _ = grown(TableModel(3, vocab=VOCAB), 4, 3, 14)
    tree, parents = proposal.topology, proposal.topology.parents
    known = topology(tuple(parents.tolist()), torch.device("cpu"))
    assert torch.equal(tree.mask, known.mask) and torch.equal(tree.offsets, known.offsets)
    assert torch.equal(device_topology(parents, 4, 3).mask, known.mask)
    for (rows, nodes), (known_rows, known_nodes) in zip(
        tree.siblings, known.siblings, strict=False
    ):
        there = nodes < tree.size
        assert torch.equal(rows[there], known_rows) and torch.equal(nodes[there], known_nodes)
        assert (rows[~there] == tree.size + 1).all()


def test_distributions_and_origins_belong_to_the_nodes_that_were_run():
    model = TableModel(2, vocab=VOCAB)
    proposal, source = grown(model, 4, 3, 20)
    paths = paths_of(proposal)
    slots = source._cache.layers[0][len(PROMPT) :]
    for row, path in enumerate([(), *paths]):
        origin = int(proposal.origins[row - 1]) if row else None
        if origin == -1:
            assert not proposal.raw_distributions[row].any()
            assert all(each[: len(path)] != path or each == path for each in paths)
            continue
        distribution = model.distribution([*PROMPT, *path]).softmax(-1)
        assert torch.allclose(proposal.raw_distributions[row], distribution)
        if row:
            assert slots[origin] == (path[-1], len(PROMPT) - 1 + len(path))


@pytest.mark.parametrize("room", [0, 1, 2])
def test_no_node_stands_deeper_than_its_room(room):
    proposal, _ = grown(TableModel(1, vocab=VOCAB), 5, 3, 10, room=room)
    assert int(proposal.topology.offsets.max()) == room


def test_a_cold_run_scores_at_the_sharpest_temperature_that_was_measured_a_warm_one_at_its_own():
    for temperature, expected in ((0.0, DRAFT_AGREEMENT.sharpest), (0.9, 0.9)):
        config = DecodingConfig(
            method="dynamic-tree",
            tree_kind=ProposalKind.DETERMINISTIC,
            temperature=temperature,
            options=(("nodes", 8),),
        )
        setup = Setup(TableModel(1), Parts(draft=TableModel(2)), config, 300)
        assert make_drafter(setup)._shape._temperature == expected


def test_dear_drafting_asks_for_more_nodes_and_slack_for_the_most_that_are_as_good(monkeypatch):
    gains = [node.gain for node in ranked_nodes(((0.6, 0.2, 0.1),) * 4, 64)]
    curve = ForwardCurve(TOKEN_COUNTS, tuple(1 + 0.1 * count for count in TOKEN_COUNTS))
    monkeypatch.setattr("specviz.decoding.drafters.tree_budget.forward_curve", lambda model: curve)
    counts = [best_node_count(None, gains, drafting) for drafting in (0.0, 2.0, 8.0)]
    assert counts == sorted(set(counts))
    assert best_node_count(None, gains, slack=0.05) > counts[0]
