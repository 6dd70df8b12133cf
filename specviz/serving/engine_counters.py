"""What an engine counts of its own drafts, read from its metrics in Prometheus's text."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specviz.errors import InputError

LLAMA_CPP, VLLM, SGLANG = "llama.cpp", "vLLM", "SGLang"
# of an engine whose metrics were read from its sources alone
UNVERIFIED = {SGLANG: "read by the names in SGLang's sources (0.5.23), not verified live"}
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
MOST_POSITIONS = 1024
# labels of processes that share one engine's work, and each tell the whole of it
_SAME_WORK = {"tp_rank", "pp_rank", "moe_ep_rank"}


@dataclass(frozen=True, slots=True)
class _MetricNames:
    """What an engine calls the fields of `EngineCounters` and of `EngineMetrics`, behind its
    prefix; it tells none of those that have no name here.
    """

    engine: str
    counters: Mapping[str, str]
    gauges: Mapping[str, str]


_DRAFTS = {
    "drafts": "spec_decode_num_drafts_total",
    "drafted": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
    "prompt_tokens": "prompt_tokens_total",
}
_FIRST_TOKENS = {
    "tokens": "generation_tokens_total",
    "first_token_seconds": "time_to_first_token_seconds_sum",
    "first_tokens": "time_to_first_token_seconds_count",
}
_METRICS = {
    "llamacpp": _MetricNames(
        LLAMA_CPP,
        _DRAFTS
        | {
            "tokens": "tokens_predicted_total",
            "decoding_seconds": "tokens_predicted_seconds_total",
        },
        {
            "running": "requests_processing",
            "waiting": "requests_deferred",
            "cache": "kv_cache_usage_ratio",
        },
    ),
    "vllm": _MetricNames(
        VLLM,
        _DRAFTS | _FIRST_TOKENS,
        {
            "running": "num_requests_running",
            "waiting": "num_requests_waiting",
            "cache": "kv_cache_usage_perc",  # a share
        },
    ),
    "sglang": _MetricNames(
        SGLANG,
        _FIRST_TOKENS
        | {"verifications": "spec_verify_calls_total", "prompt_tokens": "prompt_tokens_total"},
        {
            "running": "num_running_reqs",
            "waiting": "num_queue_reqs",
            "cache": "token_usage",
            "latest_acceptance": "spec_accept_rate",
            "latest_length": "spec_accept_length",
            "steps": "spec_num_steps",
        },
    ),
}
_SUMMED = {"running", "waiting"}  # over the ranks of a server; other gauges are means of them
_OF_DRAFTS = {"latest_acceptance", "latest_length", "steps"}  # SGLang says 0 before it drafts


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Counted since the engine began, or between two readings.

    `drafts` is how often a draft was verified, `drafted` and `accepted` are tokens, `per_position`
    how many were accepted at each place of a draft, the first one first. `tokens` are all that were
    generated, `prompt_tokens` all that were read. `first_token_seconds` is the sum over
    `first_tokens` requests. `verifications` are SGLang's forwards that verified drafts, of requests
    that have ended; it does not count what was drafted in them. What is not counted is 0.
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
        """The sum of what was counted apart."""
        places = zip_longest(*(each.per_position for each in parts), fillvalue=0.0)
        numbers = {name: sum(getattr(each, name) for each in parts) for name in _NUMBERS}
        return cls(**numbers, per_position=tuple(map(sum, places)))

    def since(self, before: EngineCounters) -> EngineCounters:
        """What was counted after `before`. An engine that was started again counts from 0."""
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
        """Whether the engine was started anew in between: a counter never falls otherwise."""
        return len(self.per_position) < len(before.per_position) or any(
            getattr(self, name) < getattr(before, name) for name in _NUMBERS
        )

    def described(self) -> dict[str, Any]:
        """The counts, and the rates that follow from them; None for one of nothing."""
        return {
            **asdict(self),
            "acceptance": self.acceptance,
            "acceptance_per_position": list(self.acceptance_per_position),
            "accepted_length": self.accepted_length,
            "mean_first_token_seconds": self.first_token,
        }

    @property
    def acceptance(self) -> float | None:
        """Accepted tokens of all that were drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def accepted_length(self) -> float | None:
        """Tokens of a verified draft and the target's own behind them: of one forward."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """Of all drafts, how many were accepted up to that place."""
        return tuple(each / self.drafts for each in self.per_position) if self.drafts else ()

    @property
    def first_token(self) -> float | None:
        """Mean seconds until a request's first token."""
        return self.first_token_seconds / self.first_tokens if self.first_tokens else None


