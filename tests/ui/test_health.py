"""Other programs can read whether the server is healthy and ready, and its metrics."""

from concurrent.futures import Future

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from specviz import __version__
from specviz.ui.decoding_queue import DecodingQueue
from specviz.ui.handlers import Handlers
from specviz.ui.health import STALLED_SECONDS, health_routes


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def client(handlers: Handlers) -> TestClient:
    return TestClient(Starlette(routes=health_routes(handlers)))


def test_a_server_that_answers_is_healthy(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": __version__}


def test_the_server_is_ready_once_the_first_pair_is_loaded(
    client: TestClient, handlers: Handlers
) -> None:
    assert client.get("/ready").status_code == 503
    handlers.preloading = Future()
    assert client.get("/ready").json() == {"is_ready": False}
    handlers.preloading.set_result(None)
    assert client.get("/ready").status_code == 200


def test_the_server_is_not_ready_while_a_turn_does_not_end(
    client: TestClient, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers.preloading = Future()
    handlers.preloading.set_result(None)
    ages = iter((STALLED_SECONDS - 1, STALLED_SECONDS, 0.0))
    monkeypatch.setattr(DecodingQueue, "turn_age", property(lambda _: next(ages)))
    assert [client.get("/ready").status_code for _ in range(3)] == [200, 503, 200]
    assert client.get("/health").status_code == 200


def test_the_metrics_are_prometheus_text_with_the_queue_in_it(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = {each.name: each for each in text_string_to_metric_families(answer.text)}
    states = {each.labels["state"]: each.value for each in found["specviz_runs"].samples}
    assert states == {"waiting": 0, "running": 0, "held": 0}
    assert found["specviz_turn_age_seconds"].samples[0].value == 0
    assert {"specviz_decoding_seconds", "specviz_runs_ended", "specviz_record_bytes"} <= set(found)
    assert found["process_resident_memory_bytes"].samples[0].value > 0
