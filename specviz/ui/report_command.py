"""`report`: a saved trace becomes one HTML file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.errors import InputError
from specviz.trace_file import load
from specviz.ui.report import report_html


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="FILE.html")


def report(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Write the run of `options.trace` to `options.output`; how large the file became."""
    output = Path(options.output)
    if output.is_dir() or not output.parent.is_dir():
        raise InputError(f"output must be a file in an existing folder, got {str(output)!r}")
    trace = load(options.trace)
    progress(f"making the figures of {len(trace.rounds)} rounds …")
    html = report_html(trace).encode()
    output.write_bytes(html)
    return {"file": str(output), "bytes": len(html), "rounds": len(trace.rounds)}


def report_text(result: dict[str, Any]) -> str:
    """One line."""
    size = f"{result['bytes'] / 1e6:.1f} MB"
    return f"{result['file']}: {result['rounds']} rounds, {size}; any browser opens it, offline too"


COMMAND = Command(report, report_text, _add_flags)
