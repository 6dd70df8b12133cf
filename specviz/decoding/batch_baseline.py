"""The baseline of a batch: one token per row and target forward.

Knows nothing of drafting; it runs the same forward, cache and sampling as the speculative lane.
Letters: B rows that are left, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import torch

from specviz.decoding.batch_step import BatchStep, batch_step
from specviz.decoding.clock import mark
from specviz.decoding.first_tokens import first_tokens
from specviz.decoding.row import Row
from specviz.decoding.sampling import draw, uniforms_on
from specviz.decoding.target_rows import TargetRows
from specviz.records import BaselineStep, DecodingConfig


def decode(
    target: TargetRows,
    prompts: Sequence[Sequence[int]],
    configs: Sequence[DecodingConfig],
    end_ids: Collection[int] = (),
) -> Iterator[BatchStep]:
    """Yield the prefill, then one step of every row that is left, until all have ended."""
    settings = enumerate(zip(prompts, configs, strict=True))
    rows = [Row(ids, config, end_ids, number) for number, (ids, config) in settings]
    with torch.inference_mode():
        started = mark(target.model.device)
        logits = [output.logits[0] for output in target.fill(prompts)]
        prefills = first_tokens(rows, target, logits, started)
    yield batch_step(rows, prefills, target)
    index = 0
    while going := [place for place, row in enumerate(rows) if row.finish is None]:
        if len(going) < len(rows):
            rows = [rows[place] for place in going]
            target.select(going)
        index += 1
        yield batch_step(rows, _step(target, rows, index), target)


@torch.inference_mode()
def _step(target: TargetRows, rows: Sequence[Row], index: int) -> list[BaselineStep]:
    started = time.perf_counter()
    logits = target.step([row.root for row in rows], [row.end for row in rows])  # [B, V]
    uniforms = uniforms_on(logits.device, [row.extra_draws(0)[0] for row in rows])
    token_ids = draw(target.sampler.distributions(logits), uniforms)[:, None]  # [B, 1]
    best = logits.float().topk(2).values
    raw_probs = (logits.gather(1, token_ids).float()[:, 0] - logits.float().logsumexp(-1)).exp()
    numbers = (token_ids[:, 0].double(), raw_probs.double(), (best[:, 0] - best[:, 1]).double())
    values = target.to_host(torch.cat(numbers))
    drawn, probs, margins = (values[i * len(rows) : (i + 1) * len(rows)] for i in range(3))
    for row, token_id in zip(rows, drawn, strict=True):
        row.append([int(token_id)])
    seconds = time.perf_counter() - started
    return [
        BaselineStep(index, int(token_id), prob, margin, seconds)
        for token_id, prob, margin in zip(drawn, probs, margins, strict=True)
    ]
