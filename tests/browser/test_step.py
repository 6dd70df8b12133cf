"""The debugger: every movement by key and by mouse, stops, what-if, files and addresses."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from race_driver import RaceDriver
from step_driver import CURSOR, StepDriver

from specviz.golden import golden_trace
from specviz.records import Outcome, Round
from specviz.trace_file import dumps, load
from tests.random_traces import random_trace

OpenPage = Callable[..., RaceDriver]
NAME = "draft-tree.story"
TRACE = golden_trace(NAME)
LAST = len(TRACE.rounds) - 1


@pytest.fixture(scope="module")
def one_page(browser: Browser, random_url: str) -> Iterator[RaceDriver]:
    """One tab for all tests that only need a recording: opening a page takes the most time."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    driver = RaceDriver(context, random_url)
    driver.go(f"?view=step&trace={NAME}")
    yield driver
    context.close()


@pytest.fixture
def opened(one_page: RaceDriver) -> Iterator[StepDriver]:
    """The recording NAME, at its first moment, as if just opened."""
    one_page.complaints.clear()  # what another test found is its own failure
    yield StepDriver(one_page).afresh(NAME)
    assert one_page.complaints == []


def moments(each: Round) -> int:
    levels = max((node.depth for node in each.tree.nodes), default=1)
    examined = sum(v.outcome is not Outcome.UNREACHED for v in each.verdicts)
    return levels + 1 + examined + (each.extra is not None) + 1


def test_arrows_go_through_every_moment_forward_and_back(opened: StepDriver) -> None:
    count = moments(TRACE.rounds[0]) + moments(TRACE.rounds[1])
    phases = []
    for _ in range(count):
        phases.append(opened.phase)
        opened.press("ArrowRight")
    assert opened.place == (2, 0)
    in_order = [phase for i, phase in enumerate(phases) if i == 0 or phases[i - 1] != phase]
    assert in_order == 2 * ["draft", "verify", "accept/reject", "resample", "commit"]
    opened.press(*["ArrowLeft"] * count)
    assert opened.place == (0, 0)
    opened.press("ArrowLeft")
    assert opened.place == (0, 0)


def test_keys_go_by_round_phase_and_to_the_ends(opened: StepDriver) -> None:
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


def test_buttons_do_what_the_keys_do(opened: StepDriver) -> None:
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
    opened.page.get_by_role("button", name="resample").click()
    assert opened.phase == "resample"


def test_play_moves_by_itself_and_stops_at_a_move_by_hand(opened: StepDriver) -> None:
    opened.driver.ref("stepPace").select_option("20")
    opened.leave_field()
    opened.press("Space")
    opened.driver.until(f"{CURSOR}.round >= 1")
    opened.press("ArrowLeft")
    here = opened.place
    opened.page.wait_for_timeout(200)
    assert opened.place == here


def test_the_strip_scrubs(opened: StepDriver) -> None:
    box = opened.driver.ref("stepStrip").bounding_box()
    assert box
    width = min(box["width"], 26 * len(TRACE.rounds))
    opened.page.mouse.click(box["x"] + width * 5.5 / len(TRACE.rounds), box["y"] + 30)
    opened.settle()
    assert opened.place[0] == 5


@pytest.mark.parametrize("axis", ["round", "token", "forward", "ms"])
def test_every_axis_can_be_jumped_on(opened: StepDriver, axis: str) -> None:
    before = TRACE.prefill.seconds + sum(r.seconds for r in TRACE.rounds[:6])  # type: ignore[union-attr]
    emitted = 1 + sum(len(r.emitted_ids) for r in TRACE.rounds[:6])
    middle = before + TRACE.rounds[6].seconds / 2
    goal = {"round": 7, "token": emitted + 1, "forward": 8, "ms": middle * 1000}[axis]
    opened.driver.ref("stepAxis").select_option(axis)
    opened.leave_field()
    opened.press("g")
    opened.page.keyboard.type(f"{goal:.4f}")
    opened.press("Enter")
    assert opened.place == (6, 0)


