"""The loss of acceptance over many runs: by token class, depth, position, certainty and prompt.

The profile keeps sums and a few examples, but no trace. `level_visits` defines a lost token and a
lost second.

The time lost is computed at the median cost of a round. Suppose that a round drafted D levels and
passed a of them. Its rejection loses (D - a) / (D + 1) of the median time of all rounds with D
levels.
If there are too few of those (`round_costs.FEWEST`), the median of all rounds is used. The ranking
therefore shows how often and how early rejections happen, and one slow round cannot dominate it.
The loss computed from the measured time of each round is kept as `milliseconds_lost_as_measured`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from specviz.acceptance_profile.level_visits import QUARTERS, LevelVisit, level_visits
from specviz.acceptance_profile.round_costs import Losses, RoundCosts
from specviz.metrics import Levels, RoundTotals, levels
from specviz.records import Trace

EXAMPLES = 5  # largest number of examples that a group of rejections keeps
# The number of prompts whose examples `example_traces` includes: those with the largest losses.
OPEN_PROMPTS = 20
_ENTROPY_EDGES = (0.5, 1.5, 3.0)  # limits between the classes of entropy, in nats
_OVERLAP_EDGES = (0.25, 0.5, 0.75)
_PROMPT_LENGTH = 40  # number of first characters of a prompt that its name contains at most
TITLES = {
    "token_class": "token that the target wanted",
    "depth": "depth in the draft",
    "position": "place in the text",
    "certainty": "entropy of p, overlap with q",
    "prompt": "prompt",
}


@dataclass(frozen=True, slots=True)
class Example:
    """One rejection, with the drafted token and the token in the text.

    `trace` is the index of the run that contains the rejection: 0 for the first run that was added.
    `round` and `node` say where the rejection is in that run.
    """

    trace: int
    round: int
    node: int
    drafted: str
    wanted: str


@dataclass(frozen=True, slots=True)
class LossGroup:
    """One group of examined levels: its accepted levels, and the time that its rejections cost.

    `milliseconds_lost` is computed at the median cost of a round, and
    `milliseconds_lost_as_measured` from the rounds' own times. `share` is the group's share of all
    time lost.
    """

    name: str
    examined: int
    accepted: int
    rate: float
    rejections: int
    tokens_lost: int
    milliseconds_lost: float
    milliseconds_lost_as_measured: float
    share: float
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The examined levels, grouped by one property, such as the depth in the draft.

    `dimension` names the property: it is a key of TITLES. The first group is the one whose
    rejections cost the most time.
    """

    dimension: str
    title: str
    groups: tuple[LossGroup, ...]


