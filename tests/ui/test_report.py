"""A report file is complete, small and always the same; an unwritable path is refused."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.golden import FOLDER, SUFFIX, golden_names, golden_trace
from specviz.trace_file import save
from specviz.ui.page_files import PLAYER, module_map
from specviz.ui.report import report_html
from specviz.ui.report_command import report, report_text
from tests.random_traces import random_trace

NAME = "draft-tree.story"


def test_a_report_refers_to_no_other_file_and_no_server() -> None:
    html = report_html(golden_trace(NAME))
    outside = re.sub(r'<script type="text/plain".*?</script>', "", html, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", outside)


def test_every_module_of_a_report_is_in_its_file() -> None:
    modules = module_map(PLAYER, "report_main.js")
    assert "specviz/step/step_view.js" in modules and "specviz/shared/dom.js" in modules
    assert not any(name in modules for name in ("specviz/shared/transport.js", "specviz/app.js"))


def test_the_same_trace_gives_the_same_report() -> None:
    trace = random_trace(1, rounds=3)
    assert report_html(trace) == report_html(trace)


def test_text_of_a_trace_is_escaped_in_a_report() -> None:
    trace = random_trace(1, rounds=2)
    html = report_html(replace(trace, prompt="</script>pwned", token_texts=((0, "<b>pwned"),)))
    assert "pwned" not in html


def test_a_run_without_rounds_can_be_written_as_a_report() -> None:
    assert report_html(random_trace(1).unstarted).startswith("<!doctype html>")


def test_a_report_of_a_recorded_run_is_smaller_than_three_megabytes() -> None:
    assert all(len(report_html(golden_trace(name))) < 3e6 for name in golden_names()[:2])


def test_the_command_writes_the_file_and_prints_its_size(tmp_path: Path) -> None:
    output = tmp_path / "run.html"
    lines: list[str] = []
    options = Namespace(trace=str(FOLDER / f"{NAME}{SUFFIX}"), output=str(output))
    result = report(options, lines.append)
    assert result == {"file": str(output), "bytes": output.stat().st_size, "rounds": 19}
    size = f"{output.stat().st_size / 1e6:.1f} MB"
    assert f"19 rounds, {size}" in report_text(result) and len(lines) == 1


@pytest.mark.parametrize("name", ["no-such-folder/run.html", "."])
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    save(random_trace(1, rounds=1), tmp_path / "trace.json")
    options = Namespace(trace=str(tmp_path / "trace.json"), output=str(tmp_path / name))
    with pytest.raises(InputError, match="output must be a file in an existing folder, got"):
        report(options, lambda line: None)
