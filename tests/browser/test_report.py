"""A report is one file that opens from disk, sends no requests, and works like the debugger."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect

from specviz.golden import golden_trace
from specviz.records import EngineReport, EngineToken, FinishReason, Lane, LaneKind, Trace
from specviz.trace_file import encode, load
from specviz.ui.page_files import PLAYER, module_map
from specviz.ui.report import POLICY, report_html
from tests.browser.axe_findings import findings
from tests.browser.contexts import SIZE, Contexts
from tests.browser.race_driver import OVERFLOW, RaceDriver
from tests.browser.step_driver import CURSOR, StepDriver
from tests.random_traces import changed

NAME = "draft-tree.story"
TRACE = golden_trace(NAME)
HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
OF_A_SERVER = ("stepTrace", "stepOpen", "stepFile", "whatIf", "fork", "hold", "advance", "halt")
OF_A_SERVER += ("profile", "profileGo", "profileTable")
EMPTY_BUTTONS = """[...document.querySelectorAll("button")]
    .filter((each) => each.checkVisibility() && each.offsetWidth && !each.innerText.trim())
    .filter((each) => ![...each.querySelectorAll("svg")].some((icon) => icon.clientWidth))
    .map((each) => each.outerHTML)"""


class ReportDriver(StepDriver):
    """A report in a tab; `requests` are the addresses that it requested."""

    def __init__(self, contexts: Contexts, path: Path) -> None:
        self.driver = RaceDriver(contexts.take(), path.as_uri())
        self.page = self.driver.page
        self.requests: list[str] = []
        self.page.on("request", self.ask)
        self.driver.go()
        self.settle()

    def ask(self, request: Request) -> None:
        self.requests.append(request.url)

    def leave(self, contexts: Contexts) -> None:
        assert self.driver.complaints == []
        self.page.remove_listener("request", self.ask)
        contexts.give_back(self.driver)


OpenReport = Callable[[Trace], ReportDriver]


@pytest.fixture(scope="module")
def disk_contexts(browser: Browser) -> Contexts:
    """Return browser contexts that open only files.

    A tab that changes between files and a server needs more time.
    """
    return Contexts(browser)


@pytest.fixture(scope="module")
def kept_report(
    disk_contexts: Contexts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReportDriver]:
    path = tmp_path_factory.mktemp("kept") / "a report.html"
    path.write_text(report_html(TRACE), encoding="utf-8")
    report = ReportDriver(disk_contexts, path)
    yield report
    report.leave(disk_contexts)


@pytest.fixture
def report(kept_report: ReportDriver) -> ReportDriver:
    """Return the driver of the open report, at the report's first moment."""
    kept_report.page.set_viewport_size(SIZE)
    kept_report.press("Escape", "Home")
    return kept_report


@pytest.fixture
def open_report(disk_contexts: Contexts, tmp_path: Path) -> Iterator[OpenReport]:
    opened: list[ReportDriver] = []

    def open_one(trace: Trace) -> ReportDriver:
        path = tmp_path / "a report.html"
        path.write_text(report_html(trace), encoding="utf-8")
        opened.append(ReportDriver(disk_contexts, path))
        return opened[-1]

    yield open_one
    for report in opened:
        report.leave(disk_contexts)


def test_a_report_opens_from_disk_and_requests_only_itself(
    open_report: OpenReport, tmp_path: Path
) -> None:
    report = open_report(TRACE)
    assert report.phase == "draft"
    assert report.rounds() == [encode(each) for each in TRACE.rounds]
    report.press("ArrowDown", "ArrowDown")
    assert report.phase == "accept/reject"
    report.press("ArrowDown", "ArrowDown")
    assert report.phase == "commit"
    rows = report.page.locator("[data-ref=stepTable] tbody tr")
    examined = sum(v.outcome.value != "unreached" for v in TRACE.rounds[0].verdicts)
    assert rows.count() == examined + (TRACE.rounds[0].extra is not None)
    texts = dict(TRACE.token_texts)
    first = texts[TRACE.rounds[0].tree.nodes[0].token_id].replace(" ", "·")
    assert rows.first.inner_text().startswith(first)
    assert first in report.page.locator("[data-ref=stepTree] svg").first.text_content()
    report.press("n")
    assert report.stop["outcome"] == "rejected"
    report.press("End")
    assert report.place[0] == len(TRACE.rounds) - 1
    report.driver.ref("theme").click()
    report.press("Home")
    assert report.requests == [(tmp_path / "a report.html").as_uri()]


def test_a_report_has_no_accessibility_fault(report: ReportDriver) -> None:
    assert findings(report.page) == []


