"""A running SGLang server: its metrics, its version and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from specviz.engines.server_api import (
    AskedServer,
    ServerApi,
    Speculation,
    missing,
    object_at,
    whole_number,
)


class SglangApi(ServerApi):
    title = "SGLang"
    prefix = "sglang"
    counters: ClassVar = {
        "tokens": "generation_tokens_total",
        "first_token_seconds": "time_to_first_token_seconds_sum",
        "first_tokens": "time_to_first_token_seconds_count",
        "verifications": "spec_verify_calls_total",
        "prompt_tokens": "prompt_tokens_total",
    }
    gauges: ClassVar = {
        "running": "num_running_reqs",
        "waiting": "num_queue_reqs",
        "cache": "token_usage",
        "latest_utilization": "spec_accept_rate",
        "latest_length": "spec_accept_length",
        "steps": "spec_num_steps",
    }
    caveat = "specviz knows its metrics only from the source code of SGLang 0.5.23"
    metrics_off: ClassVar = {
        404: "gives no metrics at /metrics: start SGLang with --enable-metrics"
    }
    request_fields: ClassVar = {"return_spec_tokens_details": True}

    def version(self, server: AskedServer) -> str:
        return str(server.get("/server_info").json().get("version", ""))

    def drafts_of(self, answer: Mapping[str, Any]) -> tuple[int, int] | None:
        if counts := object_at(answer, "sglext", "spec_tokens_details"):
            drafted = counts.get("spec_num_proposed_drafts")
            return whole_number(drafted), whole_number(counts.get("spec_num_correct_drafts"))
        return None

    def undrafted(
        self, server: AskedServer, has_counters: bool, is_expected: bool
    ) -> tuple[Speculation, str]:
        if algorithm := server.get("/server_info").json().get("speculative_algorithm"):
            setup = f"it is set up to speculate by {str(algorithm)[:40]}, but verified no draft"
            return Speculation.IDLE, f"{setup} for this request"
        why = "it verified no draft: it was started without --speculative-algorithm"
        return missing(is_expected, why)
