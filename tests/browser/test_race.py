"""On real models, a race can be started, stopped and linked, and its numbers fit its moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.race_driver import HAS_BEGUN, RaceDriver

Open = Callable[..., RaceDriver]
# At each drawing, record what the page shows: the speedup, the words next to it, and the panel's
# heading. Also record the state of the race at that moment: the last value of the speedup curve,
# its number of tokens, and the round.
WATCH = """(() => { const { view } = specviz.race, seen = (window.seen = []);
    const text = (name) => view.refs[name].textContent;
    delete view.draw;
    const draw = view.draw.bind(view);
    view.draw = () => {
        draw();
        const { trace, replayed, cursor } = view;
        if (!trace.summary || !trace.rounds.length) return;
        const moment = replayed ? replayed.moment : Infinity;
        const { main, baseline } = trace;
        const ratio = main.rateAt(moment) / baseline.rateAt(moment);
        const said = ["speedup", "treeTitle"].map(text);
        const row = view.refs.verdicts.querySelector(".is-selected td");
        const token = view.refs.barsTitle.querySelector("b");
        const isBars = (view.inspector.shown ?? "").startsWith(`${cursor.round} ${cursor.node} `);
        said.push(row?.textContent === token?.textContent && (isBars || !replayed));
        seen.push([...said, ratio, cursor.round + 1]);
    }; })()"""
SEEN = "(() => { delete specviz.race.view.draw; return window.seen })()"


def test_both_texts_are_equal_at_temperature_0(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=40")
    tab.race()
    assert tab.lane_text("baseline") == tab.lane_text("speculative") != ""
    assert "Identical text" in tab.text("textVerdict")
    assert "40 of 40 tokens" in tab.text("textVerdict")
    assert tab.text("speedup").endswith("×")


def test_the_shown_speedup_and_round_always_belong_to_the_shown_moment(
    app_url: str, turn_page: Open
) -> None:
    tab = turn_page(app_url, "?task=story&tokens=64&temperature=0.7&seed=5")
    live = set[float]()
    while len(live) < 2:  # a slow page may draw a short race only once
        tab.evaluate(WATCH)
        tab.race()
        live |= the_ends(tab)
    tab.evaluate(WATCH)
    tab.evaluate("specviz.race.view.playback.play()")
    tab.until("!specviz.race.view.playback.isPlaying")
    assert len(the_ends(tab)) > 5
    for name in ("statsOf", "timesOf", "depthOf"):
        assert "of the whole run" in tab.text(name).lower()
    # After the selection of round 0, the lanes show that moment, but the speedup is still that of
    # the whole run.
    tab.evaluate("specviz.race.view.select(0)")
    tab.until("specviz.race.refs.speedupWord.textContent.endsWith(', over the whole run')")


def the_ends(tab: RaceDriver) -> set[float]:
    """Return all speedups that the page showed during a race.

    Each one must equal the ratio of the two lanes' rates at the moment when it was shown.
    """
    ends = set()
    for shown, heading, is_one_token, ratio, number in tab.evaluate(SEEN):
        assert heading.startswith(f"Round {number} · ")
        assert is_one_token, "the title, the table's row and the bars are of one token"
        if shown.endswith("×"):
            assert float(shown[:-1]) == pytest.approx(ratio, abs=0.051)
            ends.add(ratio)
    return ends


def test_above_temperature_0_the_page_claims_equal_distributions_and_links_the_proof(
    app_url: str, turn_page: Open
) -> None:
    tab = turn_page(app_url, "?task=story&tokens=16&temperature=0.8&seed=5")
    tab.race()
    assert "Same distribution" in tab.text("textVerdict")
    tab.page.get_by_role("link", name="Same distribution").click()
    assert tab.ref("proof").evaluate("(proof) => proof === document.activeElement")
    assert tab.rounds > 0  # the link did not load the page again, which would remove the race


def test_a_link_reproduces_the_settings_and_the_race(
    app_url: str, open_page: Open, turn_page: Open
) -> None:
    query = (
        "?task=maths&prompt=3&method=draft-tree&k=4&branching=3%2C2&drawing=without-replacement"
        "&temperature=0.7&top-k=50&top-p=0.9&seed=11&tokens=16"
    )
    first = turn_page(app_url, query)
    first.race()
    second = open_page(app_url, first.query)
    assert second.evaluate("specviz.race.form.order") == first.evaluate("specviz.race.form.order")
    assert second.text("promptPlace") == "3 of 40"
    second.race()
    assert second.lane_text("speculative") == first.lane_text("speculative")


def test_a_typed_prompt_is_part_of_the_link(app_url: str, open_page: Open, turn_page: Open) -> None:
    first = turn_page(app_url)
    first.page.get_by_role("radio", name="free").click()
    first.fill("prompt", "Once upon a time,\nthere was a café & a <b>")
    second = open_page(app_url, first.query)
    assert second.evaluate("specviz.race.form.order") == first.evaluate("specviz.race.form.order")
    assert second.evaluate("specviz.race.form.order.task") is None


def test_a_broken_link_says_what_it_could_not_read_and_still_works(
    app_url: str, open_page: Open
) -> None:
    tab = open_page(
        app_url, "?task=poems&method=magic&k=0&temperature=nan&prompt=41&branching=x&tokens=8"
    )
    notice = tab.text("linkNotice")
    for name in ("Task", "Method", "Draft length must", "Temperature", "Prompt", "Branching"):
        assert name in notice
    tab.race()
    assert tab.errors == []
    assert tab.rounds > 0


ROUNDS_WHEN_STOPPED = """
(async () => {
  const { transport } = specviz.race, ticket = transport.ticket;
  await transport.stop();
  const told = [];
  const next = () => transport.ask("look", { ticket, after: told.length });
  for (let more = await next(); more.messages.length; more = await next()) told.push(...more.messages);
  return told.filter((text) => JSON.parse(text).type === "round").length;
})()
"""  # noqa: E501


def test_a_stop_takes_effect_within_one_round(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=900")
    tab.press_race()
    tab.wait_for_rounds(3)
    when_stopped = tab.evaluate(ROUNDS_WHEN_STOPPED)
    tab.wait_for_end()
    assert tab.rounds <= when_stopped + 1
    assert tab.text("runState").startswith("stopped")


# True as soon as both lanes have at least 12 tokens, which is enough for a comparison. The number
# of rounds until then differs between runs.
IS_COMPARED = "specviz.race.view.trace.summary?.speedup_tokens >= 12"


def test_the_stop_button_and_the_escape_key_stop_the_race(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=900")
    for press in (tab.ref("stop").click, lambda: tab.page.keyboard.press("Escape")):
        tab.press_race()
        tab.until(f"{HAS_BEGUN} && {IS_COMPARED}")
        press()
        tab.wait_for_end()
        assert tab.text("runState").startswith("stopped")
        assert "up to where it was stopped" in tab.text("speedupWord")


@pytest.mark.slow
def test_a_race_can_be_started_and_stopped_four_times(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=64")
    for _ in range(4):
        tab.press_race()
        tab.page.keyboard.press("Escape")
        tab.wait_for_end()
        assert tab.errors == []
    tab.fill("maxNewTokens", "8")
    tab.race()
    assert tab.lane_text("baseline") == tab.lane_text("speculative") != ""


def test_a_double_click_starts_one_race(app_url: str, open_page: Open) -> None:
    tab = open_page(app_url, "?task=code&tokens=8")
    tab.evaluate("window.orders = 0")
    tab.evaluate(
        "(() => { const ask = specviz.race.transport.ask.bind(specviz.race.transport);"
        "specviz.race.transport.ask = (n, q) => {"
        "window.orders += n === 'join'; return ask(n, q); } })()"
    )
    tab.ref("race").dblclick()
    tab.wait_for_end()
    assert tab.evaluate("window.orders") == 1
    assert len(tab.lane_text("baseline")) > 0


LINES_OF_A_WORD = """[...document.querySelectorAll("[data-ref=repeatCommand] span")].map((word) => {
  const range = document.createRange();
  range.selectNodeContents(word);
  return [word.textContent, new Set([...range.getClientRects()].map(({ top }) => top)).size];
})"""


def test_flags_in_a_race_s_command_are_not_broken_at_hyphens(
    random_url: str, turn_page: Open
) -> None:
    command = (
        "python -m specviz race --repeat 5 --pair bundled --task code --prompt-number 1 "
        "--method prompt-lookup --max-new-tokens 64 --draft-length 12 --temperature 0.7"
    )
    tab = turn_page(random_url, "?tokens=6")
    tab.race()
    tab.evaluate(f"specviz.race.view.result.setCommand({command!r})")
    tab.ref("repeatHint").locator("summary").click()
    for width in (1400, 390):
        tab.page.set_viewport_size({"width": width, "height": 900})
        found = tab.evaluate(LINES_OF_A_WORD)
        assert found == [[word, 1] for word in command.split(" ")]
    assert tab.text("repeatCommand") == command


def test_loading_the_page_again_restores_its_race(random_url: str, open_page: Open) -> None:
    tab = open_page(random_url, "?tokens=6&seed=3")
    tab.race()
    numbers, text = tab.text("stats"), tab.lane_text("speculative")
    tab.page.locator("[data-page=lab]").click()
    tab.reload()
    tab.page.go_back()
    tab.until("specviz.race.view.trace.ending !== null && !specviz.race.isReopening")
    tab.settle()
    assert (tab.text("stats"), tab.lane_text("speculative")) == (numbers, text)
    assert tab.ref("staleNotice").is_hidden() and tab.errors == []
    tab.fill("maxNewTokens", "8")
    tab.race()
    assert tab.rounds == 8


def test_a_system_prompt_and_a_raw_prompt_are_stored_in_the_link(
    random_url: str, open_page: Open, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=4")
    tab.fill("system", "Be brief.")
    assert tab.evaluate("specviz.race.form.order.system") == "Be brief."
    assert "system=Be+brief." in tab.query
    tab.ref("raw").check()
    assert tab.ref("system").is_disabled()
    assert "raw=yes" in tab.query and "system" not in tab.query
    other = open_page(random_url, tab.query)
    assert other.evaluate("specviz.race.form.order") == tab.evaluate("specviz.race.form.order")
    tab.race()
    prompt = tab.page.locator("[data-ref=baselineRibbon] .prompt")
    typed = prompt.inner_text()
    tab.ref("showTemplate").click()
    assert prompt.inner_text() != typed
    tab.ref("showTemplate").click()
    assert prompt.inner_text() == typed


@pytest.mark.slow
def test_a_repeated_race_shows_its_median_run_and_the_spread(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=12&seed=4")
    tab.race()
    assert "One run" in tab.text("spreadWords")
    tab.ref("repeat").click()
    tab.until("specviz.race.view.result.speedups?.length === 5")
    tab.wait_for_end()
    assert "of 5 runs" in tab.text("spreadWords")
    shown = sorted(tab.evaluate("specviz.race.view.result.speedups"))
    (end,) = tab.evaluate("specviz.race.view.trace.figures.speedup.data.at(-1).y")
    assert end == pytest.approx(shown[2]) and tab.text("speedup") == f"{shown[2]:.2f}×"
