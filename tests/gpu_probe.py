"""Run every measurement and test that needs a GPU, in ten minutes: `make gpu`.

    python -m tests.gpu_probe --output probe                  all steps, at most 9 minutes
    python -m tests.gpu_probe --output again --again probe    what failed, at most 200 seconds
    python -m tests.gpu_probe --output rehearsal --device cpu a rehearsal with tiny shapes

The probe consists of steps, and a step of parts. The result of a part is one line of
`results.jsonl`, written as soon as the part ends. At the end, even after a failure, the probe
prints a summary and packs everything into `probe.tar.gz`. It installs nothing and downloads
nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.probe_results import FAILED, LATE, LINES, OK, SUMMARY, Entry, Results

if TYPE_CHECKING:
    from tests.gpu.scale import Scale
    from tests.gpu.step import Measure, Step

WHOLE_SECONDS, AGAIN_SECONDS = 540.0, 200.0
# a probe that still runs this many seconds after the end of its budget is killed
GRACE_SECONDS = 15.0


class Interrupted(BaseException):
    """Raised in the running part by a signal to end; `except Exception` does not catch it."""


class OutOfTime(Interrupted):
    """Raised in the running part when its time limit is over."""


def main(arguments: list[str] | None = None) -> int:
    """Run the steps; return 0 if every part has passed."""
    options = _options(arguments)
    earlier = options.again / LINES if options.again else None
    results = Results(options.output.resolve(), earlier)
    budget = AGAIN_SECONDS if options.again else WHOLE_SECONDS
    return probe(results, options.device, options.steps, budget)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What only a GPU can show, in one folder.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="of those that run (default all)")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--again", type=Path, metavar="FOLDER", help="of an earlier call: run what has not passed"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args(arguments)
    if (options.output / LINES).exists():
        parser.error(f"output must be a new folder, got {str(options.output)!r}, which has results")
    if options.again and not (options.again / LINES).is_file():
        parser.error(f"again must be the folder of an earlier call, got {str(options.again)!r}")
    return options


def probe(results: Results, device: str, chosen: Iterable[str], budget: float) -> int:
    """Run the chosen steps within `budget` seconds, and return the exit status.

    At the end, the results are summarised and packed into one file. This happens even if a step
    fails, the process is interrupted or the budget is used up.
    """
    began = time.monotonic()
    watchdog = threading.Timer(budget + GRACE_SECONDS, _give_up, (results,))
    watchdog.daemon = True
    watchdog.start()
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        scale, steps = _loaded(device)
        run_steps(
            [step for step in steps if not chosen or step.name in set(chosen)],
            scale,
            results,
            began + budget,
        )
    except (Interrupted, KeyboardInterrupt) as error:
        results.add(_entry("probe", FAILED, began, error))
    except Exception as error:  # a failed import becomes a result like any other failure
        results.add(_entry("probe", FAILED, began, error))
    finally:
        signal.signal(signal.SIGTERM, previous)
        watchdog.cancel()
        print(finish(results))
    return 0 if all(each.status == OK for each in results.latest().values()) else 1


def _loaded(device: str) -> tuple[Scale, tuple[Step, ...]]:
    """Import torch, and return the probe's sizes of work and its steps.

    A missing package or device raises an error that names it.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("SPECVIZ_PAIR", "bundled")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device; --device cpu rehearses without one")
    steps, scales = import_module("tests.gpu.steps"), import_module("tests.gpu.scale")
    return (scales.GPU if device == "cuda" else scales.REHEARSAL), steps.STEPS


def run_steps(steps: Iterable[Step], scale: Scale, results: Results, deadline: float) -> None:
    """Run every part that has not passed before; continue after a failure or a timeout."""
    for step in steps:
        began = time.monotonic()
        ends = min(deadline, began + step.limit)
        try:
            for name, measure in step.parts(scale, results):
                label = f"{step.name}/{name}"
                if not results.has_passed(label):
                    left = min(step.most, ends - time.monotonic())
                    entry = run_part(label, measure, left)
                    results.add(entry)
                    print(f"{entry.seconds:6.1f} s  {label}: {entry.status} {entry.error}".rstrip())
        except Exception as error:
            results.add(_entry(step.name, FAILED, began, error))


def run_part(label: str, measure: Measure, seconds: float) -> Entry:
    """Run one part for at most `seconds` seconds, and return its result."""
    began = time.monotonic()
    if seconds <= 0:
        return Entry(label, LATE, error="the step had no time left for it")
    try:
        with _alarm(seconds):
            values = measure()
    except OutOfTime as error:
        return _entry(label, LATE, began, error)
    except Exception as error:
        return _entry(label, FAILED, began, error)
    problem = str(values.pop("problem", ""))
    entry = Entry(label, FAILED if problem else OK, 0.0, values, problem)
    return replace(entry, seconds=round(time.monotonic() - began, 2))


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in this thread after `seconds` seconds."""

    def ring(*_: object) -> None:
        raise OutOfTime(f"it took more than {seconds:.0f} seconds")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _interrupt(*_: object) -> None:
    raise Interrupted("the process was asked to end")


def _entry(label: str, status: str, began: float, error: BaseException) -> Entry:
    told = " ".join(str(error).split()) or type(error).__name__
    lines = "".join(traceback.format_exception(error))
    return Entry(label, status, round(time.monotonic() - began, 2), {}, told[:300], lines)


def _give_up(results: Results) -> None:
    """Write the results so far and end the process; used if a library call does not return."""
    results.add(Entry("probe", LATE, error="a call did not return; the process was ended"))
    print(finish(results), flush=True)
    os._exit(1)


def finish(results: Results) -> str:
    """Write the summary, pack the folder and return the summary."""
    try:
        from tests.gpu.summary import summary

        text = summary(results.latest())
    except Exception as error:  # the result lines are kept even if the summary fails
        text = f"no summary: {type(error).__name__}: {error}"
    results.write(SUMMARY, text + "\n")
    results.pack()
    return text


if __name__ == "__main__":
    sys.exit(main())
