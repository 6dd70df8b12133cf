"""Browser tests: the real app in a process of its own, a real Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.browser.app_server import ROOT, serve
from tests.browser.contexts import SIZE, Contexts
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import NAME, StepDriver

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


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
    yield from serve(["app.py"], log)


@pytest.fixture(scope="session")
def random_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the app over random races prints, among it the moment when each race ended."""
    return tmp_path_factory.mktemp("random") / "log.txt"


@pytest.fixture(scope="session")
def random_url(random_log: Path) -> Iterator[str]:
    """The same page over random races: quick, and every shape of tree and text can be had."""
    yield from serve(["-m", "tests.browser.random_app"], random_log)


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


@pytest.fixture(scope="module")
def kept_pages(contexts: Contexts) -> Iterator[dict[str, RaceDriver]]:
    """One page per app for a whole module: opening one takes the most time."""
    pages: dict[str, RaceDriver] = {}
    yield pages
    for driver in pages.values():
        contexts.give_back(driver)


@pytest.fixture
def turn_page(
    kept_pages: dict[str, RaceDriver], contexts: Contexts
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
    assert [each for driver in kept_pages.values() for each in driver.complaints] == []


@pytest.fixture
def debugger(
    turn_page: Callable[..., RaceDriver], kept_pages: dict[str, RaceDriver], random_url: str
) -> StepDriver:
    """The debugger's page, whatever run it shows."""
    driver = kept_pages.get(random_url) or turn_page(random_url)
    driver.page.locator("[data-page=step]").click()
    return StepDriver(driver)


@pytest.fixture
def opened(debugger: StepDriver) -> StepDriver:
    """The recording step_driver.NAME at its first moment, as if just opened."""
    return debugger.afresh(NAME)
