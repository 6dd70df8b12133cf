"""Verification: which drafted nodes are accepted, and which token the target adds.

1. `acceptance` (on the device) computes the acceptance probability of every node, and the
   distribution of the extra token after every row. It uses no random draws.
2. `walk` (on the host) compares the draws with the acceptance probabilities, from the root down.
3. `judge` packs the results of step 1 and the displayed numbers into one buffer. Copying that
   buffer is the only blocking copy of the round. `unpack` reads it on the host.

The lossless rules depend on how siblings were chosen (chain: Leviathan 2211.17192, Chen 2302.01318;
trees: SpecInfer 2305.09781). Siblings are examined in the order in which they were drawn. The token
x of a node is accepted with probability min(1, p(x) / q(x)). Otherwise p <- normalize(max(0, p -
q)) before the next sibling is examined:

- IID: q never changes. A repeated token is always rejected, and still updates p.
- WITHOUT_REPLACEMENT: x is removed from q, and q is normalised again.
- DETERMINISTIC: q is the point mass at x, so x is accepted with probability p(x).

One rule is not lossless. TYPICAL (Medusa 2401.10774) accepts x if p(x) is large enough for the
entropy of p. It draws the extra token from p itself.

Some tests enumerate all draws and call exactly these functions. In shapes, N is the number of
nodes, R = N + 1 the number of rows (the root, then the nodes), E the number of rows up to the last
row that can have children, M the number of rows that have a child of some rank, Q the number of
extra queries, V the size of the vocabulary and T the number of top tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.sampling import Sampler, draw, normalize, residual
from specviz.decoding.topology import Topology, TreeShape, tree_shape
from specviz.records import TOP_TOKENS, ExtraKind, Position, ProposalKind

TYPICAL_EPSILON, TYPICAL_DELTA = 0.09, 0.3  # the values that the Medusa paper uses
NODE_FIELDS = 9
PARENT_FIELD = 1  # index of the field `parent` among the NODE_FIELDS numbers of a node
_ROW_FIELDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Acceptance:
    """The probabilities with which verification decides about every node of a tree.

    The probabilities of a node apply if its parent was accepted and its earlier siblings were
    rejected.
    """

    acceptance_probs: Tensor  # [N] min(1, residual_probs / draft_probs); 0 or 1 for TYPICAL
    target_probs: Tensor  # [N] the target's p(x) before any sibling was rejected
    residual_probs: Tensor  # [N] the target's p(x) after the earlier siblings were rejected
    draft_probs: Tensor  # [N] q(x) when the node is examined
    extra_distributions: Tensor  # [N + 1, V] the distribution of the extra token after each row


# The signature of `acceptance`. The arguments are a tree, its token ids, the kind of its proposal,
# p and q.
Rule = Callable[[Topology, Tensor, ProposalKind, Tensor, Tensor | None], Acceptance]


def acceptance(
    topology: Topology,
    token_ids: Tensor,  # [N]
    kind: ProposalKind,
    p: Tensor,  # [N + 1, V], row 0 is after the root
    q: Tensor | None,  # [E, V]; None for a point mass
) -> Acceptance:
    """Return the acceptance probability of every node, and the extra token's distributions."""
    if kind is ProposalKind.TYPICAL:
        return _typical(topology, token_ids, p)
    if q is None:
        return _of_point_masses(topology, token_ids, p)
    # Tokens are drawn in proportion to q. Rounded float32 rows sum to 1 only within a few
    # millionths, so they are normalised here as well.
    size, x_ids, p_left, q_left = topology.size, token_ids, _shares(p), _shares(q)
    # Add row N + 1 and node N. They do not exist in the tree, but a padded list of siblings
    # contains them.
    if topology.is_padded:
        x_ids, p_left, q_left = _padded(x_ids), _padded(p_left), _padded(q_left)
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
        if kind is ProposalKind.WITHOUT_REPLACEMENT:
            q_left = q_left.index_copy(0, rows, normalize(q_here.scatter(1, x, 0.0)))
    accept, target, residuals, draft = columns[:, :size].unbind(0)
    return Acceptance(accept, target, residuals, draft, p_left[: size + 1])


