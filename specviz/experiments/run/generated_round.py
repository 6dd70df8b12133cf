"""One verification of Transformers' assisted generation, converted to a round of a trace.

The input is the logits of both models and the resulting tokens. What the library does not show is
left out, never guessed: the uniform draws, the residual of a rejection, and the token that the
target would have added after another candidate. In shapes, K is the number of candidates, V the
size of the vocabulary, and T the number of recorded tokens per position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.sampling import one_hot, residual
from specviz.records import (
    TOP_TOKENS,
    CacheLengths,
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    Outcome,
    Position,
    Prefill,
    Round,
    Span,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one round on the run's own clock, in seconds.

    `read` is the time at which the drafter's prefill ended. If the drafter had read the prompt
    before, `read` equals `began`.
    """

    began: float
    read: float
    drafted: float
    judged: float
    ended: float


class SeenVerification:
    """The observations of one round; all distributions are on the host in float32.

    `p` [K + 1, V] and `q` [K, V] are the distributions that Transformers compared. They are one-hot
    if it compared only the best tokens. `q` is None for candidates without a distribution, such as
    copied or translated text. `raw_p` and `raw_q` are the models' softmax before any processing.
    """

    def __init__(
        self,
        context_length: int,
        candidate_ids: Sequence[int],
        emitted_ids: Sequence[int],
        logits: Tensor,  # [K + 1, V], processed
        raw_logits: Tensor,  # [K + 1, V]
        draft_logits: Tensor | None,  # [K, V], processed
        raw_draft_logits: Tensor | None,  # [K, V]
        is_sampled: bool,
    ) -> None:
        self.context_length = context_length
        self.candidate_ids = tuple(candidate_ids)
        self.emitted_ids = tuple(emitted_ids)
        self.raw_logits = _on_host(raw_logits)
        self.raw_p = self.raw_logits.softmax(-1)
        self.raw_q = None if raw_draft_logits is None else _on_host(raw_draft_logits).softmax(-1)
        self.p = _distributions(_on_host(logits), is_sampled)
        self.q = (
            None if draft_logits is None else _distributions(_on_host(draft_logits), is_sampled)
        )

    @property
    def drawing(self) -> Drawing:
        return Drawing.CHOSEN if self.q is None else Drawing.INDEPENDENT

    @property
    def accepted(self) -> int:
        """Return how many of the first emitted tokens are accepted candidates.

        If the end of the text cut the round, the last token counts as accepted as well, because a
        rejected candidate cannot be drawn from its own residual.
        """
        pairs = zip(self.candidate_ids, self.emitted_ids, strict=False)
        return next(
            (i for i, (drafted, written) in enumerate(pairs) if drafted != written),
            min(len(self.candidate_ids), len(self.emitted_ids)),
        )

    @property
    def extra(self) -> ExtraToken | None:
        """Return the token that the target added, with its probability; None if it added none."""
        accepted, count = self.accepted, len(self.candidate_ids)
        if len(self.emitted_ids) == accepted:
            return None
        token_id, distribution = self.emitted_ids[accepted], self.p[accepted]
        kind = ExtraKind.BONUS if count else ExtraKind.PLAIN
        if accepted < count:
            kind, distribution = (
                ExtraKind.RECOVERED,
                residual(distribution, self._rule_distribution(accepted)),
            )
        return ExtraToken(token_id, kind, accepted - 1, float(distribution[token_id]))

    def _rule_distribution(self, row: int) -> Tensor:
        """Return the q [V] that the rule used for the candidate number `row`, from 0.

        It may be a point mass on this candidate.
        """
        if self.q is not None:
            return self.q[row]
        return one_hot(torch.tensor(self.candidate_ids[row]), self.p.shape[-1])

    def prefill(self, seconds: float) -> Prefill:
        """Return the record of the target's first forward, which had no candidates to verify."""
        (token_id,) = self.emitted_ids
        extra = ExtraToken(token_id, ExtraKind.FIRST, -1, float(self.p[0, token_id]))
        return Prefill(self.context_length, extra, self._position(0), seconds)

    def round(self, index: int, times: Times) -> Round:
        count, extra = len(self.candidate_ids), self.extra
        prefill = times.read - times.began
        looked = range(self.accepted + (extra is not None))
        return Round(
            index=index,
            context_length=self.context_length,
            tree=DraftTree(self.drawing, tuple(self._node(row) for row in range(count))),
            verdicts=tuple(self._verdict(row) for row in range(count)),
            positions=tuple(self._position(row) for row in looked),
            extra=extra,
            extra_ids=(),
            draft_seconds=times.drafted - times.read,
            verify_seconds=times.judged - times.drafted,
            host_seconds=times.ended - times.judged,
            spans=(
                *([Span("draft prefill", times.began, times.read)] if prefill else []),
                Span("draft", times.read, times.drafted),
                Span("verify", times.drafted, times.judged),
                Span("host", times.judged, times.ended),
            ),
            notes=(),
            cache=CacheLengths(self.context_length - 1, count + 1, count - self.accepted),
            draft_prefill_seconds=prefill,
        )

    def _node(self, row: int) -> DraftNode:
        token_id = self.candidate_ids[row]
        return DraftNode(token_id, row - 1, row + 1, self._q_of(row), self._raw_q_of(row))

    def _q_of(self, row: int) -> float:
        return 1.0 if self.q is None else float(self.q[row, self.candidate_ids[row]])

    def _raw_q_of(self, row: int) -> float:
        return 1.0 if self.raw_q is None else float(self.raw_q[row, self.candidate_ids[row]])

    def _verdict(self, row: int) -> Verdict:
        token_id, q = self.candidate_ids[row], self._q_of(row)
        p = float(self.p[row, token_id])
        return Verdict(
            target_prob=p,
            residual_prob=None,
            draft_prob=q,
            acceptance_prob=min(1.0, p / q) if q > 0 else float(p > 0),
            uniform_draw=None,
            outcome=self._outcome(row),
            raw_target_prob=float(self.raw_p[row, token_id]),
            raw_draft_prob=self._raw_q_of(row),
        )

    def _outcome(self, row: int) -> Outcome:
        if row < self.accepted:
            return Outcome.ACCEPTED
        was_examined = row == self.accepted and self.extra is not None
        return Outcome.REJECTED if was_examined else Outcome.UNREACHED

    def _position(self, row: int) -> Position:
        """Return the distributions after `row` candidates, over the top tokens of both models."""
        p, raw_p = self.p[row], self.raw_p[row]
        is_drafted = row < len(self.candidate_ids)
        q = self.q[row] if is_drafted and self.q is not None else None
        raw_q = self.raw_q[row] if is_drafted and self.raw_q is not None else None
        mixed = raw_p if raw_q is None else raw_p + raw_q
        top = self._with_extra(row, mixed.topk(min(TOP_TOKENS, len(p))).indices)
        rule = self._rule_distribution(row) if is_drafted else torch.zeros_like(p)
        best = self.raw_logits[row].topk(2).values.tolist()
        return Position(
            parent=row - 1,
            token_ids=tuple(top.tolist()),
            target_probs=tuple(p[top].tolist()),
            draft_probs=() if q is None else tuple(q[top].tolist()),
            residual_probs=(),
            raw_target_probs=tuple(raw_p[top].tolist()),
            raw_draft_probs=() if raw_q is None else tuple(raw_q[top].tolist()),
            entropy=float(torch.special.entr(raw_p).sum()),
            overlap=float(torch.minimum(p, rule).sum()),
            raw_overlap=0.0 if raw_q is None else float(torch.minimum(raw_p, raw_q).sum()),
            margin=best[0] - best[1],
        )

    def _with_extra(self, row: int, top: Tensor) -> Tensor:
        """Add the target's token to the top tokens of its position if it is not among them.

        [T] -> [T] or [T + 1]
        """
        extra = self.extra
        if extra is None or row != self.accepted or extra.token_id in top:
            return top
        return torch.cat([top, torch.tensor([extra.token_id])])


def _on_host(logits: Tensor) -> Tensor:
    return logits.detach().float().cpu()


def _distributions(logits: Tensor, is_sampled: bool) -> Tensor:
    """Return the distributions that Transformers compared; they are one-hot without sampling.

    The logits have one row per position, and so has the result.
    """
    return logits.softmax(-1) if is_sampled else one_hot(logits.argmax(-1), logits.shape[-1])
