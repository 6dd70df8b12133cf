"""The lossless verification rules: acceptance of every node; `walk` then follows the tree.

Rules by proposal kind (chain: Leviathan 2211.17192, Chen 2302.01318; trees: SpecInfer 2305.09781).
Siblings are examined in draw order; x is accepted with probability min(1, p(x) / q(x)), otherwise
p <- normalize(max(0, p - q)) before the next sibling:

- IID: q never changes, so a repeated token is surely rejected, and still updates p;
- WITHOUT_REPLACEMENT: x then leaves q, which is renormalised;
- DETERMINISTIC: q is the point mass at x, so x is accepted with probability p(x).

One rule is not lossless: TYPICAL (Medusa 2401.10774) accepts x whenever p(x) is large enough for
the entropy of p, and draws the extra token from p itself.

Knows nothing of models, caches or text. The enumeration tests drive exactly these functions.
Letters: N nodes, E expanded rows (the root, then nodes), M rows that have a child of
some rank, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.sampling import normalize, residual
from specviz.decoding.topology import Topology
from specviz.records import ProposalKind

TYPICAL_EPSILON, TYPICAL_DELTA = 0.09, 0.3  # of the paper


@dataclass(frozen=True, slots=True, eq=False)
class Acceptance:
    """Per node, given that its parent was accepted and its earlier siblings failed."""

    acceptance_probs: Tensor  # [N] min(1, residual_probs / draft_probs)
    target_probs: Tensor  # [N] p(x) before any sibling
    residual_probs: Tensor  # [N] the p(x) that the rule compares
    draft_probs: Tensor  # [N] the q(x) that the rule compares
    last_residuals: Tensor  # [N + 1, V] distribution of the extra token below each row


def acceptance(
    topology: Topology,
    token_ids: Tensor,  # [N]
    kind: ProposalKind,
    p: Tensor,  # [N + 1, V], row 0 after the root
    q: Tensor | None,  # [E, V]; None for a point mass
) -> Acceptance:
    """Acceptance of every node and the distribution of the extra token below every row."""
    if kind is ProposalKind.TYPICAL:
        return _typical(topology, token_ids, p)
    if q is None:
        return _of_point_masses(topology, token_ids, p)
    size, x_ids, left, distribution = topology.size, token_ids, p, q
    if topology.is_padded:  # room for the row and the node that do not exist
        x_ids, left, distribution = _padded(token_ids), _padded(p), _padded(q)
    whole = left
    found = p.new_zeros(4, len(x_ids))
    for rows, nodes in topology.siblings:
        x = x_ids[nodes][:, None]  # [M, 1]
        before, compared = left[rows], distribution[rows]  # [M, V]
        p_x, q_x = before.gather(1, x), compared.gather(1, x)
        ratio = torch.where(q_x > 0, p_x / q_x, 0.0).clamp(max=1.0)
        found[:, nodes] = torch.cat([ratio, whole[rows].gather(1, x), p_x, q_x], 1).T
        left = left.index_copy(0, rows, residual(before, compared))
        if kind is ProposalKind.WITHOUT_REPLACEMENT:
            distribution = distribution.index_copy(0, rows, normalize(compared.scatter(1, x, 0.0)))
    accept, target, residuals, draft = found[:, :size].unbind(0)
    return Acceptance(accept, target, residuals, draft, left[: size + 1])


def _of_point_masses(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """The same rule where every q is a point mass: a failed x leaves p, all else keeps its share.

    So nothing of p matters but what the siblings before had of it. A repeat finds nothing and
    surely fails; a token with all that is left cannot fail and stays. C children, rank by rank.
    """
    left, x_ids = (_padded(p), _padded(token_ids)) if topology.is_padded else (p.clone(), token_ids)
    accept = p.new_zeros(len(x_ids))
    if topology.siblings:
        rows, nodes = (torch.cat(part) for part in zip(*topology.siblings, strict=True))  # [C]
        x = x_ids[nodes]
        earlier = (rows[:, None] == rows).tril_(-1)  # [C, C] siblings
        repeats = (earlier & (x[:, None] == x)).any(1)
        p_x = left[rows, x].masked_fill_(repeats, 0)
        share = left.sum(-1)[rows] - earlier.to(p) @ p_x  # of p, not yet failed
        accept[nodes] = (p_x / share.clamp(min=torch.finfo(p.dtype).tiny)).clamp_(max=1)
        left.index_put_((rows, x), p_x.masked_fill(p_x < share, 0) - p_x, accumulate=True)
    accept, left = accept[: topology.size], left[: topology.size + 1]
    total = left.sum(-1, keepdim=True)
    nothing = (total == 0).to(p)  # of rounding: p again
    last = left.addcmul_(p, nothing).div_(total + nothing)
    whole = p[topology.parent_rows, token_ids]
    return Acceptance(accept, whole, accept, torch.ones_like(accept), last)


def _padded(table: Tensor) -> Tensor:
    """One more row, of zeros."""
    return torch.cat([table, torch.zeros_like(table[:1])])


def _typical(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """x passes iff p(x) > min(epsilon, delta * exp(-entropy of p)); nothing is left over."""
    entropy = torch.special.entr(p).sum(-1)  # [R]
    threshold = (TYPICAL_DELTA * (-entropy).exp()).clamp(max=TYPICAL_EPSILON)
    rows = topology.parent_rows
    p_x = p[rows, token_ids]
    passes = (p_x > threshold[rows]).to(p)
    return Acceptance(passes, p_x, p_x, torch.ones_like(p_x), p)
