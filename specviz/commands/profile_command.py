"""The command `profile`: it ranks the causes of rejected tokens, over many prompts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from specviz import trace_file
from specviz.acceptance_profile import TITLES
from specviz.acceptance_profile.round_costs import FEWEST
from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import (
    add_config_flags,
    add_many_prompts_flags,
    add_pair_flags,
    check_writable,
    chosen_config,
    chosen_pair,
    chosen_prompts,
    warn_of_template,
)
from specviz.commands.result_files import UNWRITTEN, missing_files, unwritten
from specviz.errors import InputError
from specviz.experiments.run.profiling import ProfileRequest, Profiling
from specviz.records import MAX_DRAFT_LENGTH

MOST_ROWS = 8  # largest number of groups of tokens that a table shows
_TEXT_LENGTH = 16  # longest token text in a table, in characters
_HOW = (
    "ms lost: a rejection loses (levels drafted - levels accepted) / (levels drafted + 1) of the\n"
    "median time of the rounds that drafted as many levels. If fewer than "
    f"{FEWEST} rounds drafted as many,\nthe median of all rounds is used, because one slow round "
    "must not decide the ranking."
)


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_many_prompts_flags(parser)
    add_config_flags(parser)
    parser.add_argument(
        "--traces",
        metavar="DIR",
        help="save the trace of every prompt in this folder (default none)",
    )
    parser.add_argument(
        "--min-block-efficiency",
        type=float,
        metavar="X",
        help="exit with status 1 if a target forward gives fewer than X tokens on average (default "
        "no limit)",
    )


def profile(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Decode many prompts speculatively, and rank the causes of rejected tokens by their cost."""
    gate = _gate(options)
    task, prompts = chosen_prompts(options)
    pair, config = chosen_pair(options), chosen_config(options)
    request = ProfileRequest(pair, prompts, config, task, options.device, options.dtype)
    folder = None if options.traces is None else _trace_folder(options.traces)
    warn_of_template(pair, options, prompts, progress)
    profiling = Profiling(request)
    files, where, lost = [], {}, list[str]()
    for step in profiling:
        if step.trace is not None:
            where = {"device": step.trace.device, "dtype": step.trace.dtype}
            if folder is not None:
                path = folder / _file_name(step.index)
                files.append(str(path))
                lost += unwritten(
                    "traces file", path.name, partial(trace_file.save, step.trace, path)
                )
            progress(f"prompt {step.done} of {step.prompts}: {step.tokens} tokens so far")
    found = profiling.profile().to_dict()
    return {
        "pair": pair.name,
        "method": config.method,
        "draft_length": config.draft_length,
        "temperature": config.temperature,
        "max_new_tokens": config.max_new_tokens,
        **where,
        **found,
        "tokens_per_second": found["tokens"] / found["seconds"] if found["seconds"] else None,
        "min_block_efficiency": gate,
        "traces": files if folder is not None else None,
        UNWRITTEN: lost,
    }


def shortfall(result: dict[str, Any]) -> str | None:
    """Return one line if a file is missing, or if block efficiency is below the user's minimum."""
    if lost := missing_files(result):
        return lost
    least, found = result["min_block_efficiency"], result["block_efficiency"]
    if least is None or (found is not None and found >= least):
        return None
    shown = "unknown: no round was needed" if found is None else f"{found:.3f}"
    return f"block efficiency is {shown}, below min-block-efficiency {least:g}"


def _gate(options: Namespace) -> float | None:
    least: float | None = options.min_block_efficiency
    most = MAX_DRAFT_LENGTH + 1
    if least is not None and not 1 <= least <= most:
        raise InputError(f"min-block-efficiency must be a number from 1 to {most}, got {least}")
    return least


def _trace_folder(name: str) -> Path:
    """Create the folder for traces before decoding starts, so that an error loses no results.

    Raises InputError if the folder or a file in it cannot be written.
    """
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"traces folder {name!r} cannot be written: {error.strerror}") from None
    check_writable("traces file", str(folder / _file_name(0)))
    return folder


def _file_name(index: int) -> str:
    return f"prompt-{index + 1:03}.json.gz"


def profile_text(result: dict[str, Any]) -> str:
    """Return the total loss by rejected tokens, then one table for each way to group the tokens.

    In each table, the groups with the largest loss come first. A loss in milliseconds uses the
    median time of rounds with equally long drafts; see `acceptance_profile`.
    """
    where = f"{result['device']}, {result['dtype']}"
    head = f"{result['method']} on {result['pair']}, {where}, K = {result['draft_length']}"
    facts = {
        "prompts": result["prompts"],
        "rounds": result["rounds"],
        # The first token of each prompt comes from the prefill, so it is not counted here.
        "tokens of rounds": result["tokens"],
        "acceptance_rate": result["acceptance_rate"],
        "block_efficiency": result["block_efficiency"],
        "rejections": result["rejections"],
        "tokens lost": result["tokens_lost"],
        "ms lost": result["milliseconds_lost"],
        "of ms": 1000 * result["typical_seconds"],
        "ms lost as measured": result["milliseconds_lost_as_measured"],
        "of ms measured": 1000 * result["seconds"],
    }
    rankings = [(title, result["rankings"][dimension]) for dimension, title in TITLES.items()]
    tables = [_ranking(title, groups) for title, groups in rankings if groups]
    head += f", temperature {result['temperature']:g}, {result['max_new_tokens']} tokens a prompt"
    return "\n\n".join([head, table([facts]), _HOW, *tables])


def _ranking(title: str, groups: list[dict[str, Any]]) -> str:
    rows = table([_row(title, group) for group in groups[:MOST_ROWS]])
    more = len(groups) - MOST_ROWS
    return f"{rows}\n… and {more} more, all with --json" if more > 0 else rows


def _row(title: str, group: dict[str, Any]) -> dict[str, Any]:
    return {
        title: group["name"],
        "examined": group["examined"],
        "rate": group["rate"],
        "rejections": group["rejections"],
        "tokens lost": group["tokens_lost"],
        "ms lost": group["milliseconds_lost"],
        "share": group["share"],
        "such as": _example(group["examples"][0]) if group["examples"] else "-",
    }


def _example(example: dict[str, Any]) -> str:
    """Return one rejection as text: prompt, round, the rejected token and its replacement."""
    drafted, wanted = (_quoted(example[name]) for name in ("drafted", "wanted"))
    return f"prompt {example['trace'] + 1}, round {example['round'] + 1}: {drafted} -> {wanted}"


def _quoted(text: str) -> str:
    """Return a token's text, shortened, on one line and without control characters."""
    return repr(text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…")


COMMAND = Command(
    profile,
    profile_text,
    _add_flags,
    shortfall,
    example="--pair bundled --task code --prompt-count 20",
)
