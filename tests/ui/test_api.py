"""Gradio's own client and the examples of docs/api.md call the documented endpoints."""

from __future__ import annotations

import gc
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from gradio import Blocks
from gradio.state_holder import SessionState
from gradio_client import Client
from gradio_client.exceptions import AppError

from specviz.environment import Environment
from specviz.records import SETTINGS
from specviz.ui import gradio_sessions
from specviz.ui.api import ENDPOINTS
from specviz.ui.gradio_sessions import LONGEST_NAME
from specviz.ui.guard import JSON, NO_JSON
from specviz.ui.handlers import Handlers
from specviz.ui.page import FOLDER, build_page, launch_options
from specviz.ui.turns import Work
from tests.browser.app_server import free_port
from tests.ui.heard import awaited
from tests.ui.random_race import RandomRace

DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
PROMPT = {"prompt": "Why?", "pair": "bundled"}
LONG = "x" * 20_000


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return Handlers(start=RandomRace)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page(handlers: Handlers) -> Blocks:
    return build_page(handlers)


@pytest.fixture(scope="module")
def url(page: Blocks, handlers: Handlers) -> Iterator[str]:
    options = launch_options(Environment(port=free_port()), handlers)
    page.launch(**options, mcp_server=True, prevent_thread_lock=True)
    yield page.local_url
    page.close(verbose=False)


@pytest.fixture(scope="module")
def client(url: str) -> Client:
    return Client(url, verbose=False)


@pytest.mark.parametrize("source", EXAMPLES)
def test_the_examples_run_unchanged(source: str, url: str) -> None:
    assert "http://127.0.0.1:7860/" in source
    exec(compile(source.replace("http://127.0.0.1:7860/", url), "api.md", "exec"), {})


