"""Words that a newcomer does not know explain themselves: by pointer, keys and touch."""

from __future__ import annotations

import pytest

from specviz.glossary import term
from tests.browser.step_driver import CURSOR, StepDriver

CARD = ".term-card"
RECOVERED = """specviz.step.view.trace.rounds.findIndex((r) => r.extraKind === "recovered")"""


def at_a_recovered_token(opened: StepDriver) -> None:
    opened.driver.evaluate(f"{CURSOR}.toNode({RECOVERED}, -2)")
    opened.settle()


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("[data-ref=stepTable] th", "acceptance_prob"),
        ("[data-ref=stepTable] td.number", "residual_prob"),
        ("[data-ref=stepNumbers]", "entropy"),
        ("[data-ref=stepNumbers]", "overlap"),
        ("[data-ref=stepNumbers]", "margin"),
        ("[data-ref=stepNumbers]", "kl_divergence"),
        ("[data-ref=residualCard]", "residual_distribution"),
        (".slot-kinds", "root"),
    ],
)
def test_a_word_is_explained_where_it_stands(opened: StepDriver, place: str, key: str) -> None:
    at_a_recovered_token(opened)
    word = opened.page.locator(f"{place} [data-term={key}]").first
    word.focus()
    card = opened.page.locator(CARD)
    assert term(key).definition in card.inner_text()
    assert word.get_attribute("aria-describedby") == card.get_attribute("id")
    box = card.bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 1280 and box["y"] >= 0
    opened.page.keyboard.press("Escape")
    assert not card.is_visible()


def test_a_certain_guess_explains_its_q_and_p_over_1_as_a_point_mass(debugger: StepDriver) -> None:
    step = debugger.afresh("prompt-lookup.chat.smollm2")
    drafted = "specviz.step.view.trace.rounds.findIndex((r) => r.outcomes.length)"
    step.driver.evaluate(f"{CURSOR}.toNode({drafted}, 0)")
    step.settle()
    words = step.driver.ref("stepTable").locator("th [data-term=point_mass]")
    assert words.all_inner_texts() == ["q", "min(1,\u00a0p/1)"]
    words.last.click()
    assert "q is 1" in step.page.locator(CARD).inner_text()
    step.page.locator("#sv-text").click()
    assert not step.page.locator(CARD).is_visible()
