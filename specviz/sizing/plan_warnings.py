"""Warnings about a plan.

A plan with warnings is still computed. Each warning has one or more sentences.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.errors import short
from specviz.sizing.published import N_GRAM_HIGHEST
from specviz.sizing.serving_plan import ServingPlan
from specviz.sizing.shape import PADDING, other_tokenizer

CARDS_OF_A_MACHINE = 8


def plan_warnings(plan: ServingPlan) -> tuple[str, ...]:
    """Return warnings about vocabularies, GPUs, formats, lengths and acceptance rates.

    Each warning names something that an engine or a chip refuses, or that usually works badly.
    """
    return (
        *_of_vocabularies(plan),
        *_of_heads(plan),
        *_of_sizes(plan),
        *_of_machines(plan),
        *_of_own_cards(plan),
        *_of_counts(plan),
        *_of_formats(plan),
        *_of_lengths(plan),
        *_of_acceptance(plan),
    )


def obstacle(plan: ServingPlan) -> str | None:
    """Return why engines refuse this pair, or None if they accept it."""
    if plan.draft is None:
        return None
    other = other_tokenizer(plan.target, plan.draft)
    if other is not None:
        return f"target and draft have different tokenizers, {other}"
    unshared = _unshared_heads(plan)
    return None if unshared is None else f"the {unshared}"


def _unshared_heads(plan: ServingPlan) -> str | None:
    draft, cards = plan.draft, plan.draft_gpus or plan.gpus
    if draft is None or draft.heads % cards == 0:
        return None
    return f"draft’s {draft.heads} attention heads cannot be shared by {cards} cards"


def _of_vocabularies(plan: ServingPlan) -> Iterator[str]:
    draft, target = plan.draft, plan.target
    if draft is None:
        return
    if draft.vocabulary != target.vocabulary:
        is_padded = other_tokenizer(target, draft) is None
        yield (
            f"The draft’s vocabulary has {draft.vocabulary:,} tokens, and the target’s has "
            f"{target.vocabulary:,}. {'vLLM refuses' if is_padded else 'Engines refuse'} such a "
            f"pair, or {'accepts' if is_padded else 'accept'} it only in a mode for mixed "
            "vocabularies, in which fewer guesses are accepted."
            + (f" llama.cpp allows a difference of {PADDING} tokens." if is_padded else "")
        )
    elif other_tokenizer(target, draft) is not None:
        yield (
            "An engine that compares only the sizes of the vocabularies does not refuse this pair, "
            "but the target then accepts hardly any guess."
        )


def _of_heads(plan: ServingPlan) -> Iterator[str]:
    unshared = _unshared_heads(plan)
    if unshared is not None:
        yield (
            f"The {unshared}, so an engine that splits the draft in this way refuses it. Choose "
            "another number of cards, or another draft."
        )


def _of_sizes(plan: ServingPlan) -> Iterator[str]:
    draft, target = plan.draft, plan.target
    if draft is not None and draft.active_parameters >= target.active_parameters:
        yield (
            f"The draft, {draft.title}, is not smaller than the target, {target.title}. Perhaps "
            "you have swapped the two."
        )


def _of_machines(plan: ServingPlan) -> Iterator[str]:
    cards = max(plan.gpus, plan.draft_gpus)
    if cards > CARDS_OF_A_MACHINE and plan.gpu.unit == "card":
        yield (
            f"{cards} cards are more than the {CARDS_OF_A_MACHINE} of a usual machine. If several "
            "machines share a layer, they also wait for the network. The plan does not count this "
            "wait, so real times are longer."
        )


def _of_own_cards(plan: ServingPlan) -> Iterator[str]:
    """Yield a warning if the draft has its own GPUs.

    Its statements about engines must agree with the rules in `specviz.engines`.
    """
    if plan.draft_gpus:
        yield (
            "Not every engine can give the draft cards of its own. vLLM splits a draft model over "
            f"the target’s cards ({plan.gpus}), and SGLang has no setting for this. llama.cpp can "
            "use other devices for the draft."
        )


def _of_formats(plan: ServingPlan) -> Iterator[str]:
    planned = {plan.precision} | ({plan.draft_precision} if plan.draft else set())
    if "bf16" in planned and not plan.gpu.has_bf16:
        yield (
            f"{plan.gpu.title} cannot compute in bfloat16, so an engine refuses bf16 or uses "
            "float16 instead. The times of the plan are for float16."
        )
    if "fp8" in planned and plan.gpu.fp8 is None:
        yield (
            f"{plan.gpu.title} cannot compute in FP8, so an engine refuses such weights, or "
            "unpacks them and computes in 16 bits. The times of the plan are for 16 bits, without "
            "the time to unpack."
        )
    for model, precision in ((plan.target, plan.precision), (plan.draft, plan.draft_precision)):
        if model is None or (model.stored, precision) != ("fp8", "bf16"):
            continue
        yield (
            f"{model.title} is published in FP8. Weights in bf16 need twice as much memory and "
            "take twice as long to read. Choose fp8 if the card can compute in FP8."
        )


def _of_counts(plan: ServingPlan) -> Iterator[str]:
    for model in (plan.target, plan.draft):
        if model is not None and model.unknown_class:
            yield (
                f"specviz cannot count the parameters of {model.title}, because it does not know "
                f"its class, {short(model.unknown_class)}. It computed "
                f"{model.parameters / 1e9:.3g} billion parameters from the configuration: compare "
                "this with the published number."
            )


def _of_lengths(plan: ServingPlan) -> Iterator[str]:
    together = plan.prompt + plan.output
    for model in (plan.target, plan.draft):
        if model is not None and 0 < model.longest < together:
            yield (
                f"Prompt and answer have {together:,} tokens together, but {model.title} was made "
                f"for at most {model.longest:,}, so an engine refuses them."
            )


def _of_acceptance(plan: ServingPlan) -> Iterator[str]:
    if plan.draft is None and plan.acceptance > N_GRAM_HIGHEST:
        yield (
            f"No published run with n-grams of the prompt had an acceptance rate above "
            f"{N_GRAM_HIGHEST:.2f}, and your plan has {plan.acceptance:.2f}. Such a rate needs "
            "answers that mostly repeat their prompts."
        )
