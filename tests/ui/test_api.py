"""The named endpoints, asked by Gradio's own client and as the examples of docs/api.md do."""

from __future__ import annotations

import gc
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from gradio.state_holder import SessionState
from gradio_client import Client
from gradio_client.exceptions import AppError

from specviz.environment import Environment
from specviz.records import SETTINGS
from specviz.ui import gradio_sessions
from specviz.ui.api import ENDPOINTS
from specviz.ui.gradio_sessions import LONGEST_NAME
from specviz.ui.guard import JSON
from specviz.ui.handlers import Handlers
from specviz.ui.page import FOLDER, build_page, launch_options
from specviz.ui.turns import Work
from tests.browser.app_server import free_port
from tests.ui.heard import awaited
from tests.ui.random_race import RandomRace

DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
PROMPT = {"prompt": "Why?", "pair": "bundled"}


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return Handlers(start=RandomRace)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def url(handlers: Handlers) -> Iterator[str]:
    page = build_page(handlers)
    options = launch_options(Environment(port=free_port()), handlers)
    page.launch(**options, mcp_server=True, prevent_thread_lock=True)
    yield page.local_url
    page.close(verbose=False)


@pytest.fixture(scope="module")
def client(url: str) -> Client:
    return Client(url, verbose=False)


@pytest.mark.parametrize("source", EXAMPLES)
def test_the_examples_run_as_they_stand(source: str, url: str) -> None:
    assert "http://127.0.0.1:7860/" in source
    exec(compile(source.replace("http://127.0.0.1:7860/", url), "api.md", "exec"), {})


@pytest.mark.parametrize(
    "path", ["", "config", f"{FOLDER}/setup.json", f"{FOLDER}/plotly.min.js", f"{FOLDER}/none"]
)
def test_what_is_large_is_sent_packed(url: str, path: str) -> None:
    encoding, size = {"Accept-Encoding": "gzip"}, 0
    with httpx.stream("GET", url + path, headers=encoding) as answer:
        size = sum(map(len, answer.iter_raw()))
    plain = httpx.get(url + path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    is_large = len(plain.content) > 1000
    assert ("Content-Encoding" in answer.headers) == is_large
    assert size < 0.4 * len(plain.content) if is_large else size == len(plain.content)


def test_a_file_that_is_sent_as_a_form_and_broken_off_leaves_nothing_on_the_disk(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradio writes the files of a form to the disk, and forgets one whose sender has gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    head = b'--X\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'
    kind = "multipart/form-data; boundary=X"
    asked = [*(f"gradio_api/{name}" for name in ("component_server", "queue/join", "call/race"))]
    for path in asked:
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port)) as line:
            line.sendall(
                f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
                "Content-Length: 9000000\r\n\r\n".encode()
            )
            line.sendall(head + b"a" * 3_000_000)
            time.sleep(0.5)
        answer = httpx.post(url + path, content=head, headers={"Content-Type": kind})
        assert (answer.status_code, answer.text) == (
            415,
            f"a question must be JSON, and say so (Content-Type: {JSON})",
        )
    time.sleep(0.5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["run/race", "call/race", "queue/join", "cancel", "reset", "component_server"]
)
def test_a_question_of_another_form_is_not_sent_back(url: str, path: str) -> None:
    """FastAPI would, once for each field that is missing: of one megabyte that took 11 seconds, in
    which nobody else was answered.
    """
    answer = httpx.post(f"{url}gradio_api/{path}", json={"x": ["that was sent"] * 2000})
    assert 400 <= answer.status_code < 500 and "that was sent" not in answer.text
    assert len(answer.content) < 1000
    many = {"x": [{"a": 1}] * 60_000}
    answer = httpx.post(f"{url}gradio_api/{path}", json=many)
    if path == "component_server":
        assert answer.status_code == 400, "the page's own questions may be larger"
    else:
        assert answer.text == "a question must hold at most 20000 values"


