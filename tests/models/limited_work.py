"""Functions that tests run in a process with limits."""

from __future__ import annotations

import os
import resource
import time
from typing import Any


def echo(question: Any) -> Any:
    print("a library prints")
    return question


def limits(_: Any) -> list[int]:
    named = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE)
    return [resource.getrlimit(each)[0] for each in named]


def offline(_: Any) -> bool:
    from huggingface_hub.constants import HF_HUB_OFFLINE

    return bool(HF_HUB_OFFLINE)


def abort(_: Any) -> None:
    os.abort()


def fill_memory(size: int) -> int:
    return len(bytes(size))


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def work(_: Any) -> None:
    while True:
        pass


def fail(_: Any) -> None:
    raise RuntimeError
