"""The page is usable on large and small screens, in light and dark, and with large type."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import OVERFLOW, RaceDriver

Open = Callable[..., RaceDriver]


ASK_ELSEWHERE = """new Promise((take) => {
    const told = ({ effectiveDirective }) => take(effectiveDirective);
    addEventListener("securitypolicyviolation", told, { once: true });
    HOW;
    setTimeout(() => take("allowed"), 60000);
})"""


def test_no_script_of_the_page_can_reach_another_server(random_url: str, open_page: Open) -> None:
    tab = open_page(random_url, "?tokens=4")
    tab.may_complain = True  # the browser reports the request that it blocked
    for how, directive in (
        ("fetch('http://elsewhere.invalid/').catch(() => 0)", "connect-src"),
        ("new Image().src = 'http://elsewhere.invalid/x.png'", "img-src"),
        ("import('http://elsewhere.invalid/x.js').catch(() => 0)", "script-src-elem"),
    ):
        assert tab.evaluate(ASK_ELSEWHERE.replace("HOW", how)) == directive


@pytest.mark.parametrize("width", [390, pytest.param(820, marks=pytest.mark.slow), 1440])
def test_nothing_overflows_sideways(random_url: str, turn_page: Open, width: int) -> None:
    tab = turn_page(
        random_url,
        "?tokens=8&seed=4&temperature=0.7&method=draft-tree&k=4&branching=3",
        viewport={"width": width, "height": 900},
    )
    tab.settle()
    assert tab.evaluate(OVERFLOW) <= 0
    tab.race()
    assert tab.evaluate(OVERFLOW) <= 0
    tab.ref("large").click()
    tab.settle()
    overflow = tab.evaluate(OVERFLOW)
    tab.ref("large").click()
    assert overflow <= 0


def test_the_dark_theme_follows_the_system_and_the_switch_is_remembered(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=4", color_scheme="dark")
    theme = "document.documentElement.dataset.theme"
    assert tab.evaluate(theme) == "dark"
    tab.race()
    ink = "specviz.race.view.theme.palette.accepted"
    colours = "JSON.stringify(specviz.race.view.inspector.tree.box.data)"
    assert tab.evaluate(ink) in tab.evaluate(colours)
    tab.ref("theme").click()
    tab.settle()
    assert tab.evaluate(theme) == "light"
    assert tab.evaluate(ink) in tab.evaluate(colours)
    tab.go()
    assert tab.evaluate(theme) == "light"


# Return how many animation frames were requested in half a second. The browser numbers all
# requests, so the difference of two numbers is the count.
ASKED = """new Promise((done) => {
    const first = requestAnimationFrame(() => {});
    setTimeout(() => done(requestAnimationFrame(() => {}) - first), 500);
})"""


def test_an_idle_page_requests_no_frames(random_url: str, turn_page: Open) -> None:
    """Even the animation of Gradio's loading screen, with 60 frames per second, is stopped."""
    tab = turn_page(random_url)
    tab.until(f"{ASKED}.then((count) => count < 3)")


def test_every_control_has_a_name_and_visible_focus(random_url: str, open_page: Open) -> None:
    tab = open_page(random_url)
    nameless = tab.evaluate(
        "[...document.querySelectorAll('.specviz :is(button, input, select, textarea)')]"
        ".filter((c) => !c.closest('[hidden]'))"
        ".filter((c) => !(c.ariaLabel || c.labels?.length || c.textContent.trim()))"
        ".map((c) => c.outerHTML)"
    )
    assert nameless == []
    seen = set()
    for _ in range(60):
        tab.page.keyboard.press("Tab")
        name, outline = tab.evaluate(
            "[document.activeElement.dataset.ref ?? document.activeElement.tagName,"
            "getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.add(name)
        assert outline != "none" or name == "BODY", name
    assert {"prompt", "pair", "method", "draftLength", "temperature", "race"} <= seen


ROW_HEIGHTS = """[...document.querySelectorAll(".bar > :is(.brand, .tabs, .tools)")].map((each) => {
    const { top, bottom } = each.getBoundingClientRect();
    return Math.round((top + bottom) / 2);
})"""


@pytest.mark.parametrize("width", [641, 700, 800, 1000, 1024, 1241])
def test_the_header_with_a_running_device_is_one_row(
    random_url: str, turn_page: Open, width: int
) -> None:
    tab = turn_page(random_url, viewport={"width": width, "height": 768})
    shown = "CPU (16 threads) · bfloat16"
    tab.evaluate(f"document.querySelector('[data-ref=device]').textContent = {shown!r}")
    assert len(set(tab.evaluate(ROW_HEIGHTS))) == 1
    assert tab.evaluate("document.querySelector('.bar').offsetHeight") < 60


@pytest.mark.parametrize("width", [320, 360, 390])
def test_the_header_on_a_phone_has_one_row_of_pages(
    random_url: str, turn_page: Open, width: int
) -> None:
    tab = turn_page(random_url, viewport={"width": width, "height": 700})
    tops = "[...document.querySelectorAll('.tabs a')].map((each) => each.offsetTop)"
    assert len(set(tab.evaluate(tops))) == 1
