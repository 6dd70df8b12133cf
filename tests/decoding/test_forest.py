"""Trees verified together get the same verdicts as alone; a cut tree equals a smaller tree."""

from dataclasses import astuple, replace

import pytest
import torch

from specviz.decoding.batch import first_nodes
from specviz.decoding.drafters.base import ExtraQueries, Partial, Proposal, empty_proposal
from specviz.decoding.forest import Forest
from specviz.decoding.sampling import Sampler
from specviz.decoding.topology import device_topology, topology
from specviz.records import Drawing

CPU, VOCAB = torch.device("cpu"), 6
SHAPES = [(), (-1, 0, 1), (-1, -1, 0, 0, 2), (-1,), (-1, -1, -1), (-1, 0, 0, 1, 1, 3)]
DRAWN = (Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT)


def distributions(rows, generator):
    return torch.rand(rows, VOCAB, generator=generator).pow(3).log().softmax(-1)


def proposal_of(parents, kind, generator, on_device=False, queries=0, raw=True):
    """Return a proposal on a tree, with random tokens and distributions."""
    if not parents:
        return empty_proposal(CPU)
    tree = topology(parents, CPU)
    if on_device:
        tree = device_topology(torch.tensor(parents), tree.height, 3)
    rows = tree.expanded
    extra = ExtraQueries(
        torch.zeros(queries, dtype=torch.int64),
        torch.ones(queries, dtype=torch.int64),
        torch.ones(queries, tree.size + 1 + queries, dtype=torch.bool),
    )
    return Proposal(
        tree,
        torch.randint(VOCAB, (tree.size,), generator=generator),
        distributions(rows, generator) if kind in DRAWN else None,
        distributions(rows, generator) if raw else None,
        queries=extra if queries else None,
        drawing=kind,
    )


def judged(proposals, logits, draws, temperature):
    forest = Forest(proposals)
    values = forest.judge(logits, Sampler(temperature), draws).tolist()
    return forest.unpack(values)


def assert_as_alone(proposals, generator, temperature=0.8):
    logits = [
        2 * torch.randn(each.topology.size + 1 + each.query_count, VOCAB, generator=generator)
        for each in proposals
    ]
    draws = [
        torch.rand(each.topology.height + 1, generator=generator).tolist() for each in proposals
    ]
    together = judged(proposals, logits, draws, temperature)
    for index, proposal in enumerate(proposals):
        (alone,) = judged([proposal], [logits[index]], [draws[index]], temperature)
        ours = together[index]
        assert ours.shape == alone.shape and ours.query_ids == alone.query_ids
        assert (ours.has_distributions, ours.has_raw_distributions) == (
            alone.has_distributions,
            alone.has_raw_distributions,
        )
        for left, right in zip(ours.nodes, alone.nodes, strict=True):
            assert astuple(left) == pytest.approx(astuple(right), abs=1e-6)
        for left, right in zip(ours.packed_rows, alone.packed_rows, strict=True):
            assert left == pytest.approx(right, abs=1e-5)


@pytest.mark.parametrize("kind", Drawing)
@pytest.mark.parametrize("on_device", [False, True], ids=["known trees", "device trees"])
@pytest.mark.parametrize("seed", range(5))
def test_trees_of_one_kind_are_verified_together_as_alone(kind, on_device, seed):
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(SHAPES), generator=generator).tolist()
    # Trees of drawn nodes need no padding, because the host knows their shape.
    is_padded = on_device and kind not in DRAWN
    proposals = [proposal_of(SHAPES[i], kind, generator, is_padded) for i in order]
    assert_as_alone(proposals, generator)


@pytest.mark.parametrize("seed", range(5))
def test_trees_of_several_kinds_are_verified_together_as_alone(seed):
    generator = torch.Generator().manual_seed(seed)
    proposals = [
        proposal_of(SHAPES[1], Drawing.INDEPENDENT, generator),
        proposal_of(SHAPES[2], Drawing.CHOSEN, generator, queries=3, raw=False),
        proposal_of(SHAPES[0], Drawing.INDEPENDENT, generator),
        proposal_of(SHAPES[5], Drawing.CHOSEN, generator, on_device=True),
        proposal_of(SHAPES[2], Drawing.CHOSEN, generator, raw=False),
        proposal_of(SHAPES[4], Drawing.WITHOUT_REPLACEMENT, generator),
    ]
    assert_as_alone(proposals, generator)
    assert_as_alone(proposals, generator, temperature=0.0)


def test_trees_without_a_node_are_verified_together_as_alone():
    generator = torch.Generator().manual_seed(0)
    assert_as_alone([empty_proposal(CPU)] * 3, generator)


@pytest.mark.parametrize("kind", [Drawing.INDEPENDENT, Drawing.CHOSEN])
@pytest.mark.parametrize("count", range(7))
def test_the_first_nodes_of_a_tree_get_the_verdicts_of_a_smaller_tree(kind, count):
    parents = SHAPES[2]
    whole = proposal_of(parents, kind, torch.Generator().manual_seed(1))
    cut = first_nodes(whole, count)
    kept = parents[:count]
    assert cut.token_ids.tolist() == whole.token_ids[:count].tolist()
    if count >= len(parents):
        assert cut is whole
        return
    small = topology(kept, CPU)
    assert cut.topology.mask.tolist() == small.mask.tolist()
    assert cut.topology.offsets.tolist() == small.offsets.tolist()
    if count == 0:
        assert cut.topology.size == 0 and cut.distributions is None
        return
    same = Proposal(
        small,
        whole.token_ids[:count],
        None if whole.distributions is None else whole.distributions[: small.expanded],
        whole.raw_distributions[: small.expanded],
        drawing=kind,
    )
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(count + 1, VOCAB, generator=generator)
    draws = [torch.rand(4, generator=generator).tolist()]
    ours, alone = (judged([each], [logits], draws, 0.8)[0] for each in (cut, same))
    assert ours.shape == alone.shape
    for left, right in zip(ours.nodes, alone.nodes, strict=True):
        assert astuple(left) == pytest.approx(astuple(right), abs=1e-6)
    for row in range(count + 1):
        # Compare the first two numbers of each row: the extra token and its probability.
        ends = (ours.packed_rows[row][:2], alone.packed_rows[row][:2])
        assert ends[0] == pytest.approx(ends[1], abs=1e-6)


def test_cutting_a_tree_keeps_its_other_data():
    generator = torch.Generator().manual_seed(3)
    whole = proposal_of(SHAPES[2], Drawing.CHOSEN, generator, queries=2)
    mask = torch.rand(2, 8, generator=generator) < 0.5
    whole = Proposal(
        **{
            **{name: getattr(whole, name) for name in whole.__slots__},
            "partial": Partial(1, torch.arange(4.0)[:, None]),
            "origins": torch.tensor([7, 8, 9, 3, 4]),
            "queries": replace(whole.queries, mask=mask),
        }
    )
    cut = first_nodes(whole, 2)
    assert cut.partial.hidden.flatten().tolist() == [0, 1, 2]
    assert cut.origins.tolist() == [7, 8]
    # The mask's columns are the root, five nodes, and the queries themselves.
    seen = whole.queries.mask
    assert cut.queries.mask.tolist() == seen[:, [0, 1, 2, 6, 7]].tolist()
    assert first_nodes(whole, 0).queries.mask.tolist() == seen[:, [0, 6, 7]].tolist()
