"""What a machine asks of the server: whether it lives, whether it is ready, and its numbers.

`/health` answers as long as the process serves; `/ready` once the pair that the page begins with is
in memory, or has been found missing; `/metrics` is Prometheus's text.
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


def health_routes(handlers: Handlers) -> list[BaseRoute]:
    """The three addresses."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # its processor time, memory and open files
    registry.register(QueueNumbers(handlers.queue))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def ready(_: Request) -> Response:
        loading = handlers.preloading
        is_ready = loading is not None and loading.done()
        return JSONResponse({"is_ready": is_ready}, 200 if is_ready else 503)

    async def metrics(_: Request) -> Response:
        text = generate_latest(registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)]


class QueueNumbers(Collector):
    """The queue's numbers at the moment when they are asked for."""

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
        yield from (states, seconds, ended, said)
