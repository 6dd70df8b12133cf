"""The command line: words to calls, results to text or JSON, errors to one line.

Knows nothing of how a result is made. With `--json` exactly one JSON object stands on stdout;
progress goes to stderr. Exit status 2 for input that breaks a rule, 1 for a result that a gate of
the user's own does not let pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from specviz.commands import advise_command as advising
from specviz.commands import claim_check, claim_text, console
from specviz.commands import profile_command as profiles
from specviz.commands import race_command as runs
from specviz.commands import steps_command as step_costs
from specviz.commands import sweep_command as sweeps
from specviz.commands import trace_commands as traces
from specviz.errors import InputError
from specviz.experiments.advice.advising import DEFAULT_SECONDS
from specviz.experiments.benchmark.claim_measuring import BUDGETS
from specviz.experiments.sweep.sweep_axis import AXES
from specviz.inflation.larger_shape import SIZES
from specviz.prompts import TASKS
from specviz.records import DecodingConfig, ProposalKind
from specviz.ui import report_command

Command = Callable[[argparse.Namespace, Callable[[str], None]], Any]
Show = Callable[[Any], str]
Gate = Callable[[Any], str | None]  # why a result is not good enough, in one line


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        options = _parser().parse_args(arguments)
        result = options.command(options, _progress)
        _print(json.dumps(result, allow_nan=False) if options.json else options.show(result))
        shortfall = options.gate(result)
    except InputError as error:
        print("specviz:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("specviz: stopped", file=sys.stderr)
        return 130
    except OSError as error:  # the reader of our output left, or the disk is full
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at exit
        print(f"specviz: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    if shortfall is not None:
        _progress(f"specviz: {shortfall}")
    return 0 if shortfall is None else 1


def _print(text: str) -> None:
    """On stdout, with escapes where its encoding lacks a character."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m specviz", description="Speculative decoding, made visible.")
    subparsers = parser.add_subparsers(required=True, parser_class=_Parser, metavar="COMMAND")

    def add(
        name: str,
        command: Command,
        show: Show,
        summary: str,
        gate: Gate = lambda result: None,
    ) -> argparse.ArgumentParser:
        added = subparsers.add_parser(name, help=summary, description=summary)
        added.add_argument("--json", action="store_true", help="one JSON object on stdout")
        added.set_defaults(command=command, show=show, gate=gate)
        return added

    race = add("race", runs.race, console.race, "Measure a method against its baseline.")
    _add_pair(race)
    _add_prompt(race)
    _add_config(race)
    race.add_argument("--repeat", type=int, default=2, help="pairs of blocks (default %(default)s)")
    race.add_argument("--trace", metavar="FILE", help="save the last repeat's trace (.json.gz)")
    race.add_argument("--batch-size", type=int, help="so many prompts at once, 1 to 64")
    _add_batch(race)
    add("methods", runs.methods, console.methods, "List the drafting methods.")
    models = add("models", runs.models, console.models, "List the models and pairs.")
    models.add_argument(
        "--check",
        nargs=2,
        metavar=("TARGET", "DRAFT"),
        help="report on two models before their weights are fetched",
    )
    models.add_argument(
        "--inflate", metavar="FOLDER", help="write a larger model that computes the same there"
    )
    models.add_argument("--model", metavar="FOLDER", help="of which (default the bundled target)")
    models.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=INTEGER",
        help=f"{', '.join(SIZES)}; several times (default as it is)",
    )
    _add_machine(models)
    lossless = add(
        "lossless", runs.lossless, console.facts, "Compare the output's law with the target's."
    )
    _add_pair(lossless)
    _add_config(lossless, temperature=1.0)
    lossless.add_argument(
        "--samples", type=int, default=2000, help="rounds in all (default %(default)s)"
    )
    diff = add("diff", traces.diff, traces.diff_text, "Compare two traces.")
    diff.add_argument("traces", nargs=2, metavar="TRACE", help="a trace file")
    report = add(
        "report", report_command.report, report_command.report_text, "A trace as one HTML file."
    )
    report.add_argument("trace", metavar="TRACE", help="a trace file")
    report.add_argument("-o", "--output", required=True, metavar="FILE", help="FILE.html")
    profile = add(
        "profile",
        profiles.profile,
        profiles.profile_text,
        "Rank where acceptance is lost, over many prompts.",
        profiles.shortfall,
    )
    _add_pair(profile)
    _add_many_prompts(profile)
    _add_config(profile)
    profile.add_argument("--traces", metavar="DIR", help="save every prompt's trace there")
    profile.add_argument(
        "--min-block-efficiency", type=float, help="exit status 1 below so many tokens a round"
    )
    bench = add(
        "bench",
        runs.bench,
        console.bench,
        "Methods x tasks, beside the library's own decoding.",
    )
    _add_pair(bench)
    bench.add_argument("--tasks", default=",".join(TASKS), help="with commas (default all)")
    bench.add_argument("--methods", help="with commas (default all)")
    bench.add_argument("--draft-lengths", default="3,5", help="K, with commas")
    bench.add_argument("--prompts", type=int, default=3, help="held-out prompts per task")
    bench.add_argument("--temperature", type=float, default=0.0, help="peers run at 0 only")
    bench.add_argument("--max-new-tokens", type=int, default=128)
    bench.add_argument("--repeat", type=int, default=2, help="passes, in alternating order")
    bench.add_argument("--batch-size", help="a table by batch size instead: 1,2,4,8")
    _add_batch(bench)
    steps = add(
        "steps",
        step_costs.steps,
        step_costs.steps_text,
        "What one token costs, beside the library's forward and the memory's speed.",
    )
    _add_pair(steps)
    steps.add_argument(
        "--repeat", type=int, default=5, help="pairs of blocks (default %(default)s)"
    )
    sweep = add("sweep", sweeps.sweep, sweeps.sweep_text, "Measure over a grid of settings.")
    _add_pair(sweep)
    _add_config(sweep)
    sweep.add_argument(
        "--axis",
        action="append",
        metavar="NAME=VALUES",
        help=f"one or two of {', '.join(AXES)}: 1-8 or 1,2,4 (default {sweeps.DEFAULT_AXIS})",
    )
    sweep.add_argument("--task", help=f"{', '.join(TASKS)} (default code, none with a file)")
    sweep.add_argument("--prompt-file", metavar="FILE", help="your own texts, as of `profile`")
    sweep.add_argument("--prompts", type=int, help="how many (default 3, all of a file)")
    sweep.add_argument("--repeat", type=int, default=2, help="pairs of blocks a point")
    sweep.add_argument(
        "--output", metavar="FILE", help="points as they come; goes on if it is there"
    )
    sweep.add_argument("--csv", metavar="FILE", help="a table for spreadsheets")
    advise = add(
        "advise",
        advising.advise,
        advising.advise_text,
        "Whether to speculate, with what, and what to expect: measured.",
    )
    _add_pair(advise)
    _add_many_prompts(advise)
    _add_sampling(advise.add_argument_group("decoding"), 0.0)
    advise.add_argument("--batch-size", type=int, default=1, help="so many prompts at once")
    advise.add_argument("--methods", help="with commas (default all)")
    advise.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="to measure (default %(default)s)"
    )
    advise.add_argument(
        "--check", action="store_true", help="then measure every setting and compare (minutes)"
    )
    claims = add(
        "claims",
        claim_check.claims,
        claim_text.claims_text,
        "Popular claims beside theory and measurement.",
        claim_check.shortfall,
    )
    claims.add_argument("--number", type=int, help="one claim, in full")
    claims.add_argument("--measure", action="store_true", help="run what decides it here")
    budgets = ", ".join(BUDGETS)
    claims.add_argument("--budget", help=f"{budgets} (default {claim_check.DEFAULT_BUDGET})")
    _add_machine(claims)
    return parser


