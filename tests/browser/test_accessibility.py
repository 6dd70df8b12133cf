"""axe-core finds no fault on the race page and in the debugger, in any size and colour scheme."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import ViewportSize

from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, StepDriver

OpenPage = Callable[..., RaceDriver]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {
    "wide light": (WIDE, "light"),
    "narrow dark": (NARROW, "dark"),
    "wide dark": (WIDE, "dark"),
    "narrow light": (NARROW, "light"),
}


def looks(quick: str) -> pytest.MarkDecorator:
    """Parametrise a test over window sizes and colour schemes.

    `make test` runs only the combination with the name `quick`; `make slow` runs all of them.
    """
    slow = {name: [pytest.mark.slow] if name != quick else [] for name in LOOKS}
    values = [pytest.param(*LOOKS[name], id=name, marks=slow[name]) for name in LOOKS]
    return pytest.mark.parametrize(("size", "scheme"), values)


RUN = "?view=step&trace=draft-tree.story&round=3&pos=7"


@looks(quick="wide light")
def test_the_race_page_has_no_fault_after_a_race(
    open_page: OpenPage, random_url: str, size: ViewportSize, scheme: str
) -> None:
    driver = open_page(random_url, "?tokens=12", viewport=size, color_scheme=scheme)
    driver.race()
    assert findings(driver.page) == []


@pytest.mark.slow
@looks(quick="wide light")
def test_the_race_page_has_no_fault_before_a_race(
    open_page: OpenPage, random_url: str, size: ViewportSize, scheme: str
) -> None:
    driver = open_page(random_url, viewport=size, color_scheme=scheme)
    assert findings(driver.page) == []


@looks(quick="narrow dark")
def test_the_debugger_has_no_fault(
    open_page: OpenPage, random_url: str, size: ViewportSize, scheme: str
) -> None:
    step = StepDriver(open_page(random_url, RUN, viewport=size, color_scheme=scheme))
    step.press("Home")
    assert findings(step.page) == []
    step.press("n")
    assert findings(step.page) == []


@pytest.mark.slow
@looks(quick="narrow dark")
def test_the_debugger_has_no_fault_at_any_phase(
    open_page: OpenPage, random_url: str, size: ViewportSize, scheme: str
) -> None:
    step = StepDriver(open_page(random_url, RUN, viewport=size, color_scheme=scheme))
    step.press("Home")
    for phase in ("draft", "verify", "judge", "extra", "commit"):
        assert step.driver.evaluate(f"{CURSOR}.moment.phase") == phase and findings(step.page) == []
        step.press("ArrowDown")


@pytest.mark.slow
def test_the_check_finds_a_button_without_a_name(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url)
    driver.evaluate("document.querySelector('[data-ref=theme]').removeAttribute('aria-label')")
    driver.evaluate("document.querySelector('[data-ref=theme]').removeAttribute('title')")
    assert any(each.startswith("button-name") for each in findings(driver.page))
