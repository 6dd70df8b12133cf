"""How much memory a run takes, from its models and its request: the one estimate there is.

The page's check, `models --check` and the refusal before weights are loaded all read it. Letters:
R rows of logits in one verification, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from specviz.records import Prompt

FLOAT32 = 4
JUDGE_COPIES = 14  # [R, V] in float32, as measured: logits, p, q, residuals, sorts, float64 sums
DRAFT_PROCESS_BYTES = 200_000_000  # Python and its libraries, once more, as measured
TREE_SLOTS = 257  # of a cache: the root, and the largest tree with a drafter's extra queries
DEFAULT_NODES = 5
DEFAULT_NEW_TOKENS = 128


class ExtraMemory(Enum):
    """What a method holds that is neither a model of the pair nor the cache of one."""

    NOTHING = "nothing"
    TARGET_CACHE = "a second cache of the target's"
    ROUNDED_TARGET = "a copy of the target in 8 bits or fewer, with a cache"  # counted: 8
    DRAFT_PROCESS = "a process of its own with a copy of the draft"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a model decides how much memory it takes; None is what cannot be told.

    `weights` and `cache_per_token` (keys and values of all layers) are bytes, and so is
    `activations_per_token`: what a forward holds at once for each token of the prompt. On a CPU
    `packed` bytes come on top: weights that are held once more, in a layout that is faster there.
    """

    source: str
    weights: int
    is_counted: bool  # False: `weights` is the size of the files
    parameters: int | None
    cache_per_token: int | None
    activations_per_token: int | None
    vocab_size: int
    context_length: int
    packed: int = 0

    def held(self, is_on_cpu: bool) -> int:
        """Bytes of the weights in all their layouts."""
        return self.weights + (self.packed if is_on_cpu else 0)


@dataclass(frozen=True, slots=True)
class Demand:
    """What of a request decides how much memory its run takes.

    `prompt` None: not known yet, which counts as all that the context leaves. `rows` are the rows
    of logits in one verification, `lanes` how many decode side by side, each with a cache of the
    target, and `sequences` how many prompts a lane decodes at once.
    """

    prompt: Prompt | None = None
    task: str | None = None
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    rows: int = 1 + DEFAULT_NODES
    lanes: int = 2
    sequences: int = 1
    extra: ExtraMemory = ExtraMemory.NOTHING


NO_REQUEST = Demand()  # nothing is known of it


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by what takes them, and what of them is not known, as phrases.

    `copies` are weights held once more by a method, and the process that holds them. `caches` are
    keys and values of all lanes and drafters. `work` is the larger of a prompt's forward and a
    verification.
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
    """What a run takes at its height, weights included.

    `drafts` are the models beside the target that the method needs, `head_bytes` the weights of
    its heads (None: not known). Without `prompt_tokens` the prompt fills what the context leaves. A
    draft process is there on a CPU only.
    """
    most = max(1, target.context_length - demand.max_new_tokens)
    length = most if prompt_tokens is None else min(prompt_tokens, most)
    slots = length + demand.max_new_tokens + TREE_SLOTS
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
        found.append(f"the prompt's length (counted: {most:,} tokens, all that the context leaves)")
    for each in models:
        if not each.is_counted:
            found.append(f"the weights of {each.source} (counted: the size of their files)")
        if each.cache_per_token is None:
            found.append(f"the cache of {each.source} (not counted)")
        if each.activations_per_token is None:
            found.append(f"what a forward of {each.source} holds (not counted)")
    if head_bytes is None:
        found.append("the weights of the heads (not counted)")
    return tuple(found)


def without_weights(found: MemoryEstimate, held: int) -> int:
    """What is still to be taken where `held` bytes of the weights are in memory already."""
    return replace(found, weights=max(0, found.weights - held)).total
