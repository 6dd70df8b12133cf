"""The command `report`: it writes a saved trace as one HTML file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.errors import InputError
from specviz.trace_file import load
from specviz.ui.report import report_html
from specviz.whole_file import write_whole


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="trace file, as `race --trace` saves it")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="HTML file to write")


def report(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Write the run of `options.trace` to `options.output`, and return the file's size."""
    output = Path(options.output)
    if output.is_dir() or not output.parent.is_dir():
        raise InputError(f"output must be a file in an existing folder, got {str(output)!r}")
    trace = load(options.trace)
    progress(f"making the figures of {len(trace.rounds)} rounds …")
    html = report_html(trace).encode()
    try:
        write_whole(output, html)
    except OSError as error:
        raise InputError(f"output {str(output)!r} cannot be written: {error.strerror}") from None
    return {"file": str(output), "bytes": len(html), "rounds": len(trace.rounds)}


def report_text(result: dict[str, Any]) -> str:
    size = f"{result['bytes'] / 1e6:.1f} MB"
    return f"{result['file']}: {result['rounds']} rounds, {size}; any browser opens it, offline too"


COMMAND = Command(report, report_text, _add_flags, example="run.json.gz -o run.html")
