"""The command `serve`: the web app, or an engine that serves a pair, until it is interrupted."""

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
        "--host",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 serves other machines as well (default the "
        "environment variable HOST, otherwise 127.0.0.1)",
    )
    parser.add_argument(
        "--mcp",
        action="store_true",
        help="also offer the app's endpoints to AI agents as tools (Model Context Protocol)",
    )
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="port to listen on (default the environment variable PORT, otherwise the first free "
        "port from 7860)",
    )
    add_engine_flags(parser)


def serve(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Serve the page and preload its default pair.

    Return the page's address when the server closes.
    """
    environment = _with_flags(Environment.read(), options)
    if options.engine is not None:
        return serve_engine(options, progress)
    refuse_engine_flags(options)
    sys.setswitchinterval(SWITCH_SECONDS)
    if options.mcp and find_spec("mcp") is None:
        raise InputError('mcp must be installed to serve tools: pip install "mcp<2"')
    # At its usual log level, the library mcp logs a traceback for every request that is not JSON.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    handlers = Handlers()
    page = build_page(handlers)
    # Gradio prints lines of its own, which must not mix with the command's output.
    with redirect_stdout(sys.stderr):
        try:
            launched = launch_options(environment, handlers)
            page.launch(**launched, mcp_server=options.mcp or None, prevent_thread_lock=True)
        except OSError:
            place = f"{environment.host}:{environment.port}"
            raise InputError(
                f"host and port must be free to listen on, got {place}: choose another port"
            ) from None
        bound_connections(page.server.config)
        progress(f"specviz is at {page.local_url} (Ctrl+C ends it)")
        if warning := exposure(environment):
            progress(warning)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, partial(_end, handlers))
        # The preload comes last, because it uses the processor and would otherwise delay the page.
        handlers.preloading = preload_soon()
        page.block_thread()
    return {"url": page.local_url}


def exposure(environment: Environment) -> str:
    """Return a warning if other people can reach this server and use it without limits.

    The result is "" if nobody else can.
    """
    try:
        is_own = ip_address(environment.host).is_loopback
    except ValueError:
        is_own = environment.host == "localhost"
    if is_own or environment.is_public:
        return ""
    return (
        f"Everyone who can reach {environment.host} may load any model and any folder of this "
        "machine, and have it ask other servers; SPECVIZ_PUBLIC=1 forbids it"
    )


# How long an answering thread may keep Python's lock while the decoding thread waits for it, in
# seconds. The decoding thread releases the lock in every torch operation. Next to a thread that is
# busy half of the time, it decodes 1.2 times as fast as with Python's default of 5 ms.
SWITCH_SECONDS = 0.0005
# Time for running jobs to end, in seconds. A system that stops the process will not wait much
# longer.
END_SECONDS = 3.0
# Time in seconds for pages to receive the last messages, before the process ends.
LAST_SECONDS = 0.5


def _end(handlers: Handlers, *_: object) -> None:
    """On SIGTERM, end the runs with their results so far, then exit as Ctrl+C does."""
    handlers.queue.end_all("ended with the server; what was measured is kept", END_SECONDS)
    time.sleep(LAST_SECONDS)
    raise KeyboardInterrupt


def _with_flags(environment: Environment, options: Namespace) -> Environment:
    """Return the environment with the host and port that the flags give, if any."""
    if options.port is not None:
        whole_between(options.port, "port", 0, 65535)
    host = options.host or environment.host
    port = environment.port if options.port is None else options.port
    return replace(environment, host=host, port=port)


def serve_text(result: dict[str, Any]) -> str:
    return f"{result['url']} is closed"


COMMAND = Command(serve, serve_text, _add_flags, example="--port 8000 --mcp")
