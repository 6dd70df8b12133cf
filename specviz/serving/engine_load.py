"""Several requests at once to a serving engine: how long each waits for its tokens.

These are those that the engine says it wrote: under speculation a piece of a stream holds several.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter

from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_probe import WrittenText, read_engine, write_text


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """What so many requests `at_once` got, one behind the other in each place.

    `seconds` is from the first request to the last answer, `first_tokens` and `later_tokens` are
    seconds of each request: until its first token, and of each token after it. `acceptance` and
    `accepted_length` (tokens of a forward that verifies a draft) are those of all requests which
    the engine had meanwhile, None where it drafted nothing.
    """

    at_once: int
    tokens: int
    seconds: float
    first_tokens: tuple[float, ...]
    later_tokens: tuple[float, ...]
    acceptance: float | None
    accepted_length: float | None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def load_level(
    address: EngineAddress, model: str, prompts: Sequence[str], at_once: int, tokens: int
) -> LoadLevel:
    """Send all prompts, so many at once; each answer has exactly `tokens` tokens where the engine
    obeys. Raises InputError where one of them fails.
    """
    before, began = read_engine(address).counters, perf_counter()
    pool = ThreadPoolExecutor(at_once)
    try:
        sent = [pool.submit(_written, address, model, each, tokens) for each in prompts]
        texts = [each.result() for each in sent]
    finally:  # whoever stops does not wait for the requests that are under way
        pool.shutdown(wait=False, cancel_futures=True)
    seconds = perf_counter() - began
    grown = read_engine(address).counters.since(before)
    return LoadLevel(
        at_once=at_once,
        tokens=sum(each.tokens for each in texts),
        seconds=seconds,
        first_tokens=tuple(each.first_token for each in texts),
        later_tokens=tuple(
            (each.seconds - each.first_token) / (each.tokens - 1)
            for each in texts
            if each.tokens > 1
        ),
        acceptance=grown.acceptance,
        accepted_length=grown.accepted_length,
    )


def _written(address: EngineAddress, model: str, prompt: str, tokens: int) -> WrittenText:
    return write_text(address, model, prompt, tokens, ends=False)


def percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The median and what 95 of 100 stay below; None of nothing.

    >>> percentiles([1.0, 2.0, 3.0])
    (2.0, 2.9)
    """
    if len(values) < 2:
        return (values[0], values[0]) if values else (None, None)
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[9], round(cuts[18], 12)
