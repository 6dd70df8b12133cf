"""Every route of the app: those that are served, and those of Gradio that are blocked.

Some routes of Gradio store files, fetch addresses for their caller, or expose the server's state.
Routes that neither the page nor a program in `docs/api.md` needs answer 404. Every route that is
missing from this table answers 404 as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from starlette.routing import compile_path

MCP = "/gradio_api/mcp"
LONGEST_NAME = 255  # largest number of characters between two slashes; no file has a longer name


class Use(Enum):
    """The purpose of a route; it decides what a request costs and how large it may be."""

    FILE = "the same content for everybody"
    ANSWER = "an answer that costs next to nothing"
    MADE = "an answer that Gradio builds anew for each request"
    PAGE = "a question of the page, which its handler checks"
    TOOL = "tools of agents"
    UNUSED = "a route of Gradio that does not exist here"


@dataclass(frozen=True, slots=True)
class ServedRoute:
    """A path in Starlette's notation; a trailing slash makes no difference."""

    use: Use
    method: str  # the HTTP method; GET includes HEAD
    path: str


def _routes(use: Use, method: str, *paths: str) -> list[ServedRoute]:
    return [ServedRoute(use, method, path) for path in paths]


ROUTES = (
    # the routes of the app itself
    *_routes(Use.FILE, "GET", "/specviz-page/{name:path}", "/health", "/ready"),
    *_routes(Use.ANSWER, "POST", "/specviz-page/left"),
    *_routes(Use.MADE, "GET", "/metrics"),
    # the routes of Gradio's page and its files
    *_routes(Use.MADE, "GET", "/", "/config"),
    *_routes(Use.FILE, "GET", "/assets/{path:path}", "/static/{path:path}"),
    *_routes(Use.FILE, "GET", "/theme.css", "/gradio_api/theme.css"),
    *_routes(Use.FILE, "GET", "/favicon.ico", "/manifest.json", "/robots.txt"),
    *_routes(Use.FILE, "GET", "/pwa_icon"),
    # the page's questions, and how the page notices that the server was restarted
    *_routes(Use.PAGE, "POST", "/gradio_api/component_server"),
    *_routes(Use.ANSWER, "GET", "/gradio_api/heartbeat/{session_hash}", "/gradio_api/app_id"),
    *_routes(Use.ANSWER, "GET", "/gradio_api/startup-events"),
    # the routes that programs such as gradio_client and curl call
    *_routes(Use.MADE, "GET", "/gradio_api/info"),
    *_routes(Use.MADE, "POST", "/gradio_api/call/{api_name}", "/gradio_api/call/v2/{api_name}"),
    *_routes(Use.MADE, "POST", "/gradio_api/queue/join"),
    *_routes(Use.ANSWER, "GET", "/gradio_api/call/{api_name}/{event_id}"),
    *_routes(Use.ANSWER, "GET", "/gradio_api/call/v2/{api_name}/{event_id}"),
    *_routes(Use.ANSWER, "GET", "/gradio_api/queue/data"),
    *_routes(Use.ANSWER, "POST", "/gradio_api/cancel", "/gradio_api/reset"),
    # the routes that agents call as tools, if the server runs with `--mcp`
    *_routes(Use.TOOL, "GET", MCP, f"{MCP}/schema"),
    *_routes(Use.TOOL, "POST", MCP),
    *_routes(Use.TOOL, "DELETE", MCP),
    # blocked: these fetch any address for the caller, or read files
    *_routes(Use.UNUSED, "GET", "/gradio_api/file={path_or_url:path}"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/file/{path:path}"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/proxy={url_path:path}"),
    *_routes(Use.UNUSED, "GET", "/svelte/{path:path}"),
    *_routes(
        *(Use.UNUSED, "GET"),
        "/gradio_api/custom_component/{id}/{environment}/{type}/{file_name}",
    ),
    # blocked: these store the data that a caller sends
    *_routes(Use.UNUSED, "POST", "/gradio_api/upload", "/gradio_api/process_recording"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/upload_progress", "/gradio_api/deep_link"),
    # blocked: media streams, which no component here has
    *_routes(Use.UNUSED, "POST", "/gradio_api/stream/{event_id}"),
    *_routes(Use.UNUSED, "POST", "/gradio_api/stream/{event_id}/close"),
    *_routes(
        *(Use.UNUSED, "GET"),
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist.m3u8",
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext}",
        "/gradio_api/stream/{session_hash}/{run}/{component_id}/playlist-file",
    ),
    # blocked: draws an icon in any size, but our icon is a vector graphic
    *_routes(Use.UNUSED, "GET", "/pwa_icon/{size}"),
    # blocked: accounts, which do not exist here
    *_routes(Use.UNUSED, "POST", "/login"),
    *_routes(Use.UNUSED, "GET", "/logout", "/gradio_api/user", "/gradio_api/token"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/login_check"),
    # blocked: calls without a queue, and descriptions that nobody here reads
    *_routes(Use.UNUSED, "POST", "/gradio_api/run/{api_name}", "/gradio_api/api/{api_name}"),
    *_routes(Use.UNUSED, "GET", "/openapi.json", "/gradio_api/openapi.json"),
    # blocked: these expose the server's state, or change its program
    *_routes(Use.UNUSED, "GET", "/monitoring", "/monitoring/summary", "/monitoring/{key}"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/queue/status", "/gradio_api/dev/reload"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/runs", "/gradio_api/run-history/buckets"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/run-history/records"),
    *_routes(
        *(Use.UNUSED, "GET"),
        "/gradio_api/run-history/records/{endpoint}/{record_id}/assets/{asset_id}",
    ),
    *_routes(Use.UNUSED, "POST", "/gradio_api/run-history/connect"),
    *_routes(Use.UNUSED, "POST", "/gradio_api/vibe-edit", "/gradio_api/undo-vibe-edit"),
    *_routes(Use.UNUSED, "POST", "/gradio_api/vibe-code", "/gradio_api/vibe-starter-queries"),
    *_routes(Use.UNUSED, "GET", "/gradio_api/vibe-code"),
    # blocked: an older transport for tools
    *_routes(Use.UNUSED, "GET", f"{MCP}/sse"),
    *_routes(Use.UNUSED, "POST", f"{MCP}/messages"),
)


class RouteTable:
    """The table in which the guard looks up the purpose of a request."""

    def __init__(self, routes: Sequence[ServedRoute] = ROUTES) -> None:
        self._served: list[tuple[str, re.Pattern[str], Use]] = [
            (each.method, compile_path(each.path)[0], each.use)
            for each in routes
            if each.use is not Use.UNUSED
        ]

    def use_of(self, method: str, path: str) -> Use | None:
        """Return the purpose of the route, or None if it is not served."""
        method = "GET" if method == "HEAD" else method
        plain = path.removesuffix("/") or "/"
        if any(len(part) > LONGEST_NAME for part in plain.split("/")):
            return None
        for served, pattern, use in self._served:
            if served == method and pattern.match(plain):
                return use
        return None
