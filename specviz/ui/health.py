"""The addresses for monitoring: `/health`, `/ready` and `/metrics`.

`/health` answers while the process serves. `/ready` succeeds under two conditions: the attempt to
load the default pair has ended, and the decoding thread does not hang in a turn. `/metrics` is in
Prometheus's text format.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from specviz import __version__
from specviz.ui.decoding_queue import DecodingQueue
from specviz.ui.handlers import Handlers

# A turn counts as hung if it has not ended STALLED_SECONDS after it was scheduled. The longest work
# in a turn is loading a model.
STALLED_SECONDS = 60.0


def health_routes(handlers: Handlers) -> list[BaseRoute]:
    """Return the routes of `/health`, `/ready` and `/metrics`."""
    registry = CollectorRegistry()
    # The collector reports the server's processor time, memory and open files.
    ProcessCollector(registry=registry)
    registry.register(QueueNumbers(handlers.queue))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def ready(_: Request) -> Response:
        loading = handlers.preloading
        is_loaded = loading is not None and loading.done()
        is_ready = is_loaded and handlers.queue.turn_age < STALLED_SECONDS
        return JSONResponse({"is_ready": is_ready}, 200 if is_ready else 503)

    async def metrics(_: Request) -> Response:
        text = generate_latest(registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)]


class QueueNumbers(Collector):
    """A collector of the queue's current numbers for Prometheus."""

    def __init__(self, queue: DecodingQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        turns, runs = self._queue.turns, self._queue.runs
        states = GaugeMetricFamily("specviz_runs", "Runs that are in the queue", labels=["state"])
        for state, number in self._queue.states.items():
            states.add_metric([state], number)
        seconds = CounterMetricFamily("specviz_decoding_seconds", "Decoding", labels=["work"])
        ended = CounterMetricFamily("specviz_runs_ended", "Runs that have ended", labels=["work"])
        for work in turns.seconds:
            seconds.add_metric([work.name.lower()], turns.seconds[work])
            ended.add_metric([work.name.lower()], turns.ended[work])
        said = GaugeMetricFamily("specviz_record_bytes", "Records of runs in memory", runs.bytes)
        age = GaugeMetricFamily(
            "specviz_turn_age_seconds",
            "Time since a turn was due that has not ended",
            self._queue.turn_age,
        )
        yield from (states, seconds, ended, said, age)
