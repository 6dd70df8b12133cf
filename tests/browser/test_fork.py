"""In forks and paused runs, the real decoder continues or waits exactly when the page says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, NAME, StepDriver

OpenPage = Callable[..., RaceDriver]
STILL_MILLISECONDS = 300
PANES = """[...document.querySelectorAll(".texts .ribbon")].map((each) => {
    const { top, bottom } = each.getBoundingClientRect();
    return [Math.round(top), Math.round(bottom)]; })"""
SPILLING = """[...document.querySelectorAll(".difference .chip")].filter((each) => each.offsetWidth)
    .filter((each) => each.scrollWidth > each.clientWidth || each.offsetHeight > 40).length"""
MADE_AGAIN = f"specviz.step.remaking === null && specviz.step.parent && {CURSOR}.trace.ending"
IDS = "main.tokens.map((token) => token.id)"
# A script that returns how many rounds of the page's race the server has decoded, even if it has
# not sent them all.
MADE = """(async () => {
    const { transport } = specviz.race;
    const { messages } = await transport.ask("look", { ticket: transport.ticket, after: 0 });
    return messages.filter((text) => JSON.parse(text).type === "round").length;
})()"""


def started_held(driver: RaceDriver) -> None:
    driver.ref("raceHeld").click()
    driver.ref("advance").wait_for(state="visible")


def when_still(driver: RaceDriver) -> int:
    """Wait until the server decodes no more rounds and all have arrived; return their number.

    If the race were not paused, the server would decode twenty random rounds in the waiting time.
    """
    before, made = -1, driver.evaluate(MADE)
    while not before == made == driver.rounds:
        driver.page.wait_for_timeout(STILL_MILLISECONDS)
        before, made = made, driver.evaluate(MADE)
    return int(made)


@pytest.fixture
def real(turn_page: OpenPage, app_url: str) -> StepDriver:
    """Return the debugger's page of the app that runs real models."""
    driver = turn_page(app_url)
    driver.page.locator(".tabs [data-page=step]").click()
    return StepDriver(driver)


def forked(step: StepDriver) -> None:
    # The page may still show a fork of an earlier test.
    step.driver.evaluate("{ window.before = specviz.step.opened.header; }")
    step.driver.ref("forkGo").click()
    opened = "specviz.step.opened"
    is_new = f"{opened}.header !== window.before && {opened}.ending !== null"
    step.driver.until(f"specviz.step.parent !== null && {is_new}")
    step.settle()


def test_a_fork_with_a_forced_draw_leaves_its_parent_there_and_shows_both_texts(
    real: StepDriver, open_page: OpenPage, app_url: str
) -> None:
    step = real.afresh("draft-model.code")
    step.press("n")
    round_, rejected = step.place[0], step.stop["node"]
    step.driver.ref("whatIfDraw").fill("0")
    step.settle()
    assert "is forced to 0" in step.driver.text("forkDraws")
    parent = step.driver.evaluate(f"{CURSOR}.trace.{IDS}")
    forked(step)
    fork = step.driver.evaluate(f"{CURSOR}.trace.{IDS}")
    assert fork != parent and step.place[0] == round_
    new = step.driver.evaluate(f"{CURSOR}.trace.rounds[{round_}].outcomes[{rejected}]")
    assert new == "accepted"
    first = next(i for i, (a, b) in enumerate(zip(fork, parent, strict=False)) if a != b)
    assert f"token {first + 1}" in step.driver.text("difference").lower()
    assert step.driver.ref("otherText").is_visible()
    own, other = step.driver.evaluate(PANES)
    assert own == other  # the page shows the texts of the fork and of its parent next to each other
    assert step.driver.evaluate(SPILLING) == 0
    assert f"from token {first + 1} on" in step.driver.text("forkWord")
    step.click("toTexts")
    expect(step.driver.ref("otherText")).to_be_in_viewport()
    step.press("Home")
    step.click("toDifference")
    assert step.driver.evaluate(f"{CURSOR}.token") == first
    assert step.driver.evaluate("specviz.step.place.linkLimit") == ""
    # The fork's link makes the server repeat the fork for another visitor.
    other = open_page(app_url, step.driver.query)
    other.until(MADE_AGAIN)
    assert other.evaluate(f"{CURSOR}.trace.{IDS}") == fork
    notes = [each.text("stepNote").split(" · other work used")[0] for each in (other, step.driver)]
    assert notes[0] == notes[1]


@pytest.mark.slow
def test_a_link_to_a_fork_of_a_user_s_race_repeats_both_for_another_visitor(
    turn_page: OpenPage, open_page: OpenPage, app_url: str
) -> None:
    tab = turn_page(app_url, "?task=story&tokens=10&temperature=0.8&seed=5")
    tab.race()
    tab.page.locator(".tabs [data-page=step]").click()
    step = StepDriver(tab)
    tab.evaluate("specviz.step.showRace()")  # the page may show another test's run
    step.driver.evaluate(f"{CURSOR}.go(2, 0)")
    step.driver.ref("forkLength").fill("2")
    forked(step)
    other = open_page(app_url, step.driver.query)
    other.until(MADE_AGAIN)
    for ids in (f"{CURSOR}.trace.{IDS}", f"specviz.step.parent.{IDS}"):
        assert other.evaluate(ids) == tab.evaluate(ids)
    assert StepDriver(other).place == step.place and other.errors == []
    assert other.ref("remaking").is_hidden()


