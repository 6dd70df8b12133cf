"""Several engines of one service: asked at once, counted apart and together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters, EngineMetrics
from specviz.serving.engine_probe import EngineProbe, read_engine

MOST_REPLICAS = 8
TOGETHER_SECONDS = 4.0  # that one of several has to tell its counters: the others wait for it
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """An engine's metrics, `at` so many seconds since 1970."""

    at: float
    metrics: EngineMetrics


@dataclass(frozen=True, slots=True)
class CountedInterval:
    """What one engine, or several together, counted in `seconds`, and said at their end.

    `restarts` is how often one was started again meanwhile. `acceptance` and `accepted_length` are
    of what was counted; of an engine that does not count it, what it says of its latest forwards.
    None: not told, or of nothing.
    """

    seconds: float
    counted: EngineCounters
    restarts: int
    tokens_per_second: float
    acceptance: float | None = None
    accepted_length: float | None = None
    first_token: float | None = None
    running: float | None = None
    waiting: float | None = None
    cache: float | None = None

    @classmethod
    def between(cls, before: EngineCounters, at: float, now: EngineReading) -> CountedInterval:
        """Of one engine, that had counted `before` at `at`."""
        metrics, seconds = now.metrics, max(1e-3, now.at - at)
        counted = metrics.counters.since(before)
        is_busy = bool(metrics.running or counted.tokens or counted.verifications)
        latest = (metrics.latest_acceptance, metrics.latest_length) if is_busy else (None, None)
        return cls(
            seconds=seconds,
            counted=counted,
            restarts=int(metrics.counters.is_restarted(before)),
            tokens_per_second=counted.tokens / seconds,
            acceptance=counted.acceptance if metrics.has_drafts else latest[0],
            accepted_length=counted.accepted_length if metrics.has_drafts else latest[1],
            first_token=counted.first_token,
            running=metrics.running,
            waiting=metrics.waiting,
            cache=metrics.cache,
        )

    @classmethod
    def together(cls, parts: Sequence[CountedInterval]) -> CountedInterval:
        """Counts, speeds and requests are summed; a share of the cache is the mean of theirs."""
        counted = EngineCounters.total([each.counted for each in parts])
        drafted = counted.drafted > 0
        return cls(
            seconds=max(each.seconds for each in parts),
            counted=counted,
            restarts=sum(each.restarts for each in parts),
            tokens_per_second=sum(each.tokens_per_second for each in parts),
            acceptance=counted.acceptance if drafted else _mean(each.acceptance for each in parts),
            accepted_length=(
                counted.accepted_length
                if drafted
                else _mean(each.accepted_length for each in parts)
            ),
            first_token=counted.first_token,
            running=_sum(each.running for each in parts),
            waiting=_sum(each.waiting for each in parts),
            cache=_mean(each.cache for each in parts),
        )


def check_replicas(addresses: Sequence[EngineAddress]) -> None:
    """InputError for too many, or for one that is named twice and would be counted twice."""
    if len(addresses) > MOST_REPLICAS:
        raise InputError(f"url must be at most {MOST_REPLICAS} addresses, got {len(addresses)}")
    names = [str(each) for each in addresses]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"url must name each server once, got {name} more than once")


def ask_each(
    addresses: Sequence[EngineAddress], ask: Callable[[EngineAddress], _Answer]
) -> list[_Answer | str]:
    """All at once: the answer of each, or the sentence of what is wrong with it.

    InputError where none answers: the sentence of the first.
    """

    def answer(address: EngineAddress) -> _Answer | str:
        try:
            return ask(address)
        except InputError as error:
            return str(error)

    if len(addresses) == 1:
        return [ask(addresses[0])]
    with ThreadPoolExecutor(len(addresses)) as pool:
        answers = list(pool.map(answer, addresses))
    if all(isinstance(each, str) for each in answers):
        raise InputError(f"none of {len(answers)} servers answers; the first: {answers[0]}")
    return answers


def read_now(address: EngineAddress, replicas: int = 1) -> EngineReading:
    """One of so many is read; InputError where it gives no metrics."""
    metrics = read_engine(address, TOGETHER_SECONDS if replicas > 1 else None)
    return EngineReading(time.time(), metrics)


def differences(probes: Sequence[EngineProbe]) -> str:
    """In what replicas of one service should be the same and are not, as a sentence; "" if they
    are. A model that is a file is compared by the file's name.
    """
    lengths = [each.metrics.draft_length for each in probes]
    found = {
        "engines": sorted({f"{each.engine} {each.version}".strip() for each in probes}),
        "models": sorted({_model_name(each.model) for each in probes}),
        "speculation": sorted({each.speculation.value for each in probes}),
        "draft lengths": [str(each) for each in sorted({each for each in lengths if each})],
    }
    told = [f"{what} {' and '.join(of)}" for what, of in found.items() if len(of) > 1]
    return f"These servers are not alike: {'; '.join(told)}" if told else ""


def _model_name(model: str) -> str:
    return model.rpartition("/")[2] if model.endswith(".gguf") else model


def _sum(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None
