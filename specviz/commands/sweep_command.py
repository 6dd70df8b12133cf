"""The command `sweep`: it measures one method over a grid of settings."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import acceptance_columns, table
from specviz.commands.flags import (
    TASK_HELP,
    add_batch_flags,
    add_config_flags,
    add_framing_flags,
    add_pair_flags,
    add_prompt_count_flag,
    add_prompt_file_flag,
    check_writable,
    chosen_batch,
    chosen_config,
    chosen_framing,
    chosen_pair,
    warn_of_template,
)
from specviz.commands.result_files import UNWRITTEN, missing_files, unwritten
from specviz.errors import InputError, short
from specviz.experiments.run.repeats import DEFAULT_REPEATS, remark_of
from specviz.experiments.sweep.sweep_axis import AXES, Value, axis_named
from specviz.experiments.sweep.sweep_file import SweepFile, describe, write_csv
from specviz.experiments.sweep.sweep_setting import MAX_PROMPTS, SweepSetting
from specviz.experiments.sweep.sweeping import Sweep, SweepPlan, noise_ratios
from specviz.prompts import Framing, held_out_prompts, read_prompts, tasks
from specviz.records import BATCH, Prompt

_DEFAULT_PROMPTS = 3
_DEFAULT_AXIS = "draft-length=1-8"
_EXPLAINED = "Explained: theory's speedup at the acceptance rate and the costs of the same runs."


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_config_flags(parser)
    parser.add_argument(
        "--axis",
        action="append",
        metavar="NAME=VALUES",
        help="a setting to vary and its values, such as 1-8 or 1,2,4; give one or two of "
        f"{', '.join(AXES)} (default {_DEFAULT_AXIS})",
    )
    parser.add_argument("--task", metavar="NAME", help=TASK_HELP.format("--prompt-file"))
    add_prompt_file_flag(parser)
    add_framing_flags(parser)
    add_prompt_count_flag(parser, _DEFAULT_PROMPTS)
    add_batch_flags(parser, default=BATCH["batch_size"].default)
    parser.add_argument(
        "--repeat",
        type=int,
        default=DEFAULT_REPEATS,
        metavar="N",
        help="number of measurements of plain decoding and of the method at each point, which take "
        "turns (default %(default)s)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write each point to this file; an interrupted sweep continues from it (default none)",
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        help="also write the points as a table for spreadsheets (default none)",
    )


def sweep(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure every point of the grid; Ctrl+C keeps the finished points in the `--output` file."""
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
        progress(f"the baseline compared with itself: {min(noise):.2f} to {max(noise):.2f}")
        run = Sweep(plan, file.known if file else None)
        for step in run:
            if step.point is None:
                continue
            if file:
                file.add(step.point)
            progress(_progress_line(step.done, step.points, step.seconds_left, step.point))
    points = [run.points[place] for place in plan.places]
    lost: list[str] = []
    if options.csv:
        lost = unwritten("csv file", options.csv, partial(write_csv, points, options.csv))
    return {**describe(plan), "noise": noise, "points": points, UNWRITTEN: lost}


def _check_files(options: Namespace) -> None:
    """Raise InputError if a file cannot be written.

    The check comes before the measurement, so that no result is lost.
    """
    for name in ("prompt_file", "output", "csv"):
        if getattr(options, name) == "":
            raise InputError(f"{name.replace('_', '-')} must name a file, got ''")
    if options.csv is None:
        return
    if options.output and Path(options.csv).resolve() == Path(options.output).resolve():
        raise InputError(f"csv must name another file than output, got {options.csv!r} for both")
    check_writable("csv file", options.csv)


