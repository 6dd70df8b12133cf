"""A term explains itself when the user points at it, focuses it with a key or touches it."""

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
def test_a_word_is_explained_at_its_position(opened: StepDriver, place: str, key: str) -> None:
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


def test_for_a_certain_guess_the_card_explains_q_1_and_p_over_1(debugger: StepDriver) -> None:
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


def test_on_a_phone_a_word_s_card_does_not_cover_the_table_that_it_explains(
    opened: StepDriver,
) -> None:
    at_a_recovered_token(opened)
    opened.page.set_viewport_size({"width": 390, "height": 844})
    words = opened.driver.ref("stepTable").locator("thead [data-term]")
    for word in (words.first, words.last):
        word.click()
        card, head = opened.page.locator(CARD).bounding_box(), word.bounding_box()
        table = opened.driver.ref("stepTable").locator("thead").bounding_box()
        assert card and head and table
        assert card["y"] > table["y"] + table["height"] or card["y"] + card["height"] < table["y"]
        assert card["y"] >= 0 and card["y"] + card["height"] <= 844
        assert abs(card["y"] - head["y"]) > 200
    opened.page.keyboard.press("Escape")


def test_the_names_in_a_tree_have_a_background_above_its_edges(
    opened: StepDriver,
) -> None:
    found = opened.driver.evaluate(
        """(() => {
            const name = specviz.race.view.refs.stepTree.querySelector(".textpoint text");
            const { paintOrder, stroke } = getComputedStyle(name);
            return [paintOrder.split(" ")[0], stroke, getComputedStyle(name.closest(".card")).backgroundColor];
        })()"""  # noqa: E501
    )
    assert found[0] == "stroke" and found[1] == found[2]
