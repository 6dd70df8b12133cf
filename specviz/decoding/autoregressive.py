"""The baseline: one token per target forward. Also the oracle that the tests compare with.

Knows nothing of drafting; it runs the same forward, cache and sampling as the speculative lane.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import torch

from specviz.decoding.clock import mark
from specviz.decoding.first_tokens import first_tokens
from specviz.decoding.row import Row
from specviz.decoding.sampling import draw, uniforms_on
from specviz.decoding.target import Target
from specviz.models.language_model import LanguageModel
from specviz.records import BaselineStep, DecodingConfig, FinishReason, Prefill


def decode(
    model: LanguageModel,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
) -> Iterator[Prefill | BaselineStep | FinishReason]:
    """Yield the prefill, one step per further token, and at last why the run ended."""
    target = Target.of(model, prompt_ids, config)
    row = Row(prompt_ids, config, end_ids)
    with torch.inference_mode():
        started = mark(model.device)
        logits = target.fill(prompt_ids).logits[0]
        prefill = first_tokens([row], target, [logits], started)[0]
    yield prefill
    index = 0
    while row.finish is None:
        index += 1
        yield _step(target, row, index)
    yield row.finish


@torch.inference_mode()
def _step(target: Target, row: Row, index: int) -> BaselineStep:
    started = time.perf_counter()
    device = target.model.device
    tokens = torch.tensor([[row.root]], dtype=torch.int64).to(device, non_blocking=True)
    positions = torch.tensor([[row.end - 1]]).to(device, non_blocking=True)
    logits = target.model.forward(tokens, positions, target.cache).logits[0]  # [1, V]
    token_id = draw(
        target.sampler.distributions(logits), uniforms_on(device, row.extra_draws(0))
    )  # [1]
    best = logits[0].float().topk(2).values
    raw_prob = (logits[0, token_id].float() - logits[0].float().logsumexp(-1)).exp()
    packed = torch.cat([token_id.double(), raw_prob.double(), (best[:1] - best[1:]).double()])
    drawn, prob, margin = target.to_host(packed)
    row.append([int(drawn)])
    return BaselineStep(index, int(drawn), prob, margin, time.perf_counter() - started)
