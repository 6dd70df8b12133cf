"""A run of 2,000 rounds has a small file and quick steps, and the page's memory stays constant."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Browser, CDPSession

from specviz.trace_file import dumps
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, StepDriver
from tests.random_traces import random_trace

pytestmark = pytest.mark.slow
ROUNDS = 2000
STEPS = 1000
MOST_MILLISECONDS = 50
MOST_GROWTH = 10e6  # bytes by which the page's heap may grow over STEPS steps
# Limit for opening the file on two slow cores; an idle machine needs a tenth of it.
OPEN_SECONDS = 240

# Return the milliseconds from the key press to the frame that shows the step, for each of `count`
# steps.
STEP = """async (count) => {
    const painted = () => new Promise((done) => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = done;
        channel.port2.postMessage(0);
    }));
    const key = (name) => document.body.dispatchEvent(
        new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    const times = [];
    for (let at = 0; at < count; at += 1) {
        const from = performance.now();
        key("ArrowRight");
        await painted();
        times.push(performance.now() - from);
    }
    return times;
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.json.gz"
    # A run has at most 4,096 tokens, so each of its 2,000 rounds may write at most two tokens.
    trace = random_trace(0, rounds=ROUNDS, branching=(3,), draft_length=1)
    path.write_bytes(gzip.compress(dumps(trace)))
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, random_url: str, file: Path) -> Iterator[StepDriver]:
    """Open the file in the debugger; `said` on the page collects the page's messages."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    driver = RaceDriver(context, random_url)
    driver.go("?view=step&trace=draft-tree.story")
    StepDriver(driver)
    driver.evaluate(
        """window.said = []; new MutationObserver(() => said.push(
            document.querySelector('[data-ref=stepNote]').textContent)).observe(
            document.querySelector('[data-ref=stepNote]'), { childList: true, subtree: true,
            characterData: true }); 0"""
    )
    driver.ref("stepFile").set_input_files(file)
    whole = f"{CURSOR}.trace.rounds.length === {ROUNDS} && {CURSOR}.trace.ending"
    driver.until(whole, OPEN_SECONDS)
    yield StepDriver(driver)
    assert driver.complaints == []
    context.close()


def heap(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"])


def test_the_file_is_smaller_than_ten_megabytes(file: Path) -> None:
    assert file.stat().st_size < 10e6


def test_the_page_shows_its_progress_while_a_long_run_opens(opened: StepDriver) -> None:
    said = opened.driver.evaluate("said")
    counts = [int(line.split(": ")[1].split()[0]) for line in said if line.endswith("rounds …")]
    assert len(counts) >= 3 and counts == sorted(counts) and 0 < counts[1] < ROUNDS


def test_a_step_takes_less_than_fifty_milliseconds_and_no_memory(opened: StepDriver) -> None:
    session = opened.driver.context.new_cdp_session(opened.page)
    opened.driver.evaluate(f"{CURSOR}.go({ROUNDS // 2}, 0)")
    opened.page.evaluate(STEP, 50)
    before = heap(session)
    times = opened.page.evaluate(STEP, STEPS)
    growth = heap(session) - before
    print(f"median {median(times):.1f} ms, growth {growth / 1e6:.2f} MB")
    assert median(times) < MOST_MILLISECONDS
    assert growth < MOST_GROWTH
