"""Rules that find what an engine would refuse, ignore or do unexpectedly in a deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.engines.dialects import DIALECTS, WEIGHTS, is_file
from specviz.engines.engine_facts import EngineFacts, engines
from specviz.engines.model_deployment import (
    HEADS,
    WITHOUT_DISTRIBUTION,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.engines.model_names import is_mlp_speculator, language_model, other_target
from specviz.sizing.shape import other_tokenizer, undivided

_MADE_FOR_TARGET = HEADS | {EngineMethod.DFLASH, EngineMethod.DSPARK}
# Formats of quantised weights that an engine cannot create itself: the model's repository must
# contain weights in this format, and its name usually says so.
_OF_CHECKPOINT = ("awq", "gptq")
# Methods that run in vLLM's older model runner. If the draft length follows a schedule, this runner
# has no full CUDA graphs.
_FIRST_RUNNER = frozenset({EngineMethod.MEDUSA, EngineMethod.SUFFIX})
_DATA_PARALLEL = "--data-parallel-size"
_RULE = "speculative_config.rejection_sample_method"
_CHOOSES_K = frozenset({EngineMethod.SUFFIX, EngineMethod.DSPARK, EngineMethod.MTP})


@dataclass(frozen=True, slots=True)
class ServedPair:
    """Facts about two models. A fact is None if it is unknown.

    `target_rows` and `draft_rows` are the numbers of embedding rows; for an EAGLE head they are the
    numbers of tokens that it reads and that it drafts. `difference` describes the first difference
    between the tokenizers. `heads` is the number of Medusa heads. `inner_size` is the width between
    the two matrices of a Medusa head, if it has two.
    """

    target_rows: int | None = None
    draft_rows: int | None = None
    difference: str | None = None
    heads: int | None = None
    inner_size: int | None = None


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
    rules = {"vllm": _of_vllm, "sglang": _of_sglang, "llama.cpp": _of_llama_cpp}
    found = [*_of_weights(deployment, facts), *rules[facts.name](deployment)]
    found += _of_names(deployment, facts)
    pair = pair or _named_pair(deployment)
    if pair is not None:
        found += _of_pair(deployment, facts, pair)
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


def _named_pair(deployment: ModelDeployment) -> ServedPair | None:
    """Return the vocabulary sizes of both models if both are presets, otherwise None."""
    target, draft = language_model(deployment.target), language_model(deployment.draft)
    if deployment.method is not EngineMethod.DRAFT_MODEL or target is None or draft is None:
        return None
    return ServedPair(target.vocabulary, draft.vocabulary, other_tokenizer(target, draft))


def _of_weights(deployment: ModelDeployment, facts: EngineFacts) -> Iterator[str]:
    """Yield a problem for a format of weights that no engine has."""
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
        yield (
            "schedule must have at least one K above 0, got only 0: leave out the method to serve "
            "without speculation"
        )
    if draft_split is not None and draft_split not in (1, split):
        yield (
            f"draft-tensor-parallel must be 1 or the target's {split} in vLLM, got {draft_split}"
        )
    elif method is EngineMethod.DRAFT_MODEL and draft_split not in (None, split):
        yield (
            f"draft-tensor-parallel must be the target's {split} for a draft model in vLLM, "
            f"got {draft_split}: leave it out, because vLLM accepts this setting and then fails "
            "to load the draft"
        )
    if deployment.mixed_vocabularies and method is not EngineMethod.DRAFT_MODEL:
        yield (
            "mixed-vocabularies (use_heterogeneous_vocab) must be used with method draft-model in "
            f"vLLM, got {method.value}"
        )
    if deployment.mixed_vocabularies and deployment.draft_sampling is DraftSampling.PROBABILISTIC:
        yield (
            "mixed-vocabularies (use_heterogeneous_vocab) must be used with draft-sampling greedy "
            "in vLLM, got probabilistic"
        )


def _of_sglang(deployment: ModelDeployment) -> Iterator[str]:
    depth = deployment.draft_tokens
    if depth is None and (deployment.branching or deployment.tree_tokens):
        yield (
            "draft-tokens must be given with branching or tree-tokens in SGLang, which needs "
            "all three or none, got none"
        )
    if deployment.is_tree and deployment.tree_tokens is None:
        yield (
            f"tree-tokens must be given if branching is above 1 in SGLang, got branching "
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
            "works without speculation, and its health check does not show that"
        )


def _of_pair(deployment: ModelDeployment, facts: EngineFacts, pair: ServedPair) -> Iterator[str]:
    is_draft = deployment.method is EngineMethod.DRAFT_MODEL
    if is_draft and not deployment.mixed_vocabularies:
        rows = pair.target_rows, pair.draft_rows
        if facts.name == "vllm" and None not in rows and rows[0] != rows[1]:
            yield (
                f"target and draft must have vocabularies of one size in vLLM, got {rows[0]} and "
                f"{rows[1]}; mixed-vocabularies (use_heterogeneous_vocab) allows other sizes"
            )
        elif pair.difference is not None:
            passes = (
                ": vLLM compares only the sizes, so it would start, and accept hardly any draft"
                if facts.name == "vllm"
                else ""
            )
            two = f"got two: {pair.difference}{passes}"
            yield f"target and draft must have the same tokenizer, {two}"
    rows = pair.target_rows, pair.draft_rows
    if deployment.method is EngineMethod.EAGLE and facts.name == "vllm":
        if None not in rows and rows[0] != rows[1]:
            yield (
                f"draft must draft all {rows[0]} tokens for method eagle in vLLM, got "
                f"draft_vocab_size {rows[1]}: vLLM cannot load its tensor d2t"
            )
    if pair.inner_size is not None and facts.name == "vllm":
        yield (
            "draft must be Medusa heads with one matrix, x + SiLU(Wx), in vLLM, got two with "
            f"inner_size {pair.inner_size} between them: vLLM cannot find W"
        )
    heads, depth = pair.heads, deployment.draft_tokens
    if deployment.method is EngineMethod.MEDUSA and heads and depth and depth > heads:
        yield f"draft-tokens must be at most {heads}, the number of Medusa heads, got {depth}"


def remarks(
    deployment: ModelDeployment, facts: EngineFacts, further: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return what a user should know before starting the server, one sentence per remark.

    The remarks include each field that the engine cannot express. `further` are flags that are
    passed on unchanged.
    """
    sentences = [
        f"{field.replace('_', '-')} has no equivalent in {facts.title}: {why}"
        for field, why in DIALECTS[facts.name].lacking(deployment)
    ]
    is_gguf = deployment.target.endswith(".gguf")
    brings_models = bool(facts.presets & (further or {}).keys())
    if facts.name == "llama.cpp" and "gguf" not in deployment.target.lower() and not brings_models:
        kind = "file" if is_file(deployment.target) else "repository"
        sentences.append(f"llama.cpp reads GGUF: {deployment.target!r} must be a GGUF {kind}")
    elif facts.name != "llama.cpp" and is_gguf:
        sentences.append(
            f"{facts.title} is made for model folders; {deployment.target!r} is a GGUF file"
        )
    if facts.name == "vllm" and not is_gguf and "gguf" in deployment.target.lower():
        sentences.append(
            f"{facts.title} {facts.version} does not read GGUF: name the repository from which "
            f"{deployment.target!r} was made"
        )
    sentences += _named_remarks(deployment, facts)
    if facts.name == "vllm" and deployment.schedule:
        sentences += _schedule_remarks(deployment, facts, further or {})
    if facts.name == "vllm":
        sentences += _rule_remarks(deployment, further or {})
    if facts.name == "vllm" and deployment.method is EngineMethod.SUFFIX:
        sentences.append("method suffix needs another package: pip install arctic-inference==0.1.1")
    if facts.name == "vllm" and deployment.method is EngineMethod.PROMPT_LOOKUP:
        if deployment.lookup_min is None and deployment.lookup_max is None:
            sentences.append("vLLM looks for n-grams of 5 tokens if no length is given")
    if facts.name == "sglang" and deployment.memory_fraction is not None:
        sentences.append(
            "SGLang's --mem-fraction-static is for weights and cache only: lower it if the rest of "
            "a card is too small for activations"
        )
    if facts.name == "sglang" and deployment.method is EngineMethod.PROMPT_LOOKUP:
        sentences.append(
            "SGLang drafts a tree of n-grams. It is 10 wide if "
            "--speculative-ngram-max-bfs-breadth is not given; 1 makes it a chain, and so does one "
            "long match"
        )
    elif deployment.method is EngineMethod.PROMPT_LOOKUP and deployment.tree_tokens is not None:
        sentences.append(
            f"instead of a tree of {deployment.tree_tokens} n-gram nodes, a chain of "
            f"{deployment.draft_tokens} is drafted, with one guess for each position"
        )
    is_alike = deployment.draft is not None and deployment.draft_quantization is None
    if facts.name == "sglang" and deployment.quantization is not None and is_alike:
        sentences.append(
            "SGLang loads the draft in the target's format if draft-quantization is not given: "
            "unquant leaves the draft unchanged"
        )
    return tuple(sentences)


