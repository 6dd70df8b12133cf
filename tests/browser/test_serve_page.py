"""Serve: an answer while one types, an address that keeps the form, one line for what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]


def test_a_plan_is_answered_addressed_and_corrected(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    tab.evaluate("history.pushState(null, '', '?view=serve&serve-gpus=1&serve-batch=nine')")
    tab.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    error, sentence = tab.page.locator("#sv-serve-batch-error"), tab.ref("planSentence")
    error.wait_for()
    assert sentence.inner_text() == f"No answer yet. {error.inner_text()}"
    assert error.inner_text() == "Requests at once must be an integer from 1 to 1024, got 'nine'"
    batch = tab.page.locator("#sv-serve-batch")
    assert batch.get_attribute("aria-invalid") == "true"
    batch.fill("2")
    sentence.filter(has_text="Does not fit: 2 requests at once need").wait_for()
    for part in ("planLoad", "planFacts", "planGains", "planNumbers"):
        assert not tab.ref(part).is_visible()
    assert not error.is_visible() and tab.ref("planMemory").is_visible()
    tab.page.locator("#sv-serve-gpus").fill("4")
    sentence.filter(has_text="Yes: at 2 requests at once a whole request takes").wait_for()
    assert "serve-batch=2" in tab.page.url and "serve-gpus" not in tab.page.url
    tab.page.locator("[data-page=lab]").click()
    assert "serve-" not in tab.page.url


@pytest.mark.slow
def test_the_whole_page_can_be_read_by_everybody(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    tab.page.locator("[data-page=serve]").click()
    tab.ref("planServed").filter(has_text="100 %").wait_for()
    tab.page.locator("summary", has_text="How far to trust this").click()
    runs = tab.ref("planRuns")
    runs.locator("summary", has_text="weights of 4 or 8 bits").click()
    assert "Llama 2 70B, int4" in runs.inner_text() and "16.03" not in runs.inner_text()
    assert findings(tab.page) == []
