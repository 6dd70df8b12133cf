"""Write the drafting and the rule of a deployment as flags of specviz's own commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specviz.engines.model_deployment import EngineMethod, ModelDeployment, VerificationRule

_METHODS = {
    EngineMethod.DRAFT_MODEL: "draft-model",
    EngineMethod.PROMPT_LOOKUP: "prompt-lookup",
    EngineMethod.EAGLE: "eagle",
    EngineMethod.EAGLE3: "eagle",
    EngineMethod.SUFFIX: "suffix",
}


def own_flags(deployment: ModelDeployment, options: Mapping[str, int]) -> str:
    """Return the flags of specviz for the method and the rule of a deployment.

    The result is "" if specviz lacks the drafting method. `options` are those of our method that
    are not fields of a deployment.

    >>> suffix = ModelDeployment(target="t", method=EngineMethod.SUFFIX, draft_tokens=24)
    >>> own_flags(suffix, {"least_share": 20})
    '--method suffix --draft-length 24 --option least_share=20'
    """
    return " ".join(_words(deployment, options)) if deployment.method in _METHODS else ""


def _words(deployment: ModelDeployment, options: Mapping[str, int]) -> Iterator[str]:
    method, rule = deployment.method, deployment.rule
    yield f"--method {_METHODS[method]}"
    if method in (EngineMethod.EAGLE, EngineMethod.EAGLE3) and not deployment.is_tree:
        yield "--branching 1"
    if deployment.draft_tokens is not None:
        yield f"--draft-length {deployment.draft_tokens}"
    if rule is VerificationRule.BLOCK:
        yield f"--rule {rule.value}"
    if method is EngineMethod.SUFFIX:
        yield from (f"--option {option}={value}" for option, value in options.items())
