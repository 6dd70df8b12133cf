"""Verification: the acceptance of every node, the walk along accepted nodes, and the host's copy.

1. `acceptance` (tensors): the acceptance probability of every node and the distribution of the
   extra token below every row, before any draw is looked at.
2. `walk` (host): draws against acceptance probabilities, from the root down.
3. `judge` packs the first part and what is shown of it into one buffer, the round's only blocking
   copy; `unpack` reads it on the host.

The lossless rules, by proposal kind (chain: Leviathan 2211.17192, Chen 2302.01318; trees:
SpecInfer 2305.09781). Siblings are examined in draw order; x is accepted with probability
min(1, p(x) / q(x)), otherwise p <- normalize(max(0, p - q)) before the next sibling:

- IID: q never changes, so a repeated token is surely rejected, and still updates p;
- WITHOUT_REPLACEMENT: x then leaves q, which is renormalised;
- DETERMINISTIC: q is the point mass at x, so x is accepted with probability p(x).

One rule is not lossless: TYPICAL (Medusa 2401.10774) accepts x whenever p(x) is large enough for
the entropy of p, and draws the extra token from p itself.

The enumeration tests drive exactly these functions. Letters: N nodes, R = N + 1 rows (the root,
then the nodes), E leading rows up to the last one that may have children, M rows that have a child
of some rank, Q extra queries, V vocabulary, T top tokens.
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

TYPICAL_EPSILON, TYPICAL_DELTA = 0.09, 0.3  # of the paper
NODE_FIELDS = 9
PARENT_FIELD = 1  # the index of `parent` among them
_ROW_FIELDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Acceptance:
    """Per node, given that its parent was accepted and its earlier siblings failed."""

    acceptance_probs: Tensor  # [N] min(1, residual_probs / draft_probs); 0 or 1 for TYPICAL
    target_probs: Tensor  # [N] p(x) before any sibling
    residual_probs: Tensor  # [N] the p(x) that the rule compares: after earlier siblings failed
    draft_probs: Tensor  # [N] the q(x) that the rule compares
    extra_distributions: Tensor  # [N + 1, V] of the extra token below each row


# Of a tree, its token ids, their kind, p and q: what `acceptance` takes and gives.
Rule = Callable[[Topology, Tensor, ProposalKind, Tensor, Tensor | None], Acceptance]


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
    size, x_ids, p_left, q_left = topology.size, token_ids, p, q
    if topology.is_padded:  # room for the row and the node that do not exist
        x_ids, p_left, q_left = _padded(token_ids), _padded(p), _padded(q)
    p_whole = p_left
    columns = p.new_zeros(4, len(x_ids))
    for rows, nodes in topology.siblings:
        x = x_ids[nodes][:, None]  # [M, 1]
        p_here, q_here = p_left[rows], q_left[rows]  # [M, V]
        p_x, q_x = p_here.gather(1, x), q_here.gather(1, x)
        ratio = torch.where(q_x > 0, p_x / q_x, 0.0).clamp(max=1.0)
        columns[:, nodes] = torch.cat([ratio, p_whole[rows].gather(1, x), p_x, q_x], 1).T
        p_left = p_left.index_copy(0, rows, residual(p_here, q_here))
        if kind is ProposalKind.WITHOUT_REPLACEMENT:
            q_left = q_left.index_copy(0, rows, normalize(q_here.scatter(1, x, 0.0)))
    accept, target, residuals, draft = columns[:, :size].unbind(0)
    return Acceptance(accept, target, residuals, draft, p_left[: size + 1])


def _of_point_masses(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """The same rule if every q is a point mass: a rejected x leaves p, which is renormalised.

    So the acceptance of x is p(x) divided by what its earlier siblings left of p. A repeated token
    has probability 0 and is surely rejected; a token with all that is left is surely accepted. All
    C children are computed at once.
    """
    left, x_ids = (_padded(p), _padded(token_ids)) if topology.is_padded else (p.clone(), token_ids)
    accept = p.new_zeros(len(x_ids))
    if topology.siblings:
        rows, nodes = (torch.cat(part) for part in zip(*topology.siblings, strict=True))  # [C]
        x = x_ids[nodes]
        earlier = (rows[:, None] == rows).tril_(-1)  # [C, C] siblings
        repeats = (earlier & (x[:, None] == x)).any(1)
        p_x = left[rows, x].masked_fill_(repeats, 0)
        share = left.sum(-1)[rows] - earlier.to(p) @ p_x  # of p, left by earlier siblings
        accept[nodes] = (p_x / share.clamp(min=torch.finfo(p.dtype).tiny)).clamp_(max=1)
        left.index_put_((rows, x), p_x.masked_fill(p_x < share, 0) - p_x, accumulate=True)
    accept, left = accept[: topology.size], left[: topology.size + 1]
    total = left.sum(-1, keepdim=True)
    nothing = (total == 0).to(p)  # by rounding: then p itself
    last = left.addcmul_(p, nothing).div_(total + nothing)
    whole = p[topology.parent_rows, token_ids]
    return Acceptance(accept, whole, accept, torch.ones_like(accept), last)


def _padded(table: Tensor) -> Tensor:
    """One more row, of zeros."""
    return torch.cat([table, torch.zeros_like(table[:1])])


def _typical(topology: Topology, token_ids: Tensor, p: Tensor) -> Acceptance:
    """x is accepted iff p(x) > min(epsilon, delta * exp(-entropy of p)); p is never changed."""
    entropy = torch.special.entr(p).sum(-1)  # [R]
    threshold = (TYPICAL_DELTA * (-entropy).exp()).clamp(max=TYPICAL_EPSILON)
    rows = topology.parent_rows
    p_x = p[rows, token_ids]
    passes = (p_x > threshold[rows]).to(p)
    return Acceptance(passes, p_x, p_x, torch.ones_like(p_x), p)


@dataclass(frozen=True, slots=True)
class Walk:
    """The accepted nodes from depth 1 down, and the nodes that were rejected on the way."""

    path: tuple[int, ...]
    rejected: tuple[int, ...]

    @property
    def end(self) -> int:
        """The last accepted node, -1 for the root."""
        return self.path[-1] if self.path else -1

    def cut(self, endings: Collection[int], depths: Sequence[int]) -> Walk | None:
        """The walk up to the first of `endings` on its path, or None if there is none on it.

        `endings` are nodes whose token ends the text; `depths` are those of all nodes, from 1.
        """
        for length, node in enumerate(self.path, start=1):
            if node in endings:
                rejected = tuple(each for each in self.rejected if depths[each] <= length)
                return Walk(self.path[:length], rejected)
        return None

    def extra_kind(self, children: Sequence[Sequence[int]]) -> ExtraKind:
        """The kind of token that the target adds after the path; `children` as for `walk`."""
        if len(children) == 1:  # the root alone
            return ExtraKind.PLAIN
        return ExtraKind.RECOVERED if children[self.end + 1] else ExtraKind.BONUS


def walk(
    children: Sequence[Sequence[int]],  # row -> its nodes in draw order; row 0 is the root
    acceptance_probs: Sequence[float],
    uniforms: Sequence[float],
) -> Walk:
    """Follow the tree from the root: node i is accepted iff uniforms[i] < acceptance_probs[i].

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
    """One drafted token; see `records.Verdict` for the probabilities.

    `origin` is the drafter's own number of the node, -1 if it has none.
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
    """After one row: the candidate for the extra token, and the distributions to be shown."""

    extra_id: int
    extra_prob: float
    position: Position


@dataclass(frozen=True, slots=True)
class TreeJudgement:
    """The target's answer to a whole tree, on the host; rows are unpacked only when examined."""

    nodes: tuple[NodeJudgement, ...]
    packed_rows: tuple[tuple[float, ...], ...]
    has_distributions: bool
    has_raw_distributions: bool
    shape: TreeShape
    query_ids: tuple[int, ...]  # the likeliest token after each extra query

    @property
    def extra_ids(self) -> tuple[int, ...]:
        """The candidate extra token of every row."""
        return tuple(int(values[0]) for values in self.packed_rows)

    def row(self, node: int) -> RowJudgement:
        """The judgement after `node` (-1: the root)."""
        row = node + 1
        values = self.packed_rows[row]
        ids = values[_ROW_FIELDS::6]
        is_repeated = ids[-1] in ids[:-1]  # the extra token is one of the top tokens
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
    """Judge a tree, not waiting for the device. logits [R + Q, V], extra_uniforms [R] -> [packed]

    The last Q rows of logits are those of the proposal's extra queries, if it has any. The packed
    numbers are float32.
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
    """Read on the host the buffer that `judge` packed."""
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
    """In the order of NodeJudgement; integers are exact below 2**24. -> [N, 9]"""
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
    """The extra token, its probability, then what is shown. -> [R, 6 + 6 (T + 1)]"""
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
    """For display only: four numbers, then the top tokens and the extra one.

    -> [R, 4 + 6 (T + 1)]
    """
    best, margin = _best(logits)
    surprise = -raw_p.amax(-1).log()  # of the best token
    below = (best[:, None] - logits).clamp_(max=1e30)
    numbers = (
        surprise + below.mul_(raw_p).sum(-1),  # the entropy as a sum of terms >= 0
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
    """The largest logit, and by how much it leads. [R, V] -> [R], [R]

    Largest values of whole rows are found several times as fast as the two largest together.
    """
    best = logits.amax(-1, keepdim=True)
    is_best = logits == best
    second = logits.masked_fill(is_best, -torch.inf).amax(-1)
    best = best[:, 0]
    return best, best - second.where(is_best.sum(-1) == 1, best)


def _rule_overlap(proposal: Proposal, p: Tensor) -> Tensor:
    """The overlap of p with the q of each row's first child. -> [R]

    Where nothing was drawn, q is the point mass at that child, and p(x) is all that they share.
    """
    tree = proposal.topology
    if proposal.distributions is not None or not tree.siblings:
        return _overlap(proposal.distributions, p)
    rows, nodes = tree.siblings[0]
    token_ids = proposal.token_ids[nodes.clamp(max=tree.size - 1)]
    shared = p[rows.clamp(max=len(p) - 1), token_ids].clamp_(max=1)
    overlap = p.new_zeros(len(p) + tree.is_padded)  # room for the row that does not exist
    return overlap.index_put_((rows,), shared)[: len(p)]


# The drafter has distributions for the first E of R rows only.


def _overlap(q: Tensor | None, p: Tensor) -> Tensor:
    """sum min(p, q), 0 for rows without a q. [E, V] x [R, V] -> [R]"""
    overlap = p.new_zeros(p.shape[0])
    if q is not None:
        overlap[: q.shape[0]] = torch.minimum(p[: q.shape[0]], q).sum(-1)
    return overlap


def _added(p: Tensor, q: Tensor) -> Tensor:
    """p + q for rows that have a q, else p. [R, V]"""
    mixed = p.clone()
    mixed[: q.shape[0]] += q
    return mixed


def _gathered(q: Tensor | None, top: Tensor, p: Tensor) -> Tensor:
    """q of the shown tokens, 0 for rows without a q. -> [R, T + 1]"""
    gathered = p.new_zeros(top.shape)
    if q is not None:
        gathered[: q.shape[0]] = q.gather(1, top[: q.shape[0]])
    return gathered
