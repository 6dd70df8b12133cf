"""The baseline: decoding with one token per target forward.

The tests compare other decoders with its output. The baseline uses the same forward, KV cache and
sampling as speculative decoding. In shapes, V is the size of the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from specviz.decoding.clock import Mark, mark
from specviz.decoding.drafters.base import empty_proposal
from specviz.decoding.masks import next_masks
from specviz.decoding.row import Row
from specviz.decoding.sampling import Sampler, draw, masked, uniforms_on
from specviz.decoding.target import Target
from specviz.decoding.verification import judge, unpack
from specviz.models.graphs.captured_model import run_work
from specviz.models.language_model import LanguageModel
from specviz.models.sequence_work import HostNumbers, Numbers, SequenceWork, Steps
from specviz.models.text.grammar import Grammar
from specviz.records import MOST_MARGIN, DecodingConfig, FinishReason, Prefill, TokenStep


def decode(
    model: LanguageModel,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
    grammar: Grammar | None = None,
) -> Iterator[Prefill | TokenStep | FinishReason]:
    """Yield the prefill, then one step per token, and finally the reason why the run ended.

    `grammar` is the compiled grammar of `config`.
    """
    target = Target.of(model, prompt_ids, config)
    row = Row(prompt_ids, config, end_ids, grammar=grammar)
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
    """Draw and commit the first token after the prompt. `logits` is [1, V].

    Speculative decoding uses this function as well.
    """
    device = target.model.device
    nothing = empty_proposal(device)
    (allowed,) = next_masks([row], device) or (None,)
    uniforms = uniforms_on(device, row.extra_draws(0))
    packed = judge(nothing, logits, target.sampler, uniforms, allowed=allowed)
    judged = mark(device)
    judgement = unpack(nothing, target.to_host(packed))
    return row.begin(judgement, started.seconds_until(judged))


@dataclass(frozen=True, slots=True)
class PlainStep:
    """The tensor work of one step of plain decoding: run the last token, and draw the next one.

    The input is a mask [1, V] that is True for the tokens that the grammar allows. Without a
    grammar there is no input. A call returns one float64 tensor with three numbers: the drawn
    token, its probability without the sampling settings, and the difference between the two largest
    logits of allowed tokens.
    """

    sampler: Sampler
    tokens: ClassVar[int] = 1
    wholes: ClassVar[int] = 1
    alike: ClassVar[Sequence[SequenceWork]] = ()

    def __call__(
        self, steps: Steps, numbers: Numbers, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        root = numbers.wholes
        logits = steps.forward(root, torch.zeros_like(root)).logits[0]  # [1, V]
        logits = masked(logits, inputs[0] if inputs else None)
        token_id = draw(self.sampler.distributions(logits), numbers.draws)  # [1]
        best = logits[0].float().topk(2).values
        margin = (best[:1] - best[1:]).clamp(max=MOST_MARGIN)
        raw_prob = (logits[0, token_id].float() - logits[0].float().logsumexp(-1)).exp()
        return (torch.cat([token_id.double(), raw_prob.double(), margin.double()]),)


@torch.inference_mode()
def _step(target: Target, row: Row, index: int) -> TokenStep:
    started = time.perf_counter()
    numbers = HostNumbers((row.root,), row.extra_draws(0))
    masks = next_masks([row], target.model.device) or ()
    (packed,) = run_work(target.model, target.cache, PlainStep(target.sampler), numbers, masks)
    drawn, prob, margin = target.to_host(packed)
    row.append([int(drawn)])
    return TokenStep(index, int(drawn), prob, margin, time.perf_counter() - started)
