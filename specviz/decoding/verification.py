"""Verification: the numbers that decide which drafted nodes the target accepts.

1. The rule's `accept` (on the device) computes the acceptance probability of every node, and the
   distribution of the extra token after every row (`decoding.rules`).
2. `judge` packs these results and the displayed numbers into one buffer. Copying that buffer is the
   only blocking copy of the round. `unpack` reads it on the host.
3. The rule's `walk` (on the host) compares the draws with the acceptance probabilities.

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), E the
number of rows up to the last row that can have children, Q the number of extra queries, V the size
of the vocabulary and T the number of top tokens, which are the most probable tokens that a record
keeps for each row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.rules import token_by_token
from specviz.decoding.rules.rule import Acceptance, Rule
from specviz.decoding.sampling import Sampler, draw, masked
from specviz.decoding.topology import TreeShape, tree_shape
from specviz.records import MOST_MARGIN, TOP_TOKENS, Position

NODE_FIELDS = 9
PARENT_FIELD = 1  # index of the field `parent` among the NODE_FIELDS numbers of a node
_ROW_FIELDS = 7
_RAW_PROBS = _ROW_FIELDS + 4  # index of the first top token's raw p among the numbers of a row


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """The numbers by which one drafted token is judged.

    All probabilities are those of this token; `records.Verdict` explains each of them.

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

    def best_ids(self) -> tuple[tuple[int, ...], ...]:
        """Return the displayed top tokens after the root and after each node.

        For a proposal without `raw_distributions`, these are the target's most probable next
        tokens, the most probable one first. Tokens that a grammar forbids are left out.
        """
        rows = ((row[_ROW_FIELDS::6][:-1], row[_RAW_PROBS::6]) for row in self.packed_rows)
        return tuple(
            tuple(int(token) for token, p in zip(ids, probs, strict=False) if p > 0)
            for ids, probs in rows
        )

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
        entropy, overlap, raw_overlap, margin, allowed = values[2:_ROW_FIELDS]
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
            allowed=int(allowed) or None,
        )
        return RowJudgement(int(values[0]), values[1], position)


def judge(
    proposal: Proposal,
    logits: Tensor,
    sampler: Sampler,
    extra_uniforms: Tensor,
    rule: Rule = token_by_token.RULE,
    allowed: Tensor | None = None,
) -> Tensor:
    """Judge a tree without waiting for the device.

    `logits` is [R + Q, V] and `extra_uniforms` is [R]. The result is one packed float32 tensor. The
    last Q rows of the logits belong to the extra queries of the proposal. `allowed` [R, V] has the
    tokens that the grammar allows; all distributions of the target are masked by it.
    """
    rows = proposal.topology.size + 1
    logits, query_logits = masked(logits[:rows], allowed), logits[rows:]
    p, raw_p = sampler.both(logits)  # [R, V]
    judged = rule.accept(
        proposal.topology, proposal.token_ids, proposal.drawing, p, proposal.distributions
    )
    parts = [
        _node_fields(proposal, judged, raw_p).flatten(),
        _row_fields(proposal, judged, logits, p, raw_p, extra_uniforms, allowed).flatten(),
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
    allowed: Tensor | None,
) -> Tensor:
    """Return, for each row, the extra token, its probability and the numbers of `_shown`.

    -> [R, 7 + 6 (T + 1)]
    """
    residuals = judged.extra_distributions
    extra_ids = draw(residuals, extra_uniforms)[:, None]  # [R, 1]
    shown = _shown(proposal, residuals, logits.float(), p, raw_p, extra_ids, allowed)
    return torch.cat([extra_ids.float(), residuals.gather(1, extra_ids), shown], 1)


def _shown(
    proposal: Proposal,
    residuals: Tensor,
    logits: Tensor,
    p: Tensor,
    raw_p: Tensor,
    extra_ids: Tensor,  # [R, 1]
    allowed: Tensor | None,
) -> Tensor:
    """Return the numbers that are only displayed. -> [R, 5 + 6 (T + 1)]

    Each row has five numbers: entropy, two overlaps, margin, and how many tokens the grammar allows
    (0 without a grammar). After them it has six numbers for each of the T top tokens and for the
    extra token: the token and five probabilities.
    """
    best, margin = _best(logits)
    surprise = -raw_p.amax(-1).log()
    below = (best[:, None] - logits).clamp_(max=1e30)
    numbers = (
        # The entropy, as a sum of terms that are at least 0, so that rounding cannot make it
        # negative.
        surprise + below.mul_(raw_p).sum(-1),
        _rule_overlap(proposal, p),
        _overlap(proposal.raw_distributions, raw_p),
        margin.clamp(max=MOST_MARGIN),
        torch.zeros_like(margin) if allowed is None else allowed.sum(-1).to(margin),
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
