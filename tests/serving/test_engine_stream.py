"""A request switches off sampling rules of the server that our lanes do not have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from specviz.serving import engine_stream
from specviz.serving.engine_stream import StreamedToken, stream_tokens


class Listening:
    """A server that records the requests and answers each with one token."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.event = event
        self.body: dict[str, Any] = {}

    def lines(self, path: str, body: dict[str, Any], seconds: float) -> Iterator[str]:
        self.body = body
        yield f"data: {json.dumps(self.event)}"


EVENTS = {
    "vLLM": {"choices": [{"token_ids": [5], "finish_reason": "length"}]},
    "llama.cpp": {"tokens": [5], "stop_type": "limit"},
}
PENALTIES = {"vLLM": "repetition_penalty", "llama.cpp": "repeat_penalty"}


@pytest.mark.parametrize("engine", EVENTS)
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.7, "top_k": 40}])
def test_defaults_of_the_model_s_generation_config_are_switched_off(
    engine: str, sampling: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_stream, "model_at", lambda address: "model")
    server: Any = Listening(EVENTS[engine])
    first = next(stream_tokens(server, engine, [1, 2], 1, sampling))
    assert isinstance(first, StreamedToken)
    assert server.body[PENALTIES[engine]] == 1.0
    assert server.body["presence_penalty"] == server.body["frequency_penalty"] == 0.0
    assert server.body["temperature"] == sampling["temperature"]
    assert server.body.get("top_k", -1) == sampling.get("top_k", -1)
