"""Conversion of traces of versions 1 to 4 to version 5.

The older versions differ from version 5 in these ways:

- Versions 1 to 4 use the name "bonus" for the token of a round without drafts, now "plain".
- Versions 1 to 3 store exactly two lanes, in fields of the trace instead of a list. A round has no
  object for its tree. Times and cache lengths are arrays, outcomes are letters, and time spans are
  arrays of three values.
- Version 1 has no `extras`, the ids of the tokens that the target would add after each node.

The conversion does not change broken values; `codec` refuses them later.
"""

from __future__ import annotations

from typing import Any

from specviz.records import BASELINE, SPECULATIVE, LaneKind

_OUTCOMES = {"a": "accepted", "r": "rejected", "u": "unreached"}
_OF_LANES = (
    *("config", "draft", "drafter_bytes", "total_variation", "forks"),
    *("prefill", "rounds", "finish", "baseline"),
)


def upgraded(trace: dict[str, Any], version: int) -> dict[str, Any]:
    """Convert a trace of version 1 to 4 to version 5."""
    return _without_false_bonus(trace if version == 4 else _with_lanes(trace))


def _without_false_bonus(trace: dict[str, Any]) -> dict[str, Any]:
    lanes = trace.get("lanes")
    return (
        trace | {"lanes": [_renamed(each) for each in lanes]} if isinstance(lanes, list) else trace
    )


def _renamed(lane: Any) -> Any:
    rounds = lane.get("rounds") if isinstance(lane, dict) else None
    return (
        lane | {"rounds": [_plain(each) for each in rounds]} if isinstance(rounds, list) else lane
    )


def _plain(round_: Any) -> Any:
    """Return a copy of the round. If it drafted nothing, its bonus token becomes a plain token."""
    match round_:
        case {"tree": {"nodes": {"id": []}}, "extra": {"kind": "bonus", **extra}}:
            return round_ | {"extra": extra | {"kind": "plain"}}
    return round_


def _with_lanes(trace: dict[str, Any]) -> dict[str, Any]:
    """Convert a trace of version 1, 2 or 3 to version 4, which has a list of lanes."""
    shared = {key: value for key, value in trace.items() if key not in _OF_LANES}
    tokens, config = shared.get("tokens"), trace.get("config")
    if isinstance(tokens, dict):
        shared["tokens"] = _transposed(tokens, ("id", "text"))
    return shared | {"lanes": [_baseline(trace.get("baseline"), config), _speculative(trace)]}


def _baseline(lane: Any, config: Any) -> Any:
    name = {"name": BASELINE, "kind": LaneKind.BASELINE.value, "config": config}
    return name | lane if isinstance(lane, dict) else lane


def _speculative(trace: dict[str, Any]) -> dict[str, Any]:
    lane = {key: trace[key] for key in _OF_LANES if key in trace and key != "baseline"}
    if isinstance(lane.get("rounds"), list):
        lane["rounds"] = [_round(each) for each in lane["rounds"]]
    return lane | {"name": SPECULATIVE, "kind": LaneKind.SPECULATIVE.value}


def _round(old: Any) -> Any:
    if not isinstance(old, dict):
        return old
    new: dict[str, Any] = {"extras": []} | old
    new["tree"] = {key: new.pop(key) for key in ("kind", "nodes") if key in new}
    times = new.get("seconds")
    if isinstance(times, list) and len(times) == 3:
        del new["seconds"]
        names = ("draft_seconds", "verify_seconds", "host_seconds")
        new |= dict(zip(names, times, strict=True))
    verdicts = new.get("verdicts")
    if isinstance(verdicts, dict) and isinstance(verdicts.get("outcome"), str):
        outcomes = [_OUTCOMES.get(letter, letter) for letter in verdicts["outcome"]]
        new["verdicts"] = verdicts | {"outcome": outcomes}
    spans, cache = new.get("spans"), new.get("cache")
    if isinstance(spans, list) and all(isinstance(s, list) and len(s) == 3 for s in spans):
        keys = ("who", "start", "end")
        new["spans"] = {key: [span[at] for span in spans] for at, key in enumerate(keys)}
    if isinstance(cache, list) and len(cache) == 3:
        keys = ("committed", "speculative", "rolled_back")
        new["cache"] = dict(zip(keys, cache, strict=True))
    return new


def _transposed(columns: dict[str, Any], keys: tuple[str, str]) -> Any:
    """Convert columns to rows: {"id": [1, 2], "text": ["a", "b"]} to [[1, "a"], [2, "b"]]."""
    ids, texts = (columns.get(key) for key in keys)
    if not isinstance(ids, list) or not isinstance(texts, list) or len(ids) != len(texts):
        return columns
    return [list(pair) for pair in zip(ids, texts, strict=True)]