def _add_pair(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--pair", default="bundled", help="a named pair (default %(default)s)")
    group.add_argument("--target", help="folder or Hub id, instead of --pair")
    group.add_argument("--draft", help="folder or Hub id; best with the target's vocabulary")
    _add_machine(group)


def _add_machine(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompt")
    group.add_argument("--task", help=f"{', '.join(TASKS)} (default code, none with --prompt)")
    group.add_argument("--prompt-number", type=int, default=1, help="which held-out prompt")
    group.add_argument("--prompt", help="your own text")
    group.add_argument("--prompt-file", metavar="FILE", help="your own text, UTF-8")


def _add_many_prompts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompts")
    group.add_argument("--task", help=f"{', '.join(TASKS)} (default code, none with --prompts)")
    group.add_argument(
        "--prompts",
        metavar="FILE",
        help="your own texts: a line each, blocks between empty lines, or .jsonl with `prompt`",
    )
    group.add_argument("--count", type=int, help="the first so many (default 10, all of a file)")


def _add_batch(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batch")
    group.add_argument(
        "--speculate-up-to",
        type=int,
        help="rounds of more rows draft nothing; 0: measured (default: all rounds draft)",
    )
    group.add_argument("--draft-budget", type=int, help="drafted tokens a round, all rows together")


def _add_config(parser: argparse.ArgumentParser, temperature: float = 0.0) -> None:
    default = DecodingConfig()
    group = parser.add_argument_group("decoding")
    group.add_argument("--method", default=default.method, help="see the command `methods`")
    group.add_argument("--draft-length", type=int, default=default.draft_length, help="K")
    group.add_argument("--branching", help="children per depth of a tree, such as 3,2")
    rules = ", ".join(kind.value for kind in ProposalKind)
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=INTEGER",
        help="an option of the method, see the command `methods`; may be given several times",
    )
    group.add_argument("--rule", help=f"how siblings are drawn and verified: {rules}")
    _add_sampling(group, temperature)


def _add_sampling(group: argparse._ActionsContainer, temperature: float) -> None:
    default = DecodingConfig()
    group.add_argument("--temperature", type=float, default=temperature)
    group.add_argument("--top-k", type=int, default=default.top_k, help="0 is off")
    group.add_argument("--top-p", type=float, default=default.top_p, help="1 is off")
    group.add_argument("--seed", type=int, default=default.seed)
    group.add_argument("--max-new-tokens", type=int, default=default.max_new_tokens)
