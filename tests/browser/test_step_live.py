"""The debugger can follow the race that runs on the race page, and stop it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, StepDriver

OpenPage = Callable[..., RaceDriver]


def test_the_page_s_race_can_be_followed_live_and_stays(
    open_page: OpenPage, random_url: str
) -> None:
    # the race is long enough to be followed on any machine
    driver = open_page(random_url, "?tokens=600")
    driver.press_race()
    driver.page.locator(".tabs [data-page=step]").click()
    driver.until(f"{CURSOR}.trace === specviz.race.view.trace && {CURSOR}.trace.rounds.length > 2")
    driver.ref("stepFollow").click()
    driver.until(f"{CURSOR}.round > 5")
    driver.ref("halt").click()
    driver.wait_for_end()
    step = StepDriver(driver)
    assert step.place[0] == driver.rounds - 1
    step.press("Home", "n")
    step.driver.rest()
    here = step.place
    driver.reload()
    assert StepDriver(driver).place == here


def test_a_link_to_a_live_run_that_is_gone_says_so(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, "?view=step&trace=live&round=3&pos=2")
    driver.page.wait_for_selector("[data-ref=stepError]:visible")
    assert driver.text("stepError").startswith("The run of this link was still going on")
    StepDriver(driver)


@pytest.mark.slow
def test_a_race_stopped_before_it_began_leaves_no_error(
    open_page: OpenPage, turn_page: OpenPage, random_url: str
) -> None:
    first, second = turn_page(random_url, "?tokens=200"), open_page(random_url, "?tokens=99")
    first.press_race()
    first.wait_for_rounds()
    second.press_race()
    second.until("document.querySelector('[data-ref=runState]').textContent.includes('ahead')")
    assert second.text("runState") == "waiting: 1 run is ahead of yours: a race"
    second.page.keyboard.press("Escape")
    second.wait_for_end()
    first.page.keyboard.press("Escape")
    first.wait_for_end()
    assert second.evaluate("specviz.race.view.trace.header") is None


def test_a_paused_race_says_so_on_its_page_and_can_be_stopped_from_the_debugger(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?tokens=200")
    driver.ref("raceHeld").click()
    driver.page.wait_for_selector("[data-ref=advance]:visible")
    for rounds in (1, 2):
        driver.ref("advance").click()
        driver.until(f"specviz.race.view.trace.rounds.length >= {rounds}")
        # The debugger's strip of rounds appears although the race page has drawn nothing.
        driver.ref("stepStrip").wait_for()
    driver.page.locator("[data-page=race]").click()
    assert driver.text("runState").startswith("held")
    driver.ref("toHeld").click()
    tops = """[...document.querySelectorAll(".debugger .card")]
        .map((card) => Math.round(card.getBoundingClientRect().top))"""
    StepDriver(driver)
    for width in (390, 1024):
        driver.page.set_viewport_size({"width": width, "height": 768})
        free = driver.evaluate(
            """(() => {
                scrollTo(0, document.documentElement.scrollHeight);
                const { live, step } = specviz.race.view.refs;
                const cards = [...step.querySelectorAll(".card")].map((each) => each.getBoundingClientRect().bottom);
                return live.getBoundingClientRect().top - Math.max(...cards);
            })()"""  # noqa: E501
        )
        # The bar with the buttons is at the page's lower edge and covers no card.
        assert free > 0
    before = driver.evaluate(tops)
    driver.ref("halt").click()
    driver.wait_for_end()
    driver.page.wait_for_selector("[data-ref=live]", state="hidden")
    assert driver.evaluate("specviz.race.view.trace.ending") == "stopped"
    assert driver.rounds < 10
    assert driver.evaluate(tops) == before
    driver.page.locator("[data-page=race]").click()
    assert driver.text("runState").startswith("stopped") and not driver.ref("toHeld").is_visible()
