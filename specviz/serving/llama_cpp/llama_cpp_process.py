"""Start a llama.cpp server for this machine only, in a process that ends with this process.

The optional package xllamacpp contains the engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.engines.llama_cpp.llama_cpp_adapter import ADAPTER, speculative_type
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.errors import InputError

ENGINE = ADAPTER.name
PACKAGE = "xllamacpp"
# Settings that make the engine store keys and values in 32 bits and compute attention in 32 bits.
# The defaults are 16 bits.
_FLOAT32 = {
    **dict.fromkeys(
        (f"{of}cache_type_{each}" for of in ("", "speculative.draft.") for each in "kv"),
        "GGML_TYPE_F32",
    ),
    "flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}
NOT_INSTALLED = f'engine {ENGINE} must be installed to be started: pip install "specviz[llama-cpp]"'
# Time limit in seconds for the start of the engine. It is long enough to read large weights from a
# slow disk.
START_SECONDS = 120.0
END_SECONDS = 5.0
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from specviz.serving.llama_cpp.llama_cpp_child import main; main()"
)
# A word in the engine's log -> a sentence that says why the engine drafts nothing.
_REFUSALS = {
    "vocab": "the draft model has another vocabulary than the target, so the engine refused it",
    "speculative": "the engine could not set up speculation",
}


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A running server at `url`, such as http://127.0.0.1:8080. It writes to the file `log`."""

    url: str
    version: str
    log: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait until the server ends by itself, then raise InputError with the reason."""
        self.process.wait()
        raise InputError(f"engine {ENGINE} must keep running, but {_why(self.log)}")

    def refusal(self) -> str:
        """Return why the engine serves without the drafts that were requested.

        Return "" if its log shows no reason. The health check succeeds in any case, so only the log
        shows this.
        """
        failed = "failed to initialize speculative"
        lines = [line for line in _lines(self.log) if failed in line]
        return next((why for word, why in _REFUSALS.items() for line in lines if word in line), "")


def is_installed() -> bool:
    """Return whether the package xllamacpp, which contains the engine, is installed."""
    return find_spec(PACKAGE) is not None


def check_installed() -> None:
    """Raise InputError if the engine is not installed. Call this before long work for it."""
    if not is_installed():
        raise InputError(NOT_INSTALLED)


@contextmanager
def serving(
    deployment: ModelDeployment, threads: int = 1, in_float32: bool = False
) -> Iterator[RunningEngine]:
    """Run the engine with this deployment until the `with` block ends.

    `target` and `draft` are GGUF files. If the port is None, the operating system chooses a free
    one. `in_float32` computes attention in 32 bits, which is not the engine's default. When the
    `with` block ends, only the process that was started here is ended. Raises InputError with the
    engine's message if the engine does not start.
    """
    check_installed()
    order = _order(deployment, threads) | (_FLOAT32 if in_float32 else {})
    with TemporaryDirectory(prefix="specviz-engine-") as folder:
        log = Path(folder) / "engine.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                # In a session of its own, the server does not receive the Ctrl+C of a terminal.
                # Its parent receives it and then ends the server.
                start_new_session=True,
            )
        try:
            yield RunningEngine(_address(process, order, log), version(PACKAGE), log, process)
        finally:
            _end(process)


def _order(deployment: ModelDeployment, threads: int) -> dict[str, Any]:
    """Return the fields of xllamacpp's CommonParams whose values must differ from the defaults."""
    options, flags = ADAPTER.options(deployment), ADAPTER.facts.current
    order = {flags[name].python_name: value for name, value in options.items()}
    if "speculative.types" in order:
        order["speculative.types"] = speculative_type(order["speculative.types"])
    order.setdefault("port", 0)
    order.setdefault("n_parallel", 1)
    if deployment.method is EngineMethod.DRAFT_MODEL:
        order["speculative.draft.cpuparams.n_threads"] = threads
    return order | {
        "cpuparams.n_threads": threads,
        "cpuparams_batch.n_threads": threads,
        "endpoint_metrics": True,
        "warmup": False,
        "cors_origins": "",  # an empty text means that no web page may send requests to this server
    }


def _address(process: subprocess.Popen[bytes], order: dict[str, Any], log: Path) -> str:
    """Start the server and return its URL once its models are loaded."""
    assert process.stdin is not None and process.stdout is not None
    too_slow = threading.Timer(START_SECONDS, process.kill)
    too_slow.start()
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = b""
    finally:
        too_slow.cancel()
    if not line:
        process.wait()
        raise InputError(f"engine {ENGINE} must start, but {_why(log)}")
    return str(json.loads(line)["url"])


def _why(log: Path) -> str:
    """Return the first error message in the engine's log, which says why it did not start."""
    marked = [line.split(" E ", 1)[1] for line in _lines(log) if " E " in line]
    if not marked:
        return "it ended without an error message"
    return f"it says: {' '.join(marked[0].split())[:300]}"


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.close()
        process.wait(END_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
