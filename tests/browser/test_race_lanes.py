"""The race page has a card for each lane that a race's header names."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize

from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod
from specviz.environment import Environment
from specviz.experiments.run.engine_lane import SAMPLE
from specviz.experiments.run.recorded_race import Replay
from specviz.models.files.survey import survey_model
from specviz.models.pair_catalog import pair_named
from specviz.records import Lane, Trace
from specviz.trace_file import load
from specviz.ui.race_messages import RaceMessages
from tests.browser.axe_findings import findings
from tests.browser.race_driver import HAS_BEGUN, RaceDriver
from tests.random_traces import random_trace, three_lanes
from tests.serving.odd_server import END, like_vllm, server, tokens

Open = Callable[..., RaceDriver]
TWO = [("baseline", "Baseline"), ("speculative", "Speculative")]
THREE = [*TWO, ("generate", "Library · generate")]


def show(tab: RaceDriver, trace: Trace) -> None:
    """Send the page the server's messages for this race."""
    messages = list(RaceMessages(Replay(trace)).messages(threading.Event()))
    texts = json.dumps([json.dumps(each) for each in messages])
    tab.evaluate(f"for (const text of {texts}) specviz.race.view.take(JSON.parse(text))")
    tab.evaluate("specviz.race.view.draw()")


def cards(tab: RaceDriver) -> list[tuple[str, str]]:
    """Return the name and title of each card, in the page's order."""
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
    """Return the page's text for `count` forwards of the target, one of which runs the prompt."""
    return f"prompt + {count - 1} target forward{'s' * (count != 2)}"


def test_before_a_race_there_are_two_cards(random_url: str, open_page: Open) -> None:
    assert cards(open_page(random_url)) == TWO


def test_each_of_three_lanes_has_a_card_with_text_and_numbers(tab: RaceDriver) -> None:
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


def test_at_a_round_each_lane_shows_its_forwards_up_to_that_moment(
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


def test_at_temperature_0_each_text_is_marked_where_it_differs_from_the_baseline(
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


def test_a_later_race_of_two_lanes_has_two_cards_again(tab: RaceDriver) -> None:
    show(tab, three_lanes())
    trace = random_trace(5, rounds=4)
    show(tab, trace)
    assert cards(tab) == TWO
    assert tab.ref("lanes").get_attribute("aria-label") == "The two texts"
    for lane in trace.lanes:
        assert tab.lane_text(lane.name) == text_of(trace, lane)


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (950, 2), (1440, 3)])
def test_cards_are_side_by_side_if_the_page_is_wide_enough(
    random_url: str, turn_page: Open, width: int, columns: int
) -> None:
    tab = turn_page(random_url, viewport=ViewportSize(width=width, height=900))
    show(tab, three_lanes())
    script = "(all) => all.map((card) => card.getBoundingClientRect().left)"
    assert len(set(tab.page.locator(".lanes > .lane").evaluate_all(script))) == columns
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_scrolling_one_text_scrolls_the_other_to_the_same_lines(
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
    tab.evaluate("specviz.race.view.draw()")  # drawing again must not scroll the text
    assert len(set(tab.evaluate(ribbons))) == 1
    tab.evaluate("specviz.race.view.select(31)")
    tab.settle()
    assert tab.evaluate("specviz.race.view.lanes.ribbons.speculative.isGoalInSight")


SPANS = "specviz.race.view.lanes.ribbons.server?.spans.length === {}"
KEPT = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }])"


def saved_by_step(tab: RaceDriver, folder: Path) -> Trace:
    """Return the race of the page as the debugger saves it to a file."""
    tab.page.locator("[data-page=step]").click()
    with tab.page.expect_download() as download:
        tab.ref("stepSave").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    tab.page.locator("[data-page=race]").click()
    return load(path)


def test_a_serving_engine_races_in_its_own_lane_and_its_key_is_stored_nowhere(
    app_url: str, turn_page: Open, tmp_path: Path
) -> None:
    """One of the two servers is real.

    The other address does not answer, and the page only reports that.
    """
    tab = turn_page(app_url, "?task=code&tokens=24&pair=bundled&method=draft-model")
    with engine_with(pair_named("bundled"), EngineMethod.DRAFT_MODEL, 3, "F32") as engine:
        tab.ref("raceServer").fill(engine.url)
        tab.ref("racePlainServer").fill("http://127.0.0.1:9")
        tab.ref("raceKey").fill("open-sesame")
        assert "2 servers" in tab.ref("foldedSettings").inner_text()
        tab.race()
    tab.evaluate("specviz.race.view.playback.arrive()")
    assert cards(tab)[2:] == [
        ("server", "Engine · server"),
        ("plain-server", "Engine · plain-server"),
    ]
    tab.until("specviz.race.view.lanes.cards[2].facts.textContent.startsWith('llama.cpp')")
    assert tab.lane_text("server") == tab.lane_text("baseline") != ""
    facts = tab.page.locator(".lanes .engine-facts")
    assert "drafted tokens accepted, which of them is unknown" in facts.first.inner_text()
    assert "the baseline’s text, token by token" in facts.first.inner_text()
    assert "target forwards unknown" in tab.ref("serverMeta").inner_text()
    assert "nothing listens there" in facts.last.inner_text()
    assert tab.ref("runState").inner_text().startswith("finished")
    assert "Identical text" in tab.text("textVerdict")
    assert "server" not in tab.address and "sesame" not in tab.address
    assert "sesame" not in tab.evaluate(KEPT) and engine.url not in tab.evaluate(KEPT)
    saved = saved_by_step(tab, tmp_path)
    assert saved.lane("server").emitted_ids == saved.emitted_ids
    assert saved.lane("server").engine.engine == "llama.cpp"
    assert "nothing listens there" in saved.lane("plain-server").engine.remark
    assert "the server: 24 tokens in " in (tab.ref("stepServers").text_content() or "")
    assert not findings(tab.page, ".race-servers") and not findings(tab.page, ".lanes")
    tab.ref("raceServer").fill("nonsense")
    tab.ref("race").click()
    error = tab.page.locator("#sv-race-server-error")
    error.filter(has_text="server must be the address of a server").wait_for()
    for name in ("raceServer", "racePlainServer", "raceKey"):
        tab.ref(name).fill("")


