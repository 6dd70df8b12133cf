"""What an engine counts of its own drafts, read from its metrics in Prometheus's text."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specviz.errors import InputError

VLLM = "vLLM"
ENGINES = {"llamacpp": "llama.cpp", "vllm": VLLM}  # by the first word of a metric's name
_DRAFTS = "spec_decode_num_drafts_total"
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
MOST_POSITIONS = 1024
# field -> the metric's name behind the engine's prefix
_NAMES = {
    "llamacpp": {
        "tokens": "tokens_predicted_total",
        "decoding_seconds": "tokens_predicted_seconds_total",
    },
    "vllm": {
        "tokens": "generation_tokens_total",
        "first_token_seconds": "time_to_first_token_seconds_sum",
        "first_tokens": "time_to_first_token_seconds_count",
    },
}
_RUNNING = {"llamacpp": "requests_processing", "vllm": "num_requests_running"}
_WAITING = {"llamacpp": "requests_deferred", "vllm": "num_requests_waiting"}
_CACHE = {"llamacpp": "kv_cache_usage_ratio", "vllm": "kv_cache_usage_perc"}  # both are shares
_SHARED = {
    "drafts": _DRAFTS,
    "drafted": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
}


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Counted since the engine began, or between two readings.

    `drafts` is how often a draft was verified, `drafted` and `accepted` are tokens, `per_position`
    how many were accepted at each place of a draft, the first one first. `tokens` are all that were
    generated. `first_token_seconds` is the sum over `first_tokens` requests. What the engine does
    not count is 0.
    """

    drafts: float = 0
    drafted: float = 0
    accepted: float = 0
    tokens: float = 0
    decoding_seconds: float = 0
    first_token_seconds: float = 0
    first_tokens: float = 0
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
    """One reading. `has_drafts`: drafts are counted at all. So many requests are `running`, so many
    `waiting`, and so large a share of the `cache` is taken; None for what the engine does not say.
    """

    engine: str
    counters: EngineCounters
    has_drafts: bool
    running: float | None
    waiting: float | None = None
    cache: float | None = None


def read_metrics(text: str, where: str) -> EngineMetrics:
    """The metrics that a server at `where` gave; InputError for those of another one."""
    must = f"server at {where} must give metrics of {' or '.join(ENGINES.values())}"
    if text.lstrip()[:1] == "<":
        raise InputError(f"{must}, but gives a web page: the address is that of something else")
    values: dict[str, float] = defaultdict(float)
    ranks: dict[str, int] = defaultdict(int)
    places: dict[int, float] = defaultdict(float)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    continue
                values[sample.name] += sample.value  # of all models and ranks
                ranks[sample.name] += 1
                if sample.name.endswith(f":{_PER_POSITION}"):
                    places[int(sample.labels["position"])] += sample.value
    except Exception:  # the parser raises what its bad lines make of it
        raise InputError(f"{must}, but what it gives is not Prometheus's text") from None
    prefix = next(
        (name.partition(":")[0] for name in values if name.partition(":")[0] in ENGINES), ""
    )
    if not prefix:
        seen = next(iter(sorted(values)), None)
        raise InputError(
            f"{must}, but gives {'none' if seen is None else f'others: {seen[:60]!r}'}"
        )
    if any(not 0 <= place < MOST_POSITIONS for place in places):
        raise InputError(f"{must}, but counts at places of a draft that cannot be")
    of_engine = {
        field: values.get(f"{prefix}:{name}", 0.0)
        for field, name in (_SHARED | _NAMES[prefix]).items()
    }
    depth = max(places, default=-1) + 1
    counted = EngineCounters(
        **of_engine, per_position=tuple(places.get(i, 0.0) for i in range(depth))
    )
    return EngineMetrics(
        ENGINES[prefix],
        counted,
        f"{prefix}:{_DRAFTS}" in values,
        values.get(f"{prefix}:{_RUNNING[prefix]}"),
        values.get(f"{prefix}:{_WAITING[prefix]}"),
        values[cache] / ranks[cache] if (cache := f"{prefix}:{_CACHE[prefix]}") in ranks else None,
    )
