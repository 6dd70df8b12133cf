"""A running llama.cpp server: its metrics, its version and its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from specviz.engines.server_api import (
    AskedServer,
    ServerApi,
    Speculation,
    TokenStream,
    missing,
    whole_number,
)

_NEUTRAL = {
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
    "typical_p": 1.0,
    "mirostat": 0,
    "dynatemp_range": 0.0,
}
# llama.cpp must apply the sampling settings in the same order as our own sampler.
_ORDER = ("temperature", "top_k", "top_p", "min_p")
_REFUSED = (
    "llama.cpp keeps serving without a draft model that it refuses, usually because the "
    "vocabularies differ, and only its log says so; specviz models --check TARGET DRAFT compares "
    "two models"
)
_NOTHING_DRAFTED = (
    "it is set up to speculate, but drafted nothing: n-grams draft where a text repeats itself, "
    "and a draft model only while it is sure enough (--spec-draft-p-min)"
)


class LlamaCppStream(TokenStream):
    path = "/completion"

    def tokenizing(self, text: str, model: Callable[[], str]) -> dict[str, Any]:
        return {"content": text}

    def request(
        self,
        prompt_ids: Sequence[int],
        tokens: int,
        sampling: Mapping[str, float],
        model: Callable[[], str],
    ) -> dict[str, Any]:
        return {
            **{"prompt": list(prompt_ids), "stream": True},
            **_NEUTRAL,
            **sampling,
            **{"n_predict": tokens, "return_tokens": True, "cache_prompt": False},
            **({"samplers": _ORDER} if sampling["temperature"] else {}),
        }

    def ids_in(self, event: Mapping[str, Any]) -> Any:
        return event.get("tokens")

    def end_in(self, event: Mapping[str, Any]) -> Any:
        reason = event.get("stop_type")
        return None if reason == "none" else reason


class LlamaCppApi(ServerApi):
    title = "llama.cpp"
    prefix = "llamacpp"
    counters: ClassVar = {
        "drafts": "spec_decode_num_drafts_total",
        "drafted": "spec_decode_num_draft_tokens_total",
        "accepted": "spec_decode_num_accepted_tokens_total",
        "prompt_tokens": "prompt_tokens_total",
        "tokens": "tokens_predicted_total",
        "decoding_seconds": "tokens_predicted_seconds_total",
    }
    gauges: ClassVar = {
        "running": "requests_processing",
        "waiting": "requests_deferred",
        "cache": "kv_cache_usage_ratio",
    }
    per_position = "spec_decode_num_accepted_tokens_per_pos_total"
    metrics_off: ClassVar = {501: "gives no metrics: start llama.cpp with --metrics"}
    stream = LlamaCppStream()

    def version(self, server: AskedServer) -> str:
        build = str(server.get("/props").json().get("build_info", ""))
        # a build from source code without the Git history has no version
        return "" if build.endswith("unknown") else build

    def drafts_of(self, answer: Mapping[str, Any]) -> tuple[int, int] | None:
        own = answer.get("timings")
        if not isinstance(own, dict):
            return None
        return whole_number(own.get("draft_n")), whole_number(own.get("draft_n_accepted"))

    def undrafted(
        self, server: AskedServer, has_counters: bool, is_expected: bool
    ) -> tuple[Speculation, str]:
        if _has_speculative_slot(server):
            return Speculation.IDLE, _NOTHING_DRAFTED
        unexpected = f"nothing was drafted; if it was started with a draft: {_REFUSED}"
        return missing(is_expected, _REFUSED if is_expected else unexpected)


def _has_speculative_slot(server: AskedServer) -> bool:
    """Return whether llama.cpp reports a slot that is set up to speculate."""
    with suppress(ValueError, RecursionError, TypeError, AttributeError):
        return any(slot.get("speculative") for slot in json.loads(server.get("/slots").text))
    return False
