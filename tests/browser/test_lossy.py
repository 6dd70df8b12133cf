"""A lossy rule is marked as lossy next to every result, by colour, shape and words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

METHOD = DRAFTERS["medusa"]
RULE = next(rule for rule in METHOD.rules if not rule.is_lossless)
QUERY = f"?method={METHOD.name}&rule={RULE.name}&tokens=30&seed=4"
PLACES = ("laneLoss", "resultLoss", "proofLoss")
CLAIM = "lossy: not the target’s distribution"


@pytest.fixture
def tab(random_url: str, turn_page: Open) -> RaceDriver:
    return turn_page(random_url, f"{QUERY}&temperature=0.7")


def test_the_form_calls_a_lossy_rule_lossy_before_the_race(tab: RaceDriver) -> None:
    assert tab.text("formLoss") == CLAIM
    assert "(lossy)" in tab.ref("rule").locator("option:checked").inner_text()
    tab.ref("rule").select_option(METHOD.rules[0].name)
    assert not tab.ref("formLoss").is_visible()


def test_another_method_starts_with_its_lossless_rule(tab: RaceDriver) -> None:
    other = next(m for m in DRAFTERS.values() if m is not METHOD and len(m.rules) > 1)
    tab.ref("method").select_option(other.name)
    tab.ref("method").select_option(METHOD.name)
    assert tab.ref("rule").input_value() == METHOD.rules[0].name


def test_during_and_after_the_run_every_result_is_marked_as_lossy(tab: RaceDriver) -> None:
    tab.press_race()
    tab.wait_for_rounds()
    assert tab.text("laneLoss") == CLAIM
    tab.wait_for_end()
    for place in PLACES:
        assert tab.text(place) == CLAIM
        shape = tab.ref(place).evaluate("(p) => getComputedStyle(p, '::before').content")
        assert "▲" in shape
    verdict = tab.text("textVerdict")
    for word in ("one distribution", "Identical", "lossless"):
        assert word not in verdict
    assert "▲ lossy" in verdict
    assert "total variation 0.25 from the target’s distribution" in verdict


@pytest.mark.slow
def test_the_verdicts_mention_a_threshold_and_no_draw(tab: RaceDriver) -> None:
    tab.race()
    tab.evaluate("specviz.race.view.cursor.select(0)")
    assert "p enough?" in tab.ref("verdicts").locator("thead").inner_text()
    for stop in tab.evaluate("specviz.race.view.trace.rounds[0].stops"):
        tab.evaluate(f"specviz.race.view.cursor.select(0, {stop})")
        tab.settle()
        if stop >= 0:
            assert "for typical acceptance, which draws nothing" in tab.text("tokenSentence")
        assert "beyond q" not in tab.text("tokenSentence")


@pytest.mark.slow
def test_a_later_lossless_race_has_no_such_badge(tab: RaceDriver) -> None:
    tab.race()
    tab.ref("rule").select_option(METHOD.rules[0].name)
    tab.race()
    for place in PLACES:
        assert not tab.ref(place).is_visible()
    assert "Same distribution" in tab.text("textVerdict")


def test_at_temperature_0_the_page_says_that_the_rule_changes_nothing(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, f"{QUERY}&temperature=0")
    said = "lossy rule, without effect at temperature 0"
    assert tab.text("formLoss") == said
    tab.race()
    for place in PLACES:
        assert tab.text(place) == said
