"""Estimate how much memory a run needs, from its models and its request.

The web app, `models --check` and the check before loading weights all use this estimate. In shapes,
R is the number of rows of logits in one verification and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from specviz.models.graphs.graph_buffers import captured_slots
from specviz.records import Prompt

FLOAT32 = 4
# The number of float32 tensors [R, V] that a verification holds at once, as measured: logits, p, q,
# residuals, sorted copies, and sums in float64.
JUDGE_COPIES = 14
DRAFT_PROCESS_BYTES = 200_000_000  # measured size of the second Python process with its libraries
# Number of cache slots for the root and the largest draft tree, including a drafter's extra
# queries.
TREE_SLOTS = 257
DEFAULT_NODES = 5
DEFAULT_NEW_TOKENS = 128


class ExtraMemory(Enum):
    """The memory that a method uses besides the pair's models and their caches."""

    NOTHING = "nothing"
    TARGET_CACHE = "a second cache of the target"
    # The estimate assumes 8 bits per weight, the larger of the possible sizes.
    ROUNDED_TARGET = "a copy of the target in 8 bits or fewer, with a cache"
    DRAFT_PROCESS = "a separate process with a copy of the draft"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The numbers from which a model's memory is computed. None means unknown.

    `weights`, `cache_per_token` (keys and values of all layers) and `activations_per_token` are in
    bytes. `activations_per_token` is the memory of a forward pass per prompt token. `packed` is the
    size of a second copy of some weights in a faster layout, which exists only on a CPU.
    """

    source: str
    weights: int
    # True if `weights` comes from counted parameters, False if it is the size of the weight files
    is_counted: bool
    parameters: int | None
    cache_per_token: int | None
    activations_per_token: int | None
    vocab_size: int
    context_length: int
    packed: int = 0

    def held(self, is_on_cpu: bool) -> int:
        """Return the size of the weights in bytes, including second copies in other layouts."""
        return self.weights + (self.packed if is_on_cpu else 0)


@dataclass(frozen=True, slots=True)
class Demand:
    """The numbers of a request from which the memory of its run is computed.

    `prompt` is None if the prompt is not known yet. It then counts as all tokens for which the
    context has space. `rows` is the number of rows of logits in one verification. `lanes` is the
    number of lanes that decode at the same time, each with its own cache of the target. `sequences`
    is the number of prompts that a lane decodes at once.
    """

    prompt: Prompt | None = None
    task: str | None = None
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    rows: int = 1 + DEFAULT_NODES
    lanes: int = 2
    sequences: int = 1
    extra: ExtraMemory = ExtraMemory.NOTHING


NO_REQUEST = Demand()


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The memory of a run in bytes, divided by purpose, and a phrase for each unknown part.

    `copies` are extra copies of weights that a method makes, and the process that uses them.
    `caches` are the keys and values of all lanes and drafters. `work` is the memory of a forward
    pass over a prompt or of a verification, whichever is larger.
    """

    weights: int
    copies: int
    caches: int
    work: int
    unknown: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.weights + self.copies + self.caches + self.work


def estimate(
    target: ModelSize,
    drafts: Sequence[ModelSize],
    demand: Demand,
    prompt_tokens: int | None,
    head_bytes: int | None = 0,
    is_on_cpu: bool = True,
) -> MemoryEstimate:
    """Return an estimate of the largest memory that a run needs, weights included.

    `drafts` are the other models that the method needs. `head_bytes` is the size of the method's
    heads (None: unknown). Without `prompt_tokens`, the prompt counts as all tokens for which the
    context has space. Only a CPU has a separate process for a draft. On a GPU, the cache of a
    sequence has as many slots as its CUDA graphs need; free memory in the pools of the graphs is
    not counted.
    """
    most = max(1, target.context_length - demand.max_new_tokens)
    length = most if prompt_tokens is None else min(prompt_tokens, most)
    slots = length + demand.max_new_tokens + TREE_SLOTS
    if not is_on_cpu and demand.sequences == 1:
        slots = captured_slots(slots)
    models = (target, *drafts)
    caches = [target] * demand.lanes + list(drafts)
    if demand.extra in (ExtraMemory.TARGET_CACHE, ExtraMemory.ROUNDED_TARGET):
        caches.append(target)
    cached = sum(each.cache_per_token or 0 for each in caches) * slots * demand.sequences
    judged = JUDGE_COPIES * demand.rows * target.vocab_size * FLOAT32
    read = max(each.activations_per_token or 0 for each in models) * length
    return MemoryEstimate(
        weights=sum(each.held(is_on_cpu) for each in models) + (head_bytes or 0),
        copies=_copies(target, drafts, demand.extra, is_on_cpu),
        caches=cached,
        work=max(judged, read) * demand.sequences,
        unknown=_unknown(models, prompt_tokens, most, head_bytes),
    )


def _copies(
    target: ModelSize, drafts: Sequence[ModelSize], extra: ExtraMemory, is_on_cpu: bool
) -> int:
    match extra:
        case ExtraMemory.ROUNDED_TARGET:
            return target.weights if target.parameters is None else target.parameters
        case ExtraMemory.DRAFT_PROCESS if is_on_cpu:
            return DRAFT_PROCESS_BYTES + sum(each.weights for each in drafts)
    return 0


def _unknown(
    models: Sequence[ModelSize], prompt_tokens: int | None, most: int, head_bytes: int | None
) -> tuple[str, ...]:
    found = []
    if prompt_tokens is None:
        found.append(
            f"the prompt's length (counted: {most:,} tokens, all that fit into the context)"
        )
    for each in models:
        if not each.is_counted:
            found.append(f"the weights of {each.source} (counted: the size of their files)")
        if each.cache_per_token is None:
            found.append(f"the cache of {each.source} (not counted)")
        if each.activations_per_token is None:
            found.append(f"the activations of {each.source} (not counted)")
    if head_bytes is None:
        found.append("the weights of the heads (not counted)")
    return tuple(found)


def without_weights(found: MemoryEstimate, held: int) -> int:
    """Return the memory that is still needed after `held` bytes of the weights are loaded."""
    return replace(found, weights=max(0, found.weights - held)).total