_NUMBERS = tuple(each.name for each in fields(EngineCounters) if each.name != "per_position")


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One reading. `told`: the fields of its counters and of its own that the engine gives.

    So many requests are `running`, so many `waiting`, and so large a share of the `cache` is taken.
    An engine that counts no drafted tokens may say their `latest_acceptance`, the `latest_length`
    (tokens of a forward) and the `steps` of a draft, of its latest forwards. None: not told.
    """

    engine: str
    counters: EngineCounters
    told: frozenset[str]
    running: float | None = None
    waiting: float | None = None
    cache: float | None = None
    latest_acceptance: float | None = None
    latest_length: float | None = None
    steps: float | None = None

    @property
    def has_drafts(self) -> bool:
        """Whether drafts are counted at all."""
        return "drafts" in self.told

    @property
    def draft_length(self) -> int | None:
        """Tokens of a draft at most, as far as its counters show it."""
        return len(self.counters.per_position) or (None if self.steps is None else int(self.steps))


def read_metrics(text: str, where: str) -> EngineMetrics:
    """The metrics that a server at `where` gave; InputError for those of another one.

    Those of several ranks (vLLM's and SGLang's data parallel) are taken together.
    """
    names = [each.engine for each in _METRICS.values()]
    must = f"server at {where} must give metrics of {', '.join(names[:-1])} or {names[-1]}"
    if text.lstrip()[:1] == "<":
        raise InputError(f"{must}, but gives a web page: the address is that of something else")
    sums: dict[str, float] = defaultdict(float)
    ranks: dict[str, dict[frozenset[tuple[str, str]], float]] = defaultdict(dict)
    places: dict[int, float] = defaultdict(float)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    continue
                sums[sample.name] += sample.value
                if not sample.labels.get("priority"):  # SGLang's parts of a number it gives whole
                    ranks[sample.name][_rank(sample.labels)] = sample.value
                if sample.name.endswith(f":{_PER_POSITION}"):
                    places[int(sample.labels["position"])] += sample.value
    except Exception:  # the parser raises what its bad lines make of it
        raise InputError(f"{must}, but what it gives is not Prometheus's text") from None
    prefix = next(
        (name.partition(":")[0] for name in sums if name.partition(":")[0] in _METRICS), ""
    )
    if not prefix:
        seen = next(iter(sorted(sums)), None)
        raise InputError(
            f"{must}, but gives {'none' if seen is None else f'others: {seen[:60]!r}'}"
        )
    if any(not 0 <= place < MOST_POSITIONS for place in places):
        raise InputError(f"{must}, but counts at places of a draft that cannot be")
    named = _METRICS[prefix]
    counts = {
        field: sums[f"{prefix}:{name}"]
        for field, name in named.counters.items()
        if f"{prefix}:{name}" in sums
    }
    gauges = {
        field: _of_ranks(field, list(ranks[f"{prefix}:{name}"].values()))
        for field, name in named.gauges.items()
    }
    told = {*counts, *(field for field, value in gauges.items() if value is not None)}
    depth = max(places, default=-1) + 1
    per_position = tuple(places.get(i, 0.0) for i in range(depth))
    return EngineMetrics(
        named.engine,
        EngineCounters(**counts, per_position=per_position),
        frozenset(told | ({"per_position"} if depth else set())),
        **gauges,
    )


def _rank(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Which part of the server's work a sample tells of."""
    return frozenset((name, of) for name, of in labels.items() if name not in _SAME_WORK)


def _of_ranks(field: str, values: Sequence[float]) -> float | None:
    """A gauge of the whole server; None where no rank tells it."""
    if field in _OF_DRAFTS:
        values = [each for each in values if each]  # 0 where a rank has drafted nothing yet
    if not values:
        return None
    return sum(values) if field in _SUMMED else sum(values) / len(values)
