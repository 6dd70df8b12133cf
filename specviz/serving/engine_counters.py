"""Read an engine's own counters of drafts from its metrics, in the text format of Prometheus."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specviz.engines.engine_registry import server_apis
from specviz.errors import InputError

MOST_POSITIONS = 1024
# The largest share of drafts shorter than K with which the acceptance rate is known.
SHORT_DRAFTS = 0.05
# Labels that distinguish processes with the same work. Each of these processes reports all of the
# work, so their values must not be added up.
_SAME_WORK = {"tp_rank", "pp_rank", "moe_ep_rank"}


# The gauges whose values are added up over the ranks of a server. All other gauges are averaged.
_SUMMED = {"running", "waiting"}
# The largest values of a reading that is accepted: the first limit is for counters, the others for
# gauges. A share may be slightly more than 1, because engines round.
_MOST_COUNTED = 1e15
_MOST = {
    "running": 1e9,
    "waiting": 1e9,
    "cache": 1.01,
    "latest_utilization": 1.01,
    "latest_length": MOST_POSITIONS + 1,
    "steps": MOST_POSITIONS,
}
# The gauges that are 0 until the engine has drafted something.
_OF_DRAFTS = {"latest_utilization", "latest_length", "steps"}


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """The counts since an engine started, or between two readings.

    `drafts` counts verified drafts; `drafted` and `accepted` count tokens. `per_position` has the
    number of accepted tokens at each position of a draft, the first position first. `tokens` counts
    all generated tokens, `prompt_tokens` all prompt tokens. `first_token_seconds` is the sum of the
    times to first token over `first_tokens` requests. `verifications` counts the forwards that
    verified drafts of finished requests. A field that the engine does not count is 0.
    """

    drafts: float = 0
    drafted: float = 0
    accepted: float = 0
    tokens: float = 0
    decoding_seconds: float = 0
    first_token_seconds: float = 0
    first_tokens: float = 0
    prompt_tokens: float = 0
    verifications: float = 0
    per_position: tuple[float, ...] = ()

    @classmethod
    def total(cls, parts: Sequence[EngineCounters]) -> EngineCounters:
        """Return the sum of the counts of several engines."""
        places = zip_longest(*(each.per_position for each in parts), fillvalue=0.0)
        numbers = {name: sum(getattr(each, name) for each in parts) for name in _NUMBERS}
        return cls(**numbers, per_position=tuple(map(sum, places)))

    def since(self, before: EngineCounters) -> EngineCounters:
        """Return the counts since the earlier reading `before`.

        If the engine was restarted in between, return all its counts, because it counts from 0
        again.
        """
        if self.is_restarted(before):
            return self
        places = zip(
            self.per_position,
            before.per_position + (0,) * len(self.per_position),
            strict=False,
        )
        numbers = {name: getattr(self, name) - getattr(before, name) for name in _NUMBERS}
        return EngineCounters(**numbers, per_position=tuple(now - then for now, then in places))

    def is_restarted(self, before: EngineCounters) -> bool:
        """Return whether a counter is smaller than in `before`, as only a restart can cause."""
        return len(self.per_position) < len(before.per_position) or any(
            getattr(self, name) < getattr(before, name) for name in _NUMBERS
        )

    def described(self) -> dict[str, Any]:
        """Return the counts and the rates computed from them.

        A rate with a divisor of 0 is None.
        """
        return {
            **asdict(self),
            "acceptance_rate": self.acceptance_rate,
            "draft_utilization": self.draft_utilization,
            "acceptance_per_position": list(self.acceptance_per_position),
            "block_efficiency": self.block_efficiency,
            "mean_first_token_seconds": self.first_token,
        }

    @property
    def acceptance_rate(self) -> float | None:
        """Return accepted / examined tokens, or None if the counts do not show this rate.

        The target examines a draft up to its first rejection. So a position is examined as often as
        the position before it is accepted. A draft that is shorter than K and accepted completely
        breaks this rule. No engine counts the examined tokens, so the rate is None if more than
        SHORT_DRAFTS of the drafts may be shorter.
        """
        missing = self.drafts * len(self.per_position) - self.drafted
        examined = self.drafts + sum(self.per_position[:-1])
        if not self.drafts or not 0 <= missing <= SHORT_DRAFTS * self.drafts:
            return None
        return self.accepted / examined if self._is_possible and self.accepted <= examined else None

    @property
    def draft_utilization(self) -> float | None:
        """Return accepted / drafted tokens, the number that engines call the acceptance rate."""
        return self.accepted / self.drafted if self._is_possible else None

    @property
    def block_efficiency(self) -> float | None:
        """Return the tokens per forward that verifies a draft: 1 + accepted / drafts."""
        return 1 + self.accepted / self.drafts if self.drafts and self._is_possible else None

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """Return the share of all drafts that were accepted up to each position."""
        if not self.drafts:
            return ()
        return tuple(min(1.0, each / self.drafts) for each in self.per_position)

    @property
    def _is_possible(self) -> bool:
        """Return whether the counts can be true: some drafts, and no more accepted than drafted.

        The counters may contradict each other if they grow while they are read, or if the server
        lacks some of them.
        """
        return 0 <= self.accepted <= self.drafted and self.drafted > 0

    @property
    def first_token(self) -> float | None:
        """Return the mean seconds until a request's first token."""
        return self.first_token_seconds / self.first_tokens if self.first_tokens else None


