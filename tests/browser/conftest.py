"""Fixtures for browser tests: the real app in a separate process, and a real Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.browser.app_server import ROOT, serve
from tests.browser.contexts import SIZE, Contexts, give_all_back
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import NAME, StepDriver

# The fastest browser comes first. CHROMIUM is the first one in this list that is installed.
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
    # On a machine with two cores, Chromium is faster with fewer processes and threads.
    *("--in-process-gpu", "--num-raster-threads=1", "--disable-lcd-text"),
)

DEBUGGER = "debugger"
HAS_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of the app as users start it, with the bundled models or SPECVIZ_MODELS."""
    folder = Path(os.environ.get("SPECVIZ_MODELS") or ROOT / "assets" / "models")
    if not (folder / "target" / "config.json").is_file():
        pytest.skip(f"no models in {folder}")
    log = tmp_path_factory.mktemp("app") / "log.txt"
    yield from serve("app.py", log)


@pytest.fixture(scope="session")
def random_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log file of the app with random races.

    The app writes one line into it at the end of each race.
    """
    return tmp_path_factory.mktemp("random") / "log.txt"


@pytest.fixture(scope="session")
def random_url(random_log: Path) -> Iterator[str]:
    """Yield the address of an app with random races.

    The races are fast and have every shape of tree and text.
    """
    yield from serve("tests.browser.random_app", random_log)


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def open_page(contexts: Contexts) -> Iterator[Callable[..., RaceDriver]]:
    """Yield a function that opens a page as a new visitor.

    At the end of a test, no page may have a console error, an exception, or a request to another
    server.
    """
    drivers: list[RaceDriver] = []

    def open_one(url: str, query: str = "", **options: object) -> RaceDriver:
        driver = RaceDriver(contexts.take(**options), url)
        drivers.append(driver)
        driver.go(query)
        return driver

    yield open_one
    drivers_left = [driver for driver in drivers if not driver.may_complain]
    complaints = [complaint for driver in drivers_left for complaint in driver.complaints]
    for driver in drivers:
        contexts.give_back(driver)
    assert complaints == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture(scope="session")
def kept_pages() -> dict[str, RaceDriver]:
    """Return the pages that tests share to save time: one per app, and one with the debugger."""
    return {}


@pytest.fixture
def turn_page(
    request: pytest.FixtureRequest, kept_pages: dict[str, RaceDriver], contexts: Contexts
) -> Iterator[Callable[..., RaceDriver]]:
    """Yield a function that shows the page of an address in a tab that several tests share.

    The function also sets the size of the browser's window.
    """
    for driver in kept_pages.values():
        driver.complaints.clear()  # an earlier test caused these complaints

    def turn(url: str, query: str = "", viewport: ViewportSize = SIZE) -> RaceDriver:
        if url not in kept_pages:
            kept_pages[url] = RaceDriver(contexts.take(), url)
            kept_pages[url].go()
        kept_pages[url].page.set_viewport_size(viewport)
        kept_pages[url].turn(query)
        return kept_pages[url]

    yield turn
    complaints = [each for driver in kept_pages.values() for each in driver.complaints]
    # After a failed test, the pages may be in any state, so later tests get new ones.
    if complaints or HAS_FAILED in request.node.stash:
        give_all_back(kept_pages, contexts)
    assert complaints == []


@pytest.fixture
def debugger(
    # the test does not use this argument, but the fixture checks the page for complaints
    turn_page: Callable[..., RaceDriver],
    kept_pages: dict[str, RaceDriver],
    contexts: Contexts,
    random_url: str,
) -> StepDriver:
    """Return a driver of the debugger's page, which may show any run."""
    if DEBUGGER not in kept_pages:
        kept_pages[DEBUGGER] = RaceDriver(contexts.take(), random_url)
        kept_pages[DEBUGGER].go("?view=step")
    driver = kept_pages[DEBUGGER]
    driver.page.set_viewport_size(SIZE)
    driver.page.mouse.move(0, 0)
    return StepDriver(driver)


@pytest.fixture
def opened(debugger: StepDriver) -> StepDriver:
    """Return the debugger with the recording `step_driver.NAME`, at its first moment."""
    return debugger.afresh(NAME)
