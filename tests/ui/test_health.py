"""What a machine reads of the server."""

from concurrent.futures import Future

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from specviz import __version__
from specviz.ui.handlers import Handlers
from specviz.ui.health import health_routes


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def client(handlers: Handlers) -> TestClient:
    return TestClient(Starlette(routes=health_routes(handlers)))


def test_a_server_that_answers_is_healthy(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": __version__}


def test_it_is_ready_once_what_the_page_begins_with_is_loaded(
    client: TestClient, handlers: Handlers
) -> None:
    assert client.get("/ready").status_code == 503
    handlers.preloading = Future()
    assert client.get("/ready").json() == {"is_ready": False}
    handlers.preloading.set_result(None)
    assert client.get("/ready").status_code == 200


def test_its_metrics_are_prometheus_text_with_the_queue_in_it(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = {each.name: each for each in text_string_to_metric_families(answer.text)}
    states = {each.labels["state"]: each.value for each in found["specviz_runs"].samples}
    assert states == {"waiting": 0, "running": 0, "held": 0}
    assert {"specviz_decoding_seconds", "specviz_runs_ended", "specviz_record_bytes"} <= set(found)
    assert found["process_resident_memory_bytes"].samples[0].value > 0
