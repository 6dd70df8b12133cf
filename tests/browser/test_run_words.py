"""The debugger describes the run that it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, TRACE, StepDriver

OpenPage = Callable[..., RaceDriver]
TEXTS = dict(TRACE.token_texts)


def test_a_refused_file_does_not_change_the_description_of_the_run(
    opened: StepDriver, tmp_path: Path
) -> None:
    words = opened.driver.text("stepNote")
    assert words.startswith("method draft-tree, K ")
    (tmp_path / "run.json").write_text("[]")
    opened.driver.ref("stepFile").set_input_files(tmp_path / "run.json")
    opened.page.wait_for_selector("[data-ref=stepError]:visible")
    assert opened.driver.text("stepNote") == words


def test_after_a_reload_a_paused_run_is_said_to_be_gone(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?tokens=40")
    driver.ref("raceHeld").click()
    driver.ref("advance").wait_for(state="visible")
    driver.page.wait_for_function("location.search.includes('trace=live')")
    driver.reload()
    driver.page.wait_for_selector("[data-ref=stepError]:visible")
    assert driver.text("stepError").startswith("The run of this link was still going on")
    step = StepDriver(driver)
    driver.page.wait_for_function("!location.search.includes('trace=live')")
    assert step.driver.text("stepNote").startswith("method draft-model, K ")


def test_a_text_split_over_tokens_is_found_at_the_token_that_completes_it(
    opened: StepDriver,
) -> None:
    ids = TRACE.emitted_ids
    at = next(
        index
        for index in range(5, len(ids))
        if len(TEXTS[ids[index - 1]]) > 1 and len(TEXTS[ids[index]]) > 1
    )
    split = TEXTS[ids[at - 1]][-2:] + TEXTS[ids[at]][:2]
    assert not any(split in text for text in TEXTS.values())
    opened.page.locator("[data-rule=rejection]").uncheck()
    opened.page.locator("input.wide").fill(split)
    opened.press("Tab")
    opened.click("nextMatch")
    assert opened.driver.evaluate(f"{CURSOR}.token") == at


def test_no_token_of_a_round_counts_as_written_before_its_verdict(opened: StepDriver) -> None:
    round_ = next(i for i, each in enumerate(TRACE.rounds) if each.accepted)
    ring = "[...document.querySelectorAll('[data-ref=stepText] .is-selected')].length"
    before = 1 + sum(len(each.emitted_ids) for each in TRACE.rounds[:round_])
    opened.driver.evaluate(f"{CURSOR}.go({round_}, 0)")
    while True:
        opened.settle()
        phase = opened.driver.evaluate(f"{CURSOR}.moment.phase")
        if phase == "judge":
            break
        written = "specviz.step.view.emittedSoFar(specviz.step.view.cursor.current)"
        assert opened.driver.evaluate(written) == before, phase
        assert opened.driver.evaluate(ring) == 0, phase
        opened.press("ArrowRight")


def test_a_link_to_an_unknown_recording_shows_the_first_one_and_says_so(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?view=step&trace=nonsense")
    step = StepDriver(driver)
    driver.page.wait_for_selector("[data-ref=stepError]:visible")
    assert driver.text("stepError").startswith("trace must be the name of a recording, such as")
    assert "got “nonsense”. Here is the first one." in driver.text("stepError")
    assert driver.ref("stepTable").is_visible() and step.place == (0, 0)


def test_the_card_of_a_run_says_whether_it_was_faster(opened: StepDriver) -> None:
    step = opened.afresh("draft-model.chat.smollm2")
    said = step.driver.text("stepSpeedup")
    assert said.startswith("Beside plain decoding: 1.0× the baseline’s speed: about equal. A round")


def test_going_to_a_token_leads_to_the_moment_that_wrote_it(opened: StepDriver) -> None:
    opened.driver.ref("stepAxis").select_option("token")
    for token in (2, 17, 40):
        opened.driver.ref("stepGo").fill(str(token))
        opened.driver.ref("stepGo").press("Enter")
        opened.settle()
        assert opened.driver.evaluate(f"{CURSOR}.token") == token - 1
    opened.driver.ref("stepGo").fill("next")
    opened.driver.ref("stepGo").press("Enter")
    last = len(opened.driver.evaluate(f"{CURSOR}.trace.main.tokens.map(({{ id }}) => id)"))
    rule = f"go to must be a number from 1 to {last} on the axis (token), got"
    assert opened.driver.text("stepGoError") == f"{rule} “next”"
    opened.driver.ref("stepGo").fill("999")
    opened.driver.ref("stepGo").press("Enter")
    assert opened.driver.text("stepGoError") == f"{rule} “999”"
    opened.leave_field()
    assert not opened.driver.ref("stepGoError").is_visible()


@pytest.mark.slow
def test_a_paused_run_does_not_delay_a_fork_of_another_page(
    open_page: OpenPage, app_url: str
) -> None:
    first = open_page(app_url, "?tokens=60")
    first.ref("raceHeld").click()
    first.ref("advance").wait_for(state="visible")
    second = StepDriver(open_page(app_url, "?view=step&trace=draft-model.code&round=20&pos=1"))
    second.driver.ref("forkGo").click()
    second.driver.until("specviz.step.parent && specviz.step.opened.ending")
    assert first.ref("advance").is_visible()
    first.page.keyboard.press("Escape")
