"""A running vLLM server: its metrics, its version and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from specviz.engines.server_api import (
    AskedServer,
    ServerApi,
    Speculation,
    TokenStream,
    missing,
    object_at,
    whole_number,
)

_NEUTRAL = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_tokens": 0,
    "top_k": -1,  # in vLLM, -1 switches top-k off
    "top_p": 1.0,
    "min_p": 0.0,
}


class VllmStream(TokenStream):
    path = "/v1/completions"
    min_p_first = True
    drafts_past_end = True

    def tokenizing(self, text: str, model: Callable[[], str]) -> dict[str, Any]:
        return {"model": model(), "prompt": text, "add_special_tokens": False}

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
            **{"model": model(), "max_tokens": tokens, "return_token_ids": True},
            "stream_options": {"include_usage": True},
        }

    def ids_in(self, event: Mapping[str, Any]) -> Any:
        return _choice(event).get("token_ids")

    def end_in(self, event: Mapping[str, Any]) -> Any:
        return _choice(event).get("finish_reason")

    def steps_in(self, event: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
        counts = _speculation_of(event)
        drafted, accepted = counts.get("per_step_drafted"), counts.get("per_step_accepted")
        if not (isinstance(drafted, list) and isinstance(accepted, list)):
            return None
        if len(drafted) != len(accepted):
            return None
        return tuple(zip(map(whole_number, drafted), map(whole_number, accepted), strict=True))


class VllmApi(ServerApi):
    title = "vLLM"
    prefix = "vllm"
    counters: ClassVar = {
        "drafts": "spec_decode_num_drafts_total",
        "drafted": "spec_decode_num_draft_tokens_total",
        "accepted": "spec_decode_num_accepted_tokens_total",
        "prompt_tokens": "prompt_tokens_total",
        "tokens": "generation_tokens_total",
        "first_token_seconds": "time_to_first_token_seconds_sum",
        "first_tokens": "time_to_first_token_seconds_count",
    }
    gauges: ClassVar = {
        "running": "num_requests_running",
        "waiting": "num_requests_waiting",
        "cache": "kv_cache_usage_perc",  # the value of the metric is a share from 0 to 1
    }
    per_position = "spec_decode_num_accepted_tokens_per_pos_total"
    stream = VllmStream()

    def version(self, server: AskedServer) -> str:
        return str(server.get("/version").json().get("version", ""))

    def drafts_of(self, answer: Mapping[str, Any]) -> tuple[int, int] | None:
        if counts := _speculation_of(answer):
            drafted = counts.get("num_draft_tokens")
            return whole_number(drafted), whole_number(counts.get("num_accepted_draft_tokens"))
        return None

    def undrafted(
        self, server: AskedServer, has_counters: bool, is_expected: bool
    ) -> tuple[Speculation, str]:
        if has_counters:
            return Speculation.IDLE, "it counts drafts, but has drafted nothing so far"
        why = "it counts no drafts: it was started without --speculative-config"
        return missing(is_expected, why)


def _choice(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a stream's event that contains the generated tokens."""
    choices = event.get("choices")
    return object_at(choices[0]) if isinstance(choices, list) and choices else {}


def _speculation_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft counts for one request, or {} if there are none.

    vLLM reports them if it speculates and was started with `--per-request-spec-decode-metrics`.
    """
    return object_at(answer, "metrics", "speculative_decoding")
