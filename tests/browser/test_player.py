"""With random races, the page shows every round, links all views, and runs no hostile text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

BUSY_MILLISECONDS, WATCHED_MILLISECONDS = 40, 1200
# A script that requests a drawing every millisecond and returns how many drawings happen. Each
# drawing takes 40 ms.
DRAW_SLOWLY = """
async ([ask, busy, watched]) => {
  const { Frame } = await import(document.querySelector('link[href$="/frame.js"]').href);
  let drawn = 0;
  const frame = new Frame(() => {
    const until = performance.now() + busy;
    while (performance.now() < until);
    drawn += 1;
  });
  const asking = setInterval(() => frame[ask](), 1);
  await new Promise((resolve) => setTimeout(resolve, watched));
  clearInterval(asking);
  return drawn;
}
"""


@pytest.mark.slow
def test_a_race_of_200_rounds_shows_every_round(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=200&seed=7&temperature=0.7")
    tab.race()
    indices = tab.evaluate("specviz.race.view.trace.rounds.map((round) => round.record.i)")
    assert indices == list(range(200))
    assert "round 200 of 200" in tab.text("moment")


def test_scrubbing_sends_no_request(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=30&seed=5&temperature=0.7")
    tab.race()
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    box = tab.ref("strip").bounding_box()
    assert box is not None
    tab.ref("strip").scroll_into_view_if_needed()
    for share in (0.02, 0.2, 0.4):
        tab.ref("strip").click(position={"x": share * box["width"], "y": box["height"] / 2})
        tab.settle()
    assert tab.evaluate("specviz.race.view.cursor.round") > 0
    assert asked == []


def test_hostile_token_text_is_harmless_and_complete(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=60&seed=2&temperature=0.7")
    tab.page.get_by_role("radio", name="free").click()
    tab.fill("prompt", "<img src=x onerror=window.pwned=1> ${window.pwned=1} {{constructor}}")
    tab.race()
    texts = tab.lane_text("speculative") + tab.lane_text("baseline")
    for hostile in ("<img src=x", "</script><script>", "${window.pwned=1}", "\\`${alert(1)}"):
        assert hostile in texts
    for _ in range(60):
        tab.page.keyboard.press("ArrowRight")
    tab.ref("speculativeRibbon").locator(".token").last.hover()
    assert tab.evaluate("window.pwned === undefined")
    assert tab.page.locator(".specviz img[src=x]").count() == 0


def test_one_cursor_links_ribbon_tree_table_and_timeline(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=20&seed=4")
    tab.race()
    tab.page.locator("[data-ref=speculativeRibbon] .token.accepted").nth(5).click()
    tab.settle()
    token = tab.evaluate(
        "specviz.race.view.trace.main.tokens[specviz.race.view.trace.tokenOf("
        "specviz.race.view.cursor.round, specviz.race.view.cursor.node)]"
    )
    assert token["origin"] == "accepted"
    selected = tab.page.locator("[data-ref=speculativeRibbon] .token.is-selected")
    assert selected.count() == 1 and selected.inner_text() == token["text"]
    assert tab.page.locator("[data-ref=baselineRibbon] .token.is-selected").count() == 1
    row = tab.page.locator("[data-ref=verdicts] tr.is-selected")
    assert row.get_attribute("data-node") == str(token["node"])
    assert tab.ref("strip").get_attribute("aria-valuenow") == str(token["round"] + 1)
    assert tab.evaluate("specviz.race.view.inspector.tree.box.layout.shapes.length") == 1
    tab.page.locator("[data-ref=verdicts] tbody tr").first.click()
    assert tab.evaluate("specviz.race.view.cursor.node") == 0


def test_a_click_in_the_tree_or_the_bars_selects_that_token(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=8&seed=4&temperature=0.7&method=draft-tree&branching=3,2")
    tab.race()
    tab.evaluate("specviz.race.view.cursor.select(2)")
    tab.settle()
    tree = tab.ref("treeChart")
    tree.scroll_into_view_if_needed()
    for marker in tree.locator(".points path").all()[:6]:
        marker.click(force=True)
        tab.settle()
        node = tab.evaluate("specviz.race.view.cursor.node")
        place = tab.evaluate("specviz.race.view.inspector.tree.box.layout.shapes[0]")
        ring = tab.evaluate(
            "specviz.race.view.inspector.tree.box.data.filter((t) => t.mode === 'markers')"
            f".flatMap((t) => t.customdata.map((n, i) => [n, t.x[i], t.y[i]]))"
            f".find(([n]) => n === {node})"
        )
        assert ring[1:] == [place["xanchor"], place["yanchor"]]
        assert tab.text("barsTitle")
    assert tab.evaluate("specviz.race.view.cursor.round") == 2


def test_the_copied_link_contains_the_settings(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=7&seed=4&temperature=0.7")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.fill("seed", "99")
    tab.ref("copyLink").click()
    tab.page.get_by_text("Copied").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert "seed=99" in link and "tokens=7" in link and "temperature=0.7" in link


def test_keys_move_through_the_race(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=12&seed=4&temperature=0.7")
    tab.page.locator("body").click(position={"x": 5, "y": 500})
    tab.page.keyboard.press("Enter")
    tab.wait_for_end()
    keys = tab.page.keyboard
    at = "[specviz.race.view.cursor.round, specviz.race.view.cursor.node]"
    stops = "specviz.race.view.trace.rounds[specviz.race.view.cursor.round].stops"
    keys.press("Home")
    assert tab.evaluate(at) == [0, tab.evaluate(stops)[0]]
    walked = 0
    while tab.evaluate("specviz.race.view.cursor.round") == 0:
        keys.press("ArrowRight")
        walked += 1
    assert walked == tab.evaluate("specviz.race.view.trace.rounds[0].stops.length")
    keys.press("ArrowLeft")
    assert tab.evaluate("specviz.race.view.cursor.round") == 0
    keys.press("Shift+ArrowRight")
    assert tab.evaluate("specviz.race.view.cursor.round") == 1
    keys.press("End")
    assert tab.evaluate("specviz.race.view.cursor.round") == 11
    keys.press("Space")
    tab.until("specviz.race.view.playback.isPlaying")
    keys.press("Space")
    assert not tab.evaluate("specviz.race.view.playback.isPlaying")
    keys.press("?")
    assert tab.ref("keys").is_visible()
    keys.press("Escape")
    assert not tab.ref("keys").is_visible()


def test_typing_in_a_field_does_not_move_the_cursor(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=6&seed=4&temperature=0.7")
    tab.race()
    before = tab.evaluate("specviz.race.view.cursor.round")
    tab.ref("prompt").focus()
    tab.page.keyboard.type("a ? f ")
    tab.page.keyboard.press("Home")
    assert tab.evaluate("specviz.race.view.cursor.round") == before
    assert not tab.ref("keys").is_visible()
    tab.page.keyboard.press("Shift+Enter")  # a new line, not a race
    assert "\n" in tab.ref("prompt").input_value() and not tab.is_busy
    tab.page.keyboard.press("Enter")
    tab.until(
        "specviz.race.transport.isBusy || specviz.race.view.trace.header.prompt.includes('a ? f')",
    )
    tab.wait_for_end()


def test_keys_keep_a_useful_focus(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=600&seed=4&temperature=0.7")
    focused = "document.activeElement.dataset.ref"
    tab.ref("prompt").focus()
    for _ in range(60):
        tab.page.keyboard.press("Tab")
        if tab.evaluate(focused) == "race":
            break
    tab.page.keyboard.press("Enter")
    tab.until(f"{focused} === 'stop'")
    tab.page.keyboard.press("Enter")
    tab.wait_for_end()
    assert tab.evaluate(focused) == "race"


def test_after_a_race_the_page_selects_an_instructive_round(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=12&seed=4&temperature=0.7")
    tab.race()
    shown = "specviz.race.view.trace.rounds[specviz.race.view.cursor.round]"
    assert tab.evaluate(f"{shown}.isWhole && {shown}.isMixed")
    # A moment of infinity means that the page shows both lanes to their end.
    assert tab.evaluate("specviz.race.view.moment") == float("inf")


def test_a_replay_is_slow_enough_to_follow(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=40&seed=4&temperature=0.7")
    tab.race()
    tab.evaluate(
        "{ const { cursor } = specviz.race.view, { select } = cursor; window.shown = [];"
        "cursor.select = (at) => (shown.push(at), select.call(cursor, at)); null; }"
    )
    tab.ref("play").click()
    # the race plays about one round per second, so the page shows each of its first rounds
    tab.until("shown.length > 1")
    begun = tab.evaluate("delete specviz.race.view.cursor.select && shown.slice(0, 2)")
    assert begun[0] == 0 and 1 <= begun[1] <= 4


@pytest.mark.slow
def test_drawing_arriving_rounds_leaves_half_of_the_time_to_keys_and_clicks(
    random_url: str, turn_page: Open
) -> None:
    page = turn_page(random_url).page
    given = [BUSY_MILLISECONDS, WATCHED_MILLISECONDS]
    most = WATCHED_MILLISECONDS / (2 * BUSY_MILLISECONDS) + 1
    assert 1 < page.evaluate(DRAW_SLOWLY, ["askAtLeisure", *given]) <= most
