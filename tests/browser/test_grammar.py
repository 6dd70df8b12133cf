"""An example of a grammar fills in the form of the race page, and a link keeps the grammar."""

from __future__ import annotations

from collections.abc import Callable

from specviz.ui.grammar_examples import EXAMPLES, PERSON
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]


def open_form(random_url: str, turn_page: Open) -> RaceDriver:
    tab = turn_page(random_url)
    tab.evaluate("document.querySelector('[data-ref=more]').open = true")
    return tab


def test_an_example_fills_in_its_grammar_its_prompt_and_the_draft_of_forced_tokens(
    random_url: str, turn_page: Open
) -> None:
    tab = open_form(random_url, turn_page)
    assert tab.ref("draftForced").is_disabled()
    for example in EXAMPLES:
        tab.page.get_by_role("button", name=example.title).click()
        assert tab.ref("grammar").input_value() == example.grammar
        assert tab.ref("prompt").input_value() == example.prompt
        assert tab.ref("draftForced").is_checked() and tab.ref("draftForced").is_enabled()
        is_schema = example is PERSON
        assert ("JSON schema" in tab.text("grammarKind")) == is_schema
    assert "grammar, forced tokens drafted" in tab.text("foldedSettings")
    query = tab.evaluate("String(specviz.race.address.query)")
    assert "grammar=" in query and "draft-forced=yes" in query