@pytest.fixture(scope="module")
def sample() -> list[int]:
    """Return the tokens of SAMPLE in the target's tokenizer.

    SAMPLE is the text that the app sends to a server to find out which tokenizer the server uses.
    """
    codec = survey_model(pair_named("bundled").target, Environment.read()).codec
    return list(codec.encode_part(SAMPLE))


def test_tokens_appear_while_a_server_writes_and_a_stop_keeps_them(
    app_url: str, turn_page: Open, tmp_path: Path, sample: list[int]
) -> None:
    looked, ended = threading.Event(), threading.Event()
    stream = [tokens(300, 301), lambda: looked.wait(60), tokens(302), lambda: ended.wait(60), END]
    tab = turn_page(app_url, "?task=code&tokens=12&pair=bundled&method=draft-model")
    with server(like_vllm(sample, *stream)) as (_, url):
        tab.ref("raceServer").fill(url)
        tab.press_race()
        tab.until(f"{HAS_BEGUN} && {SPANS.format(2)}")
        assert tab.is_busy and tab.text("runState") == "the server writes …"
        assert tab.text("serverMeta").startswith("2 tokens · ") and not looked.is_set()
        looked.set()
        tab.until(SPANS.format(3))
        tab.ref("stop").click()
        tab.wait_for_end()
        ended.set()
    tab.ref("raceServer").fill("")
    tab.evaluate("specviz.race.view.playback.arrive()")
    tab.settle()
    assert tab.text("runState").startswith("finished · the server’s answer was stopped")
    assert tab.text("serverMeta").startswith("3 tokens · ") and "stopped" in tab.text("serverMeta")
    assert tab.text("baselineMeta").endswith("finished") and "Identical" in tab.text("textVerdict")
    saved = saved_by_step(tab, tmp_path).lane("server")
    assert saved.emitted_ids == (300, 301, 302) and saved.finish is None
    assert saved.engine and saved.engine.engine == "vLLM" and saved.engine.drafted is None


def test_after_a_reload_during_a_server_s_answer_its_address_must_be_typed_again(
    app_url: str, open_page: Open, sample: list[int]
) -> None:
    """A reload after the end of the server's answer restores the server's lane."""
    ended = threading.Event()
    stream = [tokens(300, 301), lambda: ended.wait(60), tokens(302), END]
    tab = open_page(app_url, "?task=code&tokens=8&pair=bundled&method=draft-model")
    with server(like_vllm(sample, *stream)) as (_, url):
        tab.ref("raceServer").fill(url)
        tab.press_race()
        tab.until(f"{HAS_BEGUN} && {SPANS.format(2)}")
        tab.reload()
        ended.set()
        said = tab.text("lostNotice")
        assert "Your race was still running" in said and said.endswith("Run it again")
        assert "The server’s address and key are not stored. To race it again, first" in said
        assert tab.ref("raceServer").input_value() == "" and url not in str(tab.evaluate(KEPT))
        tab.ref("raceServer").fill(url)
        tab.ref("lostAgain").click()
        tab.until(f"!specviz.race.isBusy && {SPANS.format(3)}")
    assert tab.ref("lostNotice").is_hidden()
    shown = tab.text("serverMeta"), tab.page.locator(".lanes .engine-facts").inner_text()
    tab.rest()
    tab.reload()
    tab.until(SPANS.format(3))
    tab.evaluate("specviz.race.view.playback.arrive()")
    tab.settle()
    assert tab.ref("lostNotice").is_hidden()
    assert (tab.text("serverMeta"), tab.page.locator(".lanes .engine-facts").inner_text()) == shown


def test_each_repeat_asks_the_servers_again_and_their_spread_is_shown(
    app_url: str, turn_page: Open, sample: list[int]
) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8&pair=bundled&method=draft-model")
    answer = [tokens(*range(300, 308)), END]
    with (
        server(like_vllm(sample, *answer)) as (plain, one),
        server(like_vllm(sample, *answer)) as (drafting, two),
    ):
        tab.ref("racePlainServer").fill(one)
        tab.ref("raceServer").fill(two)
        assert "Repeat ×5 asks it in each repeat" in tab.text("raceServers")
        tab.race()
        before = [each.paths.count("/v1/completions") for each in (plain, drafting)]
        tab.evaluate("specviz.race.view.playback.arrive()")
        tab.ref("repeat").click()
        tab.until("!specviz.race.repeats.isOn && !specviz.race.isBusy")
        asked = [each.paths.count("/v1/completions") for each in (plain, drafting)]
    for name in ("raceServer", "racePlainServer"):
        tab.ref(name).fill("")
    tab.settle()
    assert (before, asked) == ([2, 2], [12, 12]), "a warm-up and the prompt each time, no more"
    assert "in 5 runs" in tab.text("serverSpeedup")
    facts = tab.page.locator(".lanes .engine-facts").all_inner_texts()
    assert all(each.count("tok/s in 5 runs") == 1 for each in facts)
    assert "With drafts vLLM has" in tab.text("serverSpeedup")
