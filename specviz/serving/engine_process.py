"""A llama.cpp server of our own: on loopback, in a child that ends with this process.

The engine comes with the package xllamacpp, an extra of specviz.
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

from specviz.engines.configuration import speculative_type
from specviz.engines.dialects import DIALECTS
from specviz.engines.engine_facts import server_named
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.errors import InputError

ENGINE = "llama.cpp"
PACKAGE = "xllamacpp"
# by itself the engine keeps keys and values in 16 bits, and computes attention in them
_FLOAT32 = {
    **dict.fromkeys(
        (f"{of}cache_type_{each}" for of in ("", "speculative.draft.") for each in "kv"),
        "GGML_TYPE_F32",
    ),
    "flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}
NOT_INSTALLED = f'engine {ENGINE} must be installed to be started: pip install "specviz[llama-cpp]"'
START_SECONDS = 120.0  # large weights, read from a slow disk
END_SECONDS = 5.0
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from specviz.serving.llama_cpp_child import main; main()"
)
# what the log says -> why nothing is drafted
_REFUSALS = {
    "vocab": "the draft model has another vocabulary than the target, so the engine refused it",
    "speculative": "the engine could not set up speculation",
}


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A server that answers at `url`, such as http://127.0.0.1:8080; `log` is what it writes."""

    url: str
    version: str
    log: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Until it ends by itself, which is an InputError with what it says."""
        self.process.wait()
        raise InputError(f"engine {ENGINE} must go on, but {_why(self.log)}")

    def refusal(self) -> str:
        """Why the engine serves without the speculation that was asked for; "" if it does not say.

        Its health is good all the same: it says so in its log alone.
        """
        failed = "failed to initialize speculative"
        told = [line for line in _lines(self.log) if failed in line]
        return next((why for word, why in _REFUSALS.items() for line in told if word in line), "")


def is_installed() -> bool:
    """Whether the package that holds the engine is there."""
    return find_spec(PACKAGE) is not None


@contextmanager
def serving(
    deployment: ModelDeployment, threads: int = 1, in_float32: bool = False
) -> Iterator[RunningEngine]:
    """The engine with that deployment, until the block ends; only this child is ended then.

    `target` and `draft` are GGUF files. Port None is any that is free. `in_float32`:
    attention, too, is computed so precisely, which the engine does not do by itself. Raises
    InputError with what the engine says where it does not start.
    """
    if not is_installed():
        raise InputError(NOT_INSTALLED)
    order = _order(deployment, threads) | (_FLOAT32 if in_float32 else {})
    with TemporaryDirectory(prefix="specviz-engine-") as folder:
        log = Path(folder) / "engine.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                start_new_session=True,  # Ctrl+C in a terminal is ours to hear
            )
        try:
            yield RunningEngine(_address(process, order, log), version(PACKAGE), log, process)
        finally:
            _end(process)


def _order(deployment: ModelDeployment, threads: int) -> dict[str, Any]:
    """The fields of xllamacpp's CommonParams that differ from what they are anyway."""
    options = DIALECTS[ENGINE].options(deployment)
    flags = server_named(ENGINE).current
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
        "cors_origins": "",  # no page of a browser has business with it
    }


def _address(process: subprocess.Popen[bytes], order: dict[str, Any], log: Path) -> str:
    """Where the child serves, as soon as its models are in memory."""
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
    """The first error of its log."""
    marked = [line.split(" E ", 1)[1] for line in _lines(log) if " E " in line]
    return f"it says: {' '.join(marked[0].split())[:300]}" if marked else "it ended without a word"


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
