"""In the debugger, keys and clicks reach every moment, and the page shows what is known there."""

from __future__ import annotations

import re

import pytest

from specviz.golden import OPENING, golden_names, golden_parts, golden_trace
from specviz.records import ExtraKind, Outcome
from tests.browser.step_driver import CURSOR, LAST, NAME, TRACE, StepDriver, moments


def test_arrow_keys_go_through_every_moment_forwards_and_back(opened: StepDriver) -> None:
    count = moments(TRACE.rounds[0]) + moments(TRACE.rounds[1])
    phases = []
    for _ in range(count):
        phases.append(opened.phase)
        opened.press("ArrowRight")
    assert opened.place == (2, 0)
    in_order = [phase for i, phase in enumerate(phases) if i == 0 or phases[i - 1] != phase]
    kinds = [each.extra.kind for each in TRACE.rounds[:2] if each.extra]
    words = {ExtraKind.RECOVERED: "recover", ExtraKind.BONUS: "bonus"}
    phases_of = ["draft", "verify", "accept/reject", None, "commit"]
    assert in_order == [word or words[kind] for kind in kinds for word in phases_of]
    opened.press(*["ArrowLeft"] * count)
    assert opened.place == (0, 0)
    opened.press("ArrowLeft")
    assert opened.place == (0, 0)


RATES = "[data-ref=stepRates] p:first-child"


def test_the_running_rates_include_a_verdict_as_soon_as_it_is_shown(opened: StepDriver) -> None:
    opened.press("n")  # key n moves to the first rejection
    first = TRACE.rounds[opened.place[0]]
    before = [each for each in TRACE.rounds[: opened.place[0]] for each in each.verdicts]
    examined = sum(each.outcome is not Outcome.UNREACHED for each in before)
    said = opened.page.locator(RATES).inner_text()
    rejected = opened.stop["node"]
    passed = [each for each in first.accepted if each < rejected]
    siblings = first.tree.children(first.tree.nodes[rejected].parent)
    is_over = not any(
        each > rejected and first.verdicts[each].outcome is not Outcome.UNREACHED
        for each in siblings
    )
    # The level of the rejected node is counted as examined only if no other sibling is examined
    # after it. Otherwise a sibling may still be accepted, and the level's outcome is not known yet.
    path = len(passed) + is_over
    assert f" of {examined + path} examined levels were accepted" in said


def test_no_guess_is_included_in_the_rates_before_its_verdict(debugger: StepDriver) -> None:
    step = debugger.afresh("draft-model.code")
    said = []
    for place in ((0, 99), (1, 0), (1, 1)):
        step.driver.evaluate(f"{CURSOR}.go{place}")
        step.settle()
        said.append(step.page.locator(RATES).inner_text())
    assert said[0] and said[0].split(". ")[0] == said[1].split(". ")[0] == said[2].split(". ")[0]
    first, second = (int(re.findall(r"of all (\d+) drafted", each)[0]) for each in said[1:])
    assert second == first + 1 and "level" not in said[1]


def test_an_address_is_kept_until_its_moment_has_arrived(opened: StepDriver) -> None:
    """A user who goes back and forth quickly finds every moment again."""
    asked = f"?view=step&trace={NAME}&round=4&pos=2"
    opened.driver.evaluate(
        f"""{{ history.replaceState(null, "", {asked!r});
            const page = specviz.step;
            page.place.forget();
            page.restore();
            page.write();
            page.place.address.flush(); }}"""
    )
    assert opened.driver.evaluate("location.search") == asked
    opened.driver.until(f"{CURSOR}.round === 3 && {CURSOR}.at === 1")


def test_keys_go_by_round_and_phase_and_to_both_ends(opened: StepDriver) -> None:
    opened.press("ArrowDown", "ArrowDown")
    assert opened.phase == "accept/reject"
    opened.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert opened.place[0] == 2 and opened.phase == "accept/reject"
    opened.press("ArrowUp")
    assert opened.phase == "verify"
    opened.press("Shift+ArrowLeft")
    assert opened.place[0] == 1
    opened.press("End")
    assert opened.place == (LAST, moments(TRACE.rounds[-1]) - 1)
    opened.press("Home")
    assert opened.place == (0, 0)


