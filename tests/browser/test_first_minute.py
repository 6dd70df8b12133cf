"""A new visitor sees a recorded race play, runs their own race, and tries experiments."""

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
from tests.browser.contexts import Contexts
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

PLAYBACK = "specviz.race.view.playback"
IS_PLAYING = f"{PLAYBACK}.isPlaying"
# A script that stops the playback. The playback then requests no further frame.
FREEZE = f"{PLAYBACK}.tick = () => delete {PLAYBACK}.tick"
WHOLE = f"!{IS_PLAYING} && document.querySelectorAll('.lane .token.is-later').length === 0"


def test_a_visitor_sees_a_recorded_race_play_and_then_runs_their_own(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, reduced_motion="no-preference")
    tab.until(f"{IS_PLAYING} && specviz.race.view.cursor.round > 0")
    assert tab.query == ""  # the address names no setting, so the page starts with its defaults
    tab.reload()
    so_far = "/, so far$/.test(specviz.race.refs.speedupWord.textContent)"
    tab.until(f"{IS_PLAYING} && {so_far} && !!({FREEZE})")
    # The form selects other models than those of the recording.
    assert "Quantised self" in tab.text("recordedNotice")
    assert "slowed" in tab.text("moment")
    assert tab.evaluate(f"{PLAYBACK}.ended < specviz.race.trace.rounds.length")
    assert tab.page.locator(".lane .token.is-later").first.is_hidden()
    assert tab.lane_text("baseline").startswith(text_of_the_opening())
    # each lane shows the prompt's question on its own line
    assert tab.page.locator(".lane .prompt.is-question").count() == 2
    assert tab.ref("staleNotice").is_hidden() and tab.errors == []
    assert "After a run has ended" in tab.text("raceRedraw")
    # The link opens the proof of exactness, which needs a whole run. So the page ends the playback
    # at once.
    tab.page.locator("a[href='#why-exact']").first.click()
    tab.until(WHOLE)
    tab.until("!specviz.race.refs.raceRedraw.innerText.includes('After a run has ended')")
    # The proof needs a run that uses random draws. The opening run is greedy and uses none, so the
    # page shows another recording.
    tab.until("specviz.race.recording === specviz.race.sampled && !specviz.race.trace.isGreedy")
    assert not tab.evaluate("specviz.race.view.inspector.redraw.proof.open")
    tab.fill("maxNewTokens", "12")
    tab.race()
    assert tab.ref("recordedNotice").is_hidden()
    assert tab.evaluate(WHOLE)  # the page still shows the end of the race and does not replay it
    assert "is selected below" in tab.text("selection")
    verdict = tab.text("speedupWord").removeprefix("the baseline’s speed: ")
    assert verdict in ("faster", "slower", "about equal")
    assert tab.text("baselineMeta").endswith("finished")
    assert tab.text("speculativeMeta").endswith("finished")


def test_the_page_is_served_before_any_model_class_is_imported(random_url: str) -> None:
    assert exit_code(gather_what_is_served_first) == 0


def gather_what_is_served_first() -> None:
    page_setup()
    lab_offer()
    course_offer()
    sys.exit("transformers.modeling_utils" in sys.modules)


ASKS = "**/component_server/"
BRINGS = ("look", "hear", "open")


def test_a_setting_may_be_changed_before_the_opening_recording_has_arrived(
    random_url: str, contexts: Contexts
) -> None:
    held: list[Route] = []
    may_come: list[bool] = []

    def hold(route: Route) -> None:
        if not may_come and route.request.post_data_json["fn_name"] in BRINGS:
            held.append(route)
        else:
            route.continue_()

    tab = RaceDriver(contexts.take(), random_url)
    tab.page.route(ASKS, hold)
    tab.page.goto(random_url)
    tab.until("window.specviz?.race?.recording && !specviz.race.trace.header")
    tab.evaluate("specviz.race.refs.more.open = true")
    for number in range(2):
        tab.fill("maxNewTokens", str(100 + number))
        tab.until(f"specviz.race.form.order.max_new_tokens === '{100 + number}'")
    assert tab.complaints == [] and tab.ref("proofRun").is_hidden()
    may_come.append(True)
    for route in held:
        route.continue_()
    tab.until("!!specviz.race.trace.header")
    assert "Of a recording, not of your setting" in tab.text("proofRun")
    assert tab.complaints == []
    contexts.give_back(tab)


