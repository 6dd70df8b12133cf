"""Numbers that are recorded for display equal the same numbers computed by their definitions."""

import pytest
import torch

from specviz.decoding.drafters.base import Proposal, host_tree
from specviz.decoding.sampling import Sampler
from specviz.decoding.topology import device_topology, topology
from specviz.decoding.verification import judge, unpack
from specviz.records import MOST_MARGIN, Drawing

CPU = torch.device("cpu")
# Row 0 is the root and row i + 1 is node i. Rows 0, 1 and 3 have children; rows 2, 4 and 5 have
# none.
VOCAB, PARENTS = 5000, (-1, -1, 0, 0, 2)
ROWS = len(PARENTS) + 1


def logits_of(kind):
    logits = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(7))
    match kind:
        case "ties":
            return (2 * logits).round()
        case "peaked":
            return 60 * logits  # the largest probability is 1 and all others underflow to 0
        case "tiny":
            return 1e-8 * logits  # the probabilities differ by less than a rounding error
        case "masked":
            return logits.masked_fill(torch.arange(VOCAB) > 0, -torch.inf)
    return 3 * logits


@pytest.mark.parametrize("is_drawn", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("kind", ["usual", "ties", "peaked", "tiny", "masked"])
def test_entropy_overlap_and_margin_equal_their_definitions_exactly(
    kind, temperature, is_padded, is_drawn
):
    logits, sampler = logits_of(kind), Sampler(temperature)
    tokens = torch.tensor([3, 5, 8, 9, 3])
    shape = topology(PARENTS, CPU)
    if is_padded:
        shape = device_topology(torch.tensor(PARENTS), shape.height, 2)
    q = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(8)).softmax(-1)
    q = q[: shape.expanded]
    if is_drawn:
        proposal = Proposal(shape, tokens, q, q, drawing=Drawing.INDEPENDENT)
    else:
        proposal = Proposal(shape, tokens)
    packed = judge(proposal, logits, sampler, torch.full((ROWS,), 0.5, dtype=torch.float64))
    judgement = unpack(proposal, packed.tolist())

    p, raw = sampler.distributions(logits), logits.softmax(-1)
    best, ids = logits.topk(2, dim=-1)
    below = (best[:, :1] - logits).clamp(max=1e30)
    entropy = -raw.gather(1, ids[:, :1])[:, 0].log() + (raw * below).sum(-1)
    rule = q if is_drawn else torch.zeros(ROWS, VOCAB)
    if not is_drawn:
        rule[torch.tensor([0, 1, 3]), tokens[torch.tensor([0, 2, 4])]] = 1
    overlap, raw_overlap = torch.zeros(ROWS), torch.zeros(ROWS)
    overlap[: len(rule)] = torch.minimum(p[: len(rule)], rule).sum(-1)
    if is_drawn:
        raw_overlap[: len(q)] = torch.minimum(raw[: len(q)], q).sum(-1)
    for row in range(ROWS):
        shown = judgement.row(row - 1).position
        assert shown.entropy == entropy[row]
        assert shown.overlap == overlap[row]
        assert shown.raw_overlap == raw_overlap[row]
        assert shown.margin == min(MOST_MARGIN, best[row, 0] - best[row, 1])


def test_a_tree_without_nodes_has_no_overlap():
    packed = judge(
        host_tree((), (), CPU), logits_of("usual")[:1], Sampler(), torch.zeros(1).double()
    )
    assert unpack(host_tree((), (), CPU), packed.tolist()).row(-1).position.overlap == 0
