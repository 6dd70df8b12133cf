"""The glossary can be searched, and each term has an address and links to pages that show it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from specviz.glossary import TERMS, seen, term
from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]
CURRENT = ".glossary-term[aria-current] h3"


def test_terms_can_be_searched_have_an_address_and_link_to_examples(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    tab.visit("?view=glossary&term=margin")
    current, shown = tab.page.locator(CURRENT), tab.page.locator(".glossary-term")
    page, count = tab.page.locator("#glossary"), tab.page.locator("#glossary").get_by_role("status")
    expect(current).to_have_text(term("margin").title)
    expect(shown).to_have_count(len(TERMS))
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("memory bound")
    expect(shown).to_have_count(1)
    assert findings(tab.page) == []
    tab.page.keyboard.press("Enter")
    expect(current).to_have_text("memory-bound")
    assert tab.address.endswith("term=memory_bound")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("abacus")
    expect(count).to_have_text("no term has “abacus”")
    expect(shown).to_have_count(0)
    tab.page.keyboard.press("Escape")
    expect(shown).to_have_count(len(TERMS))
    shown.locator("a", has_text="bonus token").focus()
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("ArrowRight")
    expect(current).to_have_text("break-even acceptance")
    place = seen("bonus_token")[0]
    tab.page.locator(".glossary-term", has_text="bonus token").get_by_role(
        "link", name=place.title
    ).first.click()
    assert place.address in tab.address and not page.is_visible()
    tab.page.go_back()
    expect(page).to_be_visible()