_NUMBERS = tuple(each.name for each in fields(EngineCounters) if each.name != "per_position")


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One reading of an engine's metrics.

    `reported` has the names of the fields that the engine reports. Other fields are 0 or None.
    `running` and `waiting` are numbers of requests, and `cache` is the share of the KV cache that
    is in use. An engine that does not count drafted tokens may report averages over its latest
    forwards: `latest_utilization`, `latest_length` (tokens per forward) and `steps` (tokens per
    draft).
    """

    engine: str
    counters: EngineCounters
    reported: frozenset[str]
    running: float | None = None
    waiting: float | None = None
    cache: float | None = None
    latest_utilization: float | None = None
    latest_length: float | None = None
    steps: float | None = None

    @property
    def has_drafts(self) -> bool:
        """Return whether the engine reports a count of drafts or of drafted tokens."""
        return not {"drafts", "drafted"}.isdisjoint(self.reported)

    @property
    def draft_length(self) -> int | None:
        """Return the largest draft length that the metrics show, or None if they show none."""
        return len(self.counters.per_position) or (None if self.steps is None else int(self.steps))


def read_metrics(text: str, where: str) -> EngineMetrics:
    """Parse the metrics of the server at the address `where`.

    The metrics of several ranks (data parallelism) are combined. Raises InputError if they are not
    from a known engine.
    """
    apis = {each.prefix: each for each in server_apis().values()}
    names = list(server_apis())
    must = f"server at {where} must give metrics of {', '.join(names[:-1])} or {names[-1]}"
    if text.lstrip()[:1] == "<":
        raise InputError(f"{must}, but sends a web page, so something else has this address")
    sums: dict[str, float] = defaultdict(float)
    ranks: dict[str, dict[frozenset[tuple[str, str]], float]] = defaultdict(dict)
    places: dict[int, float] = defaultdict(float)
    has_colons = any(f"{prefix}:" in text for prefix in apis)
    at_positions = {f"{each.prefix}:{each.per_position}" for each in apis.values()}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    continue
                name = sample.name if has_colons else _with_colon(sample.name, apis)
                sums[name] += sample.value
                # An engine may also report a separate number for each priority of requests. Only
                # the total is used.
                if not sample.labels.get("priority"):
                    ranks[name][_rank(sample.labels)] = sample.value
                if name in at_positions:
                    places[int(sample.labels["position"])] += sample.value
    except Exception:  # for a bad line, the parser may raise any kind of error
        raise InputError(f"{must}, but sends no text in Prometheus's format") from None
    prefixes = (name.partition(":")[0] for name in sums)
    prefix = next((each for each in prefixes if each in apis), "")
    if not prefix:
        seen = next(iter(sorted(sums)), None)
        raise InputError(
            f"{must}, but sends "
            f"{'no metrics' if seen is None else f'other metrics, such as {seen[:60]!r}'}"
        )
    if any(not 0 <= place < MOST_POSITIONS for place in places):
        raise InputError(f"{must}, but counts tokens at impossible positions of a draft")
    named = apis[prefix]
    counts = {
        field: sums[f"{prefix}:{name}"]
        for field, name in named.counters.items()
        if f"{prefix}:{name}" in sums
    }
    gauges = {
        field: _of_ranks(field, list(ranks[f"{prefix}:{name}"].values()))
        for field, name in named.gauges.items()
    }
    if any(value < 0 for value in (*counts.values(), *places.values())):
        raise InputError(f"{must}, but reports a count below 0")
    for name, value, most in (
        *((named.counters[field], value, _MOST_COUNTED) for field, value in counts.items()),
        *((named.per_position, value, _MOST_COUNTED) for value in places.values()),
        *((named.gauges[field], value, _MOST[field]) for field, value in gauges.items()),
    ):
        if value is not None and not 0 <= value <= most:
            raise InputError(
                f"server at {where} must report {name} from 0 to {int(most):,}, "
                f"but reports {value:g}"
            )
    reported = {*counts, *(field for field, value in gauges.items() if value is not None)}
    depth = max(places, default=-1) + 1
    per_position = tuple(places.get(i, 0.0) for i in range(depth))
    return EngineMetrics(
        named.title,
        EngineCounters(**counts, per_position=per_position),
        frozenset(reported | ({"per_position"} if depth else set())),
        **gauges,
    )


def _with_colon(name: str, prefixes: Collection[str]) -> str:
    """Return a metric's name with the engine's colon, which some collectors replace.

    >>> _with_colon("engine_spec_accept_length", ["engine"]), _with_colon("engine:a_b", ["engine"])
    ('engine:spec_accept_length', 'engine:a_b')
    """
    prefix, _, rest = name.partition("_")
    return f"{prefix}:{rest}" if prefix in prefixes and rest else name


def _rank(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the labels that identify the rank to which a value belongs.

    Labels of processes that repeat the count of a rank (`_SAME_WORK`) are left out.
    """
    return frozenset((name, of) for name, of in labels.items() if name not in _SAME_WORK)


def _of_ranks(field: str, values: Sequence[float]) -> float | None:
    """Combine the values that all ranks report for a field into one value for the server.

    Return None if there are no values.
    """
    if field in _OF_DRAFTS:
        values = [each for each in values if each]  # a rank that has drafted nothing yet reports 0
    if not values:
        return None
    return sum(values) if field in _SUMMED else sum(values) / len(values)
