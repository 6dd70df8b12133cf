"""Read the acceptance rate from a sweep file, with its settings and its sample size.

A guess is examined if all guesses before it were accepted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, short

# The smallest number of examined guesses in a file. With fewer guesses, a measured rate of 0.7 may
# be wrong by more than 5 percentage points.
FEWEST = 300
# The smallest number of examined guesses with which a depth counts as measured.
FEWEST_AT_DEPTH = 30
# Settings that a sweep must not vary, because an average acceptance rate over its points would then
# have no meaning.
_MIXED = ("pair", "method")


@dataclass(frozen=True, slots=True)
class FileAcceptance:
    """An acceptance rate with its pair, its method and its sample.

    The sample is `examined` guesses in `rounds` rounds. Each text counts once. `survival` has the
    probabilities that at least 1, 2, … guesses are accepted, down to the last depth with enough
    examined guesses.
    """

    rate: float
    examined: int
    rounds: int
    pair: str
    method: str
    survival: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        """Return the rate and its source as words for a sentence.

        >>> FileAcceptance(0.75, 1200, 400, "bundled", "eagle").words
        '0.75 for the pair bundled with eagle, from 1,200 examined guesses in 400 rounds'
        """
        return (
            f"{self.rate:.2f} for the pair {self.pair} with {self.method}, from {self.examined:,} "
            f"examined guesses in {self.rounds:,} rounds"
        )

    @property
    def is_enough(self) -> bool:
        return self.examined >= FEWEST


def survival_of_depths(counts: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Return the probabilities that at least 1, 2, … guesses are accepted.

    `counts` has a pair (examined, accepted) for each depth.

    >>> survival_of_depths([(100, 80), (80, 60), (10, 9)])
    (0.8, 0.6)
    """
    found: list[float] = []
    for examined, passed in counts:
        if examined < FEWEST_AT_DEPTH:
            break
        found.append((found[-1] if found else 1.0) * passed / examined)
    return tuple(found)


def acceptance_of_sweep(found: Mapping[str, Any]) -> FileAcceptance | None:
    """Return accepted / examined guesses, summed over all points of a sweep.

    Return None if no guess was examined. Points with the same task decode the same texts. So only
    the point with the most guesses counts towards the sample size.
    """
    accepted = examined = 0.0
    by_task: dict[Any, tuple[int, int]] = defaultdict(lambda: (0, 0))
    by_depth: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for point in found["points"]:
        depths = point["acceptance_by_depth"]
        reached = sum(each["reached"] for each in depths)
        examined += reached
        accepted += sum(each["passed"] for each in depths)
        for each in depths:
            seen, passed = by_depth[each["depth"]]
            by_depth[each["depth"]] = (seen + each["reached"], passed + each["passed"])
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
        survival=survival_of_depths(by_depth[depth] for depth in sorted(by_depth)),
    )


def read_sweep_acceptance(text: str, name: str) -> FileAcceptance:
    """Read the acceptance rate of a sweep file, for a plan.

    Raises InputError, with a message that starts with "sweep", for any other file and for a sample
    that is too small.
    """
    found = read_object(text)
    try:
        mixed = [axis for axis, _ in found["axes"] if axis in _MIXED]
        rate = acceptance_of_sweep(found)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"sweep must be a complete file that `sweep --output` wrote, got {short(name)}"
        ) from None
    if mixed:
        raise InputError(f"sweep must have one pair and one method, got one that varies {mixed[0]}")
    if rate is None:
        raise InputError(
            f"sweep must have points with an acceptance rate, got none in {short(name)}: sweep a "
            "method that drafts"
        )
    if not rate.is_enough:
        raise InputError(
            f"sweep must have at least {FEWEST} examined guesses for an acceptance rate, each text "
            f"counted once, got {rate.examined} guesses in {rate.rounds} rounds: run a sweep with "
            "more prompts or longer answers"
        )
    return rate


def read_object(text: str) -> dict[str, Any]:
    """Read a JSON object. A sweep file of several lines becomes one object with its points."""
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