def test_buttons_do_the_same_as_the_keys(opened: StepDriver) -> None:
    opened.click("stepForward")
    assert opened.place == (0, 1)
    opened.click("stepBack")
    assert opened.place == (0, 0)
    opened.click("stepRoundForward")
    assert opened.place[0] == 1
    opened.click("stepRoundBack")
    assert opened.place[0] == 0
    opened.click("stepLast")
    assert opened.place[0] == LAST
    opened.click("stepFirst")
    assert opened.place == (0, 0)
    opened.page.get_by_role("button", name="recover/bonus").click()
    opened.settle()
    assert opened.driver.evaluate(f"{CURSOR}.moment.phase") == "extra"
    assert opened.phase in ("recover", "bonus")


def test_playing_advances_by_itself_and_stops_at_a_manual_move(opened: StepDriver) -> None:
    opened.driver.ref("stepPace").select_option("20")
    opened.leave_field()
    opened.press("Space")
    opened.driver.until(f"{CURSOR}.round >= 1")
    opened.press("ArrowLeft")
    here = opened.place
    opened.page.wait_for_timeout(200)
    assert opened.place == here


def test_the_strip_of_rounds_can_be_scrubbed(opened: StepDriver) -> None:
    box = opened.driver.ref("stepStrip").bounding_box()
    assert box
    width = min(box["width"], 26 * len(TRACE.rounds))
    opened.page.mouse.click(box["x"] + width * 5.5 / len(TRACE.rounds), box["y"] + 30)
    opened.settle()
    assert opened.place[0] == 5


COLOURS_AHEAD = """() => {
    const { cursor, strip: { canvas, edges } } = specviz.step.view;
    const left = Math.ceil(edges[cursor.round] * devicePixelRatio) + 3;  // behind the frame
    const { width, height } = canvas, copy = new OffscreenCanvas(width, height);
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const { data } = pen.getImageData(left, 0, width - left, height);
    const pixels = [...new Uint32Array(data.buffer)].filter((each) => each >>> 24 === 255);
    return new Set(pixels).size;
}"""


def test_the_strip_hides_the_results_of_rounds_whose_text_is_hidden(opened: StepDriver) -> None:
    later = opened.driver.ref("stepText").locator(".token.is-later")
    for goal, axis in ((0, "round"), (4, "round"), (0, "token"), (0, "ms")):
        opened.driver.ref("stepAxis").select_option(axis)
        opened.driver.evaluate(f"{CURSOR}.go({goal}, 0)")
        opened.settle()
        # Later rounds are not drawn yet. In their space the strip shows only a line of one colour.
        assert later.count() and opened.page.evaluate(COLOURS_AHEAD) == 1
    opened.press("End")
    opened.press("Shift+ArrowLeft")
    # After a move back, the strip hides the later rounds that it showed before.
    assert later.count() and opened.page.evaluate(COLOURS_AHEAD) == 1


@pytest.mark.parametrize("axis", ["round", "token", "forward", "ms"])
def test_one_can_jump_along_every_axis(opened: StepDriver, axis: str) -> None:
    before = TRACE.prefill.seconds + sum(r.seconds for r in TRACE.rounds[:6])  # type: ignore[union-attr]
    emitted = 1 + sum(len(r.emitted_ids) for r in TRACE.rounds[:6])
    middle = before + TRACE.rounds[6].seconds / 2
    goal = {"round": 7, "token": emitted + 1, "forward": 8, "ms": middle * 1000}[axis]
    opened.driver.ref("stepAxis").select_option(axis)
    opened.leave_field()
    opened.press("g")
    opened.page.keyboard.type(f"{goal:.4f}")
    opened.press("Enter")
    assert opened.place[0] == 6
    # A jump along the axis of tokens leads to a verdict. Jumps along the other axes keep the phase
    # in which the debugger was.
    assert opened.phase == ("accept/reject" if axis == "token" else "draft")


def test_an_invalid_target_is_marked_and_nothing_moves(opened: StepDriver) -> None:
    opened.driver.ref("stepGo").fill("seven")
    opened.driver.ref("stepGo").press("Enter")
    assert opened.place == (0, 0)
    assert opened.driver.ref("stepGo").get_attribute("aria-invalid") == "true"
    opened.driver.ref("stepGo").blur()
    assert opened.driver.ref("stepGo").input_value() == ""
    assert opened.driver.ref("stepGo").get_attribute("aria-invalid") is None


