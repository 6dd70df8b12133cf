"""Block verification (Sun et al., arXiv 2403.10444): the whole chain is judged at once.

The rule token by token stops at the first token that fails, although a later, likelier token could
make up for an unlikely one. Block verification multiplies the ratios P/Q along the chain and
compares the draws of all tokens:

- p_0 = 1 and p_i = min(1, p_(i-1) P(x_i) / Q(x_i)), for the i-th token x_i of the chain.
- S_i = sum over x of max(0, p_i P(x) - Q(x)), with P and Q after the i-th token.
- h_i = S_i / (S_i + 1 - p_i), and h_K = p_K after the last token.

The accepted length is the largest i with u_i < h_i, or 0 if there is none. After K tokens the extra
token is drawn from P, otherwise in proportion to max(0, p_i P(x) - Q(x)). The text has the target's
distribution, and no rule accepts more tokens on average. With one drafted token, or tokens that are
chosen without a random draw, the rule accepts as many tokens as token by token.

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), E the
number of rows up to the last row that can have children, M the number of rows that have a child,
and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from specviz.decoding.rules.rule import Acceptance, Rule, Walk
from specviz.decoding.rules.token_by_token import padded, shares
from specviz.decoding.topology import Topology
from specviz.records import Drawing


def block(
    topology: Topology,
    token_ids: Tensor,  # [N]
    drawing: Drawing,
    p: Tensor,  # [N + 1, V], row 0 is after the root
    q: Tensor | None,  # [E, V]; None for a point mass
) -> Acceptance:
    """Return each node's acceptance probability h_i, and the distributions of the extra token.

    The module's docstring defines h_i. The topology can hold several chains side by side. The
    probabilities of a node do not depend on whether the nodes before it pass.
    """
    size, x_ids, p_all = topology.size, padded(token_ids), padded(shares(p))
    if not topology.siblings:
        nothing = p.new_zeros(size)
        return Acceptance(nothing, nothing, nothing, nothing, p)
    ((rows, nodes),) = topology.siblings
    x = x_ids[nodes][:, None]  # [M, 1]
    p_here = p_all[rows]  # [M, V]
    q_here = one_hot(x[:, 0], p.shape[-1]).to(p) if q is None else padded(shares(q))[rows]
    p_x, q_x = p_here.gather(1, x)[:, 0], q_here.gather(1, x)[:, 0]
    ratio = (p_x / q_x).masked_fill_(q_x <= 0, 0.0)
    carried = p.new_ones(size + 2)  # p_i of every row, as defined in the docstring of this module
    for _ in range(topology.height):
        carried = carried.index_copy(0, nodes + 1, (carried[rows] * ratio).clamp_(max=1))
    beyond = (carried[rows][:, None] * p_here - q_here).clamp_(min=0)  # [M, V]
    mass = beyond.sum(-1)  # [M], S_i
    # This order of operations keeps the quotient at most 1; with (mass + 1) - carried, rounding
    # could make it larger.
    missing = mass + (1 - carried[rows])
    judged = torch.where(missing > 0, mass / missing.clamp(min=torch.finfo(p.dtype).tiny), 1.0)
    accept = carried.index_copy(0, rows, judged)
    # If the residual is 0 everywhere, the extra token's distribution is p. Verification reaches
    # such a row only if p equals q.
    empty = (mass == 0).to(p)[:, None]
    left = beyond.addcmul_(p_here, empty).div_(mass[:, None] + empty)
    columns = p.new_zeros(2, size + 1)
    columns[:, nodes] = torch.stack([p_x, q_x])
    target, draft = columns[:, :size].unbind(0)
    extra = p_all.index_copy(0, rows, left)[: size + 1]
    return Acceptance(accept[1 : size + 1], target, target, draft, extra)


def walk_block(
    children: Sequence[Sequence[int]],
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Read the chain from its end: the first node with uniforms[i] < acceptance_probs[i] passes.

    All nodes before it are accepted as well, whatever their own draws are.

    >>> walk_block([[0], [1], [2], []], [0.5, 0.1, 0.6], [0.9, 0.0, 0.7])
    Walk(path=(0, 1), rejected=(2,))
    """
    chain: list[int] = []
    while below := children[chain[-1] + 1 if chain else 0]:
        chain.append(below[0])
    passing = (i + 1 for i, node in enumerate(chain) if uniforms[node] < acceptance_probs[node])
    length = max(passing, default=0)
    return Walk(tuple(chain[:length]), tuple(chain[length:]))


RULE = Rule(
    "block",
    "block verification",
    "The draft is judged as a whole, from its end: a likely guess can make up for an unlikely one "
    "before it. No gain over token by token with K = 1 or without random draws.",
    block,
    walk_block,
    needs_chain=True,
    reads_ahead=True,
)
