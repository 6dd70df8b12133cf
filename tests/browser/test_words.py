"""The page calls a slowdown a slowdown, and never calls texts above temperature 0 "identical"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]


@pytest.fixture
def tab(random_url: str, turn_page: Open) -> RaceDriver:
    return turn_page(random_url)


@pytest.mark.parametrize(
    ("speedup", "word"),
    [(2.0, "faster"), (0.8, "slower"), (0.96, "about equal"), (None, "measuring")],
)
def test_a_slowdown_is_shown_as_a_slowdown(
    tab: RaceDriver, speedup: float | None, word: str
) -> None:
    lane = {"tokens": 4, "target_forwards": 4, "seconds": 0.4}
    lane |= dict.fromkeys(("draft_seconds", "verify_seconds", "host_seconds"), 0.1)
    lane |= dict.fromkeys(("acceptance_rate", "block_efficiency", "ttft_seconds"))
    summary = {"speedup": speedup, "baseline": lane, "speculative": lane, "compared": 0}
    summary |= {"identical": None, "first_divergence": None}
    header = {
        "config": {"temperature": 0},
        "drafter_bytes": 0,
        "target": {"bytes": 45e6},
        "dtype": "float32",
    }
    tab.page.evaluate(
        "([s, run]) => specviz.race.view.result.draw(s, run, 'length')",
        [summary, {"header": header, "main": header, "rounds": [], "lanes": []}],
    )
    assert word in tab.text("speedupWord")
    assert tab.text("speedup") == ("–" if speedup is None else f"{speedup:.1f}×")
    # The page shows a spread next to the speedup only if there is a speedup.
    assert tab.ref("speedupSpread").is_visible() == (speedup is not None)


def test_the_table_shows_the_probability_of_the_replacement(tab: RaceDriver) -> None:
    tab.turn("?tokens=20&seed=4&temperature=0.7")
    tab.race()
    extra = tab.page.locator("[data-ref=verdicts] tr[data-node='-2']")
    for kind, letter in (("recovered", "r"), ("bonus", "p")):
        find = f"specviz.race.view.trace.rounds.findIndex((round) => round.extraKind === '{kind}')"
        tab.evaluate(f"specviz.race.view.cursor.select({find})")
        tab.settle()
        assert extra.locator(".number").first.inner_text().startswith(f"{letter} ")


def test_results_of_earlier_settings_say_so(tab: RaceDriver) -> None:
    tab.turn("?tokens=8&seed=4&temperature=0.7")
    tab.race()
    notice = tab.ref("staleNotice")
    assert not notice.is_visible()
    tab.fill("draftLength", "3")
    assert "earlier setting" in tab.text("staleNotice")
    tab.turn("?tokens=8&seed=4&temperature=0.7")
    tab.race()
    before = tab.ref("temperature").input_value()
    tab.fill("temperature", "0.9")
    assert notice.is_visible()
    tab.fill("temperature", before)
    assert not notice.is_visible()
    tab.fill("temperature", "0.9")
    tab.race()
    assert not notice.is_visible()
