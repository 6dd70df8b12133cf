"""The results of a GPU probe as text: failures first, then a table per step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specviz.commands.console import table
from tests.gpu.probe_results import LATE, OK, Entry

Row = dict[str, Any]


def summary(entries: Mapping[str, Entry]) -> str:
    """Return the whole summary; a step that did not run has no table."""
    titles: dict[str, Callable[[Mapping[str, Entry]], Iterator[Row]]] = {
        "Machine": _machine,
        "CUDA tests": _tests,
        "Exactness: texts alike, and captured steps as uncaptured ones": _exactness,
        "One step": _steps,
        "Kernels of a step": _kernels,
        "Whole rounds": _rounds,
        "Races": _races,
        "One token beside the library's": _library,
    }
    parts = [_verdict(entries)]
    for title, rows_of in titles.items():
        if rows := list(rows_of(entries)):
            parts.append(f"{title}\n{table(rows)}")
    return "\n\n".join(parts)


def _verdict(entries: Mapping[str, Entry]) -> str:
    counts = Counter(entry.status for entry in entries.values())
    lines = [", ".join(f"{count} {status}" for status, count in counts.most_common())]
    wrong = [entry for entry in entries.values() if entry.status != OK]
    begun = [entry for entry in wrong if entry.status != LATE or entry.seconds]
    left_out = Counter(entry.label.partition("/")[0] for entry in wrong if entry not in begun)
    lines += [f"  {entry.label}: {entry.status}: {entry.error}" for entry in begun]
    lines += [f"  {step}: no time left for {count} parts" for step, count in left_out.items()]
    return "\n".join(lines)


def _passed(entries: Mapping[str, Entry], step: str) -> Iterator[tuple[str, Row]]:
    """Yield the name and the values of each part of a step.

    A part without values is left out; a failed part that has values is not.
    """
    for label, entry in entries.items():
        if label.startswith(f"{step}/") and entry.values:
            yield label.partition("/")[2], entry.values


def _machine(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "facts"):
        for key, value in values.items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            for below, each in inner:
                yield {"fact": " ".join(filter(None, (name, key, below))), "value": _told(each)}


def _told(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _tests(entries: Mapping[str, Entry]) -> Iterator[Row]:
    parts = dict(_passed(entries, "tests"))
    run = parts.pop("run", None)
    if parts or run:
        yield {**Counter(each["outcome"] for each in parts.values())} or {"tests": 0}


def _exactness(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "exactness"):
        if "is_same_text" in values:
            found, alike = values["first_divergence"], values["as_uncaptured"]
            yield {
                "run": name,
                "same text": _told(values["is_same_text"]),
                "margin where not": _told(found and found["margin"]),
                "tokens": values["tokens"],
                "as uncaptured, baseline": alike["baseline"],
                "rounds": alike["speculative"],
                "acceptance": values["acceptance_rate"],
            }


def _steps(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "cost"):
        for row in values.get("rows", ()):
            yield {
                "model": name,
                "tokens": row["tokens"],
                "ms": 1000 * row["seconds"],
                "device ms": 1000 * row["device_seconds"],
                "limit ms": _milliseconds(values["limit_seconds"]),
                "share of limit": row["share_of_limit"],
            }


def _kernels(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "cost"):
        if "kernels" in values:
            first = values["kernels"][0]
            yield {
                "model": name.removesuffix(" profile"),
                "a step": values["kernels_per_step"],
                "a layer": values["kernels_per_layer"],
                "busy": values["busy_share"],
                "most time": f"{100 * first['share']:.0f} % {first['name'][:60]}",
            }


def _rounds(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "cost"):
        if "round_seconds" in values:
            yield {
                "rounds": name.removeprefix("rounds "),
                "acceptance": values["acceptance_rate"],
                "tokens a round": values["block_efficiency"],
                "plain step ms": 1000 * values["step_seconds"],
                "round ms": 1000 * values["round_seconds"],
                "draft ms": 1000 * values["draft_seconds"],
                "verify ms": 1000 * values["verify_seconds"],
                "host ms": 1000 * values["host_seconds"],
                "speedup": values["speedup"],
            }


def _races(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, values in _passed(entries, "races"):
        if "theory_speedup" in values:
            yield {
                "race": name,
                "speedup": values["speedup"],
                "theory": values["theory_speedup"],
                "acceptance": values["acceptance_rate"],
                "tokens/s": values["tokens_per_second"],
                "baseline": values["baseline_tokens_per_second"],
                "identical": values["identical"],
            }


def _library(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for _name, values in _passed(entries, "races"):
        for model in values.get("models", ()):
            yield {
                "model": model["model"],
                "ours ms": 1000 * model["own_seconds"],
                "uncaptured ms": _milliseconds(model["eager_seconds"]),
                "library ms": 1000 * model["library_seconds"],
                "limit ms": 1000 * model["read_seconds"],
            }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
