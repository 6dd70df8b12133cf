"""What the memory of a card holds, for plain decoding and for speculation."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.sizing.forward_time import GIGA, PlacedModel
from specviz.sizing.serving_plan import ServingPlan
from specviz.sizing.shape import ModelShape

PREFILL_TOKENS = 8192  # of prompts in one forward at the most: engines cut longer ones
LOGIT_BYTES = 4
ACTIVATIONS = 6  # arrays of the model's or the block's width that live at once in a layer


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each card of a group, by what they are for; `limit` of them may be used."""

    cards: int
    limit: float
    target: float
    draft: float
    target_cache: float
    draft_cache: float
    activations: float

    @property
    def used(self) -> float:
        weights = self.target + self.draft
        return weights + self.target_cache + self.draft_cache + self.activations

    @property
    def headroom(self) -> float:
        return self.limit - self.used


def memory_of(
    plan: ServingPlan, target: PlacedModel, draft: PlacedModel | None, rows: int, K: int
) -> list[Memory]:
    """Of a card of the target's, and of one of the draft's where that has its own, with `rows`
    whole requests and rounds of `K` guesses.

    Plain decoding hands in no draft.
    """
    whole = plan.prompt + plan.output + K
    limit = plan.gpu.memory * GIGA * plan.memory_share
    own = plan.draft_gpus if draft else 0
    weights = draft.stored_bytes if draft else 0.0
    cache = rows * whole * draft.context_bytes / draft.cache_cards if draft else 0.0
    first = Memory(
        cards=plan.gpus,
        limit=limit,
        target=target.stored_bytes / plan.gpus,
        draft=0.0 if own else weights / plan.gpus,
        target_cache=rows * whole * target.context_bytes / target.cache_cards,
        draft_cache=0.0 if own else cache,
        activations=_activation_bytes(plan, target.model, rows, K) / plan.gpus,
    )
    if not own or draft is None:
        return [first]
    little = _activation_bytes(plan, draft.model, rows, K) / own
    return [first, Memory(own, limit, 0.0, weights / own, 0.0, cache, little)]


def _activation_bytes(plan: ServingPlan, model: ModelShape, rows: int, K: int) -> float:
    """Of a forward over the longest prefill, and the logits of what is scored."""
    scored = rows * (K + 1)
    tokens = max(scored, min(PREFILL_TOKENS, rows * plan.prompt))
    width = max(model.intermediate_size, model.expert_size * model.active_experts)
    values = tokens * (ACTIVATIONS * model.hidden_size + 2 * width)
    return 2 * values + scored * model.vocabulary * LOGIT_BYTES