def _setting(options: Namespace) -> SweepSetting:
    """Return the sweep's setting; without `--prompt-count` all prompts of a file are used."""
    is_file, texts = bool(options.prompt_file), _own_texts(options)
    count = options.prompt_count
    if count is None:
        count = len(texts) if is_file else _DEFAULT_PROMPTS
    if options.prompt_count is None and count > MAX_PROMPTS:
        raise InputError(
            f"prompt-file must have at most {MAX_PROMPTS} prompts, got {count}; add "
            "--prompt-count to use only the first ones"
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
    """Return the prompts of the user's file.

    Without a file, return held-out prompts with the user's `--system` or `--raw`. If the user gave
    none of these flags, return (), because the sweep itself reads held-out prompts.
    """
    if options.prompt_file:
        return read_prompts(options.prompt_file, "prompt-file")
    is_usual = chosen_framing(options) == Framing()
    is_chat = chosen_pair(options).is_asked_to_chat(options.task)
    return () if is_usual else held_out_prompts(options.task or tasks(is_chat)[0], is_chat)


def _axis(text: str) -> tuple[str, tuple[Value, ...]]:
    """Parse the value of `--axis`: `draft-length=1-8` -> ("draft-length", (1, …, 8))."""
    name, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"axis must be NAME=VALUES, such as draft-length=1-8, got {short(text)}")
    return name, axis_named(name).values(values)


def _progress_line(
    done: int, points: int, seconds_left: float | None, point: dict[str, Any]
) -> str:
    where = _setting_words(point)
    left = "" if seconds_left is None else f", {seconds_left:.0f} s left"
    return f"{done} of {points}: {where}: {point['speedup']:.2f}x{left}"


def _setting_words(point: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in point["setting"].items())


def sweep_text(result: dict[str, Any]) -> str:
    """Return a table of all points, the grid of speedups for two axes, and the machine's noise."""
    rows = [
        {
            **point["setting"],
            **_prompt_length(point),
            "speedup": point["speedup"],
            "spread": point["speedup_spread"],
            "explained": point["theory_speedup"],
            **acceptance_columns(point),
            "rejection rate": point["rejection_rate"],
            "tokens/s": point["tokens_per_second"],
            "baseline": point["baseline_tokens_per_second"],
            "first token ms": 1000 * point["ttft_seconds"],
            "its baseline": 1000 * point["baseline_ttft_seconds"],
        }
        for point in result["points"]
    ]
    remarks = [
        f"{_setting_words(point)}: {remark}"
        for point in result["points"]
        if (remark := remark_of(point["speedup_spread"][1], point["block_efficiency"]))
    ]
    noise = result["noise"]
    noise_line = f"The baseline compared with itself: {min(noise):.2f} to {max(noise):.2f}."
    return "\n\n".join([table(rows), *_grid(result), *remarks, _EXPLAINED, noise_line])


def _prompt_length(point: dict[str, Any]) -> dict[str, float]:
    """Return the number of tokens of the whole prompt, if the sweep varies the length of its text.

    A chat template adds tokens to the text. The result is {} if the sweep does not vary the length.
    """
    is_varied = "prompt-length" in point["setting"]
    return {"tokens in all": point["prompt_tokens"]} if is_varied else {}


def _grid(result: dict[str, Any]) -> list[str]:
    """Return a table of speedups, or nothing if the sweep has only one axis.

    It has a row for each value of the first axis, and a column for each value of the second.
    """
    if len(result["axes"]) < 2:
        return []
    (down, values), (across, _) = result["axes"]
    return [
        f"Speedup by {across}:\n{table([_row(result, down, value, across) for value in values])}"
    ]


def _row(result: dict[str, Any], down: str, value: Value, across: str) -> dict[str, Any]:
    """Return a row of the table of speedups.

    Its last cell names the values of the second axis at which the baseline is faster.
    """
    points = [point for point in result["points"] if point["setting"][down] == value]
    speedups = {str(point["setting"][across]): point["speedup"] for point in points}
    losing = [name for name, speedup in speedups.items() if speedup < 1]
    return {down: str(value), **speedups, "loses at": losing}


COMMAND = Command(
    sweep,
    sweep_text,
    _add_flags,
    missing_files,
    example="--axis draft-length=1-8 --axis temperature=0,0.8 --output sweep.jsonl",
)
