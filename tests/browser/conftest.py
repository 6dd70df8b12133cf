"""Browser tests: the real app in a process of its own, a real Chromium."""

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

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")  # the quickest first
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
    # less work for two cores: a process and threads fewer
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
    """The app as users start it, on the bundled models (or those of SPECVIZ_MODELS)."""
    folder = Path(os.environ.get("SPECVIZ_MODELS") or ROOT / "assets" / "models")
    if not (folder / "target" / "config.json").is_file():
        pytest.skip(f"no models in {folder}")
    log = tmp_path_factory.mktemp("app") / "log.txt"
    yield from serve("app.py", log)


@pytest.fixture(scope="session")
def random_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the app over random races prints, among it the moment when each race ended."""
    return tmp_path_factory.mktemp("random") / "log.txt"


@pytest.fixture(scope="session")
def random_url(random_log: Path) -> Iterator[str]:
    """The same page over random races: quick, and every shape of tree and text can be had."""
    yield from serve("tests.browser.random_app", random_log)


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def open_page(contexts: Contexts) -> Iterator[Callable[..., RaceDriver]]:
    """Open a page as a visitor of its own; at the end nothing may have complained.

    Every page is checked for console errors, exceptions and requests to other servers.
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
    """One page per app for all tests, and one of the debugger: opening one takes the most time."""
    return {}


@pytest.fixture
def turn_page(
    request: pytest.FixtureRequest, kept_pages: dict[str, RaceDriver], contexts: Contexts
) -> Iterator[Callable[..., RaceDriver]]:
    """The page of an app that is open already, in another setting and size."""
    for driver in kept_pages.values():
        driver.complaints.clear()  # what another test found is its own failure

    def turn(url: str, query: str = "", viewport: ViewportSize = SIZE) -> RaceDriver:
        if url not in kept_pages:
            kept_pages[url] = RaceDriver(contexts.take(), url)
            kept_pages[url].go()
        kept_pages[url].page.set_viewport_size(viewport)
        kept_pages[url].turn(query)
        return kept_pages[url]

    yield turn
    complaints = [each for driver in kept_pages.values() for each in driver.complaints]
    if complaints or HAS_FAILED in request.node.stash:  # what it left behind is nobody else's
        give_all_back(kept_pages, contexts)
    assert complaints == []


@pytest.fixture
def debugger(
    turn_page: Callable[..., RaceDriver],  # looks for complaints
    kept_pages: dict[str, RaceDriver],
    contexts: Contexts,
    random_url: str,
) -> StepDriver:
    """The debugger on a page of its own, whatever run it shows."""
    if DEBUGGER not in kept_pages:
        kept_pages[DEBUGGER] = RaceDriver(contexts.take(), random_url)
        kept_pages[DEBUGGER].go("?view=step")
    driver = kept_pages[DEBUGGER]
    driver.page.set_viewport_size(SIZE)
    driver.page.mouse.move(0, 0)
    return StepDriver(driver)


@pytest.fixture
def opened(debugger: StepDriver) -> StepDriver:
    """The recording step_driver.NAME at its first moment, as if just opened."""
    return debugger.afresh(NAME)