def test_a_token_of_the_text_shows_where_it_came_from(opened: StepDriver) -> None:
    opened.driver.ref("stepText").locator(".token").nth(12).click()
    opened.settle()
    token = opened.driver.evaluate(f"{CURSOR}.trace.main.tokens[12]")
    assert (opened.place[0], opened.stop["node"]) == (token["round"], token["node"])
    assert f"round {token['round'] + 1}" in opened.driver.text("stepOrigin")


def test_nodes_and_verdicts_are_hidden_until_they_are_known(opened: StepDriver) -> None:
    script = "document.querySelector('[data-ref=stepTree]').data.filter((t) => t.mode == 'markers')"
    count = f"Object.fromEntries({script}.map((t) => [t.meta.role, t.x.length]))"
    # Before any verdict, the tree shows the root and one level of three nodes.
    assert opened.driver.evaluate(count) == {"unreached": 3, "root": 1}
    opened.press("End")
    opened.driver.evaluate(f"{CURSOR}.go(0, 99)")
    opened.settle()
    outcomes = [v.outcome.value for v in TRACE.rounds[0].verdicts]
    done = opened.driver.evaluate(count)
    for role in ("accepted", "rejected", "unreached"):
        assert done.get(role, 0) == outcomes.count(role)


def test_every_number_is_shown_as_soon_as_it_is_known_and_not_earlier(opened: StepDriver) -> None:
    row = opened.driver.ref("stepTable").locator("tr[data-node='0'] .number")
    roles = "document.querySelector('[data-ref=stepBars]').data.map((trace) => trace.meta.role)"
    known, charts = [], []
    for _ in ("draft", "verify", "accept/reject"):
        known.append(
            [name for name, text in zip("pq", row.all_inner_texts(), strict=False) if text]
        )
        known[-1] += ["u"] if row.nth(3).inner_text() else []
        charts.append(opened.driver.evaluate(roles))
        opened.press("ArrowDown")
    assert known == [["q"], ["p", "q"], ["p", "q", "u"]]
    assert charts[:2] == [["draft"], ["accepted", "target", "draft"]] and "ink" in charts[2]


def test_a_dragged_draw_changes_the_verdict_only_as_a_supposition(debugger: StepDriver) -> None:
    step = debugger.afresh("draft-model.code")
    step.press("n")
    step.driver.ref("whatIfDraw").fill("0")
    step.page.wait_for_selector("[data-ref=whatIfResult]:not(:empty)")
    assert step.driver.text("whatIfResult").startswith("Counterfactual: the round would add")
    assert "accepted" in step.driver.ref("stepTable").locator("tr.is-selected").inner_text()
    assert "counterfactual" in step.driver.text("stepTreeTitle")
    assert step.stop["outcome"] == "rejected"
    step.click("whatIfReset")
    assert step.driver.text("whatIfResult") == ""
    assert "rejected" in step.driver.ref("stepTable").locator("tr.is-selected").inner_text()


# Recordings with each kind of draft: a chain, a tree, and a run that often drafts nothing. `make
# slow` tests all recordings.
QUICK = (OPENING, "draft-model.code", "dynamic-tree.chat.smollm2", "prompt-lookup.chat.smollm2")
RECORDINGS = [
    name
    for name in golden_names()
    if name == OPENING or golden_parts(name)[1] == "chat" or not golden_parts(name)[2]
]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in RECORDINGS],
)
def test_the_last_round_of_every_recording_shows_its_whole_walk(
    debugger: StepDriver, name: str
) -> None:
    """A run that ends inside an accepted path has no row for an extra token in its last round."""
    opened = debugger.afresh(name)
    opened.press("End")
    last = golden_trace(name).rounds[-1]
    examined = sum(verdict.outcome is not Outcome.UNREACHED for verdict in last.verdicts)
    rows = opened.driver.ref("stepTable").locator("tbody tr")
    assert rows.count() == examined + (last.extra is not None)
    assert rows.locator("i").count() == rows.count()  # each row has the mark of a verdict
    opened.press(*["ArrowLeft"] * moments(last))
    assert opened.place[0] == len(golden_trace(name).rounds) - 2