def test_a_link_whose_run_cannot_be_repeated_says_why_in_one_line(debugger: StepDriver) -> None:
    driver = debugger.driver
    fork = "{ round: 9998, changes: {}, forced: {} }"
    for of, sentence in (
        ("magic", "cannot be made again: of must be race or a recording"),
        (NAME, "cannot be made again: round must be from 1 to"),
    ):
        driver.evaluate(f"specviz.step.remake({{ of: {of!r}, setting: '', forks: [{fork}] }})")
        told = f"specviz.step.menu.error.textContent.includes({sentence!r})"
        driver.until(f"{told} && !specviz.step.menu.error.hidden")
        assert driver.ref("remaking").is_hidden() and len(driver.errors) == 1


def test_a_link_with_invalid_settings_or_missing_models_starts_no_race(
    turn_page: OpenPage, random_url: str
) -> None:
    tab = turn_page(random_url)
    for query, sentence in (
        ("pair=gpt2", "GPT-2 medium and DistilGPT-2 is not on this machine"),
        ("pair=bundled&k=99", "Draft length must be a whole number from 1 to 32, got “99”"),
    ):
        assert tab.evaluate(f"specviz.race.raceLink({query!r})") == sentence
    assert not tab.is_busy


def test_a_fork_without_forced_draws_writes_the_same_text(real: StepDriver) -> None:
    step = real.afresh("draft-tree.story")
    step.driver.evaluate(f"{CURSOR}.go(8, 0)")
    parent = step.driver.evaluate(f"{CURSOR}.trace.{IDS}")
    forked(step)
    assert step.driver.evaluate(f"{CURSOR}.trace.{IDS}") == parent
    assert step.driver.text("difference") == "Both texts are the same."
    assert "forked before round 9: the same setting" in step.driver.text("stepNote")


def test_a_fork_says_what_it_changed_and_is_shown_next_to_its_parent(real: StepDriver) -> None:
    step = real.afresh("draft-model.code")
    step.driver.evaluate(f"{CURSOR}.go(5, 0)")
    menu, parent = step.driver.ref("compareWith"), "The run it was forked from"
    assert parent not in menu.inner_text()
    step.driver.ref("forkLength").fill("2")
    forked(step)
    assert "forked before round 6: K 4 → 2" in step.driver.text("stepNote")
    assert menu.locator("option:checked").inner_text() == parent
    menu.select_option("")
    assert not step.driver.ref("otherText").is_visible()
    menu.select_option(label=parent)
    assert step.driver.ref("otherText").is_visible()
    lengths = step.driver.evaluate(f"{CURSOR}.trace.rounds.map((each) => each.outcomes.length)")
    assert lengths[:5] == [4] * 5 and set(lengths[5:-1]) == {2}
    step.afresh("draft-tree.story")
    assert parent not in menu.inner_text()


def test_rounds_before_a_fork_are_described_at_their_own_temperature(real: StepDriver) -> None:
    step = real.afresh("draft-model.code")
    step.driver.evaluate(f"{CURSOR}.go(5, 0)")
    step.driver.ref("forkTemperature").fill("0")
    forked(step)
    greedy = step.driver.evaluate(f"{CURSOR}.trace.rounds.map((each) => each.isGreedy)")
    assert greedy == [False] * 5 + [True] * (len(greedy) - 5)
    notes = []
    for round_ in (4, 6):
        step.driver.evaluate(f"{CURSOR}.toNode({round_}, 0)")
        step.settle()
        notes.append(step.driver.text("stepBarsNote"))
    assert not notes[0].startswith("Raw p and q") and notes[1].startswith("Raw p and q")


@pytest.mark.parametrize(
    ("ref", "text", "sentence"),
    [
        ("forkLength", "99", "Draft length must be"),
        ("forkLength", "x", "Draft length must be a whole number"),
        ("forkTemperature", "-1", "Temperature must be"),
    ],
)
def test_a_refused_fork_marks_its_field_until_it_is_edited_and_keeps_the_run(
    opened: StepDriver, ref: str, text: str, sentence: str
) -> None:
    driver, field = opened.driver, opened.driver.ref(ref)
    field.fill(text)
    driver.ref("forkGo").click()
    opened.page.wait_for_selector("[data-ref=forkError]:visible")
    assert driver.text("forkError").startswith(sentence)
    assert driver.evaluate("specviz.step.source") == NAME
    assert field.get_attribute("aria-invalid") == "true"
    told_by = driver.ref("forkError").get_attribute("id")
    assert field.get_attribute("aria-describedby") == told_by
    assert driver.evaluate("document.activeElement.dataset.ref") == ref
    assert opened.page.locator(".fork [aria-invalid]").count() == 1
    field.fill("")
    assert field.get_attribute("aria-invalid") is None
    assert not driver.ref("forkError").is_visible()


