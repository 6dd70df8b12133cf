"""The whole page: one component, its events, and the files that it loads.

The component is an empty element that the JavaScript modules in `assets/player` fill. Gradio sends
the events of the page to the server. The template of the component holds no model text, because
Gradio runs templates as JavaScript. This module uses Gradio but does not know what a race is;
`handlers` does the work. The page contacts no other server.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction
from mimetypes import guess_type
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from specviz.environment import Environment
from specviz.folders import ASSETS
from specviz.prompts import all_held_out
from specviz.ui.answers import asked_by
from specviz.ui.api import CALL_ERRORS, add_endpoints, call_refusal, refusal
from specviz.ui.course.course import course_offer
from specviz.ui.gradio_sessions import bound_sessions, is_read
from specviz.ui.guard import Guard, unparsed, unreadable
from specviz.ui.handlers import Handlers
from specviz.ui.health import health_routes
from specviz.ui.lab.lab import lab_offer
from specviz.ui.page_files import (
    PLAYER,
    module_sources,
    packed_file,
    page_files,
    page_folders,
    styles,
    version,
)
from specviz.ui.runs import TICKET_LENGTHS
from specviz.ui.serving import serving_offer
from specviz.ui.setup import page_setup
from specviz.ui.spending import counted

ASKED = (
    "join",
    "fork",
    "profile",
    "look",
    "hear",
    "stop",
    "hold",
    "check",
    "open",
    "what_if",
    "diff",
)
LAB_ASKED = ("measure", "prompts", "draw", "table", "costs", "claims", "try_claim")
COURSE_ASKED = ("drive", "theory", "forward_line", "deployment", "two_words", "ready")
SERVING_ASKED = (
    *("size", "arrivals", "configuration", "translation"),
    *("attach", "reading", "written"),
)
ROOM_ASKED = (
    *("open_room", "lead_room", "watch_room"),
    *("join_room", "look_room", "vote", "leave_room"),
)
# The only call about a class that uses up the visitor's budget of processor time: it draws a QR
# code, which takes at least 15 ms.
DRAWS = "open_room"
# Calls that do not use up a visitor's budget of processor time: running jobs depend on them, and
# they do almost no work.
FREE = ("look", "stop", "hold", *(each for each in ROOM_ASKED if each != DRAWS))
# Seconds between two checks of Gradio's queue; its default of 0.001 keeps a core busy.
REST_SECONDS = 0.02

# Compresses an answer of a kilobyte or more, but no stream of events.
PACKED = Middleware(GZipMiddleware, minimum_size=1000, compresslevel=4)

_SYSTEM_FONT = ["system-ui", "-apple-system", "Segoe UI", "sans-serif"]
THEME = gr.themes.Base(font=_SYSTEM_FONT, font_mono=["ui-monospace", "Menlo", "monospace"])
_STYLED = ("shared", "room", *page_folders())
_LINKS = [("stylesheet", sheet) for folder in _STYLED for sheet in styles(folder)]
# The browser loads all modules in parallel.
_LINKS += [("modulepreload", name) for name in module_sources(PLAYER, "main.js")]
# The folder in the addresses of the page's files. It is not named `specviz`, because a proxy may
# serve the whole app at /specviz.
PLACE = "specviz-page"
FOLDER = (
    # The version is a part of the addresses, so browsers may cache the files of one version for
    # ever.
    f"{PLACE}/{version()}"
)
KEPT = "public, max-age=31536000, immutable"
HEAD = '<meta name="color-scheme" content="light dark">' + "".join(
    f'<link rel="{relation}" href="{FOLDER}/player/{file}">' for relation, file in _LINKS
)

ServerFunction = Callable[[dict[str, Any]], Any]

MOUNT = f"""
const page = new URL("{FOLDER}/player/main.js", document.baseURI).href;
import(page).then((module) => module.mount(element, {{
    server,
}})).catch((error) => {{
    console.error(error);
    element.textContent = "The page could not be loaded. Reload it to try again.";
}});
"""
TEMPLATE = '<div class="specviz" data-specviz><p class="loading">Loading …</p></div>'


class _Page(gr.Blocks):  # type: ignore[misc] # Gradio has no types
    """A Gradio page whose endpoints refuse wrong inputs with one sentence.

    An endpoint accepts only plain values, exactly as many as it has parameters. Without this check,
    Gradio would print a traceback, or fetch and keep a file that a value names.
    """

    def validate_inputs(self, block_fn: gr.blocks.BlockFunction, inputs: list[Any]) -> None:
        if len(inputs) != len(block_fn.inputs):
            raise refusal(f"data must have {len(block_fn.inputs)} values, got {len(inputs)}")
        if "gradio.FileData" in json.dumps(inputs):
            raise refusal("data must be plain values, got a file")


def build_page(handlers: Handlers) -> gr.Blocks:
    """Return the page. Its runs use the queue of `handlers`, not the queue of Gradio."""
    with _Page(title="specviz", analytics_enabled=False, fill_width=True) as page:
        asked = [getattr(handlers, name) for name in ASKED]
        asked += [getattr(handlers.lab, name) for name in LAB_ASKED]
        asked += [getattr(handlers.course, name) for name in COURSE_ASKED]
        asked += [getattr(handlers.serving, name) for name in SERVING_ASKED]
        _player(asked + [getattr(handlers.rooms, name) for name in ROOM_ASKED])
        # The column hides the components that Gradio makes for the parameters.
        with gr.Column(visible=False):
            add_endpoints(handlers, partial(is_read, page))
    bound_sessions(page)
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = REST_SECONDS
    return page


def _player(server_functions: Sequence[ServerFunction]) -> gr.HTML:
    """Return an empty element of the page whose scripts can call `server_functions`.

    The element is no subclass of `gr.HTML`, because Gradio would write a `.pyi` file next to the
    source of such a class at each start.
    """
    return gr.HTML(
        value="",
        html_template=TEMPLATE,
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[_plain(each) for each in server_functions],
    )


def _plain(method: ServerFunction) -> Callable[..., Any]:
    """Wrap a bound method in a function, because Gradio sets an attribute on server functions.

    The wrapper writes the visitor's address into the question, replacing any that it contains.
    """
    if iscoroutinefunction(method):

        async def later(question: Any, request: gr.Request) -> Any:
            return await method(asked_by(question, request))

        return _named(later, method)

    async def by_turns(question: Any, request: gr.Request) -> Any:
        return await counted(method, asked_by(question, request))

    def at_once(question: Any, request: gr.Request) -> Any:
        return method(asked_by(question, request))

    return _named(at_once if method.__name__ in FREE else by_turns, method)


def _named(function: Callable[..., Any], method: ServerFunction) -> Callable[..., Any]:
    function.__name__ = method.__name__
    return function


def launch_options(environment: Environment, handlers: Handlers) -> dict[str, Any]:
    """Return the options of `launch` that serve the page of `handlers`.

    If the user has set no port, the option is None and Gradio chooses the port: it reads
    GRADIO_SERVER_PORT, which a Space sets, and otherwise uses the first free port from 7860 on.
    """
    default = Environment()
    return {
        "server_name": environment.host,
        "server_port": None if environment.port == default.port else environment.port,
        "theme": THEME,
        "head": HEAD,
        "favicon_path": ASSETS / "favicon.svg",
        "footer_links": [],
        "ssr_mode": False,
        "show_error": False,
        "quiet": True,  # the command `serve` prints the page's address itself
        "app_kwargs": {
            "routes": routes(handlers),
            "middleware": [Middleware(Guard), PACKED],
            "exception_handlers": {RequestValidationError: unreadable, HTTPException: unparsed}
            | dict.fromkeys(CALL_ERRORS, call_refusal),
        },
    }


def routes(handlers: Handlers) -> list[BaseRoute]:
    """Return the routes of the page's files and lessons, and the route that a closing page calls.

    Relative addresses reach them behind any proxy.
    """
    setup = json.dumps(page_setup() | {"lab": lab_offer(), "serve": serving_offer()})
    prompts = json.dumps({"plain": all_held_out(False), "chat": all_held_out(True)})
    course = json.dumps(course_offer())

    def fixed(text: str) -> Callable[[Request], Response]:
        content = text.encode()
        packed = gzip.compress(content)
        return lambda request: _answer(request, content, packed, "application/json")

    # The app has single routes, not one Starlette mount. A mount would not find its routes behind a
    # proxy that removes the app's path.
    return [
        Route(f"/{FOLDER}/prompts.json", fixed(prompts)),
        Route(f"/{FOLDER}/setup.json", fixed(setup)),
        Route(f"/{FOLDER}/{{name:path}}", _kept_file),
        # The address of the lessons has no version, so that pages opened before a restart still
        # find them.
        Route(f"/{PLACE}/lessons.json", fixed(course)),
        Route(f"/{PLACE}/left", _left(handlers), methods=["POST"]),
        *health_routes(handlers),
    ]


def _left(handlers: Handlers) -> Any:
    """Return a route's function that ends the run whose ticket is the request's body."""

    async def stop(request: Request) -> Response:
        ticket = b""
        async for chunk in request.stream():
            ticket += chunk
            if len(ticket) >= TICKET_LENGTHS.stop:
                return Response(status_code=413)
        handlers.stop({"ticket": ticket.decode("ascii", "replace")})
        return Response(status_code=204)

    return stop


def _kept_file(request: Request) -> Response:
    """Return a file as it was when this process started.

    The address of the file has the version from that time, so the content must match it.
    """
    name = request.path_params["name"]
    content = page_files().get(name)
    if content is None:
        return Response(status_code=404)
    # Python guesses no type for a notebook.
    kind = guess_type(name)[0] or "application/octet-stream"
    answer = _answer(request, content, packed_file(name), kind)
    answer.headers["Cache-Control"] = KEPT
    return answer


def _answer(request: Request, content: bytes, packed: bytes, kind: str) -> Response:
    """Return `content`, or its compressed copy `packed` if the browser accepts gzip."""
    headers, takes = {"Vary": "Accept-Encoding"}, request.headers.get("Accept-Encoding", "")
    if "gzip" in takes:
        content, headers = packed, headers | {"Content-Encoding": "gzip"}
    return Response(content, media_type=kind, headers=headers)
