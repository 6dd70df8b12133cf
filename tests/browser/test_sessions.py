"""Several visitors at once: runs take turns, equal runs are shared, a closed tab ends its run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.app_server import free_port, serve
from tests.browser.lab_driver import SWEEP, LabDriver
from tests.browser.race_driver import RaceDriver
from tests.load_run import server_of

Open = Callable[..., RaceDriver]


BESIDE = """(async () => {
  const { transport } = specviz.race;
  const { beside } = await transport.ask("look", { ticket: transport.ticket, after: 1e6 });
  return beside;
})()"""
SAYS = "document.querySelector('[data-ref=runState]').textContent.includes('%s')"


def test_two_races_take_turns_and_both_pages_say_so(
    app_url: str, open_page: Open, turn_page: Open
) -> None:
    first = turn_page(app_url, "?task=code&tokens=700")
    second = open_page(app_url, "?task=story&prompt=2&tokens=96")
    first.press_race()
    first.wait_for_rounds()
    second.press_race()
    first.until(SAYS % "1 other run takes turns with it")
    second.wait_for_end()
    assert first.is_busy
    measured = "easured while 1 other run took turns with it"
    assert measured in second.text("spreadWords")
    assert second.lane_text("baseline") == second.lane_text("speculative") != ""
    for tab in (first, second):
        prompt = tab.evaluate("specviz.race.view.trace.header.prompt")
        assert prompt == tab.ref("prompt").input_value()
    first.ref("stop").click()
    first.wait_for_end()
    second.reload()
    for name in ("spreadWords", "stepNote"):
        text = f"document.querySelector('[data-ref={name}]').textContent"
        second.until(f"{text}.includes('{measured}')")
        second.page.click("a[data-page=step]")


@pytest.mark.slow
def test_tabs_with_the_same_link_share_one_race_and_a_stop_affects_only_one_tab(
    app_url: str, open_page: Open, turn_page: Open
) -> None:
    link = "?task=code&tokens=700"
    first, second = turn_page(app_url, link), open_page(app_url, link)
    first.press_race()
    first.wait_for_rounds(3)
    second.press_race()
    second.wait_for_rounds(3)
    second.until(SAYS % "2 pages show this run")
    clocks = [tab.evaluate("specviz.race.view.trace.rounds[2].seconds") for tab in (first, second)]
    assert clocks[0] == clocks[1], "it was decoded once"
    first.ref("stop").click()
    first.wait_for_end()
    count = second.rounds
    second.wait_for_rounds(count + 3)
    assert second.is_busy
    second.ref("stop").click()
    second.wait_for_end()


@pytest.mark.slow
def test_a_reload_during_a_run_frees_the_run(app_url: str, open_page: Open) -> None:
    tab = open_page(app_url, "?task=code&tokens=700")
    tab.press_race()
    tab.wait_for_rounds(2)
    tab.reload()
    tab.fill("maxNewTokens", "400")
    tab.press_race()
    tab.wait_for_rounds(2)
    assert tab.evaluate(BESIDE) == 0
    tab.ref("stop").click()
    tab.wait_for_end()


@pytest.mark.slow
def test_a_race_that_a_reload_ended_is_named_and_can_be_run_again(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=9")
    tab.fill("prompt", "Where did it go?")
    tab.ref("raceHeld").click()
    tab.ref("advance").wait_for(state="visible")
    tab.page.locator("[data-page=race]").first.click()
    tab.rest()
    tab.reload()
    notice = tab.text("lostNotice")
    assert "which ended it" in notice and "“Where did it go?”" in notice
    tab.ref("lostAgain").click()
    tab.wait_for_rounds()
    tab.wait_for_end()
    assert tab.evaluate("specviz.race.trace.header.prompt") == "Where did it go?"
    assert tab.ref("lostNotice").is_hidden() and tab.ref("staleNotice").is_hidden()
    tab.reload()
    assert tab.ref("lostNotice").is_hidden()


def test_a_visitor_who_leaves_before_a_finished_race_is_stored_can_run_it_again(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=8")
    tab.evaluate("void (indexedDB.open = () => ({}))")  # makes the browser's database never answer
    tab.race()
    tab.reload()
    assert tab.ref("lostNotice").is_visible() and tab.rounds == 0


@pytest.mark.slow
def test_a_closed_tab_frees_its_run(app_url: str, open_page: Open) -> None:
    first = open_page(app_url, "?task=code&tokens=700")
    second = open_page(app_url, "?task=code&tokens=300")
    first.press_race()
    first.wait_for_rounds(2)
    first.page.close()
    second.press_race()
    second.wait_for_rounds(2)
    assert second.evaluate(BESIDE) == 0
    second.ref("stop").click()
    second.wait_for_end()


@pytest.mark.slow
def test_a_server_that_dies_is_reported_in_one_sentence(open_page: Open, tmp_path: Path) -> None:
    server = serve("tests.browser.random_app", tmp_path / "log.txt")
    tab = open_page(next(server), "?tokens=500&seed=1&temperature=0.7")
    tab.may_complain = True
    tab.press_race()
    tab.wait_for_rounds(2)
    server.close()
    tab.wait_for_end()
    (told,) = tab.errors
    assert told.startswith("The connection to the server is lost. What has come stays;")
    assert tab.rounds >= 2  # the page keeps the rounds that it received
    tab.page.keyboard.press("Home")
    assert tab.evaluate("specviz.race.view.cursor.round") == 0


@contextmanager
def killable(port: int, log: Path) -> Iterator[None]:
    """Run a server at that port until it is killed."""
    server = serve("tests.browser.random_app", log, port)
    next(server)
    try:
        yield
    finally:
        os.kill(server_of(log), signal.SIGKILL)
        server.close()


@pytest.mark.slow
def test_after_a_server_was_killed_a_race_and_a_sweep_continue_on_the_next_one(
    open_page: Open, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log.txt"
    with killable(port, log):
        url = f"http://127.0.0.1:{port}/"
        race, lab = open_page(url, "?tokens=500&seed=1"), LabDriver(open_page(url, "?view=lab"))
        race.may_complain = lab.driver.may_complain = True
        lab.start(values="1-6", tokens=24)
    lab.wait_for_end()
    assert lab.driver.evaluate(f"{SWEEP}.sweep.points.length") >= 1
    with killable(port, log):
        race.press_race()
        race.wait_for_rounds(2)
    race.wait_for_end()
    (told,) = race.errors
    assert told.startswith("The connection to the server is lost. What has come stays;")
    assert race.rounds >= 2
    with killable(port, log):
        race.press_race()
        race.wait_for_rounds(2)
        race.ref("stop").click()
        race.wait_for_end()
        assert race.errors == []
        lab.driver.ref("sweepRest").click()
        lab.wait_for_points(6)
        lab.wait_for_end()
        values = lab.driver.evaluate(f"{SWEEP}.sweep.points.map((p) => p.setting['draft-length'])")
        assert values == [1, 2, 3, 4, 5, 6]
