"""The whole page: one component, its events, and the files that it loads.

The component is an empty element that the player's own modules fill; Gradio carries the events. Its
template holds no model text: Gradio runs templates as JavaScript. Knows Gradio and nothing of
races; `handlers` does the work. Nothing is asked of other servers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from mimetypes import guess_type
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from specviz.environment import Environment
from specviz.folders import ASSETS
from specviz.prompts import all_held_out
from specviz.ui.answers import asked_by
from specviz.ui.api import add_endpoints, refusal
from specviz.ui.course.course import course_offer
from specviz.ui.gradio_sessions import bound_sessions
from specviz.ui.guard import Guard, unreadable
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
COURSE_ASKED = ("drive", "theory", "roofline", "deployment", "ready")
SERVING_ASKED = (
    *("size", "arrivals", "configuration", "translation"),
    *("attach", "reading", "written"),
)
ROOM_ASKED = (
    *("open_room", "lead_room", "watch_room"),
    *("join_room", "look_room", "vote", "leave_room"),
)
DRAWS = "open_room"  # its code for cameras, which takes 15 ms and more
# they cost nothing, and what goes on needs them
FREE = ("look", "stop", "hold", *(each for each in ROOM_ASKED if each != DRAWS))
REST_SECONDS = 0.02  # between two looks of Gradio at its queue; its own 0.001 keeps a core busy

# answers of a kilobyte and more, but no streams of events
PACKED = Middleware(GZipMiddleware, minimum_size=1000, compresslevel=4)

_SYSTEM_FONT = ["system-ui", "-apple-system", "Segoe UI", "sans-serif"]
THEME = gr.themes.Base(font=_SYSTEM_FONT, font_mono=["ui-monospace", "Menlo", "monospace"])
_STYLED = ("shared", "room", *page_folders())
_LINKS = [("stylesheet", sheet) for folder in _STYLED for sheet in styles(folder)]
_LINKS += [("modulepreload", name) for name in module_sources(PLAYER, "main.js")]  # all at once
PLACE = "specviz-page"  # behind a proxy the whole app may well be at /specviz: not the same word
FOLDER = (
    f"{PLACE}/{version()}"  # a browser that has a version of the page asks for none of its files
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
    """Endpoints take as many plain values as they have, and say so in one sentence.

    Gradio would print a traceback, or fetch what a value names and keep it.
    """

    def validate_inputs(self, block_fn: gr.blocks.BlockFunction, inputs: list[Any]) -> None:
        if len(inputs) < len(block_fn.inputs):
            raise refusal(f"data must have {len(block_fn.inputs)} values, got {len(inputs)}")
        if "gradio.FileData" in json.dumps(inputs):
            raise refusal("data must be plain values, got a file")


def build_page(handlers: Handlers) -> gr.Blocks:
    """The page. Runs go through the queue of `handlers`, not through Gradio's."""
    with _Page(title="specviz", analytics_enabled=False, fill_width=True) as page:
        asked = [getattr(handlers, name) for name in ASKED]
        asked += [getattr(handlers.lab, name) for name in LAB_ASKED]
        asked += [getattr(handlers.course, name) for name in COURSE_ASKED]
        asked += [getattr(handlers.serving, name) for name in SERVING_ASKED]
        _player(asked + [getattr(handlers.rooms, name) for name in ROOM_ASKED])
        with gr.Column(visible=False):  # Gradio would make a component of every parameter
            add_endpoints(handlers)
    bound_sessions(page)
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = REST_SECONDS
    return page


def _player(server_functions: Sequence[ServerFunction]) -> gr.HTML:
    """An empty element with the server's functions.

    Not a subclass of `gr.HTML`: for one Gradio writes a `.pyi` file beside the source at each
    start.
    """
    return gr.HTML(
        value="",
        html_template=TEMPLATE,
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[_plain(each) for each in server_functions],
    )


def _plain(method: ServerFunction) -> Callable[..., Any]:
    """Gradio marks a server function by an attribute, which a bound method cannot take.

    The question says from which address it comes, whatever it said of that itself.
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
    """As the page calls it."""
    function.__name__ = method.__name__
    return function


def launch_options(environment: Environment, handlers: Handlers) -> dict[str, Any]:
    """What `launch` needs to serve the page of `handlers` as it is meant.

    Host and port left at their defaults are left to Gradio, which then obeys GRADIO_SERVER_NAME and
    GRADIO_SERVER_PORT (a Space sets them) and takes the next free port after 7860.
    """
    default = Environment()
    return {
        "server_name": None if environment.host == default.host else environment.host,
        "server_port": None if environment.port == default.port else environment.port,
        "theme": THEME,
        "head": HEAD,
        "favicon_path": ASSETS / "favicon.svg",
        "footer_links": [],
        "ssr_mode": False,
        "show_error": False,
        "quiet": True,  # who serves says where
        "app_kwargs": {
            "routes": routes(handlers),
            "middleware": [Middleware(Guard), PACKED],
            "exception_handlers": {RequestValidationError: unreadable},
        },
    }


def routes(handlers: Handlers) -> list[BaseRoute]:
    """The page's own files, the lessons, and where a page that goes leaves its run.

    Relative addresses reach them behind any proxy.
    """
    setup = json.dumps(page_setup() | {"lab": lab_offer(), "serve": serving_offer()})
    prompts = json.dumps({"plain": all_held_out(False), "chat": all_held_out(True)})
    course = json.dumps(course_offer())

    def fixed(text: str) -> Callable[[Request], Response]:
        content = text.encode()
        packed = gzip.compress(content)
        return lambda request: _answer(request, content, packed, "application/json")

    # no mount: its inner addresses are lost behind a proxy that cuts off the path of the app
    return [
        Route(f"/{FOLDER}/prompts.json", fixed(prompts)),
        Route(f"/{FOLDER}/setup.json", fixed(setup)),
        Route(f"/{FOLDER}/{{name:path}}", _kept_file),
        # also for pages of another version, that were open before this process began
        Route(f"/{PLACE}/lessons.json", fixed(course)),
        Route(f"/{PLACE}/left", _left(handlers), methods=["POST"]),
        *health_routes(handlers),
    ]


def _left(handlers: Handlers) -> Any:
    """The body is the ticket of a run whose page went away: it ends."""

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
    """A file as it was when this process began, which is what its address stands for."""
    name = request.path_params["name"]
    content = page_files().get(name)
    if content is None:
        return Response(status_code=404)
    kind = guess_type(name)[0] or "application/octet-stream"  # of a notebook
    answer = _answer(request, content, packed_file(name), kind)
    answer.headers["Cache-Control"] = KEPT
    return answer


def _answer(request: Request, content: bytes, packed: bytes, kind: str) -> Response:
    """What never changes is packed once, and not for each visitor."""
    headers, takes = {"Vary": "Accept-Encoding"}, request.headers.get("Accept-Encoding", "")
    if "gzip" in takes:
        content, headers = packed, headers | {"Content-Encoding": "gzip"}
    return Response(content, media_type=kind, headers=headers)
