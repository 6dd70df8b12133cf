"""How much memory a GPU needs, for plain decoding and for speculation."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.sizing.forward_time import GIGA, PlacedModel
from specviz.sizing.serving_plan import ServingPlan
from specviz.sizing.shape import ModelShape

# The largest number of prompt tokens in one forward. Engines split longer prompts into several
# forwards.
PREFILL_TOKENS = 8192
LOGIT_BYTES = 4
# The number of activation arrays with a layer's width that exist at the same time.
ACTIVATIONS = 6


@dataclass(frozen=True, slots=True)
class Memory:
    """How the memory of one GPU is used, in bytes; `cards` GPUs use their memory in this way.

    The engine may use at most `limit` bytes.
    """

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
    """Return the memory of one of the target's GPUs, and of one of the draft's own GPUs.

    The second entry is missing if the draft has no GPUs of its own. The memory must be enough for
    `rows` requests from their first to their last token, with `K` drafted tokens per round. `draft`
    is None for plain decoding.
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
    """Return the bytes of the largest forward's activations and of a verification's logits."""
    scored = rows * (K + 1)
    tokens = max(scored, min(PREFILL_TOKENS, rows * plan.prompt))
    width = max(model.intermediate_size, model.expert_size * model.active_experts)
    values = tokens * (ACTIVATIONS * model.hidden_size + 2 * width)
    return 2 * values + scored * model.vocabulary * LOGIT_BYTES
