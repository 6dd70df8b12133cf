"""The acceptance profiler ranks losses, and each row links to an example in the debugger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, KEPT_RUN_SHOWN, StepDriver

OpenPage = Callable[..., RaceDriver]
SETTING = "Bundled pair · Draft model, chain · K 3 · temperature 0.8 · 24 tokens a prompt"
# Return the elements that reach beyond the profiler's card on a page of any width.
CUT = """(() => {
    const card = document.querySelector(".profile"), { right } = card.getBoundingClientRect();
    return [...card.querySelectorAll("*")]
        .filter((each) => each.closest("thead")?.offsetWidth !== 1) // for screen readers alone
        .filter((each) => each.getBoundingClientRect().right > right).map((each) => each.outerHTML);
})()"""


NOT_OF_THE_RUN = "Not of the run above: it decodes with the setting of the race page, "


@pytest.mark.slow
def test_a_profile_ranks_losses_and_a_row_opens_its_example_in_the_debugger(
    open_page: OpenPage, app_url: str
) -> None:
    driver = open_page(app_url, "?view=step&trace=draft-model.code&temperature=0.8&tokens=24&k=3")
    step = StepDriver(driver)
    assert driver.text("profileSetting") == f"{NOT_OF_THE_RUN}{SETTING}"
    driver.fill("profileCount", "0")
    driver.ref("profileGo").click()
    driver.page.wait_for_selector("[data-ref=profileError]:visible")
    assert driver.text("profileError").startswith("count must be from 1 to 40")
    assert driver.ref("profileCount").get_attribute("aria-invalid") == "true"
    driver.fill("profileCount", "3")
    driver.ref("profileGo").click()
    driver.page.wait_for_selector("[data-ref=profileGo]:visible", timeout=90_000)
    driver.page.wait_for_selector("[data-ref=profileResult]:visible")
    assert driver.text("profileState").startswith("3 prompts")
    assert driver.text("profileRan") == f"Decoded with: {SETTING}"
    for width in (390, 1280):
        driver.page.set_viewport_size({"width": width, "height": 900})
        for _ in range(2):
            assert driver.evaluate(CUT) == []
            driver.ref("large").click()
    driver.page.get_by_role("tab", name="depth in the draft").click()
    driver.until_steady()  # the colours of the selected tab change gradually
    assert findings(driver.page, "[data-ref=profileResult]") == []
    example = driver.ref("profileTable").locator("button").first
    place = example.evaluate("(b) => [Number(b.dataset.round), Number(b.dataset.node)]")
    example.click()
    driver.until(KEPT_RUN_SHOWN)
    step.settle()
    assert [step.place[0], step.stop["node"]] == place
    assert step.stop["outcome"] == "rejected"
    driver.rest()
    driver.page.go_back()
    driver.until(f"specviz.step.source === 'draft-model.code' && {CURSOR}.trace.ending")
    step.settle()
    assert driver.ref("profileTable").locator("button").count() > 0
    tab = driver.page.locator("[data-ref=profileDimensions] [aria-selected=true]")
    assert tab.inner_text() == "depth in the draft"
    top = "specviz.race.view.refs.profileDimensions.getBoundingClientRect().top"
    # The page returns to its earlier scroll position.
    driver.until(f"0 <= {top} && {top} < innerHeight")
    driver.page.go_forward()
    driver.until("location.search.includes('trace=kept-')")
    driver.until(KEPT_RUN_SHOWN)
    step.settle()
    assert [step.place[0], step.stop["node"]] == place
