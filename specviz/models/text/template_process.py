"""A process that renders chat templates, which come with models from anywhere.

The library's sandbox keeps a template from the machine's files, but not from its time and memory: a
few nested loops take minutes or gigabytes. So they run where they can be killed. The process is
started with the first template and serves all further ones; it never outlives its owner.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from specviz.errors import InputError

RENDER_SECONDS = 2.0  # of a processor, whatever else it does meanwhile
RENDER_BYTES = 256_000_000  # beside what the process takes before its first template
MAX_CHARACTERS = 2_000_000  # of a rendered text
START_SECONDS = 60.0  # a busy machine; a quiet one takes two. For an answer, too
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from specviz.models.text.template_process import main; main(int(sys.argv[1]))"
)
_TOO_DEAR = (
    f"the model's chat template must be filled in within {RENDER_SECONDS:g} s and "
    f"{RENDER_BYTES // 10**6} MB, it takes more"
)


class TemplateProcess:
    """Renders one template at a time; what takes too long ends it, and the next one is new."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._refused: set[str] = set()  # templates, so that none costs its limit twice

    def render(self, template: str, turns: list[dict[str, str]], **options: Any) -> str:
        """The text of a conversation in the template.

        InputError where that takes too much; ValueError for what the template itself raises.
        """
        asked = {"template": template, "turns": turns, "options": options}
        order = json.dumps(asked | {"seconds": RENDER_SECONDS}).encode()
        with self._lock:
            if template in self._refused:
                raise InputError(_TOO_DEAR)
            reply = self._asked(order)
            if reply is None or reply.get("is_too_dear"):
                self._refused.add(template)
                raise InputError(_TOO_DEAR)
        if not isinstance(reply.get("text"), str):
            raise ValueError("the template cannot be filled in")
        return str(reply["text"])

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def end(self) -> None:
        """Kill the process, if there is one."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._line = None

    def _asked(self, order: bytes) -> dict[str, Any] | None:
        """The reply of the process; None where it took too long or died of the order."""
        if self._process is None or self._process.poll() is not None:
            self._begin()
        assert self._line is not None
        with suppress(OSError, EOFError, ValueError):
            self._line.send_bytes(order)
            if self._line.poll(START_SECONDS):
                reply: dict[str, Any] = json.loads(self._line.recv_bytes(16 * MAX_CHARACTERS))
                return reply
        self.end()
        return None

    def _begin(self) -> None:
        self.end()
        self._line, theirs = Pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno()), *sys.path],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is its owner's business
            )
            theirs.close()
            is_ready = self._line.poll(START_SECONDS) and self._line.recv_bytes(1) == b"!"
        except (OSError, EOFError) as error:
            theirs.close()
            self.end()
            raise InputError(f"no process for chat templates could be started: {error}") from None
        if not is_ready:
            self.end()
            raise InputError("no process for chat templates could be started: no answer")


process = TemplateProcess()


def main(descriptor: int) -> None:
    """The process itself: renders until its owner hangs up."""
    from transformers.utils.chat_template_utils import render_jinja_template

    _limit_memory()
    with Connection(descriptor) as line, suppress(EOFError, OSError):
        line.send_bytes(b"!")
        while True:
            order = json.loads(line.recv_bytes())
            reply: dict[str, Any]
            signal.setitimer(signal.ITIMER_PROF, order["seconds"])  # which ends the process
            try:
                rendered, _ = render_jinja_template(
                    [order["turns"]], chat_template=order["template"], **order["options"]
                )
                text = rendered[0]
                reply = {"text": text} if len(text) <= MAX_CHARACTERS else {"is_too_dear": True}
            except MemoryError:
                reply = {"is_too_dear": True}
            except Exception:  # a template may raise anything
                reply = {"text": None}
            signal.setitimer(signal.ITIMER_PROF, 0)
            line.send_bytes(json.dumps(reply).encode())


def _limit_memory() -> None:
    """Where the system can: it says how much is mapped now, and takes a limit."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = pages * resource.getpagesize() + RENDER_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
