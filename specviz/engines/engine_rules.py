"""Rules that find what an engine would refuse, ignore or do unexpectedly in a deployment.

These rules hold for all engines; the adapter of an engine has the rules of that engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.engines.engine_facts import EngineFacts
from specviz.engines.engine_registry import engines, server_adapters
from specviz.engines.model_deployment import HEADS, EngineMethod, ModelDeployment
from specviz.engines.model_names import is_file, is_mlp_speculator, language_model, other_target
from specviz.engines.served_pair import ServedPair, named_pair
from specviz.engines.typed_fields import WEIGHTS
from specviz.sizing.shape import undivided

_MADE_FOR_TARGET = HEADS | {EngineMethod.DFLASH, EngineMethod.DSPARK}
# Formats of quantised weights that an engine cannot create itself: the model's repository must
# contain weights in this format, and its name usually says so.
_OF_CHECKPOINT = ("awq", "gptq")


def problems(
    deployment: ModelDeployment, facts: EngineFacts, pair: ServedPair | None = None
) -> tuple[str, ...]:
    """Return one sentence per reason why the engine cannot run the deployment.

    The result is empty if the engine can run it.
    """
    method = deployment.method
    if method is not EngineMethod.NONE and method not in facts.methods:
        able = ", ".join(each.name for each in facts.methods.values())
        return (f"{facts.title} {facts.version} has no method {method.value}: it has {able}",)
    adapter = server_adapters()[facts.name]
    found = [*_of_weights(deployment, facts), *adapter.refusals(deployment)]
    found += _of_names(deployment, facts)
    pair = pair or named_pair(deployment)
    if pair is not None:
        found += adapter.pair_refusals(deployment, pair)
    return tuple(found)


def _of_names(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """Yield problems that follow from the models' names alone.

    The name of a preset (`specviz/sizing/models.toml`) gives the model's shape, so the number of
    GPUs is checked against its heads.
    """
    method, draft = deployment.method, deployment.draft
    if is_mlp_speculator(draft):
        yield (
            f"draft must not be an MLP speculator, which {facts.title} {facts.version} cannot "
            f"load, got {draft!r}: choose an EAGLE-3 head or a draft model"
        )
        return
    target, small = language_model(deployment.target), language_model(draft)
    if small is not None and method in _MADE_FOR_TARGET:
        yield (
            f"draft must be a head or draft made for the target by method {method.value}, "
            f"got {draft!r}, a complete language model: use it with method draft-model"
        )
        return
    if "tensor_parallel" in facts.lacks:
        return
    split, of_draft = deployment.tensor_parallel, deployment.draft_tensor_parallel
    shared = [("tensor-parallel", "the target's", target, split)]
    if of_draft is not None and "draft_tensor_parallel" not in facts.lacks:
        shared.append(("draft-tensor-parallel", "the draft's", small, of_draft))
    else:
        shared.append(("tensor-parallel", "the draft's", small, split))
    for name, whose, model, cards in shared:
        problem = undivided(name, whose, model.heads, cards) if model is not None else None
        if problem is not None:
            yield f"{problem}: {facts.title} would end with an error"


def _of_weights(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """Yield a problem for a format of weights that no engine has."""
    for field in WEIGHTS:
        name = getattr(deployment, field)
        is_known = any(each.has_weights(name) for each in engines().values()) if name else True
        if facts.weights and not is_known:
            yield (
                f"{field.replace('_', '-')} must be one of {', '.join(facts.weights)} in "
                f"{facts.title}, got {name!r}"
            )


def remarks(
    deployment: ModelDeployment, facts: EngineFacts, further: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return what a user should know before starting the server, one sentence per remark.

    The remarks include each field that the engine cannot express. `further` are flags that are
    passed on unchanged.
    """
    adapter, further = server_adapters()[facts.name], further or {}
    sentences = [
        f"{field.replace('_', '-')} has no equivalent in {facts.title}: {why}"
        for field, why in adapter.lacking(deployment)
    ]
    sentences += adapter.model_remarks(deployment, further)
    sentences += _named_remarks(deployment, facts)
    sentences += adapter.remarks(deployment, further)
    has_trees = "tree_tokens" not in facts.lacks
    is_lookup = deployment.method is EngineMethod.PROMPT_LOOKUP
    if is_lookup and deployment.tree_tokens is not None and not has_trees:
        sentences.append(
            f"instead of a tree of {deployment.tree_tokens} n-gram nodes, a chain of "
            f"{deployment.draft_tokens} is drafted, with one guess for each position"
        )
    return tuple(sentences)


def _named_remarks(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """Yield remarks about models whose names do not fit the deployment."""
    draft = deployment.draft
    if draft is not None and deployment.method in _MADE_FOR_TARGET:
        other = other_target(draft, deployment.target)
        if other is not None:
            yield (
                f"the name of the head {draft!r} says {other}: a head drafts only for the model "
                "that it was made for"
            )
    adapter = server_adapters()[facts.name]
    lacking = {field for field, _ in adapter.lacking(deployment)}
    for field, name in zip(WEIGHTS, (deployment.target, draft), strict=True):
        weights = getattr(deployment, field)
        if weights is None or name is None or is_file(name):
            continue
        if field in lacking and field not in adapter.within and facts.weights:
            yield (
                f"{name!r} is served with the weights in its repository, mostly bf16, because "
                f"{facts.title} cannot make {weights}: it has formats such as "
                f"{', '.join(facts.weights[:3])}"
            )
        mark = next((each for each in _OF_CHECKPOINT if each in weights.lower()), None)
        if field not in lacking and mark is not None and mark not in name.lower():
            yield (
                f"{field.replace('_', '-')} {weights} needs weights that are stored in this "
                f"format, and the name {name!r} does not say so: name a repository of "
                f"{mark.upper()} weights"
            )
