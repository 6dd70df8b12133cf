"""Dynamic trees equal those of a slow search over lists; the costs of a step decide their size."""

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
from specviz.records import DecodingConfig, Drawing
from tests.decoding.table_model import TableModel

PROMPT = (3, 5, 1)
VOCAB = 9


def searched(model, depth, width, count, temperature):
    """Return the paths of the `count` nodes with the highest scores, found without a tree.

    A node's score is the sum of log q over its path, minus STEP for each node.
    """
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
def test_the_tree_consists_of_the_best_scored_paths(depth, width, count, temperature):
    for seed in range(5):
        model = TableModel(seed, vocab=VOCAB)
        paths = paths_of(grown(model, depth, width, count, temperature)[0])
        assert len(set(paths)) == len(paths)
        assert set(paths) == searched(model, depth, width, count, temperature)


def test_a_draft_that_is_certain_never_keeps_a_child_without_its_parent():
    """Without the penalty STEP, a child with q = 1 in float32 has the same score as its parent."""
    for count in range(1, 11):
        proposal, _ = grown(TableModel(3, vocab=VOCAB, sharpness=200.0), 8, 2, count, 0.45)
        known = topology(tuple(proposal.topology.parents.tolist()), torch.device("cpu"))
        assert torch.equal(proposal.topology.offsets, known.offsets)
        # Nodes of the path with probability 1 are chosen first.
        assert known.height == count or count > 8


def test_the_tree_s_tables_follow_from_its_parents():
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


def test_distributions_and_cache_slots_belong_to_the_expanded_nodes():
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
def test_no_node_is_deeper_than_the_remaining_text_allows(room):
    proposal, _ = grown(TableModel(1, vocab=VOCAB), 5, 3, 10, room=room)
    assert int(proposal.topology.offsets.max()) == room


def test_below_the_lowest_measured_temperature_scores_use_that_temperature():
    for temperature, expected in ((0.0, DRAFT_AGREEMENT.sharpest), (0.9, 0.9)):
        config = DecodingConfig(
            method="dynamic-tree",
            drawing=Drawing.CHOSEN,
            temperature=temperature,
            options=(("nodes", 8),),
        )
        setup = Setup(TableModel(1), Parts(draft=TableModel(2)), config, 300)
        assert make_drafter(setup)._shape.levels.temperature == expected


def test_a_level_that_no_chosen_node_can_reach_is_not_drafted():
    proposal, source = grown(TableModel(3, vocab=VOCAB), 8, 2, 3)
    # The model ran two levels of two nodes.
    assert proposal.topology.size == 3 and source._ran == 2 * 2
    assert set(paths_of(proposal)) == searched(TableModel(3, vocab=VOCAB), 8, 2, 3, 1.0)


def test_expensive_drafting_increases_the_number_of_nodes(monkeypatch):
    gains = [node.gain for node in ranked_nodes(((0.6, 0.2, 0.1),) * 4, 64)]
    curve = ForwardCurve(TOKEN_COUNTS, tuple(1 + 0.1 * count for count in TOKEN_COUNTS))
    monkeypatch.setattr("specviz.decoding.drafters.tree_budget.forward_curve", lambda model: curve)
    counts = [best_node_count(None, gains, lambda _, s=s: s) for s in (0.0, 2.0, 8.0)]
    assert counts == sorted(set(counts))
    assert best_node_count(None, gains, slack=0.05) > counts[0]
