"""The baseline: one token per target forward. Also the oracle that the tests compare with.

Knows nothing of drafting; it runs the same forward, cache and sampling as the speculative lane.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import torch

from specviz.decoding.clock import mark
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
    with torch.inference_mode():
        started = mark(model.device)
        prefill = target.first_token(prompt_ids, target.fill(prompt_ids).logits[0], started)
    yield prefill
    token_id = prefill.extra.token_id
    for index in range(1, config.max_new_tokens):
        if token_id in end_ids:
            break
        step = _step(target, token_id, len(prompt_ids) + index, index)
        yield step
        token_id = step.token_id
    ended = token_id in end_ids
    yield FinishReason.END_OF_SEQUENCE if ended else FinishReason.LENGTH


@torch.inference_mode()
def _step(target: Target, root: int, context_length: int, index: int) -> BaselineStep:
    started = time.perf_counter()
    device = target.model.device
    tokens = torch.tensor([[root]], dtype=torch.int64).to(device, non_blocking=True)
    positions = torch.tensor([[context_length - 1]]).to(device, non_blocking=True)
    logits = target.model.forward(tokens, positions, target.cache).logits[0]  # [1, V]
    uniforms = uniforms_on(device, [target.extra_draws.uniform(context_length)])
    token_id = draw(target.sampler.laws(logits), uniforms)  # [1]
    best = logits[0].float().topk(2).values
    raw_prob = (logits[0, token_id].float() - logits[0].float().logsumexp(-1)).exp()
    packed = torch.cat([token_id.double(), raw_prob.double(), (best[:1] - best[1:]).double()])
    drawn, prob, margin = target.to_host(packed)
    return BaselineStep(index, int(drawn), prob, margin, time.perf_counter() - started)
