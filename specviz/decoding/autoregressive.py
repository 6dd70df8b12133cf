"""The baseline: one token per target forward. Also the oracle that the tests compare with.

It uses the same forward, cache and sampling as the speculative lane. Letters: V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from specviz.decoding.clock import Mark, mark
from specviz.decoding.drafters.base import empty_proposal
from specviz.decoding.row import Row
from specviz.decoding.sampling import draw, uniforms_on
from specviz.decoding.target import Target
from specviz.decoding.verification import judge, unpack
from specviz.models.language_model import LanguageModel
from specviz.records import DecodingConfig, FinishReason, Prefill, TokenStep


def decode(
    model: LanguageModel,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
) -> Iterator[Prefill | TokenStep | FinishReason]:
    """Yield the prefill, one step per further token, and at last why the run ended."""
    target = Target.of(model, prompt_ids, config)
    row = Row(prompt_ids, config, end_ids)
    with torch.inference_mode():
        started = mark(model.device)
        logits = target.fill(prompt_ids).logits[0]
        prefill = first_token(row, target, logits, started)
    yield prefill
    index = 0
    while row.finish is None:
        index += 1
        yield _step(target, row, index)
    yield row.finish


def first_token(row: Row, target: Target, logits: Tensor, started: Mark) -> Prefill:
    """Draw and commit the token after the prompt, as both lanes do. logits [1, V]"""
    device = target.model.device
    nothing = empty_proposal(device)
    packed = judge(nothing, logits, target.sampler, uniforms_on(device, row.extra_draws(0)))
    judged = mark(device)
    judgement = unpack(nothing, target.to_host(packed))
    return row.begin(judgement, started.seconds_until(judged))


@torch.inference_mode()
def _step(target: Target, row: Row, index: int) -> TokenStep:
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
    return TokenStep(index, int(drawn), prob, margin, time.perf_counter() - started)
