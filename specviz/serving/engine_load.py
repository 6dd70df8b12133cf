"""Send many requests to an engine at once, and measure how long each waits for its tokens.

The engine reports the numbers of tokens. They cannot be counted from the stream, because one piece
of a stream may contain several tokens when the engine speculates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean, median, quantiles, stdev
from time import perf_counter

from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_probe import WrittenText, read_engine, write_text

# The smallest number of requests for a 95th percentile. With fewer requests, it would simply be the
# slowest request.
FEWEST = 20
# Student's t for a 95 % interval of the mean of 2, 3, … numbers. The last entry also serves larger
# samples.
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """The measurement of one load, with up to `at_once` requests at the same time.

    `seconds` is the time from the first request to the last answer. `first_tokens` has each
    request's seconds to its first token. `later_tokens` has each request's seconds per token after
    that. `acceptance_rate` (accepted / examined), `draft_utilization` (accepted / drafted) and
    `block_efficiency` (tokens per forward that verifies a draft) describe all requests that the
    engine served during the load, including requests of other clients. They are None if the engine
    drafted nothing.
    """

    at_once: int
    tokens: int
    seconds: float
    first_tokens: tuple[float, ...]
    later_tokens: tuple[float, ...]
    acceptance_rate: float | None
    draft_utilization: float | None
    block_efficiency: float | None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def load_level(
    address: EngineAddress, model: str, prompts: Sequence[str], at_once: int, tokens: int
) -> LoadLevel:
    """Send all prompts, at most `at_once` at a time, and ask for exactly `tokens` tokens each.

    An engine may still end an answer earlier. Raises InputError if a request fails.
    """
    before, began = read_engine(address).counters, perf_counter()
    pool = ThreadPoolExecutor(at_once)
    try:
        sent = [pool.submit(_written, address, model, each, tokens) for each in prompts]
        texts = [each.result() for each in sent]
    finally:  # an interrupt cancels the requests that have not started
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
        acceptance_rate=grown.acceptance_rate,
        draft_utilization=grown.draft_utilization,
        block_efficiency=grown.block_efficiency,
    )


def _written(address: EngineAddress, model: str, prompt: str, tokens: int) -> WrittenText:
    return write_text(address, model, prompt, tokens, ends=False)


def percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the median and the 95th percentile of the values.

    The median of no values is None. The percentile is None if there are fewer than FEWEST values.

    >>> percentiles([1.0, 2.0, 3.0]), percentiles([1.0, 2.0] * 10)
    ((2.0, None), (1.5, 2.0))
    """
    if not values:
        return None, None
    largest = quantiles(values, n=20, method="inclusive")[18] if len(values) >= FEWEST else None
    return median(values), largest


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the mean of a few positive values.

    It is computed with Student's t on their logarithms. It is None for fewer than two values.

    >>> [round(end, 2) for end in interval([1.0, 1.1, 1.05]) or ()]
    [0.93, 1.18]
    """
    count = len(values)
    if count < 2:
        return None
    logs = [math.log(each) for each in values]
    spread = STUDENT_95[min(count - 1, len(STUDENT_95)) - 1] * stdev(logs) / math.sqrt(count)
    return math.exp(fmean(logs) - spread), math.exp(fmean(logs) + spread)
