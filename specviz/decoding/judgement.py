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
from specviz.decoding.verification import Acceptance, acceptance
from specviz.records import Position

TOP_TOKENS = 10
_NODE_FIELDS = 7
_ROW_FIELDS = 6


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """Probabilities of one drafted token; see `records.Verdict`."""

    token_id: int
    acceptance_prob: float
    target_prob: float
    residual_prob: float
    draft_prob: float
    raw_target_prob: float
    raw_draft_prob: float


@dataclass(frozen=True, slots=True)
class RowJudgement:
    """What the target says after one row: the candidate extra token, and the laws for display."""

    extra_id: int
    extra_prob: float
    position: Position


@dataclass(frozen=True, slots=True)
class Judgement:
    nodes: tuple[NodeJudgement, ...]
    packed_rows: tuple[tuple[float, ...], ...]
    has_laws: bool
    has_raw_laws: bool
    expanded: int

    def row(self, node: int) -> RowJudgement:
        """The judgement after `node` (-1: the root); only examined rows are ever unpacked."""
        row = node + 1
        values = self.packed_rows[row]
        tokens, p, q, left, raw_p, raw_q = (
            values[_ROW_FIELDS + i : len(values) : 6] for i in range(6)
        )
        drafted = row < self.expanded
        entropy, overlap, raw_overlap, margin = values[2:_ROW_FIELDS]
        position = Position(
            parent=node,
            token_ids=tuple(int(token) for token in tokens),
            target_probs=p,
            draft_probs=q if drafted and self.has_laws else (),
            residual_probs=left if drafted else (),
            raw_target_probs=raw_p,
            raw_draft_probs=raw_q if drafted and self.has_raw_laws else (),
            entropy=entropy,
            overlap=overlap,
            raw_overlap=raw_overlap,
            margin=margin,
        )
        return RowJudgement(int(values[0]), values[1], position)


def judge(proposal: Proposal, logits: Tensor, sampler: Sampler, extra_uniforms: Tensor) -> Tensor:
    """Pack the target's judgement. logits [R, V], extra_uniforms [R] -> [packed] float64"""
    raw_p = logits.float().softmax(-1)  # [R, V]
    p = sampler.laws(logits)  # [R, V]
    judged = acceptance(proposal.topology, proposal.token_ids, proposal.kind, p, proposal.laws)
    nodes = _node_fields(proposal, judged, raw_p)
    rows = _row_fields(proposal, judged, logits, p, raw_p, extra_uniforms)
    return torch.cat([nodes.flatten(), rows.flatten()])


def unpack(proposal: Proposal, values: list[float]) -> Judgement:
    """Read the buffer that `judge` packed, on the host."""
    size = proposal.topology.size
    split = size * _NODE_FIELDS
    nodes = tuple(
        NodeJudgement(int(values[i]), *values[i + 1 : i + _NODE_FIELDS])
        for i in range(0, split, _NODE_FIELDS)
    )
    width = (len(values) - split) // (size + 1)
    rows = tuple(tuple(values[i : i + width]) for i in range(split, len(values), width))
    has_laws, has_raw_laws = proposal.laws is not None, proposal.raw_laws is not None
    return Judgement(nodes, rows, has_laws, has_raw_laws, proposal.topology.expanded)


def _node_fields(proposal: Proposal, judged: Acceptance, raw_p: Tensor) -> Tensor:
    """[N, 7] float64, in the order of NodeJudgement."""
    token_ids = proposal.token_ids
    parent_rows = proposal.topology.parent_rows  # [N]
    raw_target = raw_p[parent_rows, token_ids]
    if proposal.raw_laws is None:
        raw_draft = torch.ones_like(raw_target)
    else:
        raw_draft = proposal.raw_laws[parent_rows, token_ids]
    fields = (
        token_ids,
        judged.acceptance_probs,
        judged.target_probs,
        judged.residual_probs,
        judged.draft_probs,
        raw_target,
        raw_draft,
    )
    return torch.stack([field.double() for field in fields], 1)


def _row_fields(
    proposal: Proposal,
    judged: Acceptance,
    logits: Tensor,
    p: Tensor,
    raw_p: Tensor,
    extra_uniforms: Tensor,
) -> Tensor:
    """[R, 6 + 6 T] float64: extra token, its probability, then what is shown."""
    residuals = judged.last_residuals
    extra_ids = draw(residuals, extra_uniforms)[:, None]  # [R, 1]
    drawn = torch.cat([extra_ids.double(), residuals.gather(1, extra_ids).double()], 1)
    return torch.cat([drawn, _shown(proposal, residuals, logits, p, raw_p)], 1)


def _shown(
    proposal: Proposal, residuals: Tensor, logits: Tensor, p: Tensor, raw_p: Tensor
) -> Tensor:
    """What only a person looks at. [R, 4 + 6 T] float64: four numbers, then the top tokens."""
    q, raw_q = _padded(_rule_laws(proposal, p), p), _padded(proposal.raw_laws, p)
    best, best_ids = logits.float().topk(2, dim=-1)
    # log-sum-exp, from one known pair of logit and probability
    normaliser = best[:, 0] - raw_p.gather(1, best_ids[:, :1])[:, 0].log()
    numbers = (
        normaliser - (raw_p * logits.float()).sum(-1),
        torch.minimum(p, q).sum(-1),
        torch.minimum(raw_p, raw_q).sum(-1),
        best[:, 0] - best[:, 1],
    )
    top = (raw_p + raw_q).topk(min(TOP_TOKENS, p.shape[-1]), dim=-1).indices  # [R, T]
    laws = torch.stack([law.gather(1, top) for law in (p, q, residuals, raw_p, raw_q)], 2)
    tokens = torch.cat([top.double()[:, :, None], laws.double()], 2)  # [R, T, 6]
    return torch.cat([torch.stack(numbers, 1).double(), tokens.flatten(1)], 1)


def _rule_laws(proposal: Proposal, like: Tensor) -> Tensor:
    """The q of the rule for each row's first child: a law, or the point mass. -> [E, V]"""
    if proposal.laws is not None:
        return proposal.laws
    first = proposal.token_ids[proposal.topology.children[:, :1]]  # [E, 1]
    return torch.zeros_like(like[: len(first)]).scatter_(1, first, 1.0)


def _padded(laws: Tensor | None, like: Tensor) -> Tensor:
    """Laws of the expanded rows with zero rows behind them. [E, V] -> [R, V]"""
    padded = torch.zeros_like(like)
    if laws is not None:
        padded[: laws.shape[0]] = laws
    return padded
