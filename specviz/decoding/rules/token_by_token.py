"""Token by token: accept with min(1, p/q) from the root down, and stop at the first failure.

The rule is lossless (chain: Leviathan, arXiv 2211.17192, and Chen, arXiv 2302.01318; trees:
SpecInfer, arXiv 2305.09781). Siblings are examined in the order in which they were drawn. The token
x of a node is accepted with probability min(1, p(x) / q(x)). Otherwise p <- normalize(max(0, p -
q)) before the next sibling is examined:

- INDEPENDENT: q never changes. A repeated token is always rejected, and still updates p.
- WITHOUT_REPLACEMENT: x is removed from q, and q is normalised again.
- CHOSEN: q is the point mass at x, so x is accepted with probability p(x).

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), E the
number of rows up to the last row that can have children, M the number of rows that have a child of
some rank, and V the size of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.decoding.rules.rule import Acceptance, Rule
from specviz.decoding.sampling import normalize, residual
from specviz.decoding.topology import Topology
from specviz.records import Drawing


def acceptance(
    topology: Topology,
    token_ids: Tensor,  # [N]
    drawing: Drawing,
    p: Tensor,  # [N + 1, V], row 0 is after the root
    q: Tensor | None,  # [E, V]; None for a point mass
) -> Acceptance:
    """Return the acceptance probability of every node, and the extra token's distributions."""
    if q is None:
        return _of_point_masses(topology, token_ids, p)
    # Rounded float32 rows sum to 1 only within a few millionths. Drafters draw tokens in proportion
    # to q, whatever its sum is, so p and q are normalised before they are compared.
    size, x_ids, p_left, q_left = topology.size, token_ids, shares(p), shares(q)
    # A padded list of siblings contains row N + 1 and node N, which do not exist in the tree. Add
    # this row to p and q, and this node to the token ids.
    if topology.is_padded:
        x_ids, p_left, q_left = padded(x_ids), padded(p_left), padded(q_left)
    p_whole = p_left
    columns = p.new_zeros(4, len(x_ids))
    for rows, nodes in topology.siblings:
        x = x_ids[nodes][:, None]  # [M, 1]
        p_here, q_here = p_left[rows], q_left[rows]  # [M, V]
        p_x, q_x = p_here.gather(1, x), q_here.gather(1, x)
        whole_x = p_x if p_left is p_whole else p_whole[rows].gather(1, x)
        ratio = (p_x / q_x).masked_fill_(q_x <= 0, 0.0).clamp_(max=1.0)
        columns[:, nodes] = torch.cat([ratio, whole_x, p_x, q_x], 1).T
        p_left = p_left.index_copy(0, rows, residual(p_here, q_here))
        if drawing is Drawing.WITHOUT_REPLACEMENT:
            q_left = q_left.index_copy(0, rows, normalize(q_here.scatter(1, x, 0.0)))
    accept, target, residuals, draft = columns[:, :size].unbind(0)
    return Acceptance(accept, target, residuals, draft, p_left[: size + 1])


def _of_point_masses(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """Apply the acceptance rule to point masses: a rejected token x is removed from p.

    So the acceptance of x is p(x) divided by the probability that is left after its earlier
    siblings. A repeated token is always rejected. A token that has all the remaining probability is
    always accepted. All nodes are computed at once; C is the length of all lists of siblings.
    """
    left, x_ids = (padded(p), padded(token_ids)) if topology.is_padded else (p.clone(), token_ids)
    accept = p.new_zeros(len(x_ids))
    if topology.siblings:
        rows, nodes = (torch.cat(part) for part in zip(*topology.siblings, strict=True))  # [C]
        x = x_ids[nodes]
        # [C, C], True where a column is an earlier sibling of a row
        earlier = (rows[:, None] == rows).tril_(-1)
        repeats = (earlier & (x[:, None] == x)).any(1)
        p_x = left[rows, x].masked_fill_(repeats, 0)
        share = left.sum(-1)[rows] - earlier.to(p) @ p_x
        accept[nodes] = (p_x / share.clamp(min=torch.finfo(p.dtype).tiny)).clamp_(max=1)
        left.index_put_((rows, x), p_x.masked_fill(p_x < share, 0) - p_x, accumulate=True)
    accept, left = accept[: topology.size], left[: topology.size + 1]
    total = left.sum(-1, keepdim=True)
    # If rounding leaves no probability at all, the distribution is p itself.
    nothing = (total == 0).to(p)
    last = left.addcmul_(p, nothing).div_(total + nothing)
    whole = p[topology.parent_rows, token_ids]
    return Acceptance(accept, whole, accept, torch.ones_like(accept), last)


def shares(mass: Tensor) -> Tensor:
    """Scale rows to sum 1. A row of zeros stays zero; no caller reads it."""
    return mass / mass.sum(-1, keepdim=True).clamp_(min=torch.finfo(mass.dtype).tiny)


def padded(table: Tensor) -> Tensor:
    return torch.cat([table, torch.zeros_like(table[:1])])


RULE = Rule(
    "token",
    "token by token",
    "Each guess is compared by itself, from the root down; the first failure ends the draft.",
    acceptance,
)