def test_nonsense_to_go_to_is_marked_and_goes_nowhere(opened: StepDriver) -> None:
    opened.driver.ref("stepGo").fill("seven")
    opened.driver.ref("stepGo").press("Enter")
    assert opened.place == (0, 0)
    assert opened.driver.ref("stepGo").get_attribute("aria-invalid") == "true"


def found(rule: Callable[[Round, int], bool]) -> list[tuple[int, int]]:
    """Round and node of every examined node that the rule holds of."""
    return [
        (each.index, node)
        for each in TRACE.rounds
        for node, verdict in enumerate(each.verdicts)
        if verdict.outcome is not Outcome.UNREACHED and rule(each, node)
    ]


def tie(each: Round, node: int) -> bool:
    v = each.verdicts[node]
    assert v.uniform_draw is not None
    if v.compared_prob >= v.draft_prob:
        return False  # accepted whatever the draw is
    return abs(v.uniform_draw - v.compared_prob / v.draft_prob) < 0.05


def favourites_differ(each: Round, node: int) -> bool:
    position = next(p for p in each.positions if p.parent == each.tree.nodes[node].parent)
    p, q = position.raw_target_probs, position.raw_draft_probs
    return position.token_ids[p.index(max(p))] != position.token_ids[q.index(max(q))]


