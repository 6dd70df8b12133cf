"""Write the drafting and the rule of a deployment as flags of specviz's own commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE
from specviz.engines.model_deployment import EngineMethod, ModelDeployment, VerificationRule

_METHODS = {
    EngineMethod.DRAFT_MODEL: "draft-model",
    EngineMethod.PROMPT_LOOKUP: "prompt-lookup",
    EngineMethod.EAGLE: "eagle",
    EngineMethod.EAGLE3: "eagle",
    EngineMethod.SUFFIX: "suffix",
}
# vLLM's field of suffix decoding -> our method's option, and the factor from vLLM's value to ours.
_SUFFIX = {
    "max_tree_depth": ("tree_depth", 1),
    "max_spec_factor": ("match_factor", 100),
    "min_token_prob": ("least_share", 100),
}


def own_flags(deployment: ModelDeployment, further: Mapping[str, Any]) -> str:
    """Return the flags of specviz for the method and the rule of a deployment.

    The result is "" if specviz lacks the drafting method. `further` are flags of the engine that
    are not fields of a deployment.

    >>> suffix = ModelDeployment(target="t", method=EngineMethod.SUFFIX, draft_tokens=24)
    >>> own_flags(suffix, {"speculative_config.suffix_decoding_min_token_prob": 0.2})
    '--method suffix --draft-length 24 --option least_share=20'
    """
    return " ".join(_words(deployment, further)) if deployment.method in _METHODS else ""


def _words(deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
    method, rule = deployment.method, deployment.rule
    yield f"--method {_METHODS[method]}"
    if method in (EngineMethod.EAGLE, EngineMethod.EAGLE3) and not deployment.is_tree:
        yield "--branching 1"
    if deployment.draft_tokens is not None:
        yield f"--draft-length {deployment.draft_tokens}"
    if rule is VerificationRule.BLOCK:
        yield f"--rule {rule.value}"
    if method is EngineMethod.SUFFIX:
        for end, (option, factor) in _SUFFIX.items():
            value = further.get(f"{SPECULATIVE}suffix_decoding_{end}")
            if value is not None:
                yield f"--option {option}={round(factor * float(value))}"
