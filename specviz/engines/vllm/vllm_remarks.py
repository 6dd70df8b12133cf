"""Remarks about the settings of vLLM that work differently from what a user may expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE, EngineFacts
from specviz.engines.model_deployment import (
    WITHOUT_DISTRIBUTION,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)

# Methods that run in vLLM's older model runner. If the draft length follows a schedule, this runner
# has no full CUDA graphs.
_FIRST_RUNNER = frozenset({EngineMethod.MEDUSA, EngineMethod.SUFFIX})
_DATA_PARALLEL = "--data-parallel-size"
_RULE = f"{SPECULATIVE}rejection_sample_method"


def rule_remarks(deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks about the field rejection_sample_method."""
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


def schedule_remarks(
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
