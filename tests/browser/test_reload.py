"""A tab keeps its settings and its race when the page is loaded again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

LONG = "Why? " * 1000  # a prompt that is too long for an address


@pytest.mark.parametrize("text", ["What does a pulse oximeter measure?", LONG], ids=["", "long"])
@pytest.mark.parametrize("has_address", [False, True], ids=["bare address", "same address"])
def test_after_a_reload_the_form_has_the_raced_and_the_later_edited_settings(
    random_url: str, open_page: Open, text: str, has_address: bool
) -> None:
    tab = open_page(random_url)
    tab.fill("prompt", text)
    tab.ref("method").select_option("prompt-lookup")
    tab.fill("temperature", "0.7")
    tab.fill("maxNewTokens", "6")
    tab.race()
    tab.fill("seed", "5")
    before = tab.evaluate("specviz.race.form.order")
    tab.rest()
    if has_address:
        tab.reload()
    else:
        tab.go()
    assert tab.evaluate("specviz.race.form.order") == before
    tab.until("specviz.race.trace.ending !== null")


def test_the_result_of_a_race_stays_until_the_user_asks_for_its_replay(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=40", reduced_motion="no-preference")
    for width, ends in ((1280, "replaySkip"), (390, "replayEnd")):
        tab.page.set_viewport_size({"width": width, "height": 844})
        tab.race()
        tab.settle()
        assert not tab.evaluate("specviz.race.view.playback.isPlaying")
        assert tab.evaluate("specviz.race.view.moment") == float("inf")
        tab.ref("replaySlowly").click()
        tab.until("specviz.race.view.playback.isPlaying")
        tab.ref("replaySlowly").wait_for(state="hidden")
        for ref in ("replayNotice", "replayState"):
            assert "replay, slowed" in tab.text(ref)
        assert tab.ref("runState").is_visible() == (width > 640)
        tab.ref(ends).click()
        tab.settle()
        assert not tab.evaluate("specviz.race.view.playback.isPlaying")
        assert tab.text("runState").startswith("finished") and tab.ref("runState").is_visible()
        assert tab.ref("replayNotice").is_hidden() and tab.ref("replayState").is_hidden()


# Collect every text of the line next to the speedup in `seenWords`.
WATCH = """
window.seenWords = [];
new MutationObserver(() => {
    const text = document.querySelector("[data-ref=speedupWord]")?.textContent;
    if (text && text !== window.seenWords.at(-1)) window.seenWords.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def test_while_the_last_race_is_opened_again_the_page_says_so(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=40")
    tab.race()
    tab.rest()
    tab.page.add_init_script(WATCH)
    tab.reload()
    tab.until("specviz.race.trace.ending !== null")
    seen = tab.evaluate("window.seenWords")
    opening = seen.index("opening your last race …")
    assert "press Race to measure" not in seen[opening:]
