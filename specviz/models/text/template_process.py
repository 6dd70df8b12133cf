"""A process that renders the chat templates of models that we do not trust.

The sandbox of transformers protects the files of the machine from a template, but not its time and
memory. A few nested loops can take minutes or gigabytes. Templates therefore run in a process that
can be killed. It starts with the first template, renders all later ones, and ends with its parent
process.
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
from typing import Any

from specviz.errors import InputError
from specviz.models.limited_process import limit_memory

# limit of CPU time per template in seconds; a limit of wall time would depend on other processes
RENDER_SECONDS = 2.0
# limit of memory in bytes, in addition to the memory that the process used at its start
RENDER_BYTES = 256_000_000
MAX_CHARACTERS = 2_000_000  # largest number of characters of a rendered text
# Largest number of characters of an error, because a template may raise an error with any text.
FAULT_CHARACTERS = 100
# Limit in seconds of wall time for the start of the process and for each answer. On an idle machine
# the start takes two seconds.
START_SECONDS = 60.0
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from specviz.models.text.template_process import main; main(int(sys.argv[1]))"
)
_TOO_EXPENSIVE = (
    f"the model's chat template takes more than {RENDER_SECONDS:g} s or "
    f"{RENDER_BYTES // 10**6} MB to fill in: choose another model"
)


class TemplateProcess:
    """A process that renders one template at a time.

    If the process does not answer, it is ended and started again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        # the templates that have exceeded a limit; the process never renders them again
        self._refused: set[str] = set()

    def render(self, template: str, turns: list[dict[str, str]], **options: Any) -> str:
        """Return the text of a conversation, rendered with the template.

        Raises InputError if rendering takes too much time or memory, and ValueError with the
        template's own error in one line if the template itself fails.
        """
        asked = {"template": template, "turns": turns, "options": options}
        order = json.dumps(asked | {"seconds": RENDER_SECONDS}).encode()
        with self._lock:
            if template in self._refused:
                raise InputError(_TOO_EXPENSIVE)
            reply = self._asked(order)
            if reply is None or reply.get("is_too_expensive"):
                self._refused.add(template)
                raise InputError(_TOO_EXPENSIVE)
        if not isinstance(reply.get("text"), str):
            raise ValueError(reply.get("fault") or "it cannot be filled in")
        return str(reply["text"])

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._line = None

    def _asked(self, order: bytes) -> dict[str, Any] | None:
        """Send a request. Return the answer, or None if the process was too slow or has ended."""
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
                # in a session of its own, so that Ctrl-C reaches only the parent process
                start_new_session=True,
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
    """Render templates until the parent closes the connection. This runs in the new process."""
    from transformers.utils.chat_template_utils import render_jinja_template

    limit_memory(RENDER_BYTES)
    with Connection(descriptor) as line, suppress(EOFError, OSError):
        line.send_bytes(b"!")
        while True:
            order = json.loads(line.recv_bytes())
            reply: dict[str, Any]
            # When the CPU time is over, the signal of this timer ends the process.
            signal.setitimer(signal.ITIMER_PROF, order["seconds"])
            try:
                rendered, _ = render_jinja_template(
                    [order["turns"]], chat_template=order["template"], **order["options"]
                )
                text = rendered[0]
                reply = (
                    {"text": text} if len(text) <= MAX_CHARACTERS else {"is_too_expensive": True}
                )
            except MemoryError:
                reply = {"is_too_expensive": True}
            except Exception as error:  # Catch every error, because a template may raise any error.
                fault = " ".join(
                    str(error)[: 10 * FAULT_CHARACTERS].partition("\n  line")[0].split()
                )
                reply = {"text": None, "fault": fault[:FAULT_CHARACTERS]}
            signal.setitimer(signal.ITIMER_PROF, 0)
            line.send_bytes(json.dumps(reply).encode())
