"""The target's judgement of a whole tree as one packed buffer, and its reading on the host.

The device side computes what verification needs and what a person wants to see (top tokens,
entropy, overlap) without waiting; the buffer is the round's one copy to the host. Knows nothing of
models, caches or what is accepted. Letters: N nodes, R = N + 1 rows (the root, then nodes), E rows
with children, V vocabulary, T top tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.sampling import Sampler, draw
from specviz.decoding.tree_shape import TreeShape, tree_shape
from specviz.decoding.verification import Acceptance, acceptance
from specviz.records import Position

TOP_TOKENS = 10
NODE_FIELDS = 9
PARENT_FIELD = 1  # of those
_ROW_FIELDS = 6


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """One drafted token; see `records.Verdict` for the probabilities.

    `origin` is the drafter's own index of the node, -1 where it has none.
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
    """What the target says after one row: the candidate extra token, and the distributions for
    display.
    """

    extra_id: int
    extra_prob: float
    position: Position


@dataclass(frozen=True, slots=True)
class Judgement:
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
        """The judgement after `node` (-1: the root); only examined rows are ever unpacked."""
        row = node + 1
        values = self.packed_rows[row]
        tokens, p, q, left, raw_p, raw_q = (
            values[_ROW_FIELDS + i : len(values) : 6] for i in range(6)
        )
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


def judge(proposal: Proposal, logits: Tensor, sampler: Sampler, extra_uniforms: Tensor) -> Tensor:
    """Pack the target's judgement. logits [R + Q, V], extra_uniforms [R] -> [packed] float32

    The last Q rows of logits are those of the proposal's extra queries, if it has any.
    """
    rows = proposal.topology.size + 1
    logits, query_logits = logits[:rows], logits[rows:]
    raw_p = logits.float().softmax(-1)  # [R, V]
    p = sampler.distributions(logits)  # [R, V]
    judged = acceptance(
        proposal.topology, proposal.token_ids, proposal.kind, p, proposal.distributions
    )
    parts = [
        _node_fields(proposal, judged, raw_p).flatten(),
        _row_fields(proposal, judged, logits, p, raw_p, extra_uniforms).flatten(),
    ]
    if len(query_logits):
        parts.append(query_logits.argmax(-1).float())
    return torch.cat(parts)


def unpack(proposal: Proposal, values: list[float]) -> Judgement:
    """Read the buffer that `judge` packed, on the host."""
    size, queries = proposal.topology.size, proposal.query_count
    split, end = size * NODE_FIELDS, len(values) - queries
    nodes = tuple(
        NodeJudgement(*map(int, values[i : i + 3]), *values[i + 3 : i + NODE_FIELDS])
        for i in range(0, split, NODE_FIELDS)
    )
    width = (end - split) // (size + 1)
    return Judgement(
        nodes=nodes,
        packed_rows=tuple(tuple(values[i : i + width]) for i in range(split, end, width)),
        has_distributions=proposal.distributions is not None,
        has_raw_distributions=proposal.raw_distributions is not None,
        shape=tree_shape(tuple(node.parent for node in nodes)),
        query_ids=tuple(map(int, values[end:])),
    )


def _node_fields(proposal: Proposal, judged: Acceptance, raw_p: Tensor) -> Tensor:
    """[N, 9], in the order of NodeJudgement; integers are exact below 2**24."""
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
    """[R, 6 + 6 T]: extra token, its probability, then what is shown."""
    residuals = judged.last_residuals
    extra_ids = draw(residuals, extra_uniforms)[:, None]  # [R, 1]
    shown = _shown(proposal, residuals, logits.float(), p, raw_p)
    return torch.cat([extra_ids.float(), residuals.gather(1, extra_ids), shown], 1)


def _shown(
    proposal: Proposal, residuals: Tensor, logits: Tensor, p: Tensor, raw_p: Tensor
) -> Tensor:
    """What only a person looks at. [R, 4 + 6 T]: four numbers, then the top tokens."""
    best, best_ids = logits.topk(2, dim=-1)
    surprise = -raw_p.gather(1, best_ids[:, :1])[:, 0].log()  # of the best token
    below = (best[:, :1] - logits).clamp(max=1e30)
    numbers = (
        surprise + (raw_p * below).sum(-1),  # the entropy: no term of it is negative
        _overlap(_rule_distributions(proposal, p), p),
        _overlap(proposal.raw_distributions, raw_p),
        best[:, 0] - best[:, 1],
    )
    mixed = (
        raw_p if proposal.raw_distributions is None else _added(raw_p, proposal.raw_distributions)
    )
    top = mixed.topk(min(TOP_TOKENS, p.shape[-1]), dim=-1).indices  # [R, T]
    tokens = (
        top.float(),
        p.gather(1, top),
        _gathered(proposal.distributions, top, p),
        residuals.gather(1, top),
        raw_p.gather(1, top),
        _gathered(proposal.raw_distributions, top, p),
    )
    return torch.cat([torch.stack(numbers, 1), torch.stack(tokens, 2).flatten(1)], 1)


def _rule_distributions(proposal: Proposal, p: Tensor) -> Tensor | None:
    """The q of the rule for each row's first child: a distribution, or the point mass. -> [E, V]"""
    tree = proposal.topology
    if proposal.distributions is not None or not tree.siblings:
        return proposal.distributions
    rows, nodes = tree.siblings[0]
    distributions = p.new_zeros(tree.expanded + tree.is_padded, p.shape[1])
    token_ids = proposal.token_ids[nodes.clamp(max=tree.size - 1)]
    return distributions.index_put_((rows, token_ids), distributions.new_ones(()))[: tree.expanded]


# The drafter's distributions cover the first E of R rows; the rows behind them have none.


def _overlap(q: Tensor | None, p: Tensor) -> Tensor:
    """sum min(p, q), 0 without a q. [E, V] x [R, V] -> [R]"""
    overlap = p.new_zeros(p.shape[0])
    if q is not None:
        overlap[: q.shape[0]] = torch.minimum(p[: q.shape[0]], q).sum(-1)
    return overlap


def _added(p: Tensor, q: Tensor) -> Tensor:
    """p + q where there is a q. [R, V]"""
    mixed = p.clone()
    mixed[: q.shape[0]] += q
    return mixed


def _gathered(q: Tensor | None, top: Tensor, p: Tensor) -> Tensor:
    """q of the top tokens, 0 without a q. -> [R, T]"""
    gathered = p.new_zeros(top.shape)
    if q is not None:
        gathered[: q.shape[0]] = q.gather(1, top[: q.shape[0]])
    return gathered
