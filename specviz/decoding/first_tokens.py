"""The token behind each prompt, drawn from the target: where every lane begins.

Knows nothing of drafting or caches.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specviz.decoding.clock import Mark, mark
from specviz.decoding.drafters.base import empty_proposal
from specviz.decoding.forest import Forest
from specviz.decoding.row import Row
from specviz.decoding.target import Target
from specviz.decoding.target_rows import TargetRows
from specviz.records import ExtraKind, ExtraToken, Prefill


def first_tokens(
    rows: Sequence[Row], target: Target | TargetRows, logits: Sequence[Tensor], started: Mark
) -> list[Prefill]:
    """Draw and commit; one copy for all rows. logits: [1, V] behind each prompt

    The seconds of each are those of all together.
    """
    device = target.model.device
    forest = Forest([empty_proposal(device)] * len(rows))
    packed = forest.judge(logits, target.sampler, [row.extra_draws(0) for row in rows])
    judged = mark(device)
    judgements = forest.unpack(target.to_host(packed))
    seconds = started.seconds_until(judged)
    prefills = []
    for row, judgement in zip(rows, judgements, strict=True):
        behind = judgement.row(-1)
        extra = ExtraToken(behind.extra_id, ExtraKind.FIRST, -1, behind.extra_prob)
        prefills.append(Prefill(row.end, extra, behind.position, seconds))
        row.append([extra.token_id])
    return prefills
