"""`steps`: what one token costs, beside the library and the memory's speed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import add_pair_flags, chosen_pair
from specviz.errors import InputError
from specviz.experiments.benchmark.step_costs import step_costs

_MAX_BLOCKS = 100


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    parser.add_argument(
        "--repeat", type=int, default=5, help="pairs of blocks (default %(default)s)"
    )


def steps(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Time the forward of one token, of the target, and of the draft model if there is one."""
    if not 1 <= options.repeat <= _MAX_BLOCKS:
        raise InputError(f"repeat must be from 1 to {_MAX_BLOCKS}, got {options.repeat}")
    pair = chosen_pair(options)
    costs = step_costs(pair, options.device, options.dtype, options.repeat, progress)
    return {"pair": pair.name, "dtype": options.dtype, **asdict(costs)}


def steps_text(result: dict[str, Any]) -> str:
    """One line a model, then what our time goes into."""
    times = [
        {
            "model": each["model"],
            "MB": each["bytes"] / 1e6,
            "ours (ms)": 1000 * each["own_seconds"],
            **_eager(each),
            "library (ms)": 1000 * each["library_seconds"],
            "ours / library": each["ratio"],
            "weights read (ms)": 1000 * each["read_seconds"],
            "of that limit (%)": 100 * each["read_seconds"] / each["own_seconds"],
        }
        for each in result["models"]
    ]
    shares = [
        {"model": each["model"], **{f"{kind} (%)": 100 * v for kind, v in each["shares"].items()}}
        for each in result["models"]
    ]
    head = (
        f"one token behind {result['context']} on {result['device']}, {result['dtype']}, "
        f"{result['threads']} threads, memory read at {result['bandwidth'] / 1e9:.1f} GB/s"
    )
    return "\n\n".join([head, table(times), table(shares)])


def _eager(cost: dict[str, Any]) -> dict[str, float]:
    """Where the steps were CUDA graphs: the time of the same ones launched kernel by kernel."""
    seconds = cost["eager_seconds"]
    return {} if seconds is None else {"kernel by kernel (ms)": 1000 * seconds}


COMMAND = Command(
    steps,
    steps_text,
    _add_flags,
)
