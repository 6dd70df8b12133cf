"""Recorded messages that a lesson shows while no model is loaded.

`make lessons` runs the jobs of the course and records their messages. Each file of messages names
the machine on which they were recorded.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from specviz.experiments.run.racing import device_name
from specviz.experiments.run.typed_recording import record_typed
from specviz.lessons import LESSONS
from specviz.machine import processor_name, version
from specviz.models.files.loading import resolve_device
from specviz.models.pair_catalog import BUNDLED, CHAT, pair_named
from specviz.serving.llama_cpp.llama_cpp_process import ENGINE
from specviz.ui.course.batch_order import batch_order
from specviz.ui.course.block_orders import blocks_order
from specviz.ui.course.copy_orders import copies_order
from specviz.ui.course.engine_orders import (
    MODELS,
    engine_threads,
    quantised_order,
    servers_order,
)
from specviz.ui.course.forced_orders import forced_order
from specviz.ui.course.lesson_sweeps import SWEEPS, lesson_sweep
from specviz.ui.course.pair_orders import NUMBERS, forwards_order, head_order, rounding_order
from specviz.ui.course.race_order import RACES, race_order
from specviz.ui.course.stop_orders import stops_order
from specviz.ui.lab.lab_losslessness import losslessness_order, place_of
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message

RECORDED = LESSONS / "recorded"
SUFFIX = ".json.gz"
REPEATS = 3  # number of times that each point of a sweep is measured
# number of prompts of each task on which the token rule and the block rule are compared
BLOCK_PROMPTS = 20
BLOCKS = 12  # largest number of `counts` messages in the recording of a losslessness test
_LONG = re.compile(r"\d+\.\d{6,}(?:e[+-]?\d+)?")
DRAWN = {  # name of a recording -> acceptance rule, draft, temperature and number of draws
    "draws-right": ("right", "", "1", 4000),
    "draws-random": ("right", "random", "1", 4000),
    "draws-favourite": ("equal-argmax", "", "1", 4000),
    "draws-greedy": ("right", "", "0", 200),
    "draws-length": ("length-by-drawn-token", "", "1", 4000),
}


def recorded(folder: Path = RECORDED) -> dict[str, Any]:
    """Return all recordings: name -> {"machine": description of the machine, "messages": […]}."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    texts = {path.name.removesuffix(SUFFIX): gzip.decompress(path.read_bytes()) for path in paths}
    return {name: json.loads(text) for name, text in texts.items()}


def record(folder: Path, names: Iterable[str] = ()) -> None:
    """Write the recordings in `names`, or all recordings if `names` is empty.

    The developer tool zopfli compresses them.
    """
    from zopfli.gzip import compress

    makers = _makers()
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or makers:
        messages = makers[name]()
        is_engine = messages[0]["kind"] in ("quantised", "servers")
        where = engine_machine() if is_engine else machine()
        content = {"machine": where, "messages": messages}
        text = in_few_digits(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
        (folder / f"{name}{SUFFIX}").write_bytes(compress(text.encode()))
        print(f"{name}: {len(text)} characters", file=sys.stderr)


def in_few_digits(text: str) -> str:
    """Round the numbers in a JSON text to six significant digits, which keeps the files small.

    No measurement here is more precise.

    >>> in_few_digits('{"seconds": [0.12345678901, 1e-05, 2.5], "tokens": 12345678}')
    '{"seconds": [0.123457, 1e-05, 2.5], "tokens": 12345678}'
    """
    return _LONG.sub(lambda found: f"{float(found[0]):.6g}", text)


def machine() -> str:
    """Return this machine's processor and threads, and the version of specviz."""
    return f"{processor_name()}, {device_name(resolve_device('auto'))}, specviz {version()}"


def engine_machine() -> str:
    """Return this machine's processor, the engine's threads, and the version of specviz."""
    threads = engine_threads()
    counted = f"{threads} {'thread' if threads == 1 else 'threads'}"
    return f"{processor_name()}, {ENGINE} ({counted}), specviz {version()}"


def _makers() -> Mapping[str, Callable[[], list[Message]]]:
    """Return, for each recording, the function that runs its job and returns the messages."""
    form = {"pair": CHAT if pair_named(CHAT).is_here else BUNDLED}
    return {
        "forwards": lambda: _messages(forwards_order({"form": form})),
        "typed": lambda: [record_typed(pair_named(form["pair"]), "chat", 3)],
        "batch": lambda: _messages(batch_order({})),
        "blocks": lambda: _messages(blocks_order({}, BLOCK_PROMPTS)),
        "copies": lambda: _messages(copies_order({})),
        "forced": lambda: _messages(forced_order({})),
        "stops": lambda: _messages(stops_order({})),
        "head": lambda: _messages(head_order({"form": form})),
        "servers": lambda: _messages(servers_order({})),
        **{f"quantised-{name}": partial(_quantised, name) for name in MODELS},
        **{f"race-{name}": partial(_raced, name) for name in RACES},
        **{f"rounding-{each}": partial(_rounded, form, each) for each in NUMBERS},
        **{name: partial(_swept, name) for name in SWEEPS},
        **{name: partial(_drawn, name) for name in DRAWN},
    }


def _swept(name: str) -> list[Message]:
    return _messages(lesson_sweep({"sweep": name}, REPEATS))


def _raced(name: str) -> list[Message]:
    return _messages(race_order({"race": name}))


def _quantised(name: str) -> list[Message]:
    return _messages(quantised_order({"model": name}))


def _rounded(form: Mapping[str, str], numbers: str) -> list[Message]:
    return _messages(rounding_order({"form": form, "numbers": numbers}))


def _drawn(name: str) -> list[Message]:
    rule, draft, temperature, draws = DRAWN[name]
    form = place_of(rule) | {"temperature": temperature, "seed": "7"}
    question = {"form": form, "rule": rule, "draft": draft, "draws": draws}
    return _thinned(_messages(losslessness_order(question)))


def _messages(order: LabOrder) -> list[Message]:
    """Return the messages of a job, except those of kind `progress`."""
    sent = order.messages(threading.Event())
    return [message for message in sent if message["kind"] != "progress"]


def _thinned(messages: list[Message]) -> list[Message]:
    """Return at most BLOCKS of a losslessness test's `counts` messages, and its end message.

    The returned messages are evenly spaced. The last `counts` message is always one of them,
    because it has all draws.
    """
    *blocks, end = messages
    step = max(1, len(blocks) // BLOCKS)
    return [*blocks[step - 1 : -1 : step][: BLOCKS - 1], blocks[-1], end]


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:])
