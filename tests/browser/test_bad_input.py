"""Input that breaks a rule shows one sentence next to its field, and the page stays usable."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

# A script that sends a request which the form cannot send.
START = 'specviz.race.transport.start("join", { form: { ...specviz.race.form.order, CHANGE } })'

BAD_FIELDS = [
    ("prompt", "", "Prompt"),
    ("draftLength", "0", "Draft length"),
    ("temperature", "", "Temperature"),
]


def one_sentence(tab: RaceDriver) -> str:
    """Return the only error on the page; check that it is a sentence and no traceback."""
    tab.wait_for_end()
    assert len(tab.errors) == 1, tab.errors
    (error,) = tab.errors
    assert "\n" not in error and "Traceback" not in error and len(error) < 400
    return error


def assert_usable(tab: RaceDriver) -> None:
    assert not tab.is_busy
    assert tab.ref("race").is_enabled()


def test_each_bad_field_shows_one_sentence_next_to_it(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8")
    for ref, value, name in BAD_FIELDS:
        before = tab.ref(ref).input_value()
        tab.fill(ref, value)
        tab.press_race()
        error = one_sentence(tab)
        assert re.match(rf"\W*{name}\b", error), (value[:20], error)
        field = tab.page.locator(".field", has=tab.ref(ref)).first
        assert field.locator(".error:visible").count() == 1
        assert_usable(tab)
        tab.fill(ref, before)
        assert tab.errors == []
    tab.race()
    assert tab.has_begun and tab.rounds > 0


def test_a_number_may_be_typed_in_the_format_of_its_error(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    tab.evaluate("specviz.race.form.refs.more.open = true")
    tab.fill("maxNewTokens", "1,000")
    tab.ref("maxNewTokens").press("Tab")
    assert tab.ref("maxNewTokens").input_value() == "1000" and tab.errors == []


def test_new_tokens_must_fit_into_the_context_of_the_models(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8")
    tab.evaluate("specviz.race.form.refs.more.open = true")
    context = tab.evaluate("specviz.race.form.pair.context")
    tab.fill("maxNewTokens", str(context))
    assert one_sentence(tab).startswith(f"New tokens must be below {context:,}, the context of")
    tab.fill("maxNewTokens", str(context - 1))
    assert tab.errors == []


def test_a_tree_with_too_many_nodes_is_refused_while_it_is_typed(
    app_url: str, turn_page: Open
) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8&method=draft-tree&k=3")
    tab.evaluate("specviz.race.form.refs.more.open = true")
    tab.fill("branching", "50,50")
    rule = "Branching must give at most 64 nodes with a draft length of 3"
    assert one_sentence(tab) == f"{rule}, got “50,50”, which gives 5,050"
    tab.fill("branching", "3,2")
    assert tab.errors == []


def test_a_method_without_a_choice_of_drawing_says_which_one_it_has(
    app_url: str, turn_page: Open
) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8&method=prompt-lookup")
    tab.evaluate("specviz.race.form.refs.more.open = true")
    assert "no choice of drawing: most probable (top-k)" in tab.text("methodFixed")
    tab.evaluate("specviz.race.form.fields = { method: 'draft-tree' }")
    assert "drawing" not in tab.text("methodFixed")


def test_without_a_prompt_a_race_step_by_step_leads_to_the_prompt(
    app_url: str, turn_page: Open
) -> None:
    tab = turn_page(app_url, "?text=&tokens=8")
    tab.evaluate("specviz.race.form.refs.more.open = true")
    tab.ref("raceHeld").click()
    tab.page.wait_for_function("document.activeElement.dataset.ref === 'prompt'")
    assert one_sentence(tab).startswith("Prompt must")


def test_hidden_settings_are_shown_if_they_have_an_error(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8")
    for ref, value, name in [
        ("topK", "-1", "Top-k"),
        ("topP", "0", "Top-p"),
        ("seed", "-1", "Seed"),
    ]:
        before = tab.ref(ref).input_value()
        tab.fill(ref, value)
        tab.press_race()
        assert name in one_sentence(tab)
        tab.fill(ref, before)


def test_on_a_low_screen_the_error_of_a_field_is_above_the_buttons(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=8", viewport={"width": 1280, "height": 720})
    tab.fill("temperature", "warm")
    tab.press_race()
    assert "Temperature" in one_sentence(tab)
    tab.settle()
    error, buttons = tab.page.locator(".form .error:visible"), tab.page.locator(".form .actions")
    below = error.bounding_box(), buttons.bounding_box()
    assert below[0] and below[1] and below[0]["y"] + below[0]["height"] <= below[1]["y"]
    tab.fill("temperature", "0")


@pytest.mark.slow
def test_a_field_shows_its_limits_before_the_race_is_started(
    random_url: str, open_page: Open
) -> None:
    tab = open_page(random_url, "?tokens=8")
    tab.evaluate(
        "{ window.orders = 0; specviz.race.transport.start = () => (window.orders += 1); null }"
    )
    number = "whole number from 1 to 4,096"
    for ref, value, rule in [
        ("maxNewTokens", "many", number),
        ("temperature", "-0.1", "number from 0 to"),
        ("temperature", "0.0001", "0 or from 0.001 to"),
        ("topP", "0", "number above 0 and at most 1"),
        ("seed", "-1", "whole number of at least 0"),
    ]:
        before = tab.ref(ref).input_value()
        tab.evaluate("specviz.race.form.refs.more.open = true")
        tab.fill(ref, value)
        (error,) = tab.errors
        assert rule in error
        assert tab.ref(ref).get_attribute("aria-invalid") == "true"
        described = tab.ref(ref).get_attribute("aria-describedby") or ""
        assert tab.page.locator(f"#{described.split()[0]}").inner_text() == error
        tab.ref("race").click()
        assert tab.evaluate("document.activeElement.dataset.ref") == ref
        tab.fill(ref, before)
        assert tab.errors == [] and tab.ref(ref).get_attribute("aria-invalid") is None
    assert tab.evaluate("window.orders") == 0
    tab.ref("race").click()
    tab.until("window.orders === 1")


def test_an_invalid_tree_is_named(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8&method=draft-tree&k=3")
    for branching in ("3;2", "0", "8,8,8", "1,1,1,1,1"):
        tab.fill("branching", branching)
        tab.press_race()
        assert "Branching" in one_sentence(tab)


def test_an_invalid_model_is_named(app_url: str, turn_page: Open, tmp_path: Path) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8&pair=custom")
    for target in ("", str(tmp_path), "/does/not/exist"):
        tab.fill("target", target)
        tab.fill("draft", str(tmp_path))
        tab.press_race()
        assert one_sentence(tab)
        assert_usable(tab)


def test_the_server_refuses_an_unknown_method_as_well(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, "?task=code&tokens=8")
    tab.evaluate(START.replace("CHANGE", "method: 'magic'"))
    tab.until("document.querySelector('.error:not([hidden])') !== null")
    assert "Method must be one of" in one_sentence(tab)


@pytest.mark.parametrize(
    "text",
    ["'\\u0000 NUL'", "'half a pair: \\ud83d!'", "'\\udc00'", "'🙂'.repeat(10000)"],
    ids=["NUL", "high-surrogate", "low-surrogate", "emoji"],
)
def test_unusual_text_runs_or_is_refused_in_one_sentence(
    app_url: str, turn_page: Open, text: str
) -> None:
    tab = turn_page(app_url, "?tokens=8")
    tab.evaluate("window.headerBefore = specviz.race.view.trace.header")
    tab.evaluate(START.replace("CHANGE", f"prompt: {text}"))
    tab.until("!specviz.race.transport.isBusy")
    tab.settle()
    assert len(tab.errors) == 1 or tab.has_begun
    if tab.errors:
        assert "Prompt" in one_sentence(tab)
    assert_usable(tab)
