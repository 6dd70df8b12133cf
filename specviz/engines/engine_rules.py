"""What of a deployment an engine would refuse, silently leave out, or do otherwise than hoped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.engines.dialects import DIALECTS, WEIGHTS, is_file
from specviz.engines.engine_facts import EngineFacts, engines
from specviz.engines.model_deployment import (
    HEADS,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
)
from specviz.engines.model_names import is_mlp_speculator, language_model, other_target
from specviz.sizing.shape import other_tokenizer, undivided

_MADE_FOR_TARGET = HEADS | {EngineMethod.DFLASH, EngineMethod.DSPARK}
_OF_CHECKPOINT = ("awq", "gptq")  # formats that a repository has or has not; its name may say so
# those that vLLM runs by its first model runner alone, which has no full CUDA graphs for a schedule
_FIRST_RUNNER = frozenset({EngineMethod.MEDUSA, EngineMethod.SUFFIX})
_DATA_PARALLEL = "--data-parallel-size"
_CHOOSES_K = frozenset({EngineMethod.SUFFIX, EngineMethod.DSPARK, EngineMethod.MTP})


@dataclass(frozen=True, slots=True)
class ServedPair:
    """What two models on this machine are known to be; None where it is not known.

    `rows` are the heights of the embeddings, or the tokens that an EAGLE head reads and drafts;
    `difference` says where the tokenizers first differ, `heads` is how many Medusa heads there are,
    `inner_size` the width between the two products of one, where it has two.
    """

    target_rows: int | None = None
    draft_rows: int | None = None
    difference: str | None = None
    heads: int | None = None
    inner_size: int | None = None


def problems(
    deployment: ModelDeployment, facts: EngineFacts, pair: ServedPair | None = None
) -> tuple[str, ...]:
    """Why the engine cannot run this, a sentence each; empty where it can."""
    method = deployment.method
    if method is not EngineMethod.NONE and method not in facts.methods:
        able = ", ".join(each.name for each in facts.methods.values())
        return (f"{facts.title} {facts.version} has no method {method.value}: it has {able}",)
    rules = {"vllm": _of_vllm, "sglang": _of_sglang, "llama.cpp": _of_llama_cpp}
    found = [*_of_weights(deployment, facts), *rules[facts.name](deployment)]
    found += _of_names(deployment, facts)
    pair = pair or _named_pair(deployment)
    if pair is not None:
        found += _of_pair(deployment, facts, pair)
    return tuple(found)


def _of_names(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """What cannot be by the models' names, of which presets tell the shapes."""
    method, draft = deployment.method, deployment.draft
    if is_mlp_speculator(draft):
        yield (
            f"draft must be no MLP speculator, which {facts.title} {facts.version} does not load, "
            f"got {draft!r}: choose an EAGLE-3 head or a draft model"
        )
        return
    target, small = language_model(deployment.target), language_model(draft)
    if small is not None and method in _MADE_FOR_TARGET:
        yield (
            f"draft must be a head or draft made for the target by method {method.value}, "
            f"got {draft!r}, a whole language model: it goes with method draft-model"
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
            yield f"{problem}: {facts.title} ends"


def _named_pair(deployment: ModelDeployment) -> ServedPair | None:
    """What the presets know of both vocabularies; None where one model is none of them."""
    target, draft = language_model(deployment.target), language_model(deployment.draft)
    if deployment.method is not EngineMethod.DRAFT_MODEL or target is None or draft is None:
        return None
    return ServedPair(target.vocabulary, draft.vocabulary, other_tokenizer(target, draft))


def _of_weights(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """A format that no engine has; another engine's is left out, and told."""
    for field in WEIGHTS:
        name = getattr(deployment, field)
        if name is not None and not any(each.has_weights(name) for each in engines().values()):
            yield (
                f"{field.replace('_', '-')} must be one of {', '.join(facts.weights)} in "
                f"{facts.title}, got {name!r}"
            )


def _of_vllm(deployment: ModelDeployment) -> Iterator[str]:
    method, split = deployment.method, deployment.tensor_parallel
    draft_split = deployment.draft_tensor_parallel
    if method is EngineMethod.NONE:
        return
    if deployment.draft_tokens is None and method not in _CHOOSES_K and not deployment.schedule:
        yield f"draft-tokens must be given for method {method.value} in vLLM, got none"
    if deployment.schedule and not any(each.draft_tokens for each in deployment.schedule):
        yield "schedule must have a K above 0 somewhere, got 0 everywhere: leave out the method"
    if draft_split is not None and draft_split not in (1, split):
        yield (
            f"draft-tensor-parallel must be 1 or the target's {split} in vLLM, got {draft_split}"
        )
    elif method is EngineMethod.DRAFT_MODEL and draft_split not in (None, split):
        yield (
            f"draft-tensor-parallel must be the target's {split} for a draft model in vLLM, "
            f"got {draft_split}: leave it out, for its configuration passes and the "
            "server ends when the draft loads"
        )
    if deployment.mixed_vocabularies and method is not EngineMethod.DRAFT_MODEL:
        yield (
            "mixed-vocabularies (use_heterogeneous_vocab) must be with method draft-model in vLLM, "
            f"got {method.value}"
        )
    if deployment.mixed_vocabularies and deployment.draft_sampling is DraftSampling.PROBABILISTIC:
        yield (
            "mixed-vocabularies (use_heterogeneous_vocab) must be with draft-sampling greedy in "
            "vLLM, got probabilistic"
        )


def _of_sglang(deployment: ModelDeployment) -> Iterator[str]:
    depth = deployment.draft_tokens
    if depth is None and (deployment.branching or deployment.tree_tokens):
        yield (
            "draft-tokens must be given with branching or tree-tokens in SGLang, which chooses "
            "all three or none, got none"
        )
    if deployment.is_tree and deployment.tree_tokens is None:
        yield (
            f"tree-tokens must be given where branching is above 1 in SGLang, got branching "
            f"{deployment.branching} alone"
        )
    nodes = deployment.tree_tokens
    if not deployment.is_tree and depth is not None and nodes not in (None, depth + 1):
        yield f"tree-tokens must be draft-tokens + 1 = {depth + 1} for a chain, got {nodes}"
    if deployment.mixed_vocabularies:
        yield "mixed-vocabularies must be off in SGLang: a draft must have the target's vocabulary"


def _of_llama_cpp(deployment: ModelDeployment) -> Iterator[str]:
    if deployment.mixed_vocabularies:
        yield (
            "mixed-vocabularies must be off in llama.cpp: with a draft of another vocabulary it "
            "serves without speculation, and its health says nothing of that"
        )


def _of_pair(deployment: ModelDeployment, facts: EngineFacts, pair: ServedPair) -> Iterator[str]:
    is_draft = deployment.method is EngineMethod.DRAFT_MODEL
    if is_draft and not deployment.mixed_vocabularies:
        rows = pair.target_rows, pair.draft_rows
        if facts.name == "vllm" and None not in rows and rows[0] != rows[1]:
            yield (
                f"target and draft must have vocabularies of one size in vLLM, got {rows[0]} and "
                f"{rows[1]}; mixed-vocabularies (use_heterogeneous_vocab) takes others"
            )
        elif pair.difference is not None:
            passes = (
                ": vLLM compares the sizes alone and would start, and hardly a draft would be "
                "accepted"
                if facts.name == "vllm"
                else ""
            )
            yield f"target and draft must have one tokenizer, got two: {pair.difference}{passes}"
    rows = pair.target_rows, pair.draft_rows
    if deployment.method is EngineMethod.EAGLE and facts.name == "vllm":
        if None not in rows and rows[0] != rows[1]:
            yield (
                f"draft must draft all {rows[0]} tokens for method eagle in vLLM, got "
                f"draft_vocab_size {rows[1]}: it has no place for the tensor d2t, and ends"
            )
    if pair.inner_size is not None and facts.name == "vllm":
        yield (
            "draft must be Medusa heads of one product, x + SiLU(Wx), in vLLM, got two with "
            f"inner_size {pair.inner_size} between them: it does not find W, and ends"
        )
    heads, depth = pair.heads, deployment.draft_tokens
    if deployment.method is EngineMethod.MEDUSA and heads and depth and depth > heads:
        yield f"draft-tokens must be at most the {heads} Medusa heads there are, got {depth}"


def remarks(
    deployment: ModelDeployment, facts: EngineFacts, further: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """What is to be known before a server is started, and each field that goes unsaid; `further`
    are flags that go in as they are.
    """
    told = [
        f"{field.replace('_', '-')} has no place in {facts.title}: {why}"
        for field, why in DIALECTS[facts.name].lacking(deployment)
    ]
    is_gguf = deployment.target.endswith(".gguf")
    brings_models = bool(facts.presets & (further or {}).keys())
    if facts.name == "llama.cpp" and "gguf" not in deployment.target.lower() and not brings_models:
        kind = "file" if is_file(deployment.target) else "repository"
        told.append(f"llama.cpp reads GGUF files: {deployment.target!r} must be a {kind} of that")
    elif facts.name != "llama.cpp" and is_gguf:
        told.append(f"{facts.title} is meant for models as folders; {deployment.target!r} is GGUF")
    if facts.name == "vllm" and not is_gguf and "gguf" in deployment.target.lower():
        told.append(
            f"{facts.title} {facts.version} reads no GGUF: name the repository that "
            f"{deployment.target!r} was made of"
        )
    told += _named_remarks(deployment, facts)
    if facts.name == "vllm" and deployment.schedule:
        told += _schedule_remarks(deployment, facts, further or {})
    if facts.name == "vllm" and deployment.method is EngineMethod.SUFFIX:
        told.append("method suffix needs another package: pip install arctic-inference==0.1.1")
    if facts.name == "vllm" and deployment.method is EngineMethod.PROMPT_LOOKUP:
        if deployment.lookup_min is None and deployment.lookup_max is None:
            told.append("vLLM looks for n-grams of 5 tokens where no bound is given")
    if facts.name == "sglang" and deployment.memory_fraction is not None:
        told.append(
            "SGLang's --mem-fraction-static is for weights and cache alone: where activations find "
            "no room in the rest of a card, lower it"
        )
    if facts.name == "sglang" and deployment.method is EngineMethod.PROMPT_LOOKUP:
        told.append(
            "SGLang drafts a tree of n-grams, 10 wide unless told otherwise by "
            "--speculative-ngram-max-bfs-breadth: a 1 makes it a chain, and so does one long match"
        )
    elif deployment.method is EngineMethod.PROMPT_LOOKUP and deployment.tree_tokens is not None:
        told.append(
            f"of a tree of {deployment.tree_tokens} n-gram nodes a chain of "
            f"{deployment.draft_tokens} is left: as many are verified, one guess for each place"
        )
    is_alike = deployment.draft is not None and deployment.draft_quantization is None
    if facts.name == "sglang" and deployment.quantization is not None and is_alike:
        told.append(
            "SGLang loads the draft in the target's format where draft-quantization names none: "
            "unquant leaves it as it is"
        )
    return tuple(told)


def _schedule_remarks(
    deployment: ModelDeployment, facts: EngineFacts, further: Mapping[str, Any]
) -> Iterator[str]:
    """Read in vllm/config/vllm.py, which says the same in the server's log."""
    if str(further.get(_DATA_PARALLEL, 1)) != "1":
        yield (
            f"{facts.title} {facts.version} leaves out a schedule where {_DATA_PARALLEL} is "
            "above 1, and drafts as many tokens for every batch"
        )
    elif deployment.method in _FIRST_RUNNER or deployment.mixed_vocabularies:
        cause = (
            "mixed vocabularies"
            if deployment.mixed_vocabularies
            else f"method {deployment.method.value}"
        )
        yield (
            f"with a schedule and {cause} {facts.title} {facts.version} takes piecewise CUDA "
            "graphs in place of full ones, which cost time with few requests: measure it beside "
            "one K for all batches"
        )


def _named_remarks(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """What names make doubtful."""
    draft = deployment.draft
    if draft is not None and deployment.method in _MADE_FOR_TARGET:
        other = other_target(draft, deployment.target)
        if other is not None:
            yield (
                f"the head {draft!r} names {other}: a head drafts for the one model that it was "
                "made for"
            )
    lacking = {field for field, _ in DIALECTS[facts.name].lacking(deployment)}
    for field, name in zip(WEIGHTS, (deployment.target, draft), strict=True):
        weights = getattr(deployment, field)
        if weights is None or name is None or is_file(name):
            continue
        if field in lacking and facts.name != "llama.cpp":
            yield (
                f"{name!r} is served in the weights that its repository has, mostly bf16, for "
                f"{facts.title} does not make {weights}: it has formats such as "
                f"{', '.join(facts.weights[:3])}"
            )
        mark = next((each for each in _OF_CHECKPOINT if each in weights.lower()), None)
        if field not in lacking and mark is not None and mark not in name.lower():
            yield (
                f"{field.replace('_', '-')} {weights} reads weights that lie there so, and the "
                f"name {name!r} does not say that: name a repository of {mark.upper()} weights"
            )
