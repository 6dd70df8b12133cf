"""The command `advise`: it says whether to speculate on this machine, how, and what it gains."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specviz.advisor.advice import LENGTHS, Advice
from specviz.advisor.measured_before import MeasuredBefore, fastest_of_sweep
from specviz.advisor.probe import Candidate, Refusal
from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import (
    add_flag,
    add_many_prompts_flags,
    add_pair_flags,
    add_sampling_flags,
    chosen_pair,
    chosen_prompts,
    chosen_sampling,
    warn_of_template,
)
from specviz.errors import InputError
from specviz.experiments.advice.advice_check import AdviceCheck
from specviz.experiments.advice.advising import DEFAULT_SECONDS, Advising
from specviz.experiments.advice.probing import AdviceRequest
from specviz.records import BATCH, DecodingConfig
from specviz.sizing.file_acceptance import read_object

_MOST_ROWS = 8
_HOW = (
    "Interval, 95 %: the spread of the tokens per round over the rounds, and of the baseline's "
    "step over its runs."
)


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_many_prompts_flags(parser)
    add_sampling_flags(parser.add_argument_group("decoding"))
    add_flag(parser, BATCH["batch_size"])
    parser.add_argument(
        "--sweep",
        metavar="FILE",
        help="file that `sweep --output` wrote for this pair; its fastest setting is tried first "
        "(default none)",
    )
    parser.add_argument(
        "--methods", metavar="NAMES", help="methods to try, separated by commas (default all)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=DEFAULT_SECONDS,
        metavar="X",
        help="how long the measurement may take, in seconds (default %(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also measure every setting and compare the advice with the results (takes minutes)",
    )


def advise(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Probe the methods, race the best ones and return the advice.

    With `--check`, also measure every setting on the same prompts and compare it with the advice.
    """
    request = _request(options)
    warn_of_template(request.pair, options, request.prompts, progress)
    advising = Advising(request, options.seconds)
    for step in advising:
        left = "" if step.seconds_left is None else f", at most {step.seconds_left:.0f} s left"
        progress(f"{step.stage}: {step.doing}{left}")
    advice = advising.advice()
    if advice is None:
        raise InputError(_none_runs(advising.probe.refusals))
    result = {"pair": request.pair.name, **asdict(advising.probe.workload), **advice.to_dict()}
    if options.check:
        result["check"] = _check(request, advice, progress)
    return result


def _request(options: Namespace) -> AdviceRequest:
    task, prompts = chosen_prompts(options)
    config, pair = DecodingConfig(**chosen_sampling(options)), chosen_pair(options)
    return AdviceRequest(
        pair,
        prompts,
        config,
        task,
        options.batch_size,
        AdviceRequest.methods_of(options.methods or ""),
        options.device,
        options.dtype,
        None if options.sweep is None else _before(options.sweep, pair.name),
    )


def _before(name: str, pair: str) -> MeasuredBefore:
    """Return the fastest setting in the sweep file `name`.

    Raises InputError if the file is not a sweep, or if the sweep did not measure `pair`.
    """
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"sweep must be a readable file, got {name!r}: {error}") from None
    before = fastest_of_sweep(read_object(text), pair)
    if before is None:
        raise InputError(
            f"sweep must be a file with measured points of the pair {pair}, got {name!r}"
        )
    return before


def _none_runs(refusals: Sequence[Refusal]) -> str:
    named, why = ", ".join(each.method for each in refusals), refusals[0].why
    return f"methods must name one that this pair can run, got {named}; the first is refused: {why}"


def _check(request: AdviceRequest, advice: Advice, progress: Progress) -> dict[str, Any]:
    check = AdviceCheck(request, advice.best.candidate if advice.speculate else None, LENGTHS)
    for step in check:
        progress(f"check: {step}")
    return check.result().to_dict()


def advise_text(result: dict[str, Any]) -> str:
    """Return the verdict, its reasons, the ranking and the refused methods as text."""
    reasons = [f"- {each['sentence']}" for each in result["reasons"]]
    rows = [_row(each) for each in result["ranking"][:_MOST_ROWS]]
    parts = [result["verdict"], "\n".join(reasons), table(rows), _HOW]
    if result["refusals"]:
        parts.append("\n".join(f"{each['method']}: {each['why']}" for each in result["refusals"]))
    if "check" in result:
        parts.append(_check_text(result["check"]))
    return "\n\n".join(parts)


def _row(each: dict[str, Any]) -> dict[str, Any]:
    return {
        "candidate": Candidate(**each["candidate"]).title,
        "speedup": each["speedup"],
        "interval": [each["low"], each["high"]],
        "from": f"{each['races']} passes" if each["races"] else "theory",
        "tokens/round": each["tokens_per_round"],
        "round (steps)": each["draft_cost"] + each["verify_cost"] + each["host_cost"],
    }


def _check_text(check: dict[str, Any]) -> str:
    """Return a table of the measured settings, the fastest first.

    Below it, a sentence compares the speedup of the advised setting with the highest one.
    """
    rows = [
        {
            "setting": Candidate(**each["candidate"]).title,
            "speedup": each["speedup"],
            "spread": each["spread"],
        }
        for each in check["settings"][:_MOST_ROWS]
    ]
    summary = (
        f"Compared with {len(check['settings'])} measured settings: the advice gives "
        f"{check['advised_speedup']:.2f}x, the best {check['best_speedup']:.2f}x; it reaches "
        f"{100 * check['reached']:.0f} %."
    )
    return f"{table(rows)}\n\n{summary}"


COMMAND = Command(
    advise,
    advise_text,
    _add_flags,
    example="--task story --temperature 0.7 --max-new-tokens 200",
)