@pytest.mark.parametrize(
    "path", ["", "config", f"{FOLDER}/setup.json", f"{FOLDER}/plotly.min.js", f"{FOLDER}/none"]
)
def test_large_answers_are_compressed(url: str, path: str) -> None:
    encoding, size = {"Accept-Encoding": "gzip"}, 0
    with httpx.stream("GET", url + path, headers=encoding) as answer:
        size = sum(map(len, answer.iter_raw()))
    plain = httpx.get(url + path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    is_large = len(plain.content) > 1000
    assert ("Content-Encoding" in answer.headers) == is_large
    assert size < 0.4 * len(plain.content) if is_large else size == len(plain.content)


def test_an_aborted_upload_of_a_form_leaves_no_file_on_the_disk(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradio writes the files of a form to disk.

    If the sender disconnects, Gradio never deletes them.

    So the app itself must delete them.
    """
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
    "path", ["call/v2/race", "call/race", "queue/join", "cancel", "reset", "component_server"]
)
def test_an_invalid_request_is_not_repeated_in_the_answer(url: str, path: str) -> None:
    """FastAPI would repeat the input once for each missing field.

    For one megabyte this took 11 seconds, during which the server answered nobody.
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


def test_sessions_leave_nothing_behind_whatever_their_names(url: str) -> None:
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


def test_calls_of_one_address_do_not_replace_calls_of_another(
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


THEORY = {"data": [0.5, 4, 0, 0]}


def address(url: str, number: int) -> httpx.Client:
    """Return a client with its own address, 127.0.0.`number`."""
    transport = httpx.HTTPTransport(local_address=f"127.0.0.{number}")
    return httpx.Client(base_url=url, transport=transport)


def test_fetched_calls_do_not_count_in_the_limit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio keeps a record of every session, even after its call has ended.

    The limit once counted these records, so the calls of 200 visitors blocked all endpoints.
    """
    monkeypatch.setattr(gradio_sessions, "MAX_CALLS", 4)
    for number in range(20, 32):
        with address(url, number) as caller:
            answer = caller.post("gradio_api/call/theory", json=THEORY)
            assert answer.status_code == 200, answer.text
            event = answer.json()["event_id"]
            assert "event: complete" in caller.get(f"gradio_api/call/theory/{event}").text


def test_calls_that_nobody_fetches_are_dropped_after_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradio_sessions, "MAX_CALLS", 4)
    posted = [
        address(url, number).post("gradio_api/call/theory", json=THEORY).status_code
        for number in range(40, 46)
    ]
    assert posted == [200, 200, 200, 200, 503, 503]
    monkeypatch.setattr(gradio_sessions, "UNHEARD_SECONDS", 0.0)
    for number in range(46, 49):
        answer = address(url, number).post("gradio_api/call/theory", json=THEORY)
        assert answer.status_code == 200
    monkeypatch.setattr(gradio_sessions, "KEEP_SECONDS", 0.0)
    assert address(url, 49).post("gradio_api/call/theory", json=THEORY).status_code == 200


def test_a_session_has_a_limited_number_of_calls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradio_sessions, "CALLS_OF_SESSION", 3)
    names = {
        each["api_name"]: each["id"] for each in httpx.get(f"{url}config").json()["dependencies"]
    }
    call = THEORY | {"fn_index": names["theory"], "session_hash": "greedy"}
    posted = [httpx.post(f"{url}gradio_api/queue/join", json=call).status_code for _ in range(5)]
    assert posted == [200, 200, 200, 503, 503]


def wait_for_ended(handlers: Handlers, races: int) -> None:
    """Wait until `races` races have ended since the server started."""
    deadline = time.monotonic() + 60
    while handlers.queue.turns.ended[Work.RACE] < races and time.monotonic() < deadline:
        time.sleep(0.02)
    assert handlers.queue.turns.ended[Work.RACE] == races


def test_a_call_that_nobody_fetches_keeps_few_messages(
    page: Blocks, url: str, handlers: Handlers
) -> None:
    """Every message contains all results so far; twelve races took 290 MB in 70 seconds."""
    given, races = PROMPT | {"max_new_tokens": 200}, handlers.queue.turns.ended[Work.RACE]
    event = httpx.post(f"{url}gradio_api/call/v2/race", json=given).json()["event_id"]
    messages = page._queue.pending_messages_per_session[event]
    wait_for_ended(handlers, races + 1)
    heard = httpx.get(f"{url}gradio_api/call/v2/race/{event}").text
    assert "event: complete" in heard and '"reason": "length"' in heard
    assert heard.count("event: ") <= gradio_sessions.MOST_UNREAD + 2
    assert messages.qsize() == 0


def test_a_call_that_is_replaced_ends_its_run(
    url: str, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradio_sessions, "CALLS_OF_ADDRESS", 1)
    given = PROMPT | {"max_new_tokens": 1000}
    races = handlers.queue.turns.ended[Work.RACE]
    with address(url, 60) as caller:
        caller.post("gradio_api/call/v2/race", json=given)
        while not handlers.queue.states["running"]:
            time.sleep(0.02)
        caller.post("gradio_api/call/theory", json=THEORY)
        wait_for_ended(handlers, races + 1)


def test_a_call_that_is_no_longer_kept_is_refused_in_one_sentence(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "this call is no longer stored: its result was fetched, or newer calls replaced it"
    for path in ("call/race/0123", "call/v2/race/0123"):
        heard = httpx.get(f"{url}gradio_api/{path}").text
        assert heard == f'event: error\ndata: "{sentence}"\n\n'
    heard = httpx.get(f"{url}gradio_api/queue/data?session_hash=0123").text
    assert "session_not_found" in heard and sentence in heard
    assert not caplog.records


def test_a_file_named_in_a_call_is_not_read(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    link = "http://127.0.0.1:9/x"
    file = {"path": link, "url": link, "meta": {"_type": "gradio.FileData"}}
    with httpx.Client(base_url=url, timeout=20) as client:
        event = client.post("gradio_api/call/race", json={"data": [file] * 40}).json()["event_id"]
        assert client.get(f"gradio_api/call/race/{event}").text.startswith("event: error")
    assert capfd.readouterr().err == "", "Gradio has asked whether it may go there"


def test_the_documented_table_equals_the_published_endpoints(client: Client) -> None:
    published = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    # The part "Operation" of the document lists addresses that are no endpoints.
    table = DOCUMENT.partition("## Operation")[0]
    assert re.findall(r"^\| `(/\w+)` \|", table, re.MULTILINE) == list(published)


def test_every_parameter_has_a_type_and_every_result_has_its_fields(client: Client) -> None:
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
        ("/race", PROMPT | {"options": [1]}, "options must map names to values"),
        ("/trace", PROMPT | {"prompt": ""}, "prompt must have some text"),
        ("/sweep", {"pair": "bundled", "axis": "colour"}, "axis must be one of"),
        ("/sweep", {"pair": "bundled", "count": 10**6}, "count must be a whole number from 1"),
        ("/sweep", {"repeats": 0}, "repeats must be a whole number from 1 to 100, got 0"),
        (
            "/sweep",
            {"values": "many"},
            "values: draft-length must be whole numbers separated by commas",
        ),
        ("/sweep", {"values": "1-99"}, "values: draft-length must be a rising range of at most"),
        ("/sweep", {"values": "0,1"}, "values: draft_length must be a whole number from 1 to 32"),
        ("/sweep", {"axis": ["x"]}, "axis must be one of draft-length, "),
        ("/sweep", {"second_axis": "x", "second_values": "1"}, "second_axis must be one of"),
        ("/sweep", {"second_values": "1"}, "second_axis must be one of"),
        (
            "/sweep",
            {"second_axis": "draft-length", "second_values": "1"},
            "second_axis must differ from axis, got 'draft-length' for both",
        ),
        (
            "/sweep",
            {"second_axis": "temperature", "second_values": "0,hot"},
            "second_values: temperature must be numbers separated by commas, got 'hot'",
        ),
        ("/sweep", {"draft_length": 99}, "draft_length must be a whole number from 1 to 32"),
        ("/sweep", {"prompts": "a\nb", "count": 3}, "count must be a whole number from 1 to 2"),
        ("/profile", {"prompts": "a\nb", "count": 3}, "count must be a whole number from 1 to 2"),
        ("/advise", {"methods": "magic"}, "methods must be among draft-model, "),
        ("/advise", {"task": ["code"]}, "task must be text, got an array of 1 item"),
        ("/sweep", {"system": "a" * 501}, "system must have at most 500 characters, got 501"),
        (
            "/race",
            PROMPT | {"target": "a/b"},
            "target must not be given together with a pair, got 'bundled'",
        ),
        ("/race", {"prompt": "a", "draft": "a/b"}, "draft must be given together with target"),
        ("/advise", {"medusa": "a/b"}, "medusa must be given together with target"),
        ("/advise", {"pair": "bundled", "seconds": 1e9}, "seconds must be from 10 to"),
        ("/lossless", {"draws": "many"}, "draws must be a whole number"),
        (
            "/profile",
            {"prompts": 3},
            "prompts must be a text of at most 2,000,000 characters, got 3",
        ),
        ("/race", PROMPT | {"raw": 0.5}, "raw must be true or false, got 0.5"),
        ("/race", PROMPT | {"temperature": True}, "temperature must be a number, got True"),
        ("/race", PROMPT | {"system": True}, "system must be text, got True"),
        ("/theory", {"acceptance_rate": 2, "draft_length": 5}, "acceptance_rate must be"),
        ("/theory", {"acceptance_rate": 0.5, "draft_length": 0}, "draft_length must be"),
    ],
)
def test_a_call_that_breaks_a_rule_is_refused_in_one_sentence(
    client: Client, endpoint: str, given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(AppError) as refused:
        client.predict(**given, api_name=endpoint)
    assert str(refused.value).startswith(sentence) and "\n" not in str(refused.value)


def called(url: str, name: str, values: list[Any]) -> str:
    """Call an endpoint over HTTP; return the text of its events."""
    call = f"{url}gradio_api/call/{name}"
    event = httpx.post(call, json={"data": values}).json()["event_id"]
    return httpx.get(f"{call}/{event}").text


def test_a_refusal_is_one_sentence(url: str) -> None:
    refused = called(url, "theory", [2, 5, 0, 0])
    assert (
        "event: error" in refused
        and "acceptance_rate must be a number from 0 to 1, got 2" in refused
    )
    assert "event: complete" in called(url, "theory", [0.5, 2, 0, 0])


@pytest.mark.parametrize("given", [0, 3, 5, 50])
def test_a_call_with_too_few_or_too_many_values_is_refused_in_one_sentence(
    url: str, capfd: pytest.CaptureFixture[str], given: int
) -> None:
    heard = called(url, "theory", [0.5] * given)
    assert "event: error" in heard and f"data must have 4 values, got {given}" in heard
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "given",
    [
        *({"pair": LONG}, {"method": LONG}, {"task": LONG}, {"device": LONG}, {"dtype": LONG}),
        *({"drawing": LONG}, {"options": {LONG: 1}}, {"options": {LONG: "x"}}),
        *({"pair": "", "target": LONG}, {"prompt": LONG}, {"system": LONG}, {"branching": LONG}),
    ],
)
def test_a_long_value_is_shortened_in_its_refusal(url: str, given: dict[str, Any]) -> None:
    """The refusal of a wrong pair once repeated 20,000 characters."""
    call = f"{url}gradio_api/call/v2/lossless"
    asked = {"pair": "bundled"} | given
    event = httpx.post(call, json=asked).json()["event_id"]
    heard = httpx.get(f"{call}/{event}").text
    assert "event: error" in heard and " got " in heard
    assert len(heard) < 600


def test_a_refusal_of_own_prompts_names_what_was_sent(client: Client) -> None:
    for endpoint, given, told in (
        ("/profile", "a" * 2_000_001, "2,000,000 characters, got 2,000,001"),
        ("/sweep", "a" * 200_001, "200,000 characters, got 200,001"),
        ("/sweep", 3.5, "200,000 characters, got 3.5"),
    ):
        with pytest.raises(AppError, match=f"prompts must be a text of at most {told}"):
            client.predict(pair="bundled", prompts=given, api_name=endpoint)


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("call/theory", '{"data": 1}', "'data' must be a valid list, got 1"),
        ("call/theory", "{}", "'data' must be given in the request, got nothing"),
        ("call/theory", "[1]", "the body must be a JSON object, got an array of 1 item"),
        ("call/v2/theory", "null", "the body must be a JSON object, got None"),
        ("call/v2/theory", "", "the body must be given in the request, got nothing"),
        ("call/v2/theory", "{", NO_JSON),
        ("call/v2/theory", f'{{"draft_length": {"9" * 5000}}}', NO_JSON),
        ("call/v2/theory", "[" * 5000 + "]" * 5000, NO_JSON),
        ("component_server", '{"data": %s}' % ("9" * 5000), NO_JSON),
        ("queue/join", '{"data": [], "fn_index": "x"}', "'fn_index' must be a valid integer, got"),
    ],
)
def test_a_body_that_is_not_the_expected_json_is_refused_in_one_sentence(
    url: str, caplog: pytest.LogCaptureFixture, path: str, body: str, sentence: str
) -> None:
    answer = httpx.post(
        f"{url}gradio_api/{path}", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.text.startswith(sentence) and answer.status_code // 100 == 4
    assert "\n" not in answer.text and len(answer.text) < 200
    assert not caplog.records


NO_ENDPOINT = (
    "endpoint must be one of race, trace, sweep, advise, profile, lossless, claims, theory"
)


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        (
            "theory",
            {"acceptance_rate": 0.5, "draft_length": 3, "c": 1},
            "parameter 'c' is unknown to theory, whose parameters /gradio_api/info lists",
        ),
        ("theory", {"draft_length": 3}, "acceptance_rate is missing from the call of theory"),
        ("race", {}, "prompt is missing from the call of race"),
        ("race", {"prompt": "a", "x" * 999: 1}, "parameter 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        ("nothing", {}, f"{NO_ENDPOINT}, got 'nothing'"),
    ],
)
def test_an_unknown_endpoint_or_parameter_is_refused_in_one_sentence(
    url: str, caplog: pytest.LogCaptureFixture, name: str, given: dict[str, Any], sentence: str
) -> None:
    answer = httpx.post(f"{url}gradio_api/call/v2/{name}", json=given)
    assert answer.status_code == 400 and answer.text.startswith(sentence)
    assert len(answer.text) < 200 and not caplog.records


def test_an_unknown_endpoint_called_without_names_is_refused_in_one_sentence(url: str) -> None:
    answer = httpx.post(f"{url}gradio_api/call/nothing", json={"data": []})
    assert (answer.status_code, answer.text) == (400, f"{NO_ENDPOINT}, got 'nothing'")


def test_a_cancelled_call_ends_its_run(client: Client, handlers: Handlers) -> None:
    ended = handlers.queue.turns.ended[Work.RACE]
    call = client.submit(**PROMPT, max_new_tokens=800, api_name="/race")
    next(call)
    call.cancel()
    deadline = time.monotonic() + 60
    while handlers.queue.states["running"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert handlers.queue.states["running"] == 0
    assert handlers.queue.turns.ended[Work.RACE] == ended + 1


def test_curl_uses_one_address_to_call_and_one_to_read_the_result(url: str) -> None:
    (body,) = re.findall(r"-d '(.*)'$", DOCUMENT, re.MULTILINE)
    asking, hearing = re.findall(r"http://127.0.0.1:7860/(gradio_api/call\S+)", DOCUMENT)
    headers = {"Content-Type": "application/json"}
    event = httpx.post(url + asking, content=body, headers=headers).json()["event_id"]
    heard = httpx.get(url + hearing.replace("EVENT_ID", event)).text
    assert '"best":' in heard.replace(" ", "").replace("\\", "")


def test_the_claims_are_returned_with_their_verdicts(client: Client) -> None:
    assert len(client.predict(api_name="/claims")) == 32


def test_agents_can_use_the_endpoints_as_tools(url: str) -> None:
    """The test uses the official client of the Model Context Protocol."""

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
