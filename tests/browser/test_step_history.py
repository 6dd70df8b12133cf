"""The browser's history has an entry for each opened run, and none for a move within a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, NAME, StepDriver

OpenPage = Callable[..., RaceDriver]
OTHER = "draft-model.code"
LENGTH = "history.length"
ENTRY = "navigation.currentEntry.key"  # a text that differs for each entry of the history


def shows(step: StepDriver, name: str) -> None:
    busy = "specviz.step.transport.isBusy"
    step.driver.until(f"specviz.step.source === {name!r} && !{busy} && {CURSOR}.trace.ending")
    step.driver.rest()


def test_moves_within_a_run_add_no_entry(opened: StepDriver) -> None:
    before = opened.driver.evaluate(ENTRY)
    opened.press("ArrowRight", "n", "Shift+ArrowRight", "End")
    opened.driver.ref("matches").locator("button").first.click()
    opened.driver.ref("stepText").locator(".token").nth(9).click()
    opened.driver.rest()
    assert opened.driver.evaluate(ENTRY) == before


def test_back_leads_through_the_opened_runs(open_page: OpenPage, random_url: str) -> None:
    step = StepDriver(open_page(random_url, f"?view=step&trace={NAME}&round=3&pos=2"))
    before = step.driver.evaluate(LENGTH)
    step.driver.ref("stepTrace").select_option(OTHER)
    shows(step, OTHER)
    step.leave_field()
    step.press("n")
    there = step.place
    step.driver.rest()
    assert step.driver.evaluate(LENGTH) == before + 1
    step.page.locator("[data-page=race]").click()
    step.page.go_back()
    assert step.driver.evaluate("specviz.race.shell.current") == "step" and step.place == there
    step.page.go_back()
    shows(step, NAME)
    assert step.place == (2, 1)
    step.page.go_forward()
    shows(step, OTHER)
    assert step.place == there
    assert step.driver.evaluate(LENGTH) == before + 2


@pytest.mark.slow
def test_a_run_of_this_page_can_be_selected_again(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, "?tokens=40")
    driver.race()
    driver.page.locator(".tabs [data-page=step]").click()
    step = StepDriver(driver)
    step.driver.ref("stepTrace").select_option(NAME)
    shows(step, NAME)
    step.page.go_back()
    shows(step, "")
    assert driver.evaluate(f"{CURSOR}.trace === specviz.race.view.trace")


def test_the_selected_round_of_a_race_is_shown_by_debugger_and_link(
    turn_page: OpenPage, random_url: str
) -> None:
    tab = turn_page(random_url, "?tokens=24&seed=4")
    tab.race()
    tab.evaluate("specviz.race.view.select(5)")
    tab.page.locator(".tabs [data-page=step]").click()
    step = StepDriver(tab)
    chosen = "[specviz.race.view.cursor.round, specviz.race.view.cursor.node]"
    stepped = f"[{CURSOR}.round, {CURSOR}.node]"
    assert tab.evaluate(stepped) == tab.evaluate(chosen) and step.place[0] == 5
    step.press("Shift+ArrowRight")
    tab.page.locator("[data-page=race]").click()
    tab.settle()
    assert tab.evaluate("specviz.race.view.cursor.round") == 6
    tab.rest()
    link = tab.query
    assert "round=7" in link
    tab.reload()
    tab.until("specviz.race.view.trace.ending")
    assert tab.evaluate("specviz.race.view.cursor.round") == 6
    tab.rest()
    assert tab.query == link
