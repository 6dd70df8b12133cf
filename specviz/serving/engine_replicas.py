"""Read several engines of one service at the same time, and combine their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters, EngineMetrics
from specviz.serving.engine_probe import EngineProbe, read_engine
from specviz.serving.steady_clock import steady_time

MOST_REPLICAS = 8
# Time limit in seconds for the answer of one engine. The answers of all other engines wait for it.
TOGETHER_SECONDS = 4.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """An engine's metrics, read at the Unix time `at`."""

    at: float
    metrics: EngineMetrics


@dataclass(frozen=True, slots=True)
class CountedInterval:
    """The counts of one engine, or of several engines together, over a period of `seconds`.

    Gauges, such as the number of running requests, are from the end of the period. `restarts`
    counts engines that were restarted in it. `draft_utilization` and `block_efficiency` are
    computed from the counts. An engine that does not count drafts reports averages over its latest
    forwards instead. A value is None if the engine does not report it, or if it is a rate whose
    divisor is 0.
    """

    seconds: float
    counted: EngineCounters
    restarts: int
    tokens_per_second: float
    draft_utilization: float | None = None
    block_efficiency: float | None = None
    first_token: float | None = None
    running: float | None = None
    waiting: float | None = None
    cache: float | None = None

    @property
    def acceptance_rate(self) -> float | None:
        """Return accepted / examined tokens, or None if the counts do not show this rate."""
        return self.counted.acceptance_rate

    @classmethod
    def between(cls, before: EngineCounters, at: float, now: EngineReading) -> CountedInterval:
        """Return the period of one engine between two readings.

        The first reading gave the counts `before` at the Unix time `at`; the second one is `now`.
        """
        metrics, seconds = now.metrics, max(1e-3, now.at - at)
        counted = metrics.counters.since(before)
        is_busy = bool(metrics.running or counted.tokens or counted.verifications)
        latest = (metrics.latest_utilization, metrics.latest_length) if is_busy else (None, None)
        return cls(
            seconds=seconds,
            counted=counted,
            restarts=int(metrics.counters.is_restarted(before)),
            tokens_per_second=counted.tokens / seconds,
            draft_utilization=(counted.draft_utilization if metrics.has_drafts else latest[0]),
            block_efficiency=counted.block_efficiency if metrics.has_drafts else latest[1],
            first_token=counted.first_token,
            running=metrics.running,
            waiting=metrics.waiting,
            cache=metrics.cache,
        )

    @classmethod
    def together(cls, parts: Sequence[CountedInterval]) -> CountedInterval:
        """Combine the periods of several engines.

        Counts and tokens per second are added up; the shares of the KV caches in use are averaged.
        """
        counted = EngineCounters.total([each.counted for each in parts])
        drafted = counted.drafted > 0
        return cls(
            seconds=max(each.seconds for each in parts),
            counted=counted,
            restarts=sum(each.restarts for each in parts),
            tokens_per_second=sum(each.tokens_per_second for each in parts),
            draft_utilization=(
                counted.draft_utilization
                if drafted
                else _mean(each.draft_utilization for each in parts)
            ),
            block_efficiency=(
                counted.block_efficiency
                if drafted
                else _mean(each.block_efficiency for each in parts)
            ),
            first_token=counted.first_token,
            running=_sum(each.running for each in parts),
            waiting=_sum(each.waiting for each in parts),
            cache=_mean(each.cache for each in parts),
        )


def check_replicas(addresses: Sequence[EngineAddress]) -> None:
    """Raise InputError for too many addresses, or for an address that occurs twice."""
    if len(addresses) > MOST_REPLICAS:
        raise InputError(f"url must be at most {MOST_REPLICAS} addresses, got {len(addresses)}")
    names = [str(each) for each in addresses]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"url must name each server once, got {name} more than once")


def ask_each(
    addresses: Sequence[EngineAddress], ask: Callable[[EngineAddress], _Answer]
) -> list[_Answer | str]:
    """Call `ask` for all addresses at the same time.

    Return one entry per address: the answer, or an error sentence. Raises InputError if none
    answers, with the first error sentence.
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
        raise InputError(
            f"none of the {len(answers)} servers answers; the error of the first one: {answers[0]}"
        )
    return answers


def read_now(address: EngineAddress, replicas: int = 1) -> EngineReading:
    """Read the metrics of one of `replicas` engines. Raises InputError if it gives none."""
    metrics = read_engine(address, TOGETHER_SECONDS if replicas > 1 else None)
    return EngineReading(steady_time(), metrics)


def differences(probes: Sequence[EngineProbe]) -> str:
    """Return a sentence that says how the engines of one service differ, or "" if they do not.

    If a model is a file, only the name of the file is compared.
    """
    lengths = [each.metrics.draft_length for each in probes]
    found = {
        "engines": sorted({f"{each.engine} {each.version}".strip() for each in probes}),
        "models": sorted({_model_name(each.model) for each in probes}),
        "speculation": sorted({each.speculation.value for each in probes}),
        "draft lengths": [str(each) for each in sorted({each for each in lengths if each})],
    }
    unlike = [f"{what} {' and '.join(of)}" for what, of in found.items() if len(of) > 1]
    return f"These servers are not alike: {'; '.join(unlike)}" if unlike else ""


def _model_name(model: str) -> str:
    return model.rpartition("/")[2] if model.endswith(".gguf") else model


def _sum(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None
