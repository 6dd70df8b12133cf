"""The settings of TensorRT-LLM: how they are read and written, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from specviz.engines.engine_adapter import Needless, Options, ServerAdapter
from specviz.engines.engine_facts import SPECULATIVE
from specviz.engines.flag_values import python_arguments
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.engines.typed_fields import Heard

_TYPE = "decoding_type"
_CACHE = "kv_cache_config"
_CACHE_CLASS = "KvCacheConfig"
_CACHE_FLAG = "--kv-cache-config"
_MEMORY, _MEMORY_FLAG = "free_gpu_memory_fraction", "--free-gpu-memory-fraction"
# Methods whose classes in llm_args.py refuse a missing or zero max_draft_len.
_NEEDS_K = frozenset({EngineMethod.DRAFT_MODEL, EngineMethod.PROMPT_LOOKUP, EngineMethod.EAGLE3})


class TensorRtLlmAdapter(ServerAdapter):
    name = "tensorrt-llm"
    of_methods = _TYPE

    def is_speculation(self, keys: Collection[str]) -> bool:
        return _TYPE in keys

    def made_object(self, name: str) -> Mapping[str, Any] | None:
        """Return the settings of a class such as Eagle3DecodingConfig."""
        types = [each for s in self.facts.methods.values() for each in (*s.also, s.name)]
        classes: dict[str, dict[str, Any]] = {_class_of(each): {_TYPE: each} for each in types}
        return {_CACHE_CLASS: {}, **classes}.get(name)

    def options(self, deployment: ModelDeployment) -> Options:
        return self.plain(deployment)

    def python(self, options: Options) -> str:
        plain, speculation = dict[str, Any](), dict[str, Any]()
        for name, value in options.items():
            key = name.removeprefix(SPECULATIVE)
            (plain if key == name else speculation)[key] = value
        calls = {}
        cache = plain.pop(_CACHE_FLAG, {})
        memory = {_MEMORY: plain.pop(_MEMORY_FLAG)} if _MEMORY_FLAG in plain else {}
        if not isinstance(cache, dict):  # an expression of the user's code
            plain[_CACHE_FLAG] = cache
        elif cache := cache | memory:
            calls[_CACHE] = (_CACHE_CLASS, cache)
        if _TYPE in speculation:
            calls["speculative_config"] = (_class_of(speculation.pop(_TYPE)), speculation)
        elif speculation:  # without a method, these settings do nothing
            calls["speculative_config"] = ("dict", speculation)
        lines = [python_arguments(self.facts, plain, " " * 4)]
        for argument, (made, settings) in calls.items():
            given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            lines.append(f"    {argument}={made}({given}),\n")
        classes = ", ".join(sorted(made for made, _ in calls.values() if made != "dict"))
        imports = ["from tensorrt_llm import LLM\n"]
        imports += [f"from tensorrt_llm.llmapi import {classes}\n"] if classes else []
        return f"{''.join(imports)}\nllm = LLM(\n{''.join(lines)})\n"

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
        name = heard.get("method")
        if isinstance(name, str):
            heard["method"] = self.method_named(name)
            written = self.facts.methods[heard["method"]].name
            if written != name:
                yield f"{_TYPE} {name} is read as {written}"

    def refusals(self, deployment: ModelDeployment) -> Iterator[str]:
        method = deployment.method
        if deployment.draft_tokens is None and method in _NEEDS_K:
            yield f"draft-tokens must be given for method {method.value} in TensorRT-LLM, got none"
        if deployment.mixed_vocabularies:
            yield (
                "mixed-vocabularies must be off in TensorRT-LLM: a draft must have the target's "
                "tokenizer"
            )

    def remarks(self, deployment: ModelDeployment, further: Mapping[str, Any]) -> Iterator[str]:
        if deployment.memory_fraction is not None:
            yield (
                "TensorRT-LLM's --free_gpu_memory_fraction is a share of the memory that the "
                "weights leave free, and it is for the KV cache only"
            )


def _class_of(decoding_type: str) -> str:
    """Return the class with the settings of a drafting method.

    >>> _class_of("Draft_Target")
    'DraftTargetDecodingConfig'
    """
    return f"{decoding_type.replace('_', '')}DecodingConfig"


ADAPTER = TensorRtLlmAdapter()