def test_sessions_leave_nothing_behind_whatever_they_are_called(url: str) -> None:
    config = httpx.get(f"{url}config").json()
    (page,) = (each["id"] for each in config["components"] if each["type"] == "html")
    look = {"ticket": "a-ticket-of-a-test", "after": 0}
    asked = {"component_id": page, "fn_name": "look", "data": look}
    for number in range(20):
        question = asked | {"session_hash": f"{number}"}
        answer = httpx.post(f"{url}gradio_api/component_server", json=question)
        assert answer.json()["state"] == "unknown"
    assert sum(isinstance(each, SessionState) for each in gc.get_objects()) <= 1
    call = {"fn_index": 0, "data": [], "session_hash": "x" * (LONGEST_NAME + 1)}
    refused = httpx.post(f"{url}gradio_api/queue/join", json=call)
    assert "session_hash must have at most 64 characters" in refused.text


def test_calls_of_one_address_push_out_none_of_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradio_sessions, "CALLS_OF_ADDRESS", 3)
    greedy, other = (
        httpx.Client(base_url=url, transport=httpx.HTTPTransport(local_address=f"127.0.0.{number}"))
        for number in (8, 9)
    )
    given = {"data": [0.5, 4, 0, 0]}
    calls = [
        (asker, asker.post("gradio_api/call/theory", json=given).json()["event_id"])
        for asker in (other, *[greedy] * gradio_sessions.MAX_CALLS, other)
    ]
    for asker, event in (calls[0], *calls[-4:]):
        assert "event: complete" in asker.get(f"gradio_api/call/theory/{event}").text


