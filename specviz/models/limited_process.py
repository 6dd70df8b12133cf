"""Call one function in a process with limits on CPU time and memory.

Files and texts that we do not trust may crash the process that reads them, fill its memory, or keep
it busy without end.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from specviz.environment import without_hub

_START = (
    "import sys; sys.path[:] = sys.argv[4:]; "
    "from specviz.models.limited_process import main; main(*sys.argv[1:4])"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a process: seconds of CPU time, bytes of extra memory, seconds to wait.

    The parent process waits longer than the CPU time, because the machine may be busy or the disk
    slow.
    """

    seconds: int
    memory: int
    wait: float = 180.0

    def __str__(self) -> str:
        return f"{self.seconds} s and {self.memory // 10**6} MB"


class NoAnswer(Exception):
    """The error if a limited process reached a limit, crashed, or did not answer in time."""


def ask_limited(function: str, question: Any, limits: Limits) -> Any:
    """Call `function`, named as "module:function", in a new process and return its result.

    The argument `question` and the result are sent as JSON. The process has no access to the Hub.
    Raises NoAnswer if the process reaches a limit or crashes.
    """
    arguments = (function, str(limits.seconds), str(limits.memory))
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _START, *arguments, *sys.path],
            input=json.dumps(question).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=without_hub(),
            # in a session of its own, so that Ctrl-C reaches only the parent process
            start_new_session=True,
            timeout=limits.wait,
            check=False,
        )
        return json.loads(ended.stdout)["answer"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        raise NoAnswer from None


def children_seconds() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main(function: str, seconds: str, memory: str) -> None:
    """Import a function, set the limits, call the function, and print its result.

    This runs in the new process.
    """
    module, _, name = function.partition(":")
    called = getattr(import_module(module), name)
    question = json.load(sys.stdin)
    limit_memory(int(memory))
    _limit_seconds(int(seconds))
    # stdout must contain only the result, but a library may print to it
    with redirect_stdout(sys.stderr):
        answer = called(question)
    print(json.dumps({"answer": answer}), flush=True)


def limit_memory(size: int) -> None:
    """Limit the extra memory of this process to `size` bytes, if the system can do that."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_seconds(seconds: int) -> None:
    """Let the system end this process, without a core dump, after `seconds` more of CPU time."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = seconds + math.ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
