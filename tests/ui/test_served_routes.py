"""The table lists every route of the installed Gradio, served or not, and no other route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr
import pytest
from fastapi import FastAPI

from specviz.environment import Environment
from specviz.ui.handlers import Handlers
from specviz.ui.page import PLACE, build_page, launch_options
from specviz.ui.served_routes import MCP, ROUTES, RouteTable, Use

TABLE = RouteTable()
KNOWN = {(each.method, each.path) for each in ROUTES}


def walked(routes: Sequence[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield method and path of each route, including routes of nested routers and mounted apps."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        path = prefix + getattr(route, "path", "")
        if inner is not None:
            yield from walked(inner.routes, prefix)
        elif (methods := getattr(route, "methods", None)) is not None:
            yield from ((method, path) for method in methods)
        elif inside := getattr(route, "routes", None):
            yield from walked(inside, path)
        else:  # a mounted app accepts requests with any method
            yield from ((method, path) for method in ("GET", "POST", "DELETE"))


@pytest.fixture(scope="module")
def routes() -> set[tuple[str, str]]:
    """Return the routes that a browser may request.

    All files of our page count as one route.
    """
    handlers = Handlers()
    page = build_page(handlers)
    options = launch_options(Environment.read(), handlers)["app_kwargs"]
    app: FastAPI = gr.routes.App.create_app(page, app_kwargs=options, mcp_server=True)
    found = set()
    for method, path in walked(app.routes):
        plain = path.removesuffix("/") or "/"
        if plain.startswith(f"/{PLACE}/") and method in ("GET", "HEAD"):
            plain = f"/{PLACE}/{{name:path}}"
        found.add(("GET" if method == "HEAD" else method, plain))
    return found


def test_an_unclassified_route_fails_this_test(routes: set[tuple[str, str]]) -> None:
    mounted = {("DELETE", f"{MCP}/messages"), ("GET", f"{MCP}/messages")}
    assert sorted(routes - KNOWN - mounted) == [], "add each to the table: served, or unused"


def test_the_table_has_no_route_that_does_not_exist(routes: set[tuple[str, str]]) -> None:
    assert sorted(KNOWN - routes) == []


def test_no_served_route_also_matches_a_closed_one() -> None:
    for each in ROUTES:
        if each.use is Use.UNUSED:
            assert TABLE.use_of(each.method, each.path) is None, each.path


@pytest.mark.parametrize(
    ("method", "path", "use"),
    [
        ("GET", "/", Use.MADE),
        ("HEAD", "/health", Use.FILE),
        ("POST", "/gradio_api/component_server/", Use.PAGE),
        ("POST", "/gradio_api/call/v2/race", Use.MADE),
        ("GET", "/gradio_api/call/race/0123456789abcdef", Use.ANSWER),
        ("POST", "/gradio_api/mcp/", Use.TOOL),
        ("POST", "/health", None),
        ("GET", f"/static/{'a' * 256}", None),
        ("GET", "/pwa_icon/50000", None),
        ("GET", "/gradio_api/file=/etc/passwd", None),
        ("GET", "/gradio_api/file=http://example.org/", None),
    ],
)
def test_a_request_finds_its_route_by_method_and_path(
    method: str, path: str, use: Use | None
) -> None:
    assert TABLE.use_of(method, path) is use
