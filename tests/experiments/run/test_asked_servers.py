"""Raced servers answer in alternation, once per repeat, and the median repeat is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from specviz.experiments.run import asked_servers
from specviz.experiments.run.asked_servers import AskedServers, ask_servers
from specviz.records import PLAIN_SERVER, SERVER, EngineToken, Lane, LaneKind, TokenOrigin, Trace
from tests.tiny_trace import tiny_trace

ORIGINS = (*[TokenOrigin.ACCEPTED, TokenOrigin.BONUS] * 4, TokenOrigin.PLAIN)


def answered(fast: float, slow: float, origins: tuple[TokenOrigin, ...] = ORIGINS) -> Trace:
    """Return a trace in which two servers wrote 9 tokens each.

    One server took `fast` seconds, the other `slow` seconds.
    """
    trace = tiny_trace()
    lanes = [
        Lane(
            name,
            LaneKind.ENGINE,
            trace.config,
            arrivals=tuple(EngineToken(1, seconds, origin) for origin in origins),
        )
        for name, seconds in ((SERVER, fast), (PLAIN_SERVER, slow))
    ]
    return replace(trace, lanes=(*trace.lanes, *lanes))


def test_the_shown_repeat_is_the_median_and_the_spread_covers_all_repeats() -> None:
    asked = AskedServers((answered(0.1, 0.12), answered(0.1, 0.18), answered(0.1, 0.15)))
    assert asked.summary.server_speedup == pytest.approx(1.5)
    assert sorted(asked.speedups) == pytest.approx([1.2, 1.5, 1.8])
    assert asked.repeats.name == "the median of 3 repeats"
    assert asked.rates(PLAIN_SERVER)[0] == pytest.approx(1 / 0.12)


def test_a_speedup_above_the_server_s_tokens_per_forward_does_not_count() -> None:
    """The server writes 9 tokens in 5 forwards, the prompt's forward and 4 more.

    That is fewer than 2 tokens per forward, so the speedup of 9 in the first repeat is impossible.
    """
    asked = AskedServers((answered(0.1, 0.9), answered(0.1, 0.15)))
    assert asked.summary.server_speedup == pytest.approx(1.5)
    assert asked.repeats.disturbed == 1 and "measured again" in asked.repeats.remark


@dataclass(frozen=True)
class Named:
    lane: str
    address: str = "http://server"


class FakeRace:
    """A race that records which server it asks; the server named `silent` does not answer."""

    def __init__(self, said: list[str], silent: str) -> None:
        self.said, self.silent = said, silent

    def ask(self, server: Named) -> list[Any]:
        self.said.append(server.lane)
        return []

    def take(self, lane: str, event: Any) -> None:
        raise AssertionError("nothing was sent")

    def trace(self) -> Trace:
        trace = answered(0.1, 0.15)
        lanes = (replace(x, arrivals=()) if x.name == self.silent else x for x in trace.lanes)
        return replace(trace, lanes=tuple(lanes))

    def close(self) -> None: ...


@pytest.mark.parametrize(("silent", "asked"), [("", 6), (PLAIN_SERVER, 2)])
def test_servers_answer_in_turns_and_a_silent_server_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, silent: str, asked: int
) -> None:
    said: list[str] = []
    monkeypatch.setattr(asked_servers, "start_race", lambda request: FakeRace(said, silent))
    request: Any = type("Request", (), {"servers": (Named(SERVER), Named(PLAIN_SERVER))})
    ask_servers(request, 3)
    order = [SERVER, PLAIN_SERVER, PLAIN_SERVER, SERVER, SERVER, PLAIN_SERVER]
    assert said == order[:asked]
