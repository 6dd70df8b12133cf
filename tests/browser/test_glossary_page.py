"""The glossary: a search, an address for each term, and links to pages that show it."""

from __future__ import annotations

from collections.abc import Callable

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
    current.wait_for()
    assert current.inner_text() == term("margin").title and shown.count() == len(TERMS)
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("memory bound")
    assert shown.count() == 1
    assert findings(tab.page) == []
    tab.page.keyboard.press("Enter")
    assert tab.address.endswith("term=memory_bound") and current.inner_text() == "memory-bound"
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("abacus")
    assert shown.count() == 0 and tab.text("glossaryCount") == "no term has “abacus”"
    tab.page.keyboard.press("Escape")
    assert shown.count() == len(TERMS)
    shown.locator("a", has_text="bonus token").focus()
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("ArrowRight")
    assert current.inner_text() == "break-even acceptance"
    place = seen("bonus_token")[0]
    tab.page.locator(".glossary-term", has_text="bonus token").get_by_role(
        "link", name=place.title
    ).first.click()
    assert place.address in tab.address and not tab.ref("glossary").is_visible()
    tab.page.go_back()
    assert tab.ref("glossary").is_visible()