def test_a_file_that_a_call_names_is_not_fetched(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    link = "http://127.0.0.1:9/x"
    file = {"path": link, "url": link, "meta": {"_type": "gradio.FileData"}}
    with httpx.Client(base_url=url, timeout=20) as client:
        event = client.post("gradio_api/call/race", json={"data": [file] * 40}).json()["event_id"]
        assert client.get(f"gradio_api/call/race/{event}").text.startswith("event: error")
    assert capfd.readouterr().err == "", "Gradio has asked whether it may go there"


def test_the_table_of_the_document_is_what_is_published(client: Client) -> None:
    published = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert re.findall(r"^\| `(/\w+)` \|", DOCUMENT, re.MULTILINE) == list(published)


def test_every_parameter_has_a_type_and_every_result_its_fields(client: Client) -> None:
    published = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    for endpoint in ENDPOINTS:
        found = published[f"/{endpoint.name}"]
        assert [each["parameter_name"] for each in found["parameters"]] == [
            each.name for each in endpoint.parameters
        ]
        assert all(each["type"] for each in found["parameters"])
        (result,) = found["returns"]
        assert set(result["type"]["properties"]) == set(endpoint.result.__annotations__) | {
            "state",
            "ahead",
            "warning",
        }


def test_a_race_takes_every_setting_of_the_page(client: Client) -> None:
    published = client.view_api(return_format="dict", print_info=False)["named_endpoints"]["/race"]
    assert {each["parameter_name"] for each in published["parameters"]} == set(SETTINGS)


def test_a_race_streams_its_texts_and_ends_with_its_numbers(client: Client) -> None:
    seen = list(client.submit(**PROMPT, max_new_tokens=12, api_name="/race"))
    assert [each["state"] for each in seen[-2:]] == ["running", "done"]
    lengths = [len(each["text"]) for each in seen]
    assert lengths == sorted(lengths) and lengths[-1] > 0
    assert seen[-1]["summary"]["speculative"]["tokens"] > 0 and seen[-1]["reason"]


@pytest.mark.parametrize(
    ("endpoint", "given", "sentence"),
    [
        ("/race", PROMPT | {"draft_length": 0}, "draft_length must be a whole number from 1 to"),
        ("/race", PROMPT | {"temperature": [1]}, "temperature must be a number, got an array"),
        ("/race", PROMPT | {"pair": "no"}, "pair must be one of"),
        ("/race", PROMPT | {"prompt": {"a": 1}}, "prompt must be text, got an object of 1 field"),
        ("/race", PROMPT | {"options": [1]}, "options must be values by name"),
        ("/trace", PROMPT | {"prompt": ""}, "prompt must have some text"),
        ("/sweep", {"pair": "bundled", "axis": "colour"}, "axis must be one of"),
        ("/sweep", {"pair": "bundled", "count": 10**6}, "prompts must be a whole number from 1"),
        ("/advise", {"pair": "bundled", "seconds": 1e9}, "seconds must be from 10 to"),
        ("/profile", {"pair": "bundled", "prompts": 3}, "prompts must be a text of at most"),
        ("/lossless", {"draws": "many"}, "draws must be a whole number"),
        ("/theory", {"acceptance_rate": 2, "draft_length": 5}, "a must be"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_sentence(
    client: Client, endpoint: str, given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(AppError) as refused:
        client.predict(**given, api_name=endpoint)
    assert str(refused.value).startswith(sentence) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "status", "sentence"),
    [([2, 5, 0, 0], 400, "a must be a number from 0 to 1, got 2"), ([0.5, 2, 0, 0], 200, None)],
)
def test_a_refusal_is_the_asker_s_error(
    url: str, values: list[float], status: int, sentence: str | None
) -> None:
    answer = httpx.post(f"{url}gradio_api/run/theory", json={"data": values})
    assert (answer.status_code, answer.json().get("error")) == (status, sentence)


def test_a_call_with_too_few_values_is_refused_in_one_sentence(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    call = f"{url}gradio_api/call/race"
    event = httpx.post(call, json={"data": []}).json()["event_id"]
    heard = httpx.get(f"{call}/{event}").text
    count = len(ENDPOINTS[0].parameters)
    assert "event: error" in heard and f"data must have {count} values, got 0" in heard
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_call_that_is_cancelled_ends_its_run(client: Client, handlers: Handlers) -> None:
    ended = handlers.queue.turns.ended[Work.RACE]
    call = client.submit(**PROMPT, max_new_tokens=800, api_name="/race")
    next(call)
    call.cancel()
    deadline = time.monotonic() + 60
    while handlers.queue.states["running"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert handlers.queue.states["running"] == 0
    assert handlers.queue.turns.ended[Work.RACE] == ended + 1


def test_curl_asks_by_two_addresses(url: str) -> None:
    (body,) = re.findall(r"-d '(.*)'$", DOCUMENT, re.MULTILINE)
    asking, hearing = re.findall(r"http://127.0.0.1:7860/(gradio_api/call\S+)", DOCUMENT)
    headers = {"Content-Type": "application/json"}
    event = httpx.post(url + asking, content=body, headers=headers).json()["event_id"]
    heard = httpx.get(url + hearing.replace("EVENT_ID", event)).text
    assert '"best":' in heard.replace(" ", "").replace("\\", "")


def test_the_claims_come_with_their_verdicts(client: Client) -> None:
    assert len(client.predict(api_name="/claims")) == 32


def test_agents_find_the_endpoints_as_tools(url: str) -> None:
    """By the client of the Model Context Protocol itself."""

    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async def ask() -> tuple[set[str], str, str]:
        async with (
            streamablehttp_client(f"{url}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            theory = {"acceptance_rate": 0.8, "draft_length": 5, "cost_ratio": 0.05}
            told = await session.call_tool("theory", theory)
            raced = await session.call_tool("race", PROMPT | {"max_new_tokens": 8})
            return tools, told.content[0].text, raced.content[-1].text

    tools, told, raced = awaited(ask())
    assert {endpoint.name for endpoint in ENDPOINTS} | {"claims", "theory"} <= tools
    assert "best" in told and "speedup" in raced
