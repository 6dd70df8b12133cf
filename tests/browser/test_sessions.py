"""Several people at once: one queue, separate runs, nothing left running behind a closed tab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.app_server import serve
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]


def test_the_second_tab_waits_sees_its_place_and_gets_its_own_run(
    app_url: str, open_page: Open, turn_page: Open
) -> None:
    first = turn_page(app_url, "?task=code&tokens=700")
    second = open_page(app_url, "?task=story&prompt=2&tokens=8")
    first.press_race()
    first.wait_for_rounds()
    second.press_race()
    second.until("document.querySelector('[data-ref=runState]').textContent.includes('ahead')", 10)
    assert second.text("runState") == "waiting: 1 run is ahead of yours: a race"
    first.ref("stop").click()
    first.wait_for_end(20)
    second.wait_for_end()
    assert second.lane_text("baseline") == second.lane_text("speculative") != ""
    assert (
        first.evaluate("specviz.race.view.trace.header.prompt") == first.ref("prompt").input_value()
    )
    assert (
        second.evaluate("specviz.race.view.trace.header.prompt")
        == second.ref("prompt").input_value()
    )


def test_stop_while_waiting_gives_the_place_up(
    app_url: str, open_page: Open, turn_page: Open
) -> None:
    first = turn_page(app_url, "?task=code&tokens=700")
    second = open_page(app_url, "?task=story&tokens=8")
    first.press_race()
    first.wait_for_rounds()
    second.press_race()
    second.until("document.querySelector('[data-ref=runState]').textContent.includes('ahead')", 10)
    second.ref("stop").click()
    second.wait_for_end(5)
    assert first.is_busy
    assert second.rounds == 0
    second.press_race()
    first.ref("stop").click()
    second.wait_for_end()
    assert second.rounds > 0


def test_reload_in_mid_run_frees_it(app_url: str, open_page: Open) -> None:
    tab = open_page(app_url, "?task=code&tokens=700")
    tab.press_race()
    tab.wait_for_rounds(2)
    tab.reload()
    tab.fill("maxNewTokens", "8")
    tab.press_race()
    tab.wait_for_end(30)  # 700 tokens would take longer
    assert tab.lane_text("baseline") == tab.lane_text("speculative") != ""


def test_a_closed_tab_frees_its_run(app_url: str, open_page: Open) -> None:
    first = open_page(app_url, "?task=code&tokens=700")
    second = open_page(app_url, "?task=code&tokens=8")
    first.press_race()
    first.wait_for_rounds(2)
    first.page.close()
    second.press_race()
    second.wait_for_end(30)
    assert second.rounds > 0


@pytest.mark.slow
def test_a_server_that_dies_is_told_in_one_sentence(open_page: Open, tmp_path: Path) -> None:
    server = serve("tests.browser.random_app", tmp_path / "log.txt")
    tab = open_page(next(server), "?tokens=500&seed=1&temperature=0.7")
    tab.may_complain = True
    tab.press_race()
    tab.wait_for_rounds(2)
    server.close()
    tab.wait_for_end(40)
    assert tab.errors == ["The connection to the server is lost."]
    assert tab.rounds >= 2  # what had come stays
    tab.page.keyboard.press("Home")
    assert tab.evaluate("specviz.race.view.cursor.round") == 0
