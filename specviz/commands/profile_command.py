"""`profile`: where a method loses acceptance, over many prompts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
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
    chosen_config,
    chosen_pair,
    chosen_prompts,
    warn_of_template,
)
from specviz.errors import InputError
from specviz.experiments.run.profiling import ProfileRequest, ProfileStep, Profiling
from specviz.records import MAX_DRAFT_LENGTH

MOST_ROWS = 8  # of a table
_TEXT_LENGTH = 16  # of a token in a table
_HOW = (
    "ms lost: a rejection loses (levels drafted - levels passed) / (levels drafted + 1) of the "
    "median time\nof the rounds that drafted as many levels, or of all rounds where fewer than "
    f"{FEWEST} did: one slow round\ncannot lead."
)


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_many_prompts_flags(parser)
    add_config_flags(parser)
    parser.add_argument("--traces", metavar="DIR", help="save every prompt's trace there")
    parser.add_argument(
        "--min-block-efficiency", type=float, help="exit status 1 below so many tokens a round"
    )


def profile(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Decode many prompts speculatively and rank where acceptance is lost."""
    gate = _gate(options)
    task, prompts = chosen_prompts(options)
    pair, config = chosen_pair(options), chosen_config(options)
    request = ProfileRequest(pair, prompts, config, task, options.device, options.dtype)
    folder = None if options.traces is None else _trace_folder(options.traces)
    warn_of_template(pair, options, prompts, progress)
    profiling = Profiling(request)
    files, where = [], {}
    for step in profiling:
        if step.trace is not None:
            where = {"device": step.trace.device, "dtype": step.trace.dtype}
            if folder is not None:
                files.append(_save(step, folder))
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
    }


def shortfall(result: dict[str, Any]) -> str | None:
    """One line where the block efficiency is below what was asked for."""
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
    """Before the decoding, so that a folder that cannot be written does not cost its result."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / _file_name(0)
        probe.open("ab").close()
    except OSError as error:
        raise InputError(f"traces folder {name!r} cannot be written: {error.strerror}") from None
    return folder


def _file_name(index: int) -> str:
    return f"prompt-{index + 1:03}.json.gz"


def _save(step: ProfileStep, folder: Path) -> str:
    assert step.trace is not None
    path = folder / _file_name(step.index)
    try:
        trace_file.save(step.trace, path)
    except OSError as error:
        raise InputError(f"traces file {path.name} cannot be written: {error.strerror}") from None
    return str(path)


def profile_text(result: dict[str, Any]) -> str:
    """The loss in all, then one table per dimension, the costliest groups of each.

    Milliseconds are lost at the median cost of a round of its kind; see `acceptance_profile`.
    """
    where = f"{result['device']}, {result['dtype']}"
    head = f"{result['method']} on {result['pair']}, {where}, K = {result['draft_length']}"
    facts = {
        "prompts": result["prompts"],
        "rounds": result["rounds"],
        "tokens of rounds": result["tokens"],  # without each prompt's first one
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
    """Where it happened, and what was drafted -> wanted."""
    drafted, wanted = (_quoted(example[name]) for name in ("drafted", "wanted"))
    return f"prompt {example['trace'] + 1}, round {example['round'] + 1}: {drafted} -> {wanted}"


def _quoted(text: str) -> str:
    """A token's text in one line that no terminal acts on."""
    return repr(text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…")


COMMAND = Command(
    profile,
    profile_text,
    _add_flags,
    shortfall,
)
