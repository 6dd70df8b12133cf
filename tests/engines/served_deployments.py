"""Deployments of engines, shared by tests that write and read configurations."""

from __future__ import annotations

from typing import Any

from specviz.engines.model_deployment import (
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)

SCHEDULE = (BatchRange(1, 4, 5), BatchRange(5, 16, 2), BatchRange(17, 64, 0))
_NAMES = {"target": "org/target", "draft": "org/draft"}
_CHAIN: dict[str, Any] = {**_NAMES, "draft_tokens": 4}


def _deployed(method: str, **fields: Any) -> ModelDeployment:
    return ModelDeployment(method=EngineMethod(method), **fields)


EVERYWHERE = {
    "plain": ModelDeployment(target="org/target"),
    "draft model": _deployed("draft-model", **_CHAIN),
    "limits": _deployed("draft-model", **_CHAIN, max_length=2048, max_batch=8, port=9001),
    "prompt lookup": _deployed(
        "prompt-lookup", target="org/target", draft_tokens=5, lookup_min=3, lookup_max=3
    ),
    "eagle3": _deployed("eagle3", **_CHAIN),
    "mtp": _deployed("mtp", target="org/target", draft_tokens=1),
    "dflash": _deployed("dflash", **_CHAIN),
}
OF_ENGINES = {
    "vllm": {
        **EVERYWHERE,
        "names with spaces": _deployed(
            "draft-model", target="/models/it's big", draft="/models/small $1", draft_tokens=2
        ),
        "split": _deployed("draft-model", **_CHAIN, tensor_parallel=2, draft_tensor_parallel=2),
        "memory": _deployed("draft-model", **_CHAIN, memory_fraction=0.8, draft_max_length=1024),
        "sampled": _deployed("draft-model", **_CHAIN, draft_sampling=DraftSampling.PROBABILISTIC),
        "block": _deployed("draft-model", **_CHAIN, rule=VerificationRule.BLOCK),
        "token by token": _deployed("draft-model", **_CHAIN, rule=VerificationRule.TOKEN),
        "mixed": _deployed("draft-model", **_CHAIN, mixed_vocabularies=True),
        "schedule": _deployed(
            "draft-model", **(_CHAIN | {"draft_tokens": 5}), max_batch=64, schedule=SCHEDULE
        ),
        "n-grams": _deployed(
            "prompt-lookup", target="org/target", draft_tokens=5, lookup_min=2, lookup_max=6
        ),
        "eagle": _deployed("eagle", **_CHAIN, tensor_parallel=4, draft_tensor_parallel=1),
        "medusa": _deployed("medusa", **_CHAIN),
        "weights": _deployed(
            "eagle3", **_CHAIN, quantization="fp8", draft_quantization="fp8_per_tensor"
        ),
        "weights of the target": ModelDeployment(target="org/target", quantization="fp8"),
        "suffix": _deployed("suffix", target="org/target", draft_tokens=8),
    },
    "sglang": {
        **{name: each for name, each in EVERYWHERE.items() if name != "prompt lookup"},
        "block": _deployed(
            "eagle3",
            **_CHAIN,
            rule=VerificationRule.BLOCK,
            draft_sampling=DraftSampling.PROBABILISTIC,
        ),
        "n-grams": _deployed("prompt-lookup", target="org/target", draft_tokens=5),
        "tree of n-grams": _deployed(
            "prompt-lookup", target="org/target", draft_tokens=23, branching=4, tree_tokens=24
        ),
        "tree": _deployed("eagle", **_CHAIN, branching=4, tree_tokens=16, tensor_parallel=2),
        "sampled": _deployed("eagle3", **_CHAIN, draft_sampling=DraftSampling.PROBABILISTIC),
        "memory": _deployed("draft-model", **_CHAIN, memory_fraction=0.7),
        "dspark": _deployed("dspark", **_CHAIN),
        "left to the engine": _deployed("eagle3", **_NAMES),
        "weights": _deployed(
            "draft-model", **_CHAIN, quantization="awq", draft_quantization="unquant"
        ),
    },
    "llama.cpp": {
        **EVERYWHERE,
        "files": _deployed(
            "draft-model", target="/models/big.gguf", draft="./small.gguf", draft_tokens=8
        ),
        "weights": _deployed(
            "draft-model", **_CHAIN, quantization="Q4_K_M", draft_quantization="q8_0"
        ),
        "device": _deployed("draft-model", **_CHAIN, draft_device="none"),
        "confidence": _deployed("draft-model", **_CHAIN, min_draft_tokens=1, min_probability=0.75),
        "sampled": _deployed("draft-model", **_CHAIN, draft_sampling=DraftSampling.GREEDY),
    },
    "tensorrt-llm": {
        **{name: each for name, each in EVERYWHERE.items() if name != "prompt lookup"},
        "n-grams": _deployed("prompt-lookup", target="org/target", draft_tokens=5, lookup_max=4),
        "split": _deployed("draft-model", **_CHAIN, tensor_parallel=8),
        "memory": _deployed("mtp", target="org/target", draft_tokens=3, memory_fraction=0.8),
        "names with spaces": _deployed(
            "eagle3", target="/models/it's big", draft="/models/small $1", draft_tokens=2
        ),
    },
}
EACH = [(engine, name) for engine, cases in OF_ENGINES.items() for name in cases]
