"""The command `steps`: it compares a step's time with Transformers and the memory's bandwidth."""

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
        "--repeat",
        type=int,
        default=5,
        metavar="N",
        help="number of measurements of specviz's and of Transformers' forward passes, which take "
        "turns (default %(default)s)",
    )
    parser.add_argument(
        "--formats", action="store_true", help="also time the target in bfloat16, int8 and int4"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also time all other matrix kernels, and exit with status 1 if the fastest ones would "
        "make the target's step more than 10 %% faster",
    )


def steps(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Time forward passes of one token and of several, for the target and for each draft model."""
    if not 1 <= options.repeat <= _MAX_BLOCKS:
        raise InputError(f"repeat must be from 1 to {_MAX_BLOCKS}, got {options.repeat}")
    pair = chosen_pair(options)
    costs = step_costs(
        pair,
        options.device,
        options.dtype,
        options.repeat,
        progress,
        options.formats,
        options.check,
    )
    return {"pair": pair.name, "dtype": options.dtype, **asdict(costs)}


_SHARE = "of that limit (%)"


def steps_text(result: dict[str, Any]) -> str:
    """Return the tables of `steps`: step times, forwards of several tokens, shares of the time."""
    times = [
        {
            "model": each["model"],
            "MB": each["bytes"] / 1e6,
            "ours (ms)": 1000 * each["own_seconds"],
            **_eager(each),
            "library (ms)": 1000 * each["library_seconds"],
            "ours / library": each["ratio"],
            "weights read (ms)": 1000 * each["read_seconds"],
            _SHARE: 100 * each["read_seconds"] / each["own_seconds"],
        }
        for each in result["models"]
    ]
    # On a GPU, the profiler sees only the host: the time to launch kernels, not their run time.
    whole = "%" if result["device"] == "cpu" else "% of host"
    shares = [
        {"model": each["model"], **{f"{k} ({whole})": 100 * v for k, v in each["shares"].items()}}
        for each in result["models"]
    ]
    forwards = [row for each in result["models"] for row in _forwards(each)]
    head = (
        f"one token after {result['context']} on {result['device']}, {result['dtype']}, "
        f"{result['threads']} threads, {result['processor']}, specviz {result['version']}; "
        f"memory read at {result['bandwidth'] / 1e9:.1f} GB/s"
    )
    apart = "where the time goes in a forward whose operations are called one by one:\n"
    parts = [head, table(times), table(forwards), apart + table(shares)]
    if result["kernels"]:
        parts.append(table([_kernel(each) for each in result["kernels"]]))
    if result["check"]:
        parts.append(_check(result["check"]))
    formats = [_format(each) for each in result["formats"]]
    if formats:
        parts.append(table(formats))
    if any(each[_SHARE] > 100 for each in (*times, *formats)):
        parts.append(
            "above 100 % of that limit: from the cache, or other work slowed its measurement"
        )
    return "\n\n".join(parts)


def _forwards(cost: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row of forward times for 1, 2, … tokens, and a row of their ratios to the first."""
    columns = {"1": (cost["own_seconds"], 1.0)} | {
        str(each["tokens"]): (each["seconds"], each["ratio"]) for each in cost["forwards"]
    }
    seconds = {count: 1000 * seconds for count, (seconds, _) in columns.items()}
    ratios = {count: ratio for count, (_, ratio) in columns.items()}
    name = cost["model"]
    return [
        {"tokens in one forward": f"{name} (ms)", **seconds},
        {"tokens in one forward": f"{name} / one token", **ratios},
    ]


def _kernel(cost: dict[str, Any]) -> dict[str, Any]:
    return {
        "target's matrices": cost["kind"],
        "rows": cost["rows"],
        "kernel": cost["kernel"],
        "MB": cost["bytes"] / 1e6,
        "ms": 1000 * cost["seconds"],
        "GB/s": cost["bytes_per_second"] / 1e9,
    }


def _check(check: dict[str, Any]) -> str:
    """Return which matrix kernels would be faster than those that specviz has chosen.

    The text also says how many kernels were tried.
    """
    own, best = 1000 * check["seconds"], 1000 * check["best_seconds"]
    tried = f"{len(check['candidates'])} matrix kernels were tried for one row: "
    if not check["better"]:
        return f"{tried}none is faster than the chosen ones"
    changes = "\n".join(
        f"{each['kind']}: {each['candidate']} takes {each['ratio']:.2f} of the time of "
        f"{each['chosen']}, {1000 * each['gain_seconds']:.2f} ms less in a step"
        for each in check["better"]
    )
    return f"{tried}the best would make the step {best:.2f} ms instead of {own:.2f}\n{changes}"


def _shortfall(result: dict[str, Any]) -> str | None:
    return result["check"]["shortfall"] if result["check"] else None


def _format(cost: dict[str, Any]) -> dict[str, Any]:
    return {
        "weights": cost["weights"],
        "MB": cost["bytes"] / 1e6,
        "step (ms)": 1000 * cost["seconds"],
        "step / as loaded": cost["ratio"],
        "weights read (ms)": 1000 * cost["read_seconds"],
        _SHARE: 100 * cost["read_seconds"] / cost["seconds"],
    }


def _eager(cost: dict[str, Any]) -> dict[str, float]:
    """Return the time that the steps take without CUDA graphs, or {} if they used none."""
    seconds = cost["eager_seconds"]
    return {} if seconds is None else {"kernel by kernel (ms)": 1000 * seconds}


COMMAND = Command(
    steps,
    steps_text,
    _add_flags,
    _shortfall,
    example="--pair bundled",
)
