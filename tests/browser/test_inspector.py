"""The page shows a round's verdicts, its times and the drafter's work, with readable labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

LOOKUP = next(method for method in DRAFTERS.values() if not method.needs)
NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1440, "height": 1000}


# Return pairs of a chart's texts that clearly overlap.
COLLISIONS = """(ref) => {
  const texts = [...document.querySelectorAll(`[data-ref=${ref}] svg text`)];
  const shown = texts.filter((each) => each.textContent.trim());
  const boxes = shown.map((each) => [each.textContent, each.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) => {
    const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (across > 1 && down > 3) found.push(`${a} | ${b}`);
  }));
  return found;
}"""


def in_slow(*values: object) -> Any:
    """Mark a window size or a tree shape as slow, so that only `make slow` tests it."""
    return pytest.param(*values, marks=pytest.mark.slow)


def race(turn_page: Open, url: str, query: str, size: dict[str, int]) -> RaceDriver:
    tab = turn_page(url, query, viewport=size)
    tab.race()
    return tab


def show(tab: RaceDriver, ref: str) -> None:
    """Scroll to a chart and wait until it is drawn."""
    tab.ref(ref).scroll_into_view_if_needed()
    tab.page.locator(f"[data-ref={ref}] svg").first.wait_for()
    tab.settle()


def test_the_drafter_s_work_is_described_with_its_tokens(random_url: str, turn_page: Open) -> None:
    query = f"?tokens=30&seed=4&temperature=0.7&method={LOOKUP.name}"
    tab = race(turn_page, random_url, query, WIDE)
    find = "specviz.race.view.trace.rounds.findIndex((round) => round.outcomes.length > 1)"
    tab.evaluate(f"specviz.race.view.cursor.select({find})")
    drafted = "specviz.race.view.trace.rounds[specviz.race.view.cursor.round].outcomes.length"
    tab.until(f"document.querySelectorAll('[data-ref=remarks] .token-chip').length === {drafted}")
    said = tab.text("remarks")
    assert said.startswith("What the drafter did")
    assert "The last 2 tokens also occur earlier in the text" in said
    chips = tab.ref("remarks").locator(".token-chip").all_inner_texts()
    assert len(chips) > 1 and all(chips)


def test_a_drafter_without_notes_has_no_strip(random_url: str, turn_page: Open) -> None:
    tab = race(turn_page, random_url, "?tokens=6&seed=4&temperature=0.7", WIDE)
    assert not tab.ref("remarks").is_visible()
    remarks = "specviz.race.view.inspector.remarks"
    tab.evaluate(
        f"({remarks}.draw(specviz.race.view.trace, [['words']]), {remarks}.draw(null, []))"
    )
    assert tab.ref("remarks").evaluate("(box) => box.childElementCount") == 0


def test_a_copied_guess_shows_no_q_and_the_table_says_why(random_url: str, turn_page: Open) -> None:
    query = f"?tokens=30&seed=4&temperature=0.7&method={LOOKUP.name}"
    tab = race(turn_page, random_url, query, WIDE)
    tab.evaluate(
        "for (const { record } of specviz.race.view.trace.rounds) {"
        " record.tree.drawing = 'chosen';"
        " for (const each of record.positions) each.raw_q = []; }"
    )
    find = "specviz.race.view.trace.rounds.findIndex((round) => round.outcomes.length > 1)"
    tab.evaluate(f"specviz.race.view.cursor.select({find}, 0)")
    shown = tab.ref("verdicts").locator("tr[data-node='0'] .number").all_inner_texts
    tab.until("document.querySelector('[data-ref=residualNote]').textContent.includes('point')")
    assert shown()[1] == "—"
    assert "each guess is a point mass (q = 1), accepted with" in tab.text("residualNote")
    assert "the guess was picked, not drawn, so q counts as 1" in tab.text("tokenSentence")


def test_a_token_in_a_remark_is_never_markup(random_url: str, turn_page: Open) -> None:
    tab = race(turn_page, random_url, "?tokens=4&seed=4&temperature=0.7", WIDE)
    tab.evaluate(
        "(() => { const { inspector, trace } = specviz.race.view;"
        "trace.texts.set(-7, '<img src=x>');"
        "inspector.remarks.draw(trace, [['<b>words</b> ', [-7]]]); })()"
    )
    assert "<b>words</b> <img·src=x>" in tab.text("remarks")
    assert tab.ref("remarks").locator("img, b").count() == 0


def test_the_timeline_follows_the_selected_round_and_shows_its_neighbours(
    random_url: str, turn_page: Open
) -> None:
    tab = race(turn_page, random_url, "?tokens=12&seed=4&temperature=0.7", WIDE)
    show(tab, "timelineChart")
    rounds = "specviz.race.view.inspector.timeline.box.data.flatMap((trace) => trace.customdata)"
    for chosen, neighbours in ((5, {4, 5, 6}), (0, {0, 1}), (11, {10, 11})):
        tab.evaluate(f"specviz.race.view.cursor.select({chosen})")
        tab.until(f"({rounds}).includes({chosen})")
        tab.settle()
        assert set(tab.evaluate(rounds)) == neighbours
    shapes = "specviz.race.view.inspector.timeline.box.layout.shapes.length"
    assert tab.evaluate(shapes) == 0


def test_work_during_the_verification_is_shown_as_simultaneous(
    random_url: str, turn_page: Open
) -> None:
    tab = race(turn_page, random_url, "?tokens=12&seed=5&temperature=0.7", WIDE)
    show(tab, "timelineChart")
    tab.evaluate("specviz.race.view.cursor.select(5)")
    tab.until("specviz.race.view.inspector.timeline.box.layout.shapes.length === 1")
    text = tab.ref("timelineChart").inner_text()
    assert "draft ahead" in text and "of it while the target verified" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "seed"),
    [(NARROW, 4), (WIDE, 4), (NARROW, 5), (WIDE, 5)],
    ids=["narrow 4", "wide 4", "narrow 5", "wide 5"],
)
def test_labels_of_the_timeline_do_not_overlap(
    random_url: str, turn_page: Open, size: dict[str, int], seed: int
) -> None:
    tab = race(turn_page, random_url, f"?tokens=9&seed={seed}&temperature=0.7", size)
    show(tab, "timelineChart")
    for chosen in range(9):
        tab.evaluate(f"specviz.race.view.cursor.select({chosen})")
        tab.settle()
        assert tab.page.evaluate(COLLISIONS, "timelineChart") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "length"),
    [(NARROW, 5), (NARROW, 16), (NARROW, 32), (WIDE, 32)],
    ids=["narrow 5", "narrow 16", "narrow 32", "wide 32"],
)
def test_labels_of_the_depths_do_not_overlap(
    random_url: str, turn_page: Open, size: dict[str, int], length: int
) -> None:
    tab = race(turn_page, random_url, f"?tokens=60&seed=4&temperature=0.7&k={length}", size)
    show(tab, "depthChart")
    assert tab.page.evaluate(COLLISIONS, "depthChart") == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_labels_of_the_speedup_do_not_overlap(
    random_url: str, turn_page: Open, size: dict[str, int]
) -> None:
    tab = race(turn_page, random_url, "?tokens=60&seed=4&temperature=0.7", size)
    show(tab, "speedupChart")
    assert tab.page.evaluate(COLLISIONS, "speedupChart") == []


EXTREME = ["k=32", "method=draft-tree&k=2&branching=8,7"]
BETWEEN = ["k=5", "k=16", "method=draft-tree&k=5&branching=3,2,2"] + [
    f"method=draft-tree&k={k}&branching={b}"
    for k, b in ((4, "3,2"), (3, "4,3,2"), (6, "2,2,2,1,1"))
]


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        *((NARROW, shape) for shape in EXTREME),
        *(in_slow(NARROW, shape) for shape in BETWEEN),
        *(in_slow(WIDE, shape) for shape in (*EXTREME, BETWEEN[-1])),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value['width']} wide",
)
def test_labels_of_a_tree_do_not_overlap(
    random_url: str, turn_page: Open, size: dict[str, int], shape: str
) -> None:
    tab = race(turn_page, random_url, f"?tokens=6&seed=8&temperature=0.7&{shape}", size)
    show(tab, "treeChart")
    for chosen in range(3):
        tab.evaluate(f"specviz.race.view.cursor.select({chosen})")
        tab.settle()
        assert tab.page.evaluate(COLLISIONS, "treeChart") == []


def test_on_a_small_screen_the_tree_scrolls_to_the_selected_node(
    random_url: str, turn_page: Open
) -> None:
    tab = race(turn_page, random_url, "?tokens=6&seed=8&temperature=0.7&k=16", NARROW)
    show(tab, "treeChart")
    scrolled = "specviz.race.view.inspector.tree.box.parentElement.scrollLeft"
    tab.evaluate("specviz.race.view.cursor.select(0, 0)")
    tab.until(f"{scrolled} === 0")
    tab.evaluate("specviz.race.view.cursor.select(0, 12)")
    tab.until(f"{scrolled} > 100")


def test_the_memory_of_the_method_is_shown_next_to_the_target_s(
    random_url: str, turn_page: Open
) -> None:
    tab = race(turn_page, random_url, "?tokens=6&seed=4", WIDE)
    assert "+5.2 MB" in tab.text("stats")
    assert "4.0 MB weights and 1.2 MB cache added" in tab.text("stats")
    assert "added to the target’s 68 MB" in tab.text("stats")
