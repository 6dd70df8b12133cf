"""`sweep`: one method measured over a grid of settings."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import (
    FILE_HELP,
    TASK_HELP,
    add_batch_flags,
    add_config_flags,
    add_framing_flags,
    add_pair_flags,
    check_writable,
    chosen_batch,
    chosen_config,
    chosen_framing,
    chosen_pair,
    warn_of_template,
)
from specviz.errors import InputError
from specviz.experiments.sweep.sweep_axis import AXES, Value, axis_named
from specviz.experiments.sweep.sweep_file import SweepFile, describe, write_csv
from specviz.experiments.sweep.sweep_setting import MAX_PROMPTS, SweepSetting
from specviz.experiments.sweep.sweeping import Sweep, SweepPlan, noise_ratios
from specviz.prompts import Framing, held_out_prompts, read_prompts, tasks
from specviz.records import BATCH, Prompt

_DEFAULT_PROMPTS = 3
_DEFAULT_AXIS = "draft-length=1-8"


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_config_flags(parser)
    parser.add_argument(
        "--axis",
        action="append",
        metavar="NAME=VALUES",
        help=f"one or two of {', '.join(AXES)}: 1-8 or 1,2,4 (default {_DEFAULT_AXIS})",
    )
    parser.add_argument("--task", help=TASK_HELP.format("a file"))
    parser.add_argument("--prompt-file", metavar="FILE", help=f"your own texts: {FILE_HELP}")
    add_framing_flags(parser)
    parser.add_argument("--prompts", type=int, help="how many (default 3, all of a file)")
    add_batch_flags(parser, default=BATCH["batch_size"].default)
    parser.add_argument("--repeat", type=int, default=2, help="pairs of blocks a point")
    parser.add_argument(
        "--output", metavar="FILE", help="points as they come; goes on if it is there"
    )
    parser.add_argument("--csv", metavar="FILE", help="a table for spreadsheets")


def sweep(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure every point; Ctrl-C keeps those of --output."""
    _check_files(options)
    setting = _setting(options)
    plan = SweepPlan(setting, tuple(map(_axis, options.axis or [_DEFAULT_AXIS])), options.repeat)
    plan.check_methods()
    warn_of_template(setting.pair, options, setting.texts[: setting.prompts], progress)
    with ExitStack() as stack:
        file = (
            stack.enter_context(SweepFile(options.output, plan))
            if options.output is not None
            else None
        )
        noise = list(noise_ratios(setting, options.repeat))
        progress(f"the baseline beside itself: {min(noise):.2f} to {max(noise):.2f}")
        run = Sweep(plan, file.known if file else None)
        for step in run:
            if step.point is None:
                continue
            if file:
                file.add(step.point)
            progress(_progress_line(step.done, step.points, step.seconds_left, step.point))
    points = [run.points[place] for place in plan.places]
    if options.csv:
        write_csv(points, options.csv)
    return {**describe(plan), "noise": noise, "points": points}


def _check_files(options: Namespace) -> None:
    """Before the measurement, so that a file that cannot be written does not cost its result."""
    for name in ("prompt_file", "output", "csv"):
        if getattr(options, name) == "":
            raise InputError(f"{name.replace('_', '-')} must name a file, got ''")
    if options.csv is None:
        return
    if options.output and Path(options.csv).resolve() == Path(options.output).resolve():
        raise InputError(f"csv file must be another one than the output, got {options.csv!r}")
    check_writable("csv file", options.csv)


def _setting(options: Namespace) -> SweepSetting:
    """Of a file's own prompts all are taken unless counted."""
    is_file, texts = bool(options.prompt_file), _own_texts(options)
    count = options.prompts
    if count is None:
        count = len(texts) if is_file else _DEFAULT_PROMPTS
    if options.prompts is None and count > MAX_PROMPTS:
        raise InputError(
            f"prompt-file must have at most {MAX_PROMPTS} prompts, got {count}; "
            "prompts takes the first ones"
        )
    pair = chosen_pair(options)
    return SweepSetting(
        pair=pair,
        config=chosen_config(options),
        task=options.task or (None if is_file else tasks(pair.instruct)[0]),
        prompts=count,
        device=options.device,
        dtype=options.dtype,
        batch_size=options.batch_size,
        texts=tuple(map(chosen_framing(options).of, texts)),
        batch=chosen_batch(options),
    )


def _own_texts(options: Namespace) -> tuple[Prompt, ...]:
    """Those of the file; held-out ones where they are put to the model in a way of one's own."""
    if options.prompt_file:
        return read_prompts(options.prompt_file, "prompt-file")
    is_usual = chosen_framing(options) == Framing()
    is_chat = chosen_pair(options).instruct
    return () if is_usual else held_out_prompts(options.task or tasks(is_chat)[0], is_chat)


def _axis(text: str) -> tuple[str, tuple[Value, ...]]:
    """`draft-length=1-8` -> ("draft-length", (1, …, 8))."""
    name, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"axis must be NAME=VALUES, such as draft-length=1-8, got {text!r}")
    return name, axis_named(name).values(values)


def _progress_line(
    done: int, points: int, seconds_left: float | None, point: dict[str, Any]
) -> str:
    where = ", ".join(f"{name} {value}" for name, value in point["setting"].items())
    left = "" if seconds_left is None else f", {seconds_left:.0f} s left"
    return f"{done} of {points}: {where}: {point['speedup']:.2f}x{left}"


def sweep_text(result: dict[str, Any]) -> str:
    """A row per point, of two axes the grid of speedups too, and what the machine's noise is."""
    rows = [
        {
            **point["setting"],
            **_prompt_length(point),
            "speedup": point["speedup"],
            "spread": point["speedup_spread"],
            "theory": point["theory_speedup"],
            "acceptance": point["acceptance_rate"],
            "rejection": point["rejection_rate"],
            "utilization": point["draft_utilization"],
            "tokens/round": point["block_efficiency"],
            "tokens/s": point["tokens_per_second"],
            "baseline": point["baseline_tokens_per_second"],
            "first token ms": 1000 * point["ttft_seconds"],
            "its baseline": 1000 * point["baseline_ttft_seconds"],
        }
        for point in result["points"]
    ]
    noise = result["noise"]
    noise_line = f"The baseline beside itself: {min(noise):.2f} to {max(noise):.2f}."
    return "\n\n".join([table(rows), *_grid(result), noise_line])


def _prompt_length(point: dict[str, Any]) -> dict[str, float]:
    """With a chat template a prompt is longer than its text, whose length is varied."""
    is_varied = "prompt-length" in point["setting"]
    return {"tokens in all": point["prompt_tokens"]} if is_varied else {}


def _grid(result: dict[str, Any]) -> list[str]:
    """Of two axes: a row per value of the first, a column per value of the second."""
    if len(result["axes"]) < 2:
        return []
    (down, values), (across, _) = result["axes"]
    return [
        f"Speedup over {across}:\n{table([_row(result, down, value, across) for value in values])}"
    ]


def _row(result: dict[str, Any], down: str, value: Value, across: str) -> dict[str, Any]:
    """The speedups in the columns' order, then where the baseline is faster."""
    points = [point for point in result["points"] if point["setting"][down] == value]
    speedups = {str(point["setting"][across]): point["speedup"] for point in points}
    losing = [name for name, speedup in speedups.items() if speedup < 1]
    return {down: str(value), **speedups, "loses at": losing}


COMMAND = Command(sweep, sweep_text, _add_flags)
