"""Traversal verification (Weng et al., arXiv 2505.12398): a tree is judged from its leaves up.

Token by token starts at the root. If it rejects a node, all nodes below are lost. Traversal
verification starts at the first leaf. A leaf that passes is accepted with its whole path, so a
likely token can make up for an unlikely one before it. A node is judged after all its children have
failed. Every row has a budget b, and distributions P and Q, which change while its children fail:

- At the root, b = 1. At a child with token x, b = min(1, b P(x) / Q(x)), with b, P and Q of its
  parent at that moment.
- Before the next sibling, S = sum over x of max(0, b P(x) - Q(x)). Then P becomes
  max(0, b P - Q) / S, and b becomes S / (S + 1 - b). If tokens are drawn without replacement, x is
  removed from Q, and Q is normalised again. For chosen tokens, Q is the point mass at x.
- A node passes if its draw is below the b that is left after its last child. If no node passes, the
  path is empty. The extra token is drawn from the P that is left after the end of the path.

Every node is examined only after all nodes before it in this order have failed, so all these
numbers are known before any draw. The text has the target's distribution. On a chain, the rule is
block verification. If the tokens are chosen without a random draw, it accepts as many tokens as
token by token.

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), E the
number of rows up to the last row that can have children, M the number of rows of one level that
have a child of some rank, C the length of all lists of siblings, and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.decoding.rules import token_by_token
from specviz.decoding.rules.rule import Acceptance, Rule, Walk
from specviz.decoding.rules.token_by_token import padded, shares
from specviz.decoding.sampling import normalize
from specviz.decoding.topology import Topology
from specviz.records import Drawing


def traversal(
    topology: Topology,
    token_ids: Tensor,  # [N]
    drawing: Drawing,
    p: Tensor,  # [N + 1, V], row 0 is after the root
    q: Tensor | None,  # [E, V]; None for a point mass
) -> Acceptance:
    """Return the acceptance probability of every node, and the extra token's distributions.

    The probability of a node applies if all nodes before it in post-order have failed.
    """
    if q is None or not topology.siblings:
        return _of_point_masses(topology, token_ids, p)
    size, x_ids, p_all, q_all = topology.size, token_ids, shares(p), shares(q)
    if topology.is_padded:
        x_ids, p_all, q_all = padded(x_ids), padded(p_all), padded(q_all)
    p_left, q_left = p_all.clone(), q_all
    if drawing is Drawing.WITHOUT_REPLACEMENT:
        q_left = q_all.clone()
    given = p.new_ones(len(p_all))  # b of every row before its first child is judged
    left = given.clone()  # b of every row with children, after those that have been judged so far
    columns = p.new_zeros(3, len(x_ids))
    for level in topology.levels:
        for rank, (rows, nodes) in enumerate(level):
            # If only the device knows the tree, a level is computed several times, so its first
            # children always start from the unchanged numbers.
            of_p, of_q, budgets = (p_left, q_left, left) if rank else (p_all, q_all, given)
            x = x_ids[nodes][:, None]  # [M, 1]
            p_here, q_here, budget = of_p[rows], of_q[rows], budgets[rows]  # [M, V], [M, V], [M]
            p_x, q_x = p_here.gather(1, x), q_here.gather(1, x)
            columns[:, nodes] = torch.cat([p_all[rows[:, None], x], p_x, q_x], 1).T
            scaled = p_here * budget[:, None]
            below = (scaled.gather(1, x) / q_x).masked_fill_(q_x <= 0, 0.0).clamp_(max=1)[:, 0]
            given.index_copy_(0, nodes + 1, below)
            beyond = scaled.sub_(q_here).clamp_(min=0)
            mass = beyond.sum(-1)  # [M], S
            missing = mass + (1 - budget)  # with mass + 1, rounding could make b more than 1
            tiny = torch.finfo(p.dtype).tiny
            left.index_copy_(0, rows, torch.where(missing > 0, mass / missing.clamp(min=tiny), 1.0))
            # If nothing is left, p replaces the empty distribution. Verification reaches such a row
            # only with b = 0, or if p equals q.
            empty = (mass == 0).to(p)[:, None]
            p_left.index_copy_(0, rows, beyond.addcmul_(p_here, empty).div_(mass[:, None] + empty))
            if drawing is Drawing.WITHOUT_REPLACEMENT:
                q_left.index_copy_(0, rows, normalize(q_here.scatter(1, x, 0.0)))
    parents, _ = topology.siblings[0]
    accept = given.index_copy(0, parents, left[parents])
    target, residuals, draft = columns[:, :size].unbind(0)
    return Acceptance(accept[1 : size + 1], target, residuals, draft, p_left[: size + 1])


def _of_point_masses(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """Compute the budgets of all nodes from the acceptance probabilities a of token by token.

    With point masses, P changes as in token by token. The share r of P is left when a node is
    examined, where r is the product of 1 - a over its earlier siblings. Let b be the budget of the
    parent before its first child. When the node is examined, b r / (1 - b + b r) is left of this
    budget. The node's own budget is a times what is left.
    """
    judged = token_by_token.acceptance(topology, token_ids, Drawing.CHOSEN, p, None)
    if not topology.siblings:
        return judged
    size = topology.size
    rows, nodes = (torch.cat(part) for part in zip(*topology.siblings, strict=True))  # [C]
    a = padded(judged.acceptance_probs)[nodes]  # [C]
    earlier = (rows[:, None] == rows).tril_(-1)  # [C, C], a column is an earlier sibling of a row
    own = torch.arange(size + 2, device=p.device)[:, None] == rows  # [R + 1, C], a row's children
    share, share_at_end = (torch.where(each, 1 - a, 1.0).prod(1) for each in (earlier, own))
    given = p.new_ones(size + 2)
    for _ in range(topology.height):
        given = given.index_copy(0, nodes + 1, a * _left_of(given[rows], share))
    return replace(judged, acceptance_probs=_left_of(given, share_at_end)[1 : size + 1])


def _left_of(budget: Tensor, share: Tensor) -> Tensor:
    """Return what is left of each budget if this share of P is left."""
    kept = budget * share
    return kept / ((1 - budget) + kept).clamp_(min=torch.finfo(kept.dtype).tiny)


def walk_up(
    children: Sequence[Sequence[int]],
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Examine the nodes in post-order: the children of a node, in the order of drawing, then it.

    The first node with uniforms[i] < acceptance_probs[i] ends the accepted path. The nodes above it
    are accepted as well; their draws are not read. The nodes before it were rejected.

    >>> walk_up([[0, 1], [2], [], []], [0.5, 1.0, 0.1], [0.4, 0.3, 0.7])
    Walk(path=(0,), rejected=(2,))
    """
    rejected: list[int] = []

    def path_below(row: int) -> tuple[int, ...]:
        for child in children[row]:
            if found := path_below(child + 1):
                return (child, *found)
            if uniforms[child] < acceptance_probs[child]:
                return (child,)
            rejected.append(child)
        return ()

    return Walk(path_below(0), tuple(rejected))


RULE = Rule(
    "traversal",
    "traversal verification",
    "A tree is judged from its leaves up: a likely guess can make up for an unlikely one before "
    "it. On a chain, it is block verification. No gain over token by token without random draws.",
    traversal,
    walk_up,
    reads_ahead=True,
)
