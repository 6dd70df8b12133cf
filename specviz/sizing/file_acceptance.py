"""The acceptance rate that a sweep's file holds, what it was measured with, and on how much."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, short

FEWEST = 300  # examined guesses: of fewer, a rate of 0.7 is off by more than 5 points now and then
_MIXED = ("pair", "method")  # axes over which a mean acceptance rate means nothing


@dataclass(frozen=True, slots=True)
class FileAcceptance:
    """`examined` guesses of different texts, of as many `rounds`, by method and pair."""

    rate: float
    examined: int
    rounds: int
    pair: str
    method: str

    @property
    def words(self) -> str:
        """
        >>> FileAcceptance(0.75, 1200, 400, "bundled", "eagle").words
        '0.75 of the pair bundled with eagle, of 1,200 examined guesses in 400 rounds'
        """
        return (
            f"{self.rate:.2f} of the pair {self.pair} with {self.method}, of {self.examined:,} "
            f"examined guesses in {self.rounds:,} rounds"
        )

    @property
    def is_enough(self) -> bool:
        return self.examined >= FEWEST


def acceptance_of_sweep(found: Mapping[str, Any]) -> FileAcceptance | None:
    """Accepted of examined over all points; None where nothing was examined. Points with the same
    task decode the same texts, so the longest of them alone counts as what the rate rests on.
    """
    accepted = examined = 0.0
    by_task: dict[Any, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for point in found["points"]:
        depths = point["acceptance_by_depth"]
        reached = sum(each["reached"] for each in depths)
        examined += reached
        accepted += sum(each["passed"] for each in depths)
        task = point["setting"].get("task")
        by_task[task] = max(by_task[task], (round(reached), round(point["rounds"])))
    if not examined:
        return None
    return FileAcceptance(
        rate=accepted / examined,
        examined=sum(count for count, _ in by_task.values()),
        rounds=sum(count for _, count in by_task.values()),
        pair=short(found["pair"]).strip("'"),
        method=short(found["config"]["method"]).strip("'"),
    )


def read_sweep_acceptance(text: str, name: str) -> FileAcceptance:
    """Of a sweep's file, for a plan. InputError, which begins with "sweep", for any other file and
    for a rate that rests on too little.
    """
    found = read_object(text)
    try:
        mixed = [axis for axis, _ in found["axes"] if axis in _MIXED]
        rate = acceptance_of_sweep(found)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"sweep must be a sweep's file, complete as written, got {short(name)}"
        ) from None
    if mixed:
        raise InputError(f"sweep must be of one pair and one method, and is over {mixed[0]}")
    if rate is None:
        raise InputError(f"sweep must hold points with an acceptance rate, got {short(name)}")
    if not rate.is_enough:
        raise InputError(
            f"sweep must hold at least {FEWEST} examined guesses of different texts for an "
            f"acceptance rate, got {rate.examined} in {rate.rounds} rounds: sweep more prompts or "
            "longer texts"
        )
    return rate


def read_object(text: str) -> dict[str, Any]:
    """One JSON object; or the lines of a sweep's file as one, its points beside what it sweeps."""
    found = _object(text)
    if not found:
        first, *lines = text.split("\n")
        found = _object(first)
        found |= {"points": [_object(line) for line in lines[:-1]]} if found else {}
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
