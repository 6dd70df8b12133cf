"""Measured times of rounds, plain steps and prompts. They replace computed times in a simulation.

The times come from three kinds of files: `load` (a serving engine), `bench` over batch sizes, or
`sweep` over the axis batch-size (both with our own decoder). Between two measured numbers of
requests, times are interpolated. No time is known for more requests than were measured, so in the
simulation all further requests wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean
from typing import Any

from specviz import theory
from specviz.errors import InputError, is_number, is_whole, short, sized
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.file_acceptance import FileAcceptance, acceptance_of_sweep, read_object
from specviz.sizing.serving_plan import MAX_ROWS, ServingPlan
from specviz.sizing.sized_plan import Policy, SizedPlan

MAX_CHARACTERS = 1_000_000
_MUST = "must be the JSON of load, of bench over batch sizes, or of sweep over batch-size"
_BATCH, _LENGTH = "batch-size", "draft-length"
_LONGER = (
    "A token’s times are as clients saw them, with the prompts of others read in between; the "
    "simulation lets those wait once more, so under load it is rather too slow."
)
_ENDS = "Requests that ended were not followed by others in the measurement."
# Pairs (number of concurrent requests, seconds), in rising order of the number.
Curve = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """The times in a file, in seconds, as curves over the number of concurrent requests.

    - `steps` is the curve of plain decoding, and `rounds` has one curve per K.
    - `prefills` has two curves over the number of prompts in a prefill: without and with a draft.
      It is None if the file has no times of prefills.
    - `acceptance` is the acceptance rate in a sweep file. The user sees it, but it does not replace
      the plan's rate.
    - `by` describes the measurement, `models` the measured models and `remark` the limits of the
      measurement.
    """

    by: str
    models: str
    remark: str
    steps: Curve
    rounds: Mapping[int, Curve]
    prefills: tuple[Curve, Curve] | None
    acceptance: FileAcceptance | None = None

    @property
    def fewest(self) -> int:
        """Return the smallest number of concurrent requests at which every curve has a time."""
        return max(curve[0][0] for curve in (self.steps, *self.rounds.values()))

    @property
    def most(self) -> int:
        """Return the largest number of concurrent requests at which every curve has a time."""
        return min(curve[-1][0] for curve in (self.steps, *self.rounds.values()))

    def sentences(self, plan: ServingPlan) -> list[str]:
        """Return sentences about the source of the times.

        They also say how the measurement differs from the plan.
        """
        fewest, most = self.fewest, self.most
        remarks = [
            f"The times of rounds and plain steps are measured, not computed: {self.by}, with "
            f"{_span(fewest, most)} at once. Between measured numbers they are interpolated.",
            f"{_together(most)} decoded together in the simulation, because no more were measured. "
            "It does not check whether the requests fit into the memory of the planned cards.",
            f"The measurement used {self.models}; the plan has {_planned(plan)}. Only the "
            "simulation uses the measured times. All numbers before it are computed.",
            f"Guesses are accepted at the plan’s rate, {plan.acceptance:.2f}.{self._own_rate}",
        ]
        if fewest > 1:
            remarks.append(
                f"For fewer than {fewest} requests, the times of {fewest} requests are used: no "
                "smaller number was measured."
            )
        if self.prefills is None:
            remarks.append(
                f"Prompts were not timed. Their times are computed for {plan.prompt} tokens on the "
                "planned cards."
            )
        else:
            count = self.prefills[0][-1][0]
            together = "one by one" if count == 1 else f"up to {count} together"
            remarks.append(f"Prompts take as long as in the measurement, {together}.")
        return [*remarks, self.remark]

    @property
    def _own_rate(self) -> str:
        if self.acceptance is None:
            return ""
        few = "" if self.acceptance.is_enough else "; these are too few to rely on"
        return f" The file’s own rate is {self.acceptance.words}{few}."


def _planned(plan: ServingPlan) -> str:
    draft = "n-grams of the prompt" if plan.draft is None else plan.draft.title
    cards = plan.gpu.title if plan.gpus == 1 else f"{plan.gpus} x {plan.gpu.title}"
    return f"{plan.target.title} with {draft} on {cards}"


def _together(most: int) -> str:
    return "Only one request is" if most == 1 else f"At most {most} requests are"


def _span(fewest: int, most: int) -> str:
    if fewest == most:
        return "1 request" if most == 1 else f"{most} requests"
    return f"{fewest} to {most} requests"


def seconds_at(curve: Curve, count: float) -> float:
    """Return the time at a number of concurrent requests, by interpolation between measured points.

    Outside the measured range, the time is that of the nearest measured number.

    >>> seconds_at(((1, 1.0), (3, 2.0)), 2), seconds_at(((2, 1.0), (3, 2.0)), 1)
    (1.5, 1.0)
    """
    if count <= curve[0][0]:
        return curve[0][1]
    for (low, first), (high, second) in pairwise(curve):
        if count <= high:
            return first + (second - first) * (count - low) / (high - low)
    return curve[-1][1]


class MeasuredPlan(SizedPlan):
    """A plan with measured times.

    The measurement replaces the times only. Acceptance, load and limits come from the plan.
    """

    def __init__(self, plan: ServingPlan, measured: MeasuredTimes) -> None:
        """Combine the plan with measured times.

        Raises InputError if the plan's draft length was not measured.
        """
        super().__init__(plan)
        self.measured = measured
        if plan.draft_length and plan.draft_length not in measured.rounds:
            lengths = ", ".join(map(str, sorted(measured.rounds)))
            raise InputError(
                f"draft_length must be 0 (the best length) or a measured length ({lengths}), "
                f"got {plan.draft_length}"
            )

    def _step_seconds(self, rows: int) -> float:
        return seconds_at(self.measured.steps, rows)

    def round_seconds(self, rows: int, K: int) -> float:
        return seconds_at(self.measured.rounds[K], rows) if K else self.step_seconds(rows)

    def speedup(self, rows: int, K: int) -> float:
        return self.tokens(K) * self.step_seconds(rows) / self.round_seconds(rows, K)

    def _best_length(self, rows: int) -> int:
        return max(self.measured.rounds, key=lambda K: self.speedup(rows, K))

    def _first_token_seconds(self, K: int, rows: int = 1) -> float:
        prefills = self.measured.prefills
        if prefills is None:
            return super()._first_token_seconds(K, rows)
        return seconds_at(prefills[1 if K else 0], rows)

    @property
    def together(self) -> int:
        prefills, most = self.measured.prefills, super().together
        return most if prefills is None else min(most, *(curve[-1][0] for curve in prefills))

    def seats(self, policy: Policy) -> int:
        return self.measured.most


# ---- functions that read the files


@dataclass(frozen=True, slots=True)
class _Point:
    """The times that were measured with one number of concurrent requests and one K."""

    rows: int
    K: int
    step: float
    round: float
    tokens: float  # tokens that a sequence gets per round
    # The seconds of a prefill of `prompts` prompts, without and with a draft.
    prefills: tuple[float, float] | None
    prompts: int


def read_measured(text: str, name: str) -> MeasuredTimes:
    """Read the times from the text of a file.

    Raises InputError, with a message that starts with "measured", for any other file.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"measured must be a text of at most {MAX_CHARACTERS:,} characters, got {sized(text)}"
        )
    found = read_object(text)
    try:
        if "levels" in found:
            served = "what those servers serve, which the file does not name"
            return _times(list(_of_load(found)), _load_words(found), served, _LONGER)
        if "rows" in found:
            models, points = _models(_method(found["rows"]), found), list(_of_bench(found))
            return _times(points, f"the decoder here (bench) with {models}", models, _ENDS)
        if "axes" in found:
            models, points = _models(found["config"], found), list(_of_sweep(found))
            times = _times(points, f"the decoder here (sweep) with {models}", models, _ENDS)
            return replace(times, acceptance=acceptance_of_sweep(found))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, InputError):
            raise InputError(f"measured {error} (file {short(name)})") from None
        raise InputError(f"measured {_MUST}, complete and unchanged, got {short(name)}") from None
    raise InputError(f"measured {_MUST}, but {short(name)} is none of these")


