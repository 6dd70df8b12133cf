"""The command `diff`: it finds where two saved runs first differ, and says why."""

from __future__ import annotations

import reprlib
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from specviz import trace_file
from specviz.commands.command import Command, Progress
from specviz.commands.console import facts, table
from specviz.records import Trace
from specviz.trace_diff import difference, shared_texts, totals
from specviz.trace_diff.arrival import Arrival
from specviz.trace_diff.sentence import sentence

_RUN_KEYS = ("method", "tokens", "rounds", "block_efficiency", "acceptance_rate", "file")


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "traces", nargs=2, metavar="TRACE", help="two trace files, as `race --trace` saves them"
    )


def diff(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Return where the texts of the two files in `options.traces` first differ, and why."""
    (a_name, b_name), (a, b) = options.traces, map(trace_file.load, options.traces)
    found, texts = difference(a, b), shared_texts(a, b)
    return {
        "identical": found is None,
        "index": found.index if found else None,
        "reason": found.reason.value if found else None,
        "cause": asdict(found.cause, dict_factory=_plain) if found else None,
        "sentence": sentence(found, texts),
        "a": _run(a_name, a) | {"token": _token(found.a if found else None, texts)},
        "b": _run(b_name, b) | {"token": _token(found.b if found else None, texts)},
    }


def diff_text(result: dict[str, Any]) -> str:
    """Return a sentence on the difference, a table of both runs, and their first different tokens.

    Names from the files are quoted, so that none of their control characters reaches the terminal.
    """
    runs = [
        {"run": name} | {key: _quoted(result[name][key]) for key in _RUN_KEYS}
        for name in ("a", "b")
    ]
    tokens = {name: result[name]["token"] for name in ("a", "b")}
    shown = [
        f"in {name}\n{facts(token | {'text': reprlib.repr(token['text'])})}"
        for name, token in tokens.items()
        if token is not None
    ]
    return "\n\n".join([result["sentence"], table(runs), *shown])


def _quoted(value: object) -> object:
    return reprlib.repr(value) if isinstance(value, str) and not value.isprintable() else value


def _run(name: str, trace: Trace) -> dict[str, Any]:
    return {"file": name, "method": trace.config.method, **asdict(totals(trace))}


def _token(token: Arrival | None, texts: dict[int, str]) -> dict[str, Any] | None:
    """Return a run's token at the first difference; p, q and u are named as in a trace file."""
    if token is None:
        return None
    return {
        "id": token.token_id,
        "text": texts.get(token.token_id),
        "origin": token.origin.value,
        # Round numbers start at 1, as in the sentence for the user.
        "round": None if token.round_index is None else token.round_index + 1,
        "p": token.target_prob,
        "residual": token.residual_prob,
        "q": token.draft_prob,
        "accept": token.acceptance_prob,
        "u": token.uniform_draw,
    }


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs of a name and a value as a dict, with each enum member replaced by its value."""
    return {name: getattr(value, "value", value) for name, value in pairs}


COMMAND = Command(diff, diff_text, _add_flags, example="run.json.gz other.json.gz")