def _rule_remarks(deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks about vLLM's field rejection_sample_method."""
    if further.get(_RULE) == "synthetic":
        yield (
            "rejection_sample_method synthetic accepts drafts at given rates: the text is not the "
            "target's, so use it only to measure speed"
        )
    if deployment.rule is not VerificationRule.BLOCK:
        return
    if deployment.method in _FIRST_RUNNER:
        yield (
            f"vLLM's older model runner, which runs method {deployment.method.value}, does not "
            "read rejection_sample_method block: it verifies token by token"
        )
    elif deployment.method in WITHOUT_DISTRIBUTION:
        yield (
            "block verification gains nothing for copied tokens, because each counts as certain "
            "(q = 1)"
        )
    elif deployment.draft_sampling is not DraftSampling.PROBABILISTIC:
        yield (
            "block verification gains nothing if the draft takes its most probable token, as vLLM "
            "does by default: set draft_sample_method probabilistic"
        )


def _schedule_remarks(
    deployment: ModelDeployment, facts: EngineFacts, further: Mapping[str, Any]
) -> Iterator[str]:
    """Yield remarks that vLLM itself logs. Their source is vllm/config/vllm.py."""
    if str(further.get(_DATA_PARALLEL, 1)) != "1":
        yield (
            f"{facts.title} {facts.version} ignores a schedule if {_DATA_PARALLEL} is "
            "above 1, and drafts the same number of tokens for every batch"
        )
    elif deployment.method in _FIRST_RUNNER or deployment.mixed_vocabularies:
        cause = (
            "mixed vocabularies"
            if deployment.mixed_vocabularies
            else f"method {deployment.method.value}"
        )
        yield (
            f"with a schedule and {cause} {facts.title} {facts.version} uses piecewise CUDA "
            "graphs instead of full ones, which is slower with few requests: compare it with one "
            "K for all batches"
        )


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
    lacking = {field for field, _ in DIALECTS[facts.name].lacking(deployment)}
    for field, name in zip(WEIGHTS, (deployment.target, draft), strict=True):
        weights = getattr(deployment, field)
        if weights is None or name is None or is_file(name):
            continue
        if field in lacking and facts.name != "llama.cpp":
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
