"""`serve`: the web app, or an engine with one of the pairs, until it is interrupted."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.engine_serving import (
    add_engine_flags,
    refuse_engine_flags,
    serve_engine,
)
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.ui.connections import bound_connections
from specviz.ui.handlers import Handlers
from specviz.ui.page import build_page, launch_options
from specviz.ui.preload import preload_soon


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--host", help="0.0.0.0: for other machines, too (default: HOST, else 127.0.0.1)"
    )
    parser.add_argument(
        "--mcp", action="store_true", help="serve the endpoints as tools of agents, too (MCP)"
    )
    parser.add_argument("--port", type=int, help="(default: PORT, else the first free from 7860)")
    add_engine_flags(parser)


def serve(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Serve the page and load what it begins with; returns where it was once it has ended."""
    environment = _with_flags(Environment.read(), options)
    if options.engine is not None:
        return serve_engine(options, progress)
    refuse_engine_flags(options)
    sys.setswitchinterval(SWITCH_SECONDS)
    if options.mcp and find_spec("mcp") is None:
        raise InputError('mcp must be installed for its tools to be served: pip install "mcp<2"')
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # or a traceback of each that is no JSON
    handlers = Handlers()
    page = build_page(handlers)
    with redirect_stdout(sys.stderr):  # Gradio prints lines of its own
        try:
            launched = launch_options(environment, handlers)
            page.launch(**launched, mcp_server=options.mcp or None, prevent_thread_lock=True)
        except OSError:
            place = f"{environment.host}:{environment.port}"
            raise InputError(f"host and port must be free to listen at, got {place}") from None
        bound_connections(page.server.config)
        progress(f"specviz is at {page.local_url} (Ctrl+C ends it)")
        if warning := exposure(environment):
            progress(warning)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, partial(_end, handlers))
        handlers.preloading = preload_soon()  # only then: loading would take its processor time
        page.block_thread()
    return {"url": page.local_url}


def exposure(environment: Environment) -> str:
    """What others may do on this machine, where they reach it and nothing forbids it; else ""."""
    try:
        is_own = ip_address(environment.host).is_loopback
    except ValueError:
        is_own = environment.host == "localhost"
    if is_own or environment.is_public:
        return ""
    return (
        f"Everybody who reaches {environment.host} may load any model and any folder of this "
        "machine, and have it ask other servers; SPECVIZ_PUBLIC=1 forbids it"
    )


# How long an answer to a page keeps Python's lock from the thread that decodes, which lets go of it
# in every product of torch. Beside a thread that is busy half of the time it decodes 1.2 times as
# fast as with Python's own 5 ms.
SWITCH_SECONDS = 0.0005
END_SECONDS = 3.0  # for what runs; whoever ended the process will not wait for much longer
LAST_SECONDS = 0.5  # in which pages hear of it


def _end(handlers: Handlers, *_: object) -> None:
    """The process is asked to end: runs end with what they have, then it does as for Ctrl-C."""
    handlers.queue.end_all("ended with the server; what was measured is kept", END_SECONDS)
    time.sleep(LAST_SECONDS)
    raise KeyboardInterrupt


def _with_flags(environment: Environment, options: Namespace) -> Environment:
    """The environment's host and port, unless others were typed."""
    if options.port is not None:
        whole_between(options.port, "port", 0, 65535)
    host = options.host or environment.host
    port = environment.port if options.port is None else options.port
    return replace(environment, host=host, port=port)


def serve_text(result: dict[str, Any]) -> str:
    """One line."""
    return f"{result['url']} is closed"


COMMAND = Command(serve, serve_text, _add_flags)
