"""What a visitor sees first: a recorded race that plays, their own one again, experiments."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Route

from specviz.golden import OPENING, SAMPLED, SAMPLED_ROUND, golden_trace
from specviz.ui.course.course import course_offer
from specviz.ui.lab.lab import lab_offer
from specviz.ui.setup import page_setup
from tests.browser.app_server import exit_code
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

PLAYBACK = "specviz.race.view.playback"
IS_PLAYING = f"{PLAYBACK}.isPlaying"
FREEZE = f"{PLAYBACK}.tick = () => delete {PLAYBACK}.tick"  # no further frame is asked for
NOTE_PLAY = (
    f"{{ const p = {PLAYBACK}; p.play = () => (delete p.play, p.play(), window.played = 1); 0 }}"
)
WHOLE = f"!{IS_PLAYING} && document.querySelectorAll('.lane .token.is-later').length === 0"


def test_a_visitor_sees_a_recorded_race_play_and_their_own_one_again_at_its_end(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, reduced_motion="no-preference")
    tab.until(f"{IS_PLAYING} && specviz.race.view.cursor.round > 0")
    assert tab.query == ""  # nobody has asked for a setting
    tab.reload()
    so_far = "/first [0-9]+ tokens? so far$/.test(specviz.race.refs.speedupWord.textContent)"
    tab.until(f"{IS_PLAYING} && {so_far} && !!({FREEZE})")
    assert "Quantised self" in tab.text("recordedNotice")  # the form's models are others here
    assert "slowed" in tab.text("moment")
    assert tab.evaluate(f"{PLAYBACK}.ended < specviz.race.trace.rounds.length")
    assert tab.page.locator(".lane .token.is-later").first.is_hidden()
    assert tab.lane_text("baseline").startswith(text_of_the_opening())
    assert tab.page.locator(".lane .prompt.is-question").count() == 2  # on a line of its own
    assert tab.ref("staleNotice").is_hidden() and tab.errors == []
    assert "Once a run has ended" in tab.text("raceRedraw")
    tab.page.locator("a[href='#why-exact']").first.click()  # of the whole run
    tab.until(WHOLE)
    tab.until("!specviz.race.refs.raceRedraw.innerText.includes('Once a run has ended')")
    # nothing is drawn in this run: another recording shows it
    tab.until("specviz.race.recording === specviz.race.sampled && !specviz.race.trace.isGreedy")
    assert not tab.evaluate("specviz.race.view.inspector.redraw.proof.open")
    tab.fill("maxNewTokens", "12")
    tab.evaluate(NOTE_PLAY)
    tab.press_race()
    tab.wait_for_rounds()
    assert tab.ref("recordedNotice").is_hidden()
    tab.until(f"window.played && {WHOLE}")
    assert "is selected below" in tab.text("selection")
    verdict = tab.text("speedupWord").removeprefix("the baseline’s speed: ")
    assert verdict in ("faster", "slower", "about equal")
    assert tab.text("baselineMeta").endswith("finished")
    assert tab.text("speculativeMeta").endswith("finished")


def test_no_class_of_a_model_is_imported_before_the_page_is_served(random_url: str) -> None:
    assert exit_code(gather_what_is_served_first) == 0


def gather_what_is_served_first() -> None:
    page_setup()
    lab_offer()
    course_offer()
    sys.exit("transformers.modeling_utils" in sys.modules)


PLOTLY = "**/plotly.min.js"
HAS_CHART = "document.querySelector('[data-ref=speedupChart] .main-svg') !== null"


def test_the_recorded_race_plays_before_charts_can_be_drawn_and_they_come_by_themselves(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, reduced_motion="no-preference")
    held: list[Route] = []
    tab.page.route(PLOTLY, lambda route: held.append(route))
    tab.page.goto(random_url)
    tab.until(f"window.specviz && {IS_PLAYING} && specviz.race.view.cursor.round > 0")
    assert held and not tab.evaluate(HAS_CHART)
    held[0].continue_()
    tab.until(HAS_CHART)
    tab.page.unroute(PLOTLY)
    tab.may_complain = True  # of a file that does not come
    tab.page.route(PLOTLY, lambda route: route.abort())
    tab.page.goto(random_url)
    tab.until("document.querySelector('[data-ref=speedupChart]')?.innerText.includes('Reload')")
    tab.page.unroute(PLOTLY)


def test_a_link_with_a_setting_leads_to_that_setting_and_to_no_recording(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=9")
    assert tab.evaluate("specviz.race.trace.header") is None
    assert tab.ref("recordedNotice").is_hidden()


# What of the first screen is left below the lanes' heads; whether the form comes after the lanes.
BELOW = (
    "innerHeight - document.querySelector('.lane:last-of-type .ribbon').getBoundingClientRect().top"
)
FOLD = "innerHeight - specviz.race.refs.strip.getBoundingClientRect().bottom"
IS_FORM_AFTER = """specviz.race.refs.lanes.compareDocumentPosition(specviz.race.refs.form)
    === Node.DOCUMENT_POSITION_FOLLOWING"""


def test_who_wants_less_motion_finds_the_recorded_race_at_its_end_and_a_phone_shows_it_first(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, viewport={"width": 390, "height": 844})
    assert tab.ref("recordedNotice").is_visible()
    assert tab.evaluate(WHOLE)
    assert tab.evaluate(BELOW) > 100 and tab.evaluate(IS_FORM_AFTER)
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.until(f"!({IS_FORM_AFTER})")  # it moves a frame after the window
    assert tab.evaluate(BELOW) > 100
    assert tab.evaluate(FOLD) >= 0
    for ref in ("speedup", "textVerdict"):  # what came of the race, without scrolling
        assert tab.ref(ref).bounding_box()["y"] > 0 and "Identical" in tab.text("textVerdict")
    tab.page.locator("[data-page=step]").first.click()
    tab.until("specviz.step.view.trace?.rounds.length > 0")
    assert SAMPLED in tab.query  # more is to be seen in it than at temperature 0


def test_a_visitor_who_begins_with_the_debugger_finds_accepted_and_rejected_draws(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?view=step")
    tab.until("specviz.step.view.trace?.rounds.length > 0")
    assert SAMPLED in tab.query
    outcomes = tab.evaluate("specviz.step.view.trace.rounds.flatMap((each) => each.outcomes)")
    assert {"accepted", "rejected"} <= set(outcomes)
    tab.until(f"specviz.step.view.cursor.round === {SAMPLED_ROUND - 1}")
    first = "specviz.step.view.trace.rounds[specviz.step.view.cursor.round].outcomes.slice(0, 2)"
    assert tab.evaluate(first) == ["accepted", "rejected"]


def test_at_temperature_0_one_press_races_the_question_with_draws_and_draws_it_anew(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=8")
    tab.race()
    tab.page.get_by_role("button", name="Race this question at temperature 0.7").click()
    tab.until("specviz.race.view.inspector.redraw.redraw?.count === 1000")
    assert tab.evaluate("specviz.race.trace.main.config.temperature") == 0.7
    assert tab.evaluate("specviz.race.form.fields.temperature") == "0.7"
    assert tab.ref("textVerdict").is_visible() and tab.ref("staleNotice").is_hidden()
    assert not tab.evaluate(IS_PLAYING)


def test_without_models_the_draws_are_a_recording_s_and_ones_own_race_comes_back(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=8")
    tab.race()
    own = tab.lane_text("speculative")
    tab.evaluate("specviz.race.showSampled()")
    tab.until("specviz.race.view.inspector.redraw.redraw?.count === 1000")
    assert "not your setting" in tab.text("recordedNotice")
    tab.page.get_by_role("button", name="Back to your race").click()
    tab.ref("ownNotice").wait_for()
    tab.until("specviz.race.trace.ending !== null")
    tab.settle()
    assert tab.lane_text("speculative") == own and tab.ref("recordedNotice").is_hidden()


def test_a_link_to_why_it_is_exact_shows_a_place_drawn_anew(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "#why-exact")
    tab.until("specviz.race.view.inspector.redraw.redraw?.count === 1000")
    assert tab.evaluate("specviz.race.view.cursor.round") == SAMPLED_ROUND - 1
    assert "kept 92." in tab.text("raceRedraw")
    assert tab.text("proofRun").startswith("Of a recording, not of your setting: Draft model")
    tab.until_steady()
    strip = tab.page.locator(".race .timeline").bounding_box()
    assert strip["y"] + strip["height"] <= tab.ref("proof").bounding_box()["y"] < 500


SLOW_TO_KEEP = """(() => {
    const { blob } = Response.prototype;
    const later = () => new Promise((done) => setTimeout(done, 2000));
    Response.prototype.blob = async function () { await later(); return blob.call(this); };
})()"""


def test_a_race_that_is_not_kept_yet_comes_back_from_behind_a_recording(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=8")
    tab.evaluate(SLOW_TO_KEEP)
    tab.race()
    own = tab.lane_text("speculative")
    tab.evaluate("specviz.race.showSampled()")
    tab.page.get_by_role("button", name="Back to your race").click()
    tab.ref("ownNotice").wait_for()
    tab.until("specviz.race.trace.ending !== null")
    tab.settle()
    assert tab.lane_text("speculative") == own


@pytest.mark.slow
def test_in_the_debugger_one_press_races_the_question_with_draws_or_shows_a_recording_of_them(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, f"?view=step&trace={OPENING}")
    tab.until("specviz.step.view.trace?.rounds.length > 0")
    tab.page.get_by_role("button", name="Race the question of the race page at temp").click()
    drawn = "specviz.step.view.views.redraw.redraw?.count === 1000"
    tab.until(drawn)
    assert tab.evaluate("specviz.step.view.trace === specviz.race.trace")
    assert tab.evaluate("specviz.race.trace.main.config.temperature") == 0.7
    assert tab.evaluate("specviz.race.trace.header.prompt === specviz.race.form.order.prompt")
    tab.evaluate("specviz.step.showSampled()")
    tab.until(f"location.search.includes('{SAMPLED}')")
    tab.until(f"specviz.step.source === '{SAMPLED}' && {drawn}")
    assert tab.errors == []


def text_of_the_opening() -> str:
    """But for its end, which the page says in words."""
    trace = golden_trace(OPENING)
    texts = dict(trace.token_texts)
    return "".join(texts[each] or "∅" for each in trace.baseline.emitted_ids[:-1])


@pytest.mark.slow
def test_an_experiment_asks_first_and_answers_after_all_of_its_runs(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    tab.ref("openPresets").click()
    tab.page.locator("[data-preset=draft-length]").click()
    assert tab.text("presetQuestion").endswith("?")
    assert tab.ref("presetAnswer").is_hidden()
    for at, label in enumerate(("Race: K = 1", "Race: K = 12", "Race: K = 4")):
        assert tab.ref("presetAnswer").is_hidden()
        tab.page.get_by_role("button", name=label, exact=True).click()
        tab.wait_for_end()
        row = tab.page.locator("[data-ref=presetRuns] li").nth(at)
        assert "× the baseline’s speed" in row.inner_text()
        assert tab.evaluate("!specviz.race.view.playback.isPlaying"), "beneath its numbers"
    answer = tab.text("presetAnswer")
    assert "at K = 12" in answer and "{" not in answer and "–" not in answer
    assert tab.ref("draftLength").input_value() == "4"
    assert "k=4" in tab.query
    tab.ref("presetClose").click()
    assert tab.ref("preset").is_hidden()
