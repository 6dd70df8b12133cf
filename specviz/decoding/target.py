"""The target in one run, for both lanes: its cache, how tokens are drawn from it, the prefill.

Knows nothing of drafting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.clock import mark
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.judgement import judge, unpack
from specviz.decoding.sampling import Sampler, uniforms_on
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.topology import topology
from specviz.decoding.transfer import HostTransfer
from specviz.errors import InputError
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.records import (
    MAX_TREE_NODES,
    DecodingConfig,
    ExtraKind,
    ExtraToken,
    Prefill,
    ProposalKind,
)


def cache_capacity(prompt_ids: Sequence[int], config: DecodingConfig) -> int:
    """Slots for the prompt, the whole output and one tree."""
    return len(prompt_ids) + config.max_new_tokens + MAX_TREE_NODES + 1


def check_prompt(model: LanguageModel, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Refuse an empty prompt, and one that leaves the model's context no room for the output."""
    if not prompt_ids:
        raise InputError("prompt must have at least one token, got none")
    context = model.info.context_length
    if config.max_new_tokens >= context:
        raise InputError(
            f"max_new_tokens must be below {context}, the context of {model.info.name}, "
            f"got {config.max_new_tokens}"
        )
    room = context - config.max_new_tokens
    if len(prompt_ids) > room:
        raise InputError(
            f"prompt must have at most {room} tokens (the {context} that "
            f"{model.info.name} can see less max_new_tokens = {config.max_new_tokens}), "
            f"got {len(prompt_ids)}"
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The target in one run: its model, its cache, and how tokens are drawn from it."""

    model: LanguageModel
    cache: KeyValueCache
    sampler: Sampler
    extra_draws: RandomStream
    transfer: HostTransfer

    @classmethod
    def of(cls, model: LanguageModel, prompt_ids: Sequence[int], config: DecodingConfig) -> Target:
        """Raises InputError for a prompt that the model cannot take."""
        check_prompt(model, prompt_ids, config)
        return cls(
            model,
            model.new_cache(cache_capacity(prompt_ids, config)),
            Sampler(config.temperature, config.top_k, config.top_p),
            RandomStream(config.seed, Purpose.EXTRA),
            HostTransfer(),
        )

    def to_host(self, packed: Tensor) -> list[float]:
        """The counted copy; InputError where the model's numbers are no numbers."""
        values = self.transfer.to_host(packed)
        if not math.isfinite(sum(values)):
            raise InputError(
                f"model {self.model.info.name!r} must give finite logits, got NaN or infinity: "
                f"its weights are broken or too large for {self.model.dtype}; try float32"
            )
        return values

    def fill(self, token_ids: Sequence[int]) -> Tensor:
        """Run tokens into the empty cache; the logits after the last one, [1, V]."""
        device = self.model.device
        tokens = torch.tensor([token_ids], dtype=torch.int64).to(device, non_blocking=True)
        positions = torch.arange(len(token_ids), device=device)[None]
        return self.model.forward(tokens, positions, self.cache, last_only=True).logits[0]

    def prefill(self, prompt_ids: Sequence[int]) -> Prefill:
        """Fill the cache with the prompt and draw the token behind it."""
        device = self.model.device
        started = mark(device)
        logits = self.fill(prompt_ids)
        nothing = empty_proposal(device)
        uniforms = uniforms_on(device, [self.extra_draws.uniform(len(prompt_ids))])
        packed = judge(nothing, logits, self.sampler, uniforms)
        judged = mark(device)
        values = self.to_host(packed)
        row = unpack(nothing, values).row(-1)
        extra = ExtraToken(row.extra_id, ExtraKind.FIRST, -1, row.extra_prob)
        return Prefill(len(prompt_ids), extra, row.position, started.seconds_until(judged))


def empty_proposal(device: torch.device) -> Proposal:
    """A tree of no nodes: verification then just draws from the target."""
    no_tokens = torch.empty(0, dtype=torch.int64, device=device)
    return Proposal(ProposalKind.DETERMINISTIC, topology((), device), no_tokens)