RULES: dict[str, Callable[[Round, int], bool]] = {
    "rejection": lambda each, node: each.verdicts[node].outcome is Outcome.REJECTED,
    "over": lambda each, node: each.verdicts[node].draft_prob > each.verdicts[node].compared_prob,
    "tie": tie,
    "depth": lambda each, node: each.tree.nodes[node].depth == 3,
    "argmax": favourites_differ,
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_finds_what_the_records_say(opened: StepDriver, name: str) -> None:
    opened.page.locator("[data-rule=rejection]").uncheck()
    opened.page.locator(f"[data-rule={name}]").check()
    expected = found(RULES[name])
    places = opened.driver.evaluate("specviz.debugger.page.stops.all.map((m) => [m.round, m.node])")
    assert sorted(map(tuple, places)) == expected and expected
    for _ in expected[:3]:
        opened.press("n")
    assert (opened.place[0], opened.stop["node"]) in expected
    row = opened.page.locator("li", has=opened.page.locator(f"[data-rule={name}]"))
    assert row.locator(".count").inner_text() == str(len(expected))


def test_extra_tokens_entropy_and_texts_are_stops_too(opened: StepDriver) -> None:
    opened.page.locator("[data-rule=rejection]").uncheck()
    opened.page.locator("[data-rule=bonus]").check()
    opened.press("n")
    assert opened.stop["outcome"] == "bonus" and opened.phase == "resample"
    opened.page.locator("[data-rule=bonus]").uncheck()
    opened.page.locator("[data-rule=recovered]").check()
    opened.press("n")
    assert opened.stop["outcome"] == "recovered"
    opened.page.locator("[data-rule=recovered]").uncheck()
    word = dict(TRACE.token_texts)[TRACE.emitted_ids[20]]
    opened.page.locator("input.wide").fill(word)
    opened.press("Tab")
    opened.click("nextMatch")
    text = opened.driver.evaluate(f"{CURSOR}.trace.text({CURSOR}.current.tokenId({CURSOR}.node))")
    assert word in text


def test_next_and_previous_match_lead_back(opened: StepDriver) -> None:
    opened.press("n", "n")
    second = opened.place
    opened.press("n", "Shift+N")
    assert opened.place == second
    opened.page.locator(".match").nth(4).click()
    opened.settle()
    assert opened.driver.text("matchWord") == f"match 5 of {len(found(RULES['rejection']))}"


def test_first_rejected_token_its_probability_and_its_replacement_can_be_read(
    opened: StepDriver,
) -> None:
    """What someone new wants to know, by the one path that the page suggests: next."""
    trace = golden_trace("draft-model.code")
    step = opened.afresh("draft-model.code")
    step.click("nextMatch")
    first = next(r for r in trace.rounds if any(v.outcome is Outcome.REJECTED for v in r.verdicts))
    node, verdict = next(
        (i, v) for i, v in enumerate(first.verdicts) if v.outcome is Outcome.REJECTED
    )
    row = step.driver.ref("stepTable").locator("tr.is-selected")
    texts = dict(trace.token_texts)
    assert texts[first.tree.nodes[node].token_id].strip() in row.inner_text()
    assert "rejected" in row.inner_text() and f"{verdict.uniform_draw:.3f}" in row.inner_text()
    step.press("ArrowRight")
    extra = step.driver.ref("stepTable").locator("tr.is-selected").inner_text()
    assert first.extra is not None
    assert texts[first.extra.token_id].strip() in extra and "recovered" in extra


def test_a_token_of_the_text_tells_where_it_came_from(opened: StepDriver) -> None:
    opened.driver.ref("stepText").locator(".token").nth(12).click()
    opened.settle()
    token = opened.driver.evaluate(f"{CURSOR}.trace.tokens.speculative[12]")
    assert (opened.place[0], opened.stop["node"]) == (token["round"], token["node"])
    assert f"round {token['round'] + 1}" in opened.driver.text("stepOrigin")


def test_what_was_not_drafted_or_judged_yet_does_not_show(opened: StepDriver) -> None:
    script = "document.querySelector('[data-ref=stepTree]').data.filter((t) => t.mode == 'markers')"
    count = f"Object.fromEntries({script}.map((t) => [t.meta.role, t.x.length]))"
    drafted = opened.driver.evaluate(count)
    assert drafted["accepted"] == drafted["rejected"] == 0
    assert drafted["unreached"] == 3  # one level of three
    opened.press("End")
    opened.driver.evaluate(f"{CURSOR}.go(0, 99)")
    opened.settle()
    outcomes = [v.outcome.value for v in TRACE.rounds[0].verdicts]
    done = opened.driver.evaluate(count)
    for role in ("accepted", "rejected", "unreached"):
        assert done[role] == outcomes.count(role)


def test_a_dragged_draw_flips_the_verdict_and_stays_a_thought(opened: StepDriver) -> None:
    step = opened.afresh("draft-model.code")
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


def test_an_address_leads_back_to_its_moment(opened: StepDriver) -> None:
    opened.press("n", "n", "ArrowRight")
    here = opened.place
    opened.page.wait_for_timeout(400)
    assert f"trace={NAME}&round={here[0] + 1}&pos={here[1] + 1}" in opened.driver.evaluate(
        "location.search"
    )
    opened.driver.reload()
    again = StepDriver(opened.driver)
    assert again.place == here


def test_a_saved_run_is_the_same_run_and_opens_again(opened: StepDriver, tmp_path: Path) -> None:
    step = opened.afresh("dynamic-tree.maths")
    with step.page.expect_download() as download:
        step.driver.ref("stepSave").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert load(path) == golden_trace("dynamic-tree.maths")
    step.driver.ref("stepFile").set_input_files(path)
    step.driver.until(f"specviz.debugger.source.startsWith('kept-') && {CURSOR}.trace.ending")
    step.press("Shift+ArrowRight")
    step.page.wait_for_timeout(500)
    step.driver.reload()
    again = StepDriver(step.driver)
    assert again.place[0] == 1
    assert len(again.rounds()) == len(golden_trace("dynamic-tree.maths").rounds)


HOSTILE: list[tuple[str, bytes]] = [
    ("text", b"hello"),
    ("empty", b""),
    ("list", b"[]"),
    ("torn gzip", gzip.compress(b"{}", mtime=0)[:9]),
    ("deep", b"[" * 100_000),
    ("not finite", dumps(random_trace(1)).replace(b'"seconds":', b'"seconds":NaN,"x":', 1)),
]


@pytest.mark.parametrize(("name", "data"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_broken_file_is_refused_and_nothing_is_lost(
    opened: StepDriver, tmp_path: Path, name: str, data: bytes
) -> None:
    opened.press("n")
    here = opened.place
    (tmp_path / "run.json").write_bytes(data)
    opened.driver.ref("stepFile").set_input_files(tmp_path / "run.json")
    opened.page.wait_for_selector("[data-ref=stepError]:visible")
    assert opened.driver.text("stepError").startswith("trace")
    assert opened.place == here and opened.driver.ref("stepTrace").input_value() == NAME


def test_markup_in_a_token_stays_text(opened: StepDriver, tmp_path: Path) -> None:
    hostile = json.loads(dumps(TRACE))
    hostile["tokens"]["text"] = [f"<img src=x onerror=pwned=1>{i}" for i in hostile["tokens"]["id"]]
    hostile["prompt"] = "<script>window.pwned=1</script>${window.pwned=1}"
    (tmp_path / "run.json").write_text(json.dumps(hostile))
    opened.driver.ref("stepFile").set_input_files(tmp_path / "run.json")
    opened.driver.until(f"specviz.debugger.source.startsWith('kept-') && {CURSOR}.trace.ending")
    opened.press("n", "ArrowRight", "ArrowRight")
    assert opened.driver.evaluate("window.pwned ?? null") is None
    assert opened.page.locator("[data-specviz] img").count() == 0


def test_an_unknown_recording_is_a_sentence(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, "?view=step&trace=nonsense")
    driver.page.wait_for_selector("[data-ref=stepError]:visible")
    assert driver.text("stepError").startswith("trace must be one of")


def test_the_race_of_the_page_is_followed_live_and_stays(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?tokens=120")
    driver.press_race()
    driver.page.locator("[data-page=step]").click()
    driver.until(f"{CURSOR}.trace === specviz.page.trace && {CURSOR}.trace.rounds.length > 2")
    driver.ref("stepFollow").click()
    driver.until(f"{CURSOR}.round > 5")
    driver.wait_for_end()
    step = StepDriver(driver)
    assert step.place[0] == driver.rounds - 1
    step.press("Home", "n")
    step.page.wait_for_timeout(500)
    here = step.place
    driver.reload()
    assert StepDriver(driver).place == here


def test_two_recordings_stand_side_by_side_with_what_differs_first(opened: StepDriver) -> None:
    opened.driver.ref("compareWith").select_option("draft-model.code")
    opened.driver.until("!specviz.debugger.compare.transport.isBusy")
    opened.page.wait_for_selector("[data-ref=differenceRow]:visible")
    opened.driver.until(
        "document.querySelector('[data-ref=difference]').textContent.includes('prompt')"
    )
    assert opened.driver.ref("otherText").is_visible()
    opened.driver.ref("compareWith").select_option("")
    opened.settle()
    assert not opened.driver.ref("otherText").is_visible()


def test_choosing_in_haste_ends_with_the_last_choice(opened: StepDriver) -> None:
    for name in ("medusa.summarise", "eagle.code", "lookahead.maths"):
        opened.driver.ref("stepTrace").select_option(name)
    opened.driver.until(f"!specviz.debugger.transport.isBusy && {CURSOR}.trace.ending")
    assert opened.driver.evaluate("specviz.debugger.source") == "lookahead.maths"
    assert len(opened.rounds()) == len(golden_trace("lookahead.maths").rounds)


def test_a_link_to_a_live_run_that_is_gone_says_so(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, "?view=step&round=3&pos=2")
    driver.page.wait_for_selector("[data-ref=stepError]:visible")
    assert driver.text("stepError").startswith("The run of this link was still going on")
    StepDriver(driver)


def test_an_address_beyond_the_run_leads_to_its_end(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, f"?view=step&trace={NAME}&round=999&pos=999")
    step = StepDriver(driver)
    driver.until(f"{CURSOR}.trace.ending")
    step.settle()
    assert step.place == (LAST, moments(TRACE.rounds[-1]) - 1)


def test_a_race_stopped_before_it_began_leaves_no_complaint(
    open_page: OpenPage, random_url: str
) -> None:
    first, second = (open_page(random_url, "?tokens=200") for _ in range(2))
    first.press_race()
    first.wait_for_rounds()
    second.press_race()
    second.page.wait_for_timeout(700)
    second.page.keyboard.press("Escape")
    second.wait_for_end()
    first.page.keyboard.press("Escape")
    first.wait_for_end()
    assert second.evaluate("specviz.page.trace.header") is None