def test_a_report_has_no_parts_that_need_a_server(report: ReportDriver) -> None:
    report.press("ArrowDown", "ArrowDown")
    for name in OF_A_SERVER:
        assert report.driver.ref(name).count() == 0
    report.press("?")
    keys = report.driver.text("keyList")
    assert "previous match" in keys and "race" not in keys


@pytest.mark.parametrize("width", [390, 768])
def test_a_report_fits_a_narrow_screen_in_both_type_sizes(report: ReportDriver, width: int) -> None:
    report.page.set_viewport_size({"width": width, "height": 844})
    report.press("n")
    for _ in range(2):
        assert report.driver.evaluate(OVERFLOW) <= 0
        assert report.driver.evaluate(EMPTY_BUTTONS) == []
        report.click("large")


@pytest.mark.slow
def test_a_report_writes_and_reads_addresses_of_moments(open_report: OpenReport) -> None:
    report = open_report(TRACE)
    report.press("Shift+ArrowRight", "ArrowRight")
    report.page.wait_for_url(lambda url: url.endswith("#round=2&pos=2"), timeout=5000)
    report.driver.evaluate("location.hash = '#round=5&pos=3&axis=token'")
    report.settle()
    assert report.place == (4, 2)
    report.page.reload()
    report.page.wait_for_selector("[data-ready]")
    assert report.place == (4, 2)
    assert report.driver.evaluate(f"specviz.step.view.axis.name + {CURSOR}.at") == "token2"


def test_a_run_saved_from_a_report_equals_the_original(
    report: ReportDriver, tmp_path: Path
) -> None:
    with report.page.expect_download() as download:
        report.driver.ref("stepSave").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert gzip.decompress(path.read_bytes())[:1] == b"{"
    assert load(path) == TRACE


def test_a_report_describes_the_servers_that_were_raced(
    open_report: OpenReport,
) -> None:
    """One server answers but does not say where its tokens come from.

    The other server cannot be reached.
    """
    assert TRACE.baseline
    ids = [step.token_id for step in TRACE.baseline.steps[:3]]
    lane = Lane("server", LaneKind.ENGINE, TRACE.config, finish=FinishReason.LENGTH)
    told = EngineReport("llama.cpp", "b1", "m", drafted=8, accepted=2)
    answered = replace(
        lane, arrivals=tuple(EngineToken(each, 0.5, None) for each in ids), engine=told
    )
    gone = EngineReport(remark="server must answer, but nothing listens there")
    missing = replace(lane, name="plain-server", finish=None, engine=gone)
    report = open_report(replace(TRACE, lanes=(*TRACE.lanes, answered, missing)))
    one, other = report.driver.ref("stepServers").locator("p").all_inner_texts()
    assert one.startswith("Also in the race, the server: 3 tokens in 1.50 s, 2.0 a second")
    assert "target forwards unknown · llama.cpp b1, model m · 2 of 8 drafted tokens" in one
    assert other == (
        "Also in the race, the plain-server: Server must answer, but nothing listens there."
    )
    report.press("End")
    assert report.place[0] == len(TRACE.rounds) - 1
    assert findings(report.page) == []


def test_hostile_texts_stay_texts_in_a_report(open_report: OpenReport) -> None:
    hostile = replace(
        changed(TRACE, config=replace(TRACE.config, method=HOSTILE)),
        prompt=HOSTILE,
        token_texts=tuple((token, f"{HOSTILE}{token}") for token, _ in TRACE.token_texts),
        target=replace(TRACE.target, name=HOSTILE),
    )
    report = open_report(hostile)
    report.press("ArrowDown", "ArrowDown", "n", "End")
    assert report.driver.evaluate("window.pwned") is None
    assert report.driver.evaluate("document.querySelectorAll('img').length") == 0
    assert report.driver.ref("stepText").text_content().startswith(HOSTILE)
    assert HOSTILE in report.driver.text("stepNote")
    assert report.page.title().startswith(f"specviz · {HOSTILE}")


def test_a_view_can_be_drawn_in_a_file_opened_from_disk(browser: Browser, tmp_path: Path) -> None:
    """The view library must work under the content security policy of a report.

    No part of a report uses the library yet, so the test writes a small page with this policy.
    """
    modules = json.dumps({"imports": module_map(PLAYER, "shared/view.js")})
    script = """import { html, render } from "specviz/shared/view.js";
        render(html`<p title=${1 + 1}>drawn</p>`, document.querySelector("main"));"""
    path = tmp_path / "view.html"
    path.write_text(
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<script type="importmap">{modules}</script><main></main>'
        f'<script type="module">{script}</script>'
    )
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.get_by_title("2")).to_have_text("drawn")
    page.close()