def _times(found: Sequence[_Point], by: str, models: str, remark: str) -> MeasuredTimes:
    if not found:
        raise InputError("must have times for at least one number of requests")
    lengths = sorted({each.K for each in found})
    own = "K = " + " and ".join(map(str, lengths))
    has_prompts = all(each.prefills for each in found)
    return MeasuredTimes(
        by=f"{by}, {own}",
        models=models,
        remark=remark,
        steps=_curve(found, lambda each: (each.rows, each.step)),
        rounds={
            K: _curve([e for e in found if e.K == K], lambda each: (each.rows, each.round))
            for K in lengths
        },
        prefills=(_prefills(found, 0), _prefills(found, 1)) if has_prompts else None,
    )


def _prefills(points: Sequence[_Point], place: int) -> Curve:
    return _curve(points, lambda each: (each.prompts, (each.prefills or (0.0, 0.0))[place]))


def _curve(points: Sequence[_Point], read: Callable[[_Point], tuple[int, float]]) -> Curve:
    """Return a curve that averages the measurements with the same number of requests."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for count, each in map(read, points):
        seconds[count].append(each)
    return tuple((count, mean(seconds[count])) for count in sorted(seconds))


# The name of the tokens per forward in files of earlier versions.
OLDER_NAME = "accepted_length"


def _of_load(found: Mapping[str, Any]) -> Iterator[_Point]:
    """Yield the mean time of a round at each load level of a `load` file.

    This time is the client's time per token, multiplied by the tokens per forward. The time of a
    prompt is the time to first token at the load level with a single request.
    """
    if "plain" not in found:
        raise InputError("must have times of plain decoding as well: run load URL --plain URL")
    K, alone = _count(found["draft_length"], MAX_DRAFT_LENGTH), None
    for level in found["levels"]:
        fast, plain = level["speculative"]["passes"], level["plain"]["passes"]
        rows = _count(level["at_once"], MAX_ROWS)
        lengths = [each.get("block_efficiency", each.get(OLDER_NAME)) for each in fast]
        if None in lengths:
            raise InputError(
                f"must be about a server that drafts, but at concurrency {rows} it drafted nothing"
            )
        tokens = mean(map(_seconds, lengths))
        first = (_mean(plain, "first_tokens"), _mean(fast, "first_tokens"))
        alone = first if rows == 1 else alone
        token = _mean(fast, "later_tokens")
        yield _Point(rows, K, _mean(plain, "later_tokens"), token * tokens, tokens, alone, 1)


def _mean(passes: Sequence[Mapping[str, Any]], name: str) -> float:
    return mean(_seconds(value) for each in passes for value in each[name])


def _load_words(found: Mapping[str, Any]) -> str:
    engine, fast, plain = (_word(found[name]) for name in ("engine", "speculative", "plain"))
    return f"{engine} at {fast}, plain at {plain}"


def _word(value: Any) -> str:
    return short(value).strip("'")


def _of_bench(found: Mapping[str, Any]) -> Iterator[_Point]:
    """Yield the times of rounds and steps in a `bench` file.

    A round or step counts only if every sequence of the batch was still running in it.
    """
    for row in found["rows"]:
        rows, K = _count(row["batch_size"], MAX_ROWS), _count(row["draft_length"], MAX_DRAFT_LENGTH)
        prefills = _seconds(row["baseline_ttft_seconds"]), _seconds(row["ttft_seconds"])
        step, each = _seconds(row["step_seconds"]), _seconds(row["round_seconds"])
        yield _Point(rows, K, step, each, _seconds(row["block_efficiency"]), prefills, rows)


def _method(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    methods = sorted({str(each["method"]) for each in rows})
    if len(methods) != 1:
        raise InputError(f"must have one method, but has {', '.join(methods)}")
    return rows[0]


def _models(config: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    return f"{_word(config['method'])} and the pair {_word(found['pair'])}"


def _of_sweep(found: Mapping[str, Any]) -> Iterator[_Point]:
    """Yield the times in a `sweep` file.

    They are computed from the rates, costs and times to first token of each point.
    """
    axes = [name for name, _ in found["axes"]]
    if _BATCH not in axes or not set(axes) <= {_BATCH, _LENGTH}:
        raise InputError(
            f"must be a sweep over {_BATCH}, and perhaps {_LENGTH}, but is over {', '.join(axes)}"
        )
    for point in found["points"]:
        setting = point["setting"]
        rows = _count(setting[_BATCH], MAX_ROWS)
        K = _count(setting.get(_LENGTH, found["config"]["draft_length"]), MAX_DRAFT_LENGTH)
        if point["cost_ratio"] is None or point["block_efficiency"] is None:
            raise InputError(
                f"must have drafted tokens at every point, but has none at batch size {rows}"
            )
        tokens, texts = _seconds(point["block_efficiency"]), _count(point["texts"], 10**9)
        answer = 1 + tokens * _seconds(point["rounds"]) / texts
        first = _seconds(point["baseline_ttft_seconds"])
        whole = rows * answer / _seconds(point["baseline_tokens_per_second"])
        step = _seconds((whole - first) / (answer - 1))
        cost = theory.round_cost(K, point["cost_ratio"], point["verify_overhead"])
        drafts = point["draft_prefill_seconds"] * rows / texts
        prefills = (first, _seconds(point["ttft_seconds"]) + drafts)
        yield _Point(rows, K, step, cost * step, tokens, prefills, rows)


def _count(value: Any, most: int) -> int:
    if not is_whole(value) or not 1 <= value <= most:
        raise ValueError(value)
    return value


def _seconds(value: Any) -> float:
    """Return a time in a file after checking that it is above 0."""
    if not is_number(value) or value <= 0:
        raise ValueError(value)
    return float(value)