@dataclass(frozen=True, slots=True)
class AcceptanceProfile:
    """The tokens and the time that rejections cost in all runs, and a ranking for each dimension.

    `seconds` and `tokens` are sums over all rounds, without the prefill of target or drafter.
    `typical_seconds` is the rounds' time at the median cost of a round; `milliseconds_lost` is a
    part of it. In `undrafted_rounds` nothing was drafted (for example, a lookup found nothing), so
    nothing could be lost.
    """

    prompts: int
    rounds: int
    undrafted_rounds: int
    tokens: int
    seconds: float
    typical_seconds: float
    acceptance_rate: float | None
    block_efficiency: float | None
    rejections: int
    tokens_lost: int
    milliseconds_lost: float
    milliseconds_lost_as_measured: float
    rankings: tuple[Ranking, ...]

    def ranking(self, dimension: str) -> Ranking:
        """Return the ranking of one dimension, which is a key of TITLES."""
        return next(each for each in self.rankings if each.dimension == dimension)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain dicts, lists and numbers, which JSON can represent."""
        made = asdict(self)
        made["rankings"] = {
            each.dimension: [asdict(group) for group in each.groups] for each in self.rankings
        }
        return made


def acceptance_profile(traces: Iterable[Trace]) -> AcceptanceProfile:
    """Return the acceptance profile of finished runs."""
    profiler = AcceptanceProfiler()
    for trace in traces:
        profiler.add(trace)
    return profiler.profile()


class AcceptanceProfiler:
    """Builds a profile from runs that are added one after another.

    `profile()` is cheap, so a live page can call it after each run.
    """

    def __init__(self) -> None:
        self._totals = RoundTotals()
        self._costs = RoundCosts()
        self._prompts = 0
        self._sums: dict[tuple[str, str], _Sums] = defaultdict(_Sums)
        self._all = _Sums()

    def add(self, trace: Trace) -> int:
        """Count a run and return its index, by which its examples refer to it."""
        index, texts = self._prompts, dict(trace.token_texts)
        self._prompts += 1
        failed: dict[tuple[str, str], list[LevelVisit]] = defaultdict(list)
        for visit, counted in self._visits(trace):
            self._all.add(visit, counted)
            for key in _keys(visit, _prompt_name(index, trace.prompt)):
                self._sums[key].add(visit, counted)
                if not visit.is_passed:
                    failed[key].append(visit)
        for key, visits in failed.items():
            self._sums[key].keep(index, visits, texts)
        return index

    def _visits(self, trace: Trace) -> Iterator[tuple[LevelVisit, Levels]]:
        """Yield each examined level with the level counts of its round, and add the rounds to the
        sums.
        """
        visits = level_visits(trace)
        for round_ in trace.rounds:
            counted = levels(round_)
            self._totals.add(round_)
            self._costs.add(counted.drafted, round_.work_seconds)
            for visit in islice(visits, counted.reached):
                yield visit, counted

    def profile(self) -> AcceptanceProfile:
        """Return the acceptance profile of all runs that were added so far."""
        totals, lost = self._totals, self._all
        return AcceptanceProfile(
            prompts=self._prompts,
            rounds=totals.rounds,
            undrafted_rounds=totals.rounds_by_draft_length[0],
            tokens=totals.tokens,
            seconds=totals.work_seconds,
            typical_seconds=self._costs.typical_sum,
            acceptance_rate=totals.acceptance_rate,
            block_efficiency=totals.block_efficiency,
            rejections=lost.examined - lost.accepted,
            tokens_lost=lost.tokens_lost,
            milliseconds_lost=1000 * lost.losses.seconds(self._costs),
            milliseconds_lost_as_measured=1000 * lost.seconds_measured,
            rankings=tuple(self._ranking(dimension) for dimension in TITLES),
        )

    def example_traces(self) -> frozenset[int]:
        """Return the indices of the traces that contain examples.

        A caller that wants to open the examples must keep these traces. In the dimension "prompt",
        only the OPEN_PROMPTS prompts with the largest losses count, so that the caller need not
        keep one trace for every prompt.
        """
        prompts = sorted(
            (sums.losses.rounds, name)
            for (where, name), sums in self._sums.items()
            if where == "prompt"
        )
        fine = {name for _, name in prompts[:-OPEN_PROMPTS]}
        return frozenset(
            trace
            for (where, name), sums in self._sums.items()
            if not (where == "prompt" and name in fine)
            for trace in sums.example_traces
        )

    def _ranking(self, dimension: str) -> Ranking:
        whole = self._all.losses.seconds(self._costs)
        groups = (
            sums.group(name, self._costs, whole)
            for (where, name), sums in self._sums.items()
            if where == dimension
        )
        ordered = sorted(groups, key=lambda group: (-group.milliseconds_lost, group.name))
        return Ranking(dimension, TITLES[dimension], tuple(ordered))


class _Sums:
    """The sums of one group of a profile: levels examined and accepted, tokens and time lost.

    It also has the group's examples, with the keys by which they are sorted.
    """

    def __init__(self) -> None:
        self.examined = 0
        self.accepted = 0
        self.tokens_lost = 0
        self.seconds_measured = 0.0
        self.losses = Losses()
        self._examples: list[tuple[int, int, int, Example]] = []

    def add(self, visit: LevelVisit, counted: Levels) -> None:
        self.examined += 1
        self.accepted += visit.is_passed
        self.tokens_lost += visit.tokens_lost
        self.seconds_measured += visit.seconds_lost
        if not visit.is_passed:
            self.losses.add(counted.drafted, counted.passed)

    def keep(self, trace: int, failed: list[LevelVisit], texts: dict[int, str]) -> None:
        """Keep the examples with the largest losses of tokens.

        If two examples lost equally many tokens, an example that is the worst of its trace comes
        before one that is not.
        """
        ordered = sorted(failed, key=lambda visit: (-visit.tokens_lost, visit.round))
        for rank, visit in enumerate(ordered[:EXAMPLES]):
            drafted, wanted = (
                texts.get(each, f"#{each}") for each in (visit.drafted_id, visit.wanted_id)
            )
            example = Example(trace, visit.round, visit.node, drafted, wanted)
            self._examples.append((-visit.tokens_lost, rank, trace, example))
        self._examples.sort(key=lambda kept: kept[:3])
        del self._examples[EXAMPLES:]

    @property
    def example_traces(self) -> set[int]:
        return {example.trace for *_, example in self._examples}

    def group(self, name: str, costs: RoundCosts, whole: float) -> LossGroup:
        lost = self.losses.seconds(costs)
        return LossGroup(
            name=name,
            examined=self.examined,
            accepted=self.accepted,
            rate=self.accepted / self.examined,
            rejections=self.examined - self.accepted,
            tokens_lost=self.tokens_lost,
            milliseconds_lost=1000 * lost,
            milliseconds_lost_as_measured=1000 * self.seconds_measured,
            share=lost / whole if whole else 0.0,
            examples=tuple(example for *_, example in self._examples),
        )


def _keys(visit: LevelVisit, prompt: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a dimension and the name of the group to which an examined level belongs.

    A dimension whose value is unknown for this level is left out.
    """
    yield "token_class", visit.token_class.value
    yield "depth", f"depth {visit.depth}"
    yield "position", f"quarter {visit.quarter} of {QUARTERS}"
    if visit.entropy is not None and visit.overlap is not None:
        entropy = _bin("entropy", visit.entropy, _ENTROPY_EDGES)
        yield "certainty", f"{entropy}, {_bin('overlap', visit.overlap, _OVERLAP_EDGES)}"
    yield "prompt", prompt


def _bin(name: str, value: float, edges: tuple[float, ...]) -> str:
    """Return the name of the interval that contains the value.

    >>> [_bin("p", value, (0.2, 0.5, 0.7)) for value in (0.1, 0.2, 0.5, 0.7)]
    ['p < 0.2', 'p 0.2 to 0.5', 'p 0.5 to 0.7', 'p ≥ 0.7']
    """
    if value < edges[0]:
        return f"{name} < {edges[0]:g}"
    for low, high in zip(edges, edges[1:], strict=False):
        if value < high:
            return f"{name} {low:g} to {high:g}"
    return f"{name} ≥ {edges[-1]:g}"


def _prompt_name(index: int, prompt: str) -> str:
    """Return the number of a prompt, from 1, and its first words.

    The number distinguishes prompts whose first words are equal.
    """
    start = " ".join(prompt[: 4 * _PROMPT_LENGTH].split())
    shown = start if len(start) <= _PROMPT_LENGTH else start[: _PROMPT_LENGTH - 1] + "…"
    return f"{index + 1}: {shown}"
