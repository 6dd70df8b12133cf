"""The server answers only under its own names and to its own page; static files are public."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from specviz.environment import Environment
from specviz.ui import site_names
from specviz.ui.guard import Guard
from specviz.ui.site_names import FOREIGN, name_refusal, page_refusal

LOCAL = Environment.read({})
PUBLIC = Environment.read({"SPECVIZ_PUBLIC": "1"})
LISTED = {"SPECVIZ_HOSTS": "Lab.Example, school.org"}


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:7860", "LOCALHOST.", "127.0.0.1:80", "[::1]:7860", "[fe80::1]"),
        *("[fe80::1%eth0]:7860", "localhost:"),
        *("192.168.1.5:7860", "10.0.0.7", "0.0.0.0:7860", "specviz.localhost"),
    ],
)
def test_loopback_names_and_addresses_belong_to_this_server(host: str) -> None:
    assert name_refusal(Headers({"host": host}), LOCAL) == ""


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7860", "localhost.evil.example", "127.0.0.1.evil.example"),
        *("", "notlocalhost", "x y", "[::1", "127.0.0.1:x@evil.example", "lab.example"),
        *("evil.example@localhost", "evil.example:80@localhost", "localhost@evil.example"),
        *("localhost/evil.example", "localhost?evil.example", "localhost#evil.example"),
        *("evil.example\\@localhost", "127.0.0.1%evil.example", "localhost:port", "local%68ost"),
    ],
)
def test_a_foreign_name_that_points_to_this_machine_is_refused(host: str) -> None:
    refusal = name_refusal(Headers({"host": host}), LOCAL)
    assert refusal.startswith("this server does not answer to the name")
    assert "SPECVIZ_HOSTS" in refusal and "\n" not in refusal
    assert name_refusal(Headers({"host": host}), PUBLIC) == "", "strangers may ask anyway"


def test_listed_names_are_served_and_on_a_public_server_no_others() -> None:
    for variables in (LISTED, LISTED | {"SPECVIZ_PUBLIC": "1"}):
        environment = Environment.read(variables)
        for host in ("lab.example:8080", "school.org", "10.0.0.7"):
            assert name_refusal(Headers({"host": host}), environment) == ""
        assert name_refusal(Headers({"host": "other.org"}), environment)


def test_the_machine_s_own_name_and_that_of_its_space_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_names, "_machine_names", lambda: ("laptop", "laptop.local"))
    for host in ("laptop:7860", "laptop.local:7860"):
        assert name_refusal(Headers({"host": host}), LOCAL) == ""
    named = Environment.read({"HOST": "Teacher.lan"})
    assert name_refusal(Headers({"host": "teacher.lan:7860"}), named) == ""
    space = {"SPACE_ID": "a/b", "SPACE_HOST": "a-b.hf.space", "SPECVIZ_PUBLIC": "0"}
    assert name_refusal(Headers({"host": "a-b.hf.space"}), Environment.read(space)) == ""


def test_programs_that_send_no_host_are_answered() -> None:
    assert name_refusal(Headers({}), LOCAL) == ""


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://lab.example", "lab.example", True),
        ("http://lab.example", "lab.example:80", True),
        ("https://lab.example:443", "lab.example", True),
        ("http://lab.example:8080", "lab.example", False),
        ("http://lab.example:8080", "127.0.0.1:7860", False),
        ("null", "127.0.0.1", False),
        ("http://127.0.0.1:x", "127.0.0.1", False),
    ],
)
def test_a_page_may_ask_the_host_that_it_came_from(origin: str, host: str, is_own: bool) -> None:
    refusal = page_refusal(Headers({"origin": origin, "host": host}), LOCAL)
    assert (refusal == "") == is_own
    assert is_own or (origin in refusal and host in refusal and "proxy" in refusal)


def test_behind_a_proxy_that_replaces_host_a_page_with_a_listed_name_is_ours() -> None:
    headers = Headers({"origin": "http://lab.example:8080", "host": "127.0.0.1:7860"})
    assert page_refusal(headers, Environment.read(LISTED)) == ""
    headers = Headers({**headers, "sec-fetch-site": "cross-site"})
    assert page_refusal(headers, Environment.read(LISTED)) == FOREIGN, "the browser knows better"


def test_static_files_are_sent_to_any_site_and_requests_are_refused() -> None:
    async def answer(_: Request) -> PlainTextResponse:
        return PlainTextResponse("content")

    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(Guard)]))
    proxied = {"Origin": "http://lab.example:8080", "Content-Type": "application/json"}
    for path in ("/assets/index.js", "/specviz-page/1/player/main.js", "/theme.css", "/health"):
        for host in ("127.0.0.1:7860", "evil.example"):
            assert client.get(path, headers=proxied | {"Host": host}).status_code == 200
    asked = client.post("/gradio_api/component_server", headers=proxied | {"Host": "127.0.0.1"})
    assert asked.status_code == 403 and "proxy" in asked.text
    rebound = client.get("/", headers={"Host": "evil.example"})
    assert rebound.status_code == 403 and "does not answer to the name" in rebound.text
