"""The arguments of transformers: texts are translated from them only, because it is no server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from specviz.engines.engine_adapter import EngineAdapter, Needless
from specviz.engines.model_deployment import EngineMethod
from specviz.engines.readers.found_flags import FoundFlags
from specviz.engines.readers.python_reader import PythonCall
from specviz.engines.transformers.transformers_calls import read_loading, speculates
from specviz.engines.typed_fields import Heard

_OF_ASSISTANT = frozenset({"draft", "draft_tokens", "draft_quantization", "min_probability"})


class TransformersAdapter(EngineAdapter):
    name = "transformers"
    meant: ClassVar = {
        **{"four_bits": "quantization", "draft_four_bits": "draft_quantization"},
        **{"prompt_lookup_tokens": "draft_tokens", "assistant_tokenizer": "mixed_vocabularies"},
    }

    def read_call(self, call: PythonCall, found: FoundFlags) -> None:
        if call.name == "generate" and not speculates(call, self.facts):
            return
        found.engine = found.engine or self.name
        if call.name == "generate" and call.owner is not None:
            found.add("generate.model", call.code.value(call.owner), "model")
        self.add_older("generate" if call.name == "GenerationConfig" else call.name, call, found)
        read_loading(call, self.facts, found)

    def setting_at(self, path: str, whole: str) -> tuple[str, str] | None:
        """Find a field of a model, such as assistant.generation_config.num_assistant_tokens."""
        return (path, whole) if path in self.facts.older else None

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
        """Find the drafting method from arguments, because no argument names it."""
        tokens = heard.pop("prompt_lookup_tokens", None)
        tokenizer = heard.pop("assistant_tokenizer", None)
        for own in ("four_bits", "draft_four_bits"):
            if heard.pop(own, None) is True:
                heard[self.meant[own]] = "bitsandbytes"
        if tokens is not None:
            for name in _OF_ASSISTANT & heard.keys():
                del heard[name]
                why = "with prompt_lookup_num_tokens the library ignores the assistant"
                yield Needless(name, why)
        if "draft" in heard:
            heard["method"] = EngineMethod.DRAFT_MODEL
            if tokenizer is not None:
                heard["mixed_vocabularies"] = True
                yield "with two tokenizers, only tokens in both vocabularies are drafted"
        elif tokens is not None:
            lookup = EngineMethod.PROMPT_LOOKUP
            heard |= {"method": lookup, "draft_tokens": tokens, "lookup_min": 1}
            heard.setdefault("lookup_max", 2)
            yield "by default the library looks for n-grams of 2 tokens, then of 1"


ADAPTER = TransformersAdapter()
