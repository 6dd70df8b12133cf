"""The debugger says that no match follows the last one, and that no match precedes the first."""

from __future__ import annotations

from tests.browser.step_driver import CURSOR, StepDriver


def test_the_match_line_says_where_the_matches_end(opened: StepDriver) -> None:
    opened.press("n", "Shift+N")
    assert opened.driver.text("matchWord").endswith(" · first match")
    opened.press("n")
    assert opened.driver.text("matchWord").startswith("match 2 of ")
    assert not opened.driver.text("matchWord").endswith("match")
    last = "specviz.step.view.stops.all.at(-1)"
    opened.driver.evaluate(f"{CURSOR}.toNode({last}.round, {last}.node)")
    opened.press("n")
    assert opened.driver.text("matchWord").endswith(" · last match")
    opened.press("End", "n")
    assert opened.driver.text("matchWord").endswith(" · none after this moment")
    opened.press("Home", "Shift+N")
    assert opened.driver.text("matchWord").endswith(" · none before this moment")
    opened.press("ArrowRight")
    assert "none" not in opened.driver.text("matchWord")
