"""Measure the tables of docs/measurements.md and print their rows: `make measurements`.

A line before each table says how it was made: the version, the processor and the threads. TABLES
lists the tables, of which some can be chosen by name. The figures are only valid if nothing else
runs on the machine, and measuring takes a long time.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

Result = dict[str, Any]
Run = Callable[..., Result]

CHAT_TASKS = ("chat", "code", "story", "maths", "translate", "summarise")
CHAT_METHODS = ("quantised-self", "prompt-lookup")
TEMPERATURES = {"0": (), "0.7": ("--seed", "3")}
TASKS = ("code", "story", "maths", "translate", "summarise")


def specviz(*arguments: str) -> Result:
    """Run a command of the command line and return its JSON output; its progress goes to stderr."""
    command = [sys.executable, "-m", "specviz", *arguments, "--json"]
    print("$ specviz", *arguments, file=sys.stderr)
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: Result = json.loads(made.stdout)
    return found


def steps(pair: str, run: Run) -> Iterator[str]:
    """Yield the lines of four tables about the forwards of a pair's models.

    They show the time of a step of each model, the time of forwards with several tokens, the
    matrix kernels that the target uses, and the time of a step with other formats of the weights.
    """
    found = run("steps", "--pair", pair, "--repeat", "8", "--formats")
    speed = found["bandwidth"] / 1e9
    yield f"specviz {found['version']}, {found['processor']}, {_threads(found['threads'])}, "
    yield f"memory read at {speed:.1f} GB/s:\n"
    heads = ("model", "ours", "library", "ours / library", "weights read", "of that limit")
    yield from _header(*heads, "of ours: matrices, attention, rest, Python")
    for each in found["models"]:
        own, read, shares = each["own_seconds"], each["read_seconds"], each["shares"]
        rest = shares["copies"] + shares["else"]
        parts = (shares["matrices"], shares["attention"], rest, shares["between"])
        yield _row(
            f"{each['model']}, {each['bytes'] / 1e6:.3g} MB",
            *(_ms(own), _ms(each["library_seconds"]), f"{each['ratio']:.2f}", _ms(read)),
            *(_percent(read / own), ", ".join(map(_percent, parts))),
        )
    counts = [str(each["tokens"]) for each in found["models"][0]["forwards"]]
    yield from ("", *_header("tokens in one forward", "1", *counts))
    for each in found["models"]:
        times = [_ms(each["own_seconds"])]
        times += [f"{_ms(one['seconds'])} ({one['ratio']:.2f})" for one in each["forwards"]]
        yield _row(each["model"], *times)
    yield from ("", *_header("target's matrices", "rows", "kernel", "GB/s"))
    for each in found["kernels"]:
        speed = each["bytes_per_second"] / 1e9
        yield _row(each["kind"], each["rows"], each["kernel"], f"{speed:.1f}")
    yield from ("", *_header("weights", "MB", "step", "as loaded", "of its own limit"))
    for each in found["formats"]:
        share, size = each["read_seconds"] / each["seconds"], each["bytes"] / 1e6
        ratio = f"{each['ratio']:.2f}"
        yield _row(each["weights"], f"{size:.3g}", _ms(each["seconds"]), ratio, _percent(share))


def chat(run: Run) -> Iterator[str]:
    """Yield a table of the chat model with the methods that need no trained drafter.

    Each entry comes from one measurement of plain decoding and one of the method.
    """
    rows: dict[tuple[str, str], list[str]] = {}
    plain: list[str] = []
    for temperature, seed in TEMPERATURES.items():
        for method in CHAT_METHODS:
            for task in CHAT_TASKS:
                asked = ("--pair", "smollm2", "--task", task, "--method", method)
                drawn = ("--temperature", temperature, *seed)
                found = run("race", *asked, *drawn, "--max-new-tokens", "128", "--repeat", "1")
                rate = found["speculative"]["acceptance_rate"]
                told = f"{found['speedup']:.2f}, α {rate:.2f}"
                rows.setdefault((method, temperature), []).append(told)
                if (method, temperature) == (CHAT_METHODS[0], "0"):
                    plain.append(_plain(found["baseline"]))
    yield f"{found['made_by']}, {found['processor']}, {found['device']}:\n"
    yield from _header("method", "temperature", *CHAT_TASKS)
    yield _row("baseline (of the reading limit)", "0", *plain)
    for (method, temperature), cells in rows.items():
        yield _row(method, temperature, *cells)


def _plain(baseline: Result) -> str:
    share = baseline["reading_share"]
    limit = "" if share is None else f" ({_percent(share)})"
    return f"{baseline['tokens_per_second']:.0f} tokens/s{limit}"


def bench(length: str, temperature: str, run: Run) -> Iterator[str]:
    """Yield a table of every method of the bundled pair on every task."""
    setting = ("--draft-lengths", length, "--temperature", temperature)
    found = run("bench", "--pair", "bundled", *setting, "--prompt-count", "2", "--repeat", "2")
    yield f"{found['made_by']}, {found['processor']}:\n"
    yield from _header("method", *TASKS, "extra memory")
    by_method: dict[str, dict[str, Result]] = {}
    for each in found["rows"]:
        by_method.setdefault(each["method"], {})[each["task"]] = each
    for method, by_task in by_method.items():
        extra = next(iter(by_task.values()))["extra_bytes"]
        memory = "" if extra is None else f"{extra / 1e6:.1f} MB" if extra else "0"
        cells = (_entry(method, by_task[task]) if task in by_task else "" for task in TASKS)
        yield _row(method, *cells, memory)


def _entry(method: str, row: Result) -> str:
    if method == "baseline":
        return f"{row['tokens_per_second']:.0f} tokens/s"
    low, high = row["speedup_spread"]
    told = f"{row['speedup']:.2f} ({low:.2f}–{high:.2f})"
    if row["acceptance_rate"] is None:
        return told
    return f"{told}, α {row['acceptance_rate']:.2f}, τ {row['block_efficiency']:.1f}"


def _header(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


TABLES: dict[str, Callable[[Run], Iterator[str]]] = {
    "steps": lambda run: steps("bundled", run),
    "chat-steps": lambda run: steps("smollm2", run),
    "chat": chat,
    "greedy": lambda run: bench("5", "0", run),
    "sampled": lambda run: bench("3", "0.8", run),
}


def main(*names: str) -> None:
    """Print the named tables, or all."""
    for name in names or TABLES:
        print(f"\n## {name}\n")
        for line in TABLES[name](specviz):
            print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
