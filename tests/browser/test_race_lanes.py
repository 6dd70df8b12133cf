"""The race page has a card for each lane that the header of a race names."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
from playwright.sync_api import ViewportSize

from specviz.experiments.run.recorded_race import Replay
from specviz.records import Lane, Trace
from specviz.ui.race_messages import RaceMessages
from tests.browser.race_driver import RaceDriver
from tests.random_traces import random_trace, three_lanes

Open = Callable[..., RaceDriver]
TWO = [("baseline", "Baseline"), ("speculative", "Speculative")]
THREE = [*TWO, ("generate", "Library · generate")]


def show(tab: RaceDriver, trace: Trace) -> None:
    """Feed the page with what the server sends of this race."""
    messages = list(RaceMessages(Replay(trace)).messages(threading.Event()))
    texts = json.dumps([json.dumps(each) for each in messages])
    tab.evaluate(f"for (const text of {texts}) specviz.race.view.take(JSON.parse(text))")
    tab.evaluate("specviz.race.view.draw()")


def cards(tab: RaceDriver) -> list[tuple[str, str]]:
    """Name and title of each card, in the page's order."""
    script = """(all) => all.map(({ dataset, firstElementChild: header }) =>
        [dataset.lane, header.querySelector("h2").firstChild.textContent])"""
    found = tab.page.locator(".lanes > .lane").evaluate_all(script)
    return [(name, title) for name, title in found]


def text_of(trace: Trace, lane: Lane) -> str:
    texts = dict(trace.token_texts)
    return "".join(texts[each] or "∅" for each in lane.emitted_ids)


@pytest.fixture
def tab(random_url: str, turn_page: Open) -> RaceDriver:
    return turn_page(random_url)


def forward_words(count: int) -> str:
    """The prompt's own forward is counted apart, so that the rest are the rounds."""
    return f"prompt + {count - 1} target forward{'s' * (count != 2)}"


def test_before_any_race_there_are_two_cards(random_url: str, open_page: Open) -> None:
    assert cards(open_page(random_url)) == TWO


def test_three_lanes_have_a_card_with_text_and_numbers_each(tab: RaceDriver) -> None:
    trace = three_lanes()
    show(tab, trace)
    assert cards(tab) == THREE
    assert tab.ref("lanes").get_attribute("aria-label") == "The three texts"
    for lane in trace.lanes:
        assert tab.lane_text(lane.name) == text_of(trace, lane) != ""
        tokens, forwards = len(lane.emitted_ids), 1 + len(lane.rounds) + len(lane.steps)
        seconds = f"{lane.seconds:.2f}\N{NO-BREAK SPACE}s"
        numbers = f"{tokens} tokens · {forward_words(forwards)} · {seconds} · finished"
        assert tab.text(f"{lane.name}Meta") == numbers
        rate = tokens / lane.seconds
        assert tab.text(f"{lane.name}Rate") == f"{rate:.{1 if rate < 100 else 0}f}"


def test_at_a_round_each_lane_counts_the_forwards_that_it_had_taken_by_then(
    tab: RaceDriver,
) -> None:
    trace = three_lanes()
    show(tab, trace)
    tab.evaluate("specviz.race.view.timeDraw(2)")
    ours = trace.main
    assert ours.prefill
    moment = ours.prefill.seconds + sum(each.seconds for each in ours.rounds[:3])
    for lane in trace.lanes:
        clock, forwards = 0.0, 0
        for event in list(lane.events)[:-1]:
            clock += getattr(event, "seconds", 0.0)
            forwards += clock <= moment + 1e-9
        assert f" · {forward_words(forwards)} · " in tab.text(f"{lane.name}Meta")
    assert "prompt + 3 target forwards" in tab.text("speculativeMeta")


def test_at_temperature_zero_each_text_marks_where_it_leaves_the_baselines(
    tab: RaceDriver,
) -> None:
    trace = three_lanes(temperature=0)
    assert trace.baseline
    show(tab, trace)
    ribbon = "specviz.race.view.lanes.ribbons.{}"
    places = f"(spans) => spans.map((span) => {ribbon}.spans.indexOf(span))"
    plain, theirs = trace.baseline.emitted_ids, trace.lane("generate").emitted_ids
    first = next(at for at, pair in enumerate(zip(plain, theirs, strict=False)) if len({*pair}) > 1)
    for name, expected in (("baseline", [first]), ("speculative", []), ("generate", [first])):
        marked = tab.ref(f"{name}Ribbon").locator(".differs")
        assert marked.evaluate_all(places.format(name)) == expected


def test_a_race_of_two_lanes_after_it_has_two_cards_again(tab: RaceDriver) -> None:
    show(tab, three_lanes())
    trace = random_trace(5, rounds=4)
    show(tab, trace)
    assert cards(tab) == TWO
    assert tab.ref("lanes").get_attribute("aria-label") == "The two texts"
    for lane in trace.lanes:
        assert tab.lane_text(lane.name) == text_of(trace, lane)


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (950, 2), (1440, 3)])
def test_cards_stand_beside_each_other_where_there_is_room(
    random_url: str, turn_page: Open, width: int, columns: int
) -> None:
    tab = turn_page(random_url, viewport=ViewportSize(width=width, height=900))
    show(tab, three_lanes())
    script = "(all) => all.map((card) => card.getBoundingClientRect().left)"
    assert len(set(tab.page.locator(".lanes > .lane").evaluate_all(script))) == columns
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_who_scrolls_one_text_reads_the_same_lines_in_the_other(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, viewport=ViewportSize(width=390, height=844))
    show(tab, random_trace(5, rounds=40))
    ribbons = "Object.values(specviz.race.view.lanes.ribbons).map(({ box }) => box.scrollTop)"
    tab.evaluate("specviz.race.view.select(30)")
    tab.settle()
    tab.ref("baselineRibbon").hover()
    tab.page.mouse.wheel(0, -5000)
    tab.until(f"{ribbons}.every((top) => top === 0)")
    tab.page.mouse.wheel(0, 60)
    tab.until(f"{ribbons}.every((top) => top > 0 && top === {ribbons}[0])")
    tab.evaluate("specviz.race.view.draw()")  # drawn again, it stays where it is read
    assert len(set(tab.evaluate(ribbons))) == 1
    tab.evaluate("specviz.race.view.select(31)")
    tab.settle()
    assert tab.evaluate("specviz.race.view.lanes.ribbons.speculative.isGoalInSight")