PLOTLY = "**/plotly.min.js"
HAS_CHART = "document.querySelector('[data-ref=speedupChart] .main-svg') !== null"


def test_the_recorded_race_plays_before_charts_can_be_drawn_and_the_charts_follow(
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
    tab.may_complain = True  # the test blocks the file of Plotly, so the browser reports an error
    tab.page.route(PLOTLY, lambda route: route.abort())
    tab.page.goto(random_url)
    tab.until("document.querySelector('[data-ref=speedupChart]')?.innerText.includes('Reload')")
    tab.page.unroute(PLOTLY)


def test_a_link_with_settings_shows_those_settings_and_no_recording(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=9")
    assert tab.evaluate("specviz.race.trace.header") is None
    assert tab.ref("recordedNotice").is_hidden()


# A script that returns the number of pixels between the headers of the lanes and the lower edge of
# the window.
BELOW = (
    "innerHeight - document.querySelector('.lane:last-of-type .ribbon').getBoundingClientRect().top"
)
FOLD = "innerHeight - specviz.race.refs.strip.getBoundingClientRect().bottom"
IS_FORM_AFTER = """specviz.race.refs.lanes.compareDocumentPosition(specviz.race.refs.form)
    === Node.DOCUMENT_POSITION_FOLLOWING"""


def test_with_reduced_motion_the_recorded_race_is_shown_at_its_end(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, viewport={"width": 390, "height": 844})
    assert tab.ref("recordedNotice").is_visible()
    assert tab.evaluate(WHOLE)
    assert tab.evaluate(BELOW) > 100 and tab.evaluate(IS_FORM_AFTER)
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.until(f"!({IS_FORM_AFTER})")  # the form moves one frame after the window was resized
    assert tab.evaluate(BELOW) > 100
    assert tab.evaluate(FOLD) >= 0
    for ref in ("speedup", "textVerdict"):  # both must be visible without scrolling
        assert tab.ref(ref).bounding_box()["y"] > 0 and "Identical" in tab.text("textVerdict")
    tab.page.locator("[data-page=step]").first.click()
    # The link opens another recording, which uses draws. The page writes the recording's name into
    # its address after the whole recording has arrived.
    tab.until(f"location.search.includes('trace={SAMPLED}')")


def test_a_visitor_who_starts_with_the_debugger_finds_accepted_and_rejected_draws(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?view=step")
    tab.until(f"location.search.includes('trace={SAMPLED}')")
    outcomes = tab.evaluate("specviz.step.view.trace.rounds.flatMap((each) => each.outcomes)")
    assert {"accepted", "rejected"} <= set(outcomes)
    tab.until(f"specviz.step.view.cursor.round === {SAMPLED_ROUND - 1}")
    first = "specviz.step.view.trace.rounds[specviz.step.view.cursor.round].outcomes.slice(0, 2)"
    assert tab.evaluate(first) == ["accepted", "rejected"]


def test_at_temperature_0_one_click_races_the_same_prompt_with_draws(
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


def test_without_models_a_recording_shows_the_draws_and_the_user_s_race_returns(
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


def test_a_link_to_the_proof_of_exactness_shows_a_redrawn_position(
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


def test_an_unsaved_race_returns_after_a_recording_was_shown(
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
def test_in_the_debugger_one_click_races_with_draws_or_shows_such_a_recording(
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


def test_ask_something_else_empties_the_prompt_but_keeps_a_typed_one(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url)
    tab.ref("askElse").click()
    prompt = tab.ref("prompt")
    assert prompt.input_value() == "" and tab.evaluate("document.activeElement.id") == "sv-prompt"
    prompt.fill("Why?")
    tab.ref("askElse").click()
    assert prompt.input_value() == "Why?"


def text_of_the_opening() -> str:
    """Return the opening recording's text without its end token, which the page shows as words."""
    trace = golden_trace(OPENING)
    texts = dict(trace.token_texts)
    return "".join(texts[each] or "∅" for each in trace.baseline.emitted_ids[:-1])


@pytest.mark.slow
def test_an_experiment_asks_first_and_answers_after_all_its_runs(
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
