"""The debugger's cards form columns, or one column on narrow pages, and cut no content off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import OVERFLOW, RaceDriver
from tests.browser.step_driver import StepDriver

Open = Callable[..., RaceDriver]

WIDTHS = (1640, 1280, 1024, 768, 390)
# Return the elements that leave their card, or the box in which their card scrolls.
CUT = """(() => {
    const cards = [...document.querySelectorAll(".step .card")].filter((card) => card.offsetWidth);
    const parts = "button, select, input, canvas, td, th, dt, dd, p, h2, h3, li";
    const isOut = (card) => (part) => {
        const isFixed = (each) => getComputedStyle(each).position === "fixed";
        if (isFixed(part) || isFixed(part.parentElement)) return false;
        const [inner, outer] = [part, card].map((each) => each.getBoundingClientRect());
        const isShown = inner.width > 1 && inner.height > 1;
        return isShown && (inner.right > outer.right - 8 || inner.left < outer.left + 8);
    };
    const out = cards.flatMap((card) => [...card.querySelectorAll(parts)].filter(isOut(card)));
    const tables = [...document.querySelectorAll(".step .scroller:has(> table)")];
    const wide = tables.filter((box) => box.scrollWidth > box.clientWidth);
    return [...out, ...wide].map((each) => each.outerHTML.slice(0, 80));
})()"""
EDGES = """[...document.querySelectorAll(".step .debugger > .inspect")].map((row) =>
    [...row.children].map((card) => {
        const { left, right, bottom } = card.getBoundingClientRect();
        return [left, right, bottom].map(Math.round);
    }))"""
TOPS = """Object.fromEntries(
    ["stepText", "stepStrip", "stepBars", "stepTree", "cacheSlots",
     "stepTrace", "nextMatch", "forkGo", "profileGo"]
    .map((ref) => [ref, specviz.race.view.refs[ref]])
    .map(([ref, each]) => [ref, each.getBoundingClientRect().top]))"""


def enlarge(step: StepDriver, is_large: bool) -> None:
    if step.driver.evaluate("specviz.race.shell.theme.isLarge") != is_large:
        step.driver.evaluate("specviz.race.shell.refs.large.click()")


@pytest.fixture
def sized(opened: StepDriver) -> Callable[[int, bool], StepDriver]:
    """Yield a function that shows an examined node in a window of this width and type size."""

    def size(width: int, is_large: bool = False) -> StepDriver:
        opened.page.set_viewport_size({"width": width, "height": 900})
        enlarge(opened, is_large)
        opened.press("n", "n")
        return opened

    yield size
    enlarge(opened, False)


@pytest.mark.parametrize(
    "is_large",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["usual type", "large type"],
)
def test_no_element_leaves_its_card(sized: Callable[..., StepDriver], is_large: bool) -> None:
    for width in WIDTHS:
        step = sized(width, is_large)
        for _ in range(3):
            assert (width, step.driver.evaluate(CUT)) == (width, [])
            assert (width, step.driver.evaluate(OVERFLOW)) <= (width, 0)
            step.press("ArrowDown")


def test_a_chain_has_the_full_width_and_its_draws_are_next_to_the_table(
    debugger: StepDriver,
) -> None:
    step = debugger.afresh("draft-model.code")
    step.press("n")
    boxes = [
        step.driver.ref(name).bounding_box()
        for name in ("textCard", "stepTree", "stepTable", "whatIf")
    ]
    text, tree, table, draws = [box for box in boxes if box]
    assert tree["width"] > 0.9 * text["width"] and tree["height"] < 200
    assert draws["x"] > table["x"] + table["width"] and draws["y"] < table["y"] + table["height"]


@pytest.mark.parametrize("width", [1280, 1440, 1640])
def test_every_row_has_the_same_two_columns(sized: Callable[..., StepDriver], width: int) -> None:
    rows = sized(width).driver.evaluate(EDGES)
    assert [len(row) for row in rows] == [2, 2]
    for row in rows:
        (left, middle, bottom), (start, right, end) = row
        assert (left, middle, start, right) == (*rows[0][0][:2], *rows[0][1][:2])
        assert bottom <= end


def test_no_card_of_a_tree_or_of_its_verdicts_is_half_empty(
    sized: Callable[..., StepDriver],
) -> None:
    step = sized(1400)
    shares = """[["stepTree", "height"], ["stepTable", "width"]].map(([ref, side]) => {
        const part = specviz.race.view.refs[ref];
        const [inner, card] = [part, part.closest(".card")].map((each) => each.getBoundingClientRect());
        return inner[side] / card[side];
    })"""  # noqa: E501
    for _ in range(3):
        assert min(step.driver.evaluate(shares)) > 0.75
        step.press("ArrowRight")
    step = step.afresh("quantised-self.opening.smollm2")  # at temperature 0 there are no draws
    assert step.driver.evaluate(shares)[1] > 0.75


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_page_begins_with_the_moment_and_ends_with_the_profiler(
    sized: Callable[..., StepDriver], width: int
) -> None:
    step = sized(width)
    tops = step.driver.evaluate(TOPS)
    assert list(tops) == sorted(tops, key=lambda ref: tops[ref])
    # The order of the parts on a wide page.
    parts = ["stepTrace", "nextMatch", "stepText", "stepBars", "stepResidual"]
    order = f"""[...document.querySelectorAll("{",".join(f"[data-ref={each}]" for each in parts)}")]
        .map((each) => each.dataset.ref).join()"""
    # On a narrow page, the document's order changes as well, because the Tab key and screen readers
    # follow it.
    narrow = "stepText,stepBars,stepResidual,stepTrace,nextMatch"
    assert step.driver.evaluate(order) == narrow
    step.page.set_viewport_size({"width": 1280, "height": 900})
    step.driver.until(f"{order} === '{','.join(parts)}'")
    step.page.set_viewport_size({"width": width, "height": 900})
    step.driver.until(f"{order} === '{narrow}'")


def test_on_a_phone_the_tree_keeps_its_position_through_a_whole_round(
    sized: Callable[..., StepDriver],
) -> None:
    step = sized(390)
    top = "specviz.race.view.refs.stepTree.getBoundingClientRect().top + scrollY"
    step.driver.evaluate("specviz.step.view.cursor.go(3, 0)")
    tops = []
    while step.driver.evaluate("specviz.step.view.cursor.round") == 3:
        step.settle()
        tops.append(step.driver.evaluate(top))
        step.driver.evaluate("specviz.step.view.cursor.step(1)")
    # The remark above a chart may need a second line, so the tops may differ by one line.
    assert len(tops) > 5 and max(tops) - min(tops) < 60


def test_a_run_opens_with_its_prompt_visible_and_a_button_leads_to_the_template(
    debugger: StepDriver,
) -> None:
    step = debugger.afresh("draft-model.chat.smollm2")
    top = "specviz.race.view.refs.stepText.scrollTop"
    assert step.driver.evaluate(top) == 0
    step.driver.evaluate("specviz.step.view.cursor.toLast()")
    step.settle()
    assert step.driver.evaluate(top) > 0
    for _ in range(2):  # the first click shows the template, the second hides it
        step.driver.ref("stepTemplate").click()
        assert step.driver.evaluate(top) == 0


def test_on_a_phone_charts_keep_their_positions_and_verdicts_are_below_their_headings(
    sized: Callable[..., StepDriver],
) -> None:
    step = sized(390)
    top = "(ref) => specviz.race.view.refs[ref].getBoundingClientRect()"
    for phase in ("judge", "extra"):
        step.driver.evaluate(f"specviz.step.view.cursor.toPhase('{phase}')")
        step.settle()
        order = f"({top})('residualCard').top - ({top})('barsCard').bottom"
        assert step.driver.evaluate(order) > 0
    lefts = """[...document.querySelectorAll(".step .verdicts tr :is(th, td):last-child")]
        .map((each) => each.getBoundingClientRect().left)"""
    assert len(set(step.driver.evaluate(lefts))) == 1


def test_the_moment_s_card_takes_little_of_a_laptop_s_screen(
    sized: Callable[..., StepDriver],
) -> None:
    box = sized(1400).driver.ref("momentCard").bounding_box()
    assert box and box["height"] < 0.22 * 900


def test_on_a_phone_the_step_buttons_stay_visible_while_scrolling(
    sized: Callable[..., StepDriver],
) -> None:
    step = sized(390)
    before = step.stop
    for share in (0, 0.5, 1):
        step.driver.evaluate(f"scrollTo(0, {share} * document.documentElement.scrollHeight)")
        box = step.driver.ref("stepForward").bounding_box()
        assert box and 0 <= box["y"] <= 900 - box["height"]
        sentence = step.driver.ref("stepSentence").bounding_box()
        assert sentence and 630 <= sentence["y"] <= box["y"] - sentence["height"]
    step.driver.ref("stepForward").click()
    step.settle()
    assert step.stop != before


@pytest.mark.parametrize("width", [390, 1280])
def test_the_text_is_visible_when_a_run_opens(sized: Callable[..., StepDriver], width: int) -> None:
    step = sized(width)
    top, bottom = step.driver.evaluate(
        """(() => {
            scrollTo(0, 0);
            const { top, bottom } = specviz.race.view.refs.stepText.getBoundingClientRect();
            return [top, bottom];
        })()"""
    )
    assert 0 < top < bottom < 900


@pytest.mark.parametrize("name", ["draft-model.code", "prompt-lookup.chat.smollm2"])
def test_no_card_moves_until_the_first_verdict(debugger: StepDriver, name: str) -> None:
    """The test uses two recordings: one drafter knows its probabilities, the other does not."""
    step = debugger.afresh(name)
    step.driver.evaluate("specviz.step.view.cursor.go(3, 0)")
    step.settle()
    tops = """[...document.querySelectorAll(".step .debugger > *")].slice(0, 6)
        .map((card) => card.getBoundingClientRect().top)"""
    first = step.driver.evaluate(tops)
    for _ in range(4):
        step.press("ArrowRight")
        assert step.driver.evaluate(tops) == pytest.approx(first, abs=2)