def test_a_fork_that_is_refused_after_its_start_returns_to_its_run(real: StepDriver) -> None:
    """The fork forces the draw of a drafted token.

    At the fork's temperature, this token is not drafted at all, so the server refuses the fork.
    """
    step = real.afresh("draft-model.code")
    step.press("n")
    place = step.place
    count = step.driver.ref("stepTrace").locator("option").count()
    step.driver.ref("whatIfDraw").fill("0")
    step.driver.ref("forkTemperature").fill("1.2")
    step.driver.ref("forkGo").click()
    step.page.wait_for_selector("[data-ref=forkError]:visible")
    step.settle()
    assert "with these settings round" in step.driver.text("forkError")
    assert step.driver.evaluate("specviz.step.source") == "draft-model.code"
    assert step.place[0] == place[0] and step.driver.ref("stepTable").locator("tbody tr").count()
    assert step.driver.ref("stepTrace").locator("option").count() == count
    assert "trace=draft-model.code" in step.driver.query
    step.driver.ref("forkTemperature").fill("")
    forked(step)
    assert step.driver.ref("otherText").is_visible()


@pytest.mark.slow
def test_a_paused_run_really_waits_and_continues_round_by_round(
    open_page: OpenPage, random_url: str
) -> None:
    # The run is long enough that the user can pause it.
    driver = open_page(random_url, "?tokens=1000")
    driver.press_race()
    driver.page.locator(".tabs [data-page=step]").click()
    driver.ref("hold").click()
    count = when_still(driver)
    assert 0 < count < 1000
    for more in (1, 2, 3):
        driver.ref("advance").click()
        driver.until(f"specviz.race.view.trace.rounds.length === {count + more}")
    driver.ref("hold").click()
    driver.until(f"specviz.race.view.trace.rounds.length > {count + 20}")
    driver.ref("hold").click()
    when_still(driver)
    driver.page.keyboard.press("Escape")
    driver.wait_for_end()
    assert driver.rounds < 1000


def test_a_race_that_starts_paused_decodes_nothing_before_its_first_round_is_allowed(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?tokens=400")
    started_held(driver)
    assert driver.evaluate(f"{CURSOR}.trace === specviz.race.view.trace")
    assert driver.text("stepEmpty").startswith("The run is held before its first round")
    prompt = driver.evaluate("specviz.race.view.trace.header.prompt")
    assert driver.ref("stepText").inner_text().split() == prompt.replace("\n", " ").split()
    assert "temperature" in driver.text("stepNote")
    assert when_still(driver) == 0
    tokens = "specviz.race.view.trace.lanes.flatMap((lane) => lane.tokens).length"
    assert driver.rounds == driver.evaluate(tokens) == 0
    for count in (1, 2):
        driver.page.keyboard.press("Enter")  # the button for one round has the focus
        driver.until(f"specviz.race.view.trace.rounds.length === {count}")
        assert when_still(driver) == count
    assert "Round 2 of 2" in driver.text("stepMoment")
    driver.ref("hold").click()
    driver.until("specviz.race.view.trace.rounds.length > 20")
    driver.page.keyboard.press("Escape")
    driver.wait_for_end()


def test_a_paused_race_that_is_stopped_does_not_block_the_next_one(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?tokens=40")
    started_held(driver)
    driver.page.keyboard.press("Escape")
    driver.wait_for_end()
    assert driver.rounds == 0
    driver.page.locator("[data-page=race]").click()
    driver.race()
    assert driver.rounds > 5


@pytest.mark.slow
def test_after_a_fork_a_new_race_can_be_stepped_through_and_the_fork_keeps_its_parent(
    turn_page: OpenPage, app_url: str
) -> None:
    tab = turn_page(app_url, "?task=story&tokens=8&temperature=0.8&seed=6")
    to_debugger, parent = tab.page.locator(".tabs [data-page=step]"), "The run it was forked from"
    tab.race()
    to_debugger.click()
    tab.evaluate("specviz.step.showRace()")  # the page may show another test's run
    step = StepDriver(tab)
    raced = tab.evaluate(f"{CURSOR}.trace.{IDS}")
    tab.ref("forkLength").fill("2")
    forked(step)
    assert parent in tab.ref("compareWith").inner_text()
    tab.page.locator(".tabs [data-page=race]").click()
    tab.turn("?task=story&tokens=8&temperature=0.8&seed=7")
    tab.race()
    to_debugger.click()
    step.settle()
    assert tab.evaluate(f"{CURSOR}.trace === specviz.race.trace")
    assert parent not in tab.ref("compareWith").inner_text()  # the new race has no fork yet
    assert tab.evaluate(f"specviz.step.parent.{IDS}") == raced
    assert tab.evaluate(f"specviz.race.trace.{IDS}") != raced
