"""A token is drawn a thousand times at one position, in the debugger and on the race page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, StepDriver

Open = Callable[..., RaceDriver]
COUNTS = """(() => { const { redraw } = specviz.step.view.views.redraw;
    const sum = (values) => values.reduce((total, each) => total + each, 0);
    return redraw && [redraw.count, sum(redraw.accepted) + sum(redraw.drawn)] })()"""


@pytest.fixture
def lively(opened: StepDriver) -> Iterator[StepDriver]:
    """Yield a page with motion enabled; without motion all draws appear at once."""
    opened.page.emulate_media(reduced_motion="no-preference")
    yield opened
    opened.page.emulate_media(reduced_motion="reduce")


def test_a_key_redraws_a_position_and_shows_the_distance_from_p(opened: StepDriver) -> None:
    opened.driver.evaluate(f"{CURSOR}.toPhase('judge')")
    opened.settle()
    opened.driver.evaluate("window.scrollTo(0, 0)")
    opened.press("r")
    assert opened.driver.evaluate(COUNTS) == [1000, 1000]
    card = opened.driver.ref("stepRedraw")
    assert 0 <= card.evaluate("(card) => card.getBoundingClientRect().top / innerHeight") < 1
    said = card.get_by_role("status").inner_text()
    assert "1,000 draws" in said and "Distance from p" in said and "No more than chance" in said
    assert card.locator(".redraw-track i.accepted").first.evaluate("(bar) => bar.offsetWidth") > 0
    card.get_by_role("button", name="1,000 more").click()
    assert opened.driver.evaluate(COUNTS) == [2000, 2000]
    opened.press("ArrowRight")
    assert opened.driver.evaluate(COUNTS) is None, "another position"
    assert "keep the target’s distribution" in card.locator("summary").inner_text()
    opened.press("ArrowLeft")
    assert opened.driver.evaluate(COUNTS) == [2000, 2000], "the place keeps its draws"
    said = card.locator(".redraw-sum").inner_text()
    assert re.search(r"kept .* × residual .* = p\. Kept: the smaller of p and q", said)


def test_before_the_verification_nothing_can_be_redrawn(opened: StepDriver) -> None:
    button = opened.driver.ref("stepRedraw").get_by_role("button").first
    assert button.is_disabled() and "target’s forward" in opened.driver.text("stepRedraw")
    opened.press("r")
    assert opened.driver.evaluate(COUNTS) is None


def test_with_motion_the_bars_are_shown_while_they_grow(lively: StepDriver) -> None:
    lively.driver.evaluate(f"{CURSOR}.toPhase('judge')")
    lively.settle()
    lively.driver.ref("stepRedraw").get_by_role("button").first.click()
    lively.driver.until(f"(window.first = {COUNTS}?.[0]) > 0")
    assert lively.driver.evaluate("first") < 1000
    lively.press("ArrowRight")  # moving to another position ends the animation
    assert lively.driver.evaluate(COUNTS) is None


def test_on_the_race_page_the_proof_follows_the_redraw(random_url: str, open_page: Open) -> None:
    tab = open_page(random_url, "?tokens=8&seed=4&temperature=0.7")
    assert tab.ref("raceRedraw").get_by_role("button").first.is_disabled()
    tab.race()
    tab.ref("raceRedraw").get_by_role("button").first.click()
    assert "1,000 draws" in tab.ref("raceRedraw").get_by_role("status").inner_text()
    proof = tab.ref("raceRedraw").get_by_text("So every position follows p exactly")
    assert not proof.is_visible()
    tab.ref("raceRedraw").locator("summary").click()
    assert proof.is_visible()