def _of_point_masses(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """Apply the acceptance rule to point masses: a rejected token x is removed from p.

    So the acceptance of x is p(x) divided by the probability that is left after its earlier
    siblings. A repeated token is always rejected. A token that has all the remaining probability is
    always accepted. All nodes are computed at once; C is the length of all lists of siblings.
    """
    left, x_ids = (_padded(p), _padded(token_ids)) if topology.is_padded else (p.clone(), token_ids)
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


def _shares(mass: Tensor) -> Tensor:
    """Scale rows to sum 1. A row of zeros stays zero; no caller reads it."""
    return mass / mass.sum(-1, keepdim=True).clamp_(min=torch.finfo(mass.dtype).tiny)


def _padded(table: Tensor) -> Tensor:
    return torch.cat([table, torch.zeros_like(table[:1])])


def _typical(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """Accept x if p(x) > min(epsilon, delta * exp(-entropy of p)). Rejections never change p."""
    entropy = torch.special.entr(p).sum(-1)  # [R]
    threshold = (TYPICAL_DELTA * (-entropy).exp()).clamp(max=TYPICAL_EPSILON)
    rows = topology.parent_rows
    p_x = p[rows, token_ids]
    passes = (p_x > threshold[rows]).to(p)
    return Acceptance(passes, p_x, p_x, torch.ones_like(p_x), p)


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of a verification: which nodes were accepted, and which were rejected.

    `path` has the accepted nodes, from depth 1 down.
    """

    path: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def end(self) -> int:
        """Return the last accepted node, or -1 (the root) if no node was accepted."""
        return self.path[-1] if self.path else -1

    def cut(self, endings: Collection[int], depths: Sequence[int]) -> Walk | None:
        """Return the walk up to the first accepted node whose token ends the text.

        `endings` are the nodes with an end-of-sequence token. Return None if no accepted node is
        one of them. `depths` has the depth of each node, from 1.
        """
        for length, node in enumerate(self.path, start=1):
            if node in endings:
                rejected = tuple(each for each in self.rejected if depths[each] <= length)
                return Walk(self.path[:length], rejected)
        return None

    def extra_kind(self, children: Sequence[Sequence[int]]) -> ExtraKind:
        """Return the kind of the token that the target adds after the path.

        `children` has the child nodes of each row, as in `walk`.
        """
        if len(children) == 1:
            return ExtraKind.PLAIN
        return ExtraKind.RECOVERED if children[self.end + 1] else ExtraKind.BONUS


def walk(
    # the child nodes of each row, in the order in which they were drawn; row 0 is the root
    children: Sequence[Sequence[int]],
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Follow the tree from the root. Node i is accepted if uniforms[i] < acceptance_probs[i].

    The comparison is strict, so a token of probability 0 fails even at u = 0.

    >>> walk([[0, 1], [], [2], []], [0.5, 1.0, 0.0], [0.9, 0.3, 0.0])
    Walk(path=(1,), rejected=(0, 2))
    """
    path: list[int] = []
    rejected: list[int] = []
    node = -1
    while True:
        for child in children[node + 1]:
            if uniforms[child] < acceptance_probs[child]:
                path.append(child)
                break
            rejected.append(child)
        else:
            return Walk(tuple(path), tuple(rejected))
        node = path[-1]


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """The numbers by which one drafted token is judged; `records.Verdict` explains them.

    `origin` is the number that the drafter gave to the node, or -1 if it has none.
    """

    token_id: int
    parent: int
    origin: int
    acceptance_prob: float
    target_prob: float
    residual_prob: float
    draft_prob: float
    raw_target_prob: float
    raw_draft_prob: float


@dataclass(frozen=True, slots=True)
class RowJudgement:
    """The target's extra token after one row of a tree, and the distributions to display."""

    extra_id: int
    extra_prob: float
    position: Position


@dataclass(frozen=True, slots=True)
class TreeJudgement:
    """The target's judgement of a whole tree, on the host.

    The method `row` unpacks the numbers of one row at each call, because most rows are never read.
    """

    nodes: tuple[NodeJudgement, ...]
    packed_rows: tuple[tuple[float, ...], ...]
    has_distributions: bool
    has_raw_distributions: bool
    shape: TreeShape
    query_ids: tuple[int, ...]  # the target's most probable token after each extra query

    @property
    def extra_ids(self) -> tuple[int, ...]:
        """Return the extra token that the target would add after the root and after each node."""
        return tuple(int(values[0]) for values in self.packed_rows)

    def row(self, node: int) -> RowJudgement:
        """Return the judgement of the position after `node` (-1: the root)."""
        row = node + 1
        values = self.packed_rows[row]
        ids = values[_ROW_FIELDS::6]
        # True if the extra token is also one of the top tokens, so that it must not be listed twice
        is_repeated = ids[-1] in ids[:-1]
        end = len(values) - 6 if is_repeated else len(values)
        tokens, p, q, left, raw_p, raw_q = (values[_ROW_FIELDS + i : end : 6] for i in range(6))
        drafted = bool(self.shape.groups[row])
        entropy, overlap, raw_overlap, margin = values[2:_ROW_FIELDS]
        position = Position(
            parent=node,
            token_ids=tuple(int(token) for token in tokens),
            target_probs=p,
            draft_probs=q if drafted and self.has_distributions else (),
            residual_probs=left if drafted else (),
            raw_target_probs=raw_p,
            raw_draft_probs=raw_q if drafted and self.has_raw_distributions else (),
            entropy=entropy,
            overlap=overlap,
            raw_overlap=raw_overlap,
            margin=margin,
        )
        return RowJudgement(int(values[0]), values[1], position)


def judge(
    proposal: Proposal,
    logits: Tensor,
    sampler: Sampler,
    extra_uniforms: Tensor,
    rule: Rule = acceptance,
) -> Tensor:
    """Judge a tree without waiting for the device.

    `logits` is [R + Q, V] and `extra_uniforms` is [R]. The result is one packed float32 tensor. The
    last Q rows of the logits belong to the extra queries of the proposal.
    """
    rows = proposal.topology.size + 1
    logits, query_logits = logits[:rows], logits[rows:]
    p, raw_p = sampler.both(logits)  # [R, V]
    judged = rule(proposal.topology, proposal.token_ids, proposal.kind, p, proposal.distributions)
    parts = [
        _node_fields(proposal, judged, raw_p).flatten(),
        _row_fields(proposal, judged, logits, p, raw_p, extra_uniforms).flatten(),
    ]
    if len(query_logits):
        parts.append(query_logits.argmax(-1).float())
    return torch.cat(parts)


def unpack(proposal: Proposal, values: list[float]) -> TreeJudgement:
    """Return the judgement of a tree from the numbers that `judge` packed, on the host."""
    size, queries = proposal.topology.size, proposal.query_count
    split, end = size * NODE_FIELDS, len(values) - queries
    nodes = tuple(
        NodeJudgement(*map(int, values[i : i + 3]), *values[i + 3 : i + NODE_FIELDS])
        for i in range(0, split, NODE_FIELDS)
    )
    width = (end - split) // (size + 1)
    return TreeJudgement(
        nodes=nodes,
        packed_rows=tuple(tuple(values[i : i + width]) for i in range(split, end, width)),
        has_distributions=proposal.distributions is not None,
        has_raw_distributions=proposal.raw_distributions is not None,
        shape=tree_shape(tuple(node.parent for node in nodes)),
        query_ids=tuple(map(int, values[end:])),
    )


def _node_fields(proposal: Proposal, judged: Acceptance, raw_p: Tensor) -> Tensor:
    """Stack the fields of `NodeJudgement` as float32. -> [N, 9]

    Token ids stay exact, because float32 represents all integers up to 2**24.
    """
    token_ids, rows = proposal.token_ids, proposal.topology.parent_rows  # [N], [N]
    raw_target = raw_p[rows, token_ids]
    raw_q = proposal.raw_distributions
    raw_draft = torch.ones_like(raw_target) if raw_q is None else raw_q[rows, token_ids]
    fields = (
        token_ids.float(),
        proposal.topology.parents.float(),
        proposal.node_origins.float(),
        judged.acceptance_probs,
        judged.target_probs,
        judged.residual_probs,
        judged.draft_probs,
        raw_target,
        raw_draft,
    )
    return torch.stack(fields, 1)


def _row_fields(
    proposal: Proposal,
    judged: Acceptance,
    logits: Tensor,
    p: Tensor,
    raw_p: Tensor,
    extra_uniforms: Tensor,
) -> Tensor:
    """Return, for each row, the extra token, its probability and the numbers of `_shown`.

    -> [R, 6 + 6 (T + 1)]
    """
    residuals = judged.extra_distributions
    extra_ids = draw(residuals, extra_uniforms)[:, None]  # [R, 1]
    shown = _shown(proposal, residuals, logits.float(), p, raw_p, extra_ids)
    return torch.cat([extra_ids.float(), residuals.gather(1, extra_ids), shown], 1)


def _shown(
    proposal: Proposal,
    residuals: Tensor,
    logits: Tensor,
    p: Tensor,
    raw_p: Tensor,
    extra_ids: Tensor,  # [R, 1]
) -> Tensor:
    """Return the numbers that are only displayed. -> [R, 4 + 6 (T + 1)]

    Each row has four numbers: entropy, two overlaps and margin. After them it has six numbers for
    each of the T top tokens and for the extra token: the token and five probabilities.
    """
    best, margin = _best(logits)
    surprise = -raw_p.amax(-1).log()
    below = (best[:, None] - logits).clamp_(max=1e30)
    numbers = (
        # This is the entropy, as a sum of terms that are at least 0, so that rounding cannot make
        # it negative.
        surprise + below.mul_(raw_p).sum(-1),
        _rule_overlap(proposal, p),
        _overlap(proposal.raw_distributions, raw_p),
        margin,
    )
    mixed = (
        raw_p if proposal.raw_distributions is None else _added(raw_p, proposal.raw_distributions)
    )
    top = mixed.topk(min(TOP_TOKENS, p.shape[-1]), dim=-1).indices  # [R, T]
    top = torch.cat([top, extra_ids], 1)
    tokens = (
        top.float(),
        p.gather(1, top),
        _gathered(proposal.distributions, top, p),
        residuals.gather(1, top),
        raw_p.gather(1, top),
        _gathered(proposal.raw_distributions, top, p),
    )
    return torch.cat([torch.stack(numbers, 1), torch.stack(tokens, 2).flatten(1)], 1)


def _best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest logit and its distance to the second largest. [R, V] -> [R], [R]

    Two searches for one maximum are several times faster than one search for the two largest.
    """
    best = logits.amax(-1, keepdim=True)
    is_best = logits == best
    second = logits.masked_fill(is_best, -torch.inf).amax(-1)
    best = best[:, 0]
    return best, best - second.where(is_best.sum(-1) == 1, best)


def _rule_overlap(proposal: Proposal, p: Tensor) -> Tensor:
    """Return the overlap of p with the q of each row's first child. -> [R]

    If the tokens were chosen without random draws, q is the point mass at the child's token x, so
    the overlap is p(x).
    """
    tree = proposal.topology
    if proposal.distributions is not None or not tree.siblings:
        return _overlap(proposal.distributions, p)
    rows, nodes = tree.siblings[0]
    token_ids = proposal.token_ids[nodes.clamp(max=tree.size - 1)]
    shared = p[rows.clamp(max=len(p) - 1), token_ids].clamp_(max=1)
    # Padded tables have one more row, which needs a value as well.
    overlap = p.new_zeros(len(p) + tree.is_padded)
    return overlap.index_put_((rows,), shared)[: len(p)]


# In the next three functions, q has only the first E of the R rows.


def _overlap(q: Tensor | None, p: Tensor) -> Tensor:
    """Return sum min(p, q) of each row, or 0 for rows without a q. [E, V] x [R, V] -> [R]"""
    overlap = p.new_zeros(p.shape[0])
    if q is not None:
        overlap[: q.shape[0]] = torch.minimum(p[: q.shape[0]], q).sum(-1)
    return overlap


def _added(p: Tensor, q: Tensor) -> Tensor:
    """Return p + q for rows that have a q, otherwise p. [R, V]"""
    mixed = p.clone()
    mixed[: q.shape[0]] += q
    return mixed


def _gathered(q: Tensor | None, top: Tensor, p: Tensor) -> Tensor:
    """Return q of the displayed tokens, or 0 for rows without a q. -> [R, T + 1]"""
    gathered = p.new_zeros(top.shape)
    if q is not None:
        gathered[: q.shape[0]] = q.gather(1, top[: q.shape[0]])
    return gathered
