"""The form offers the methods, options and rules that the chosen models can run, with reasons.

It also shows which methods a pair of models cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.models.pair_catalog import pairs
from specviz.records import Drawing
from specviz.ui.settings_form import refusals
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]

TRANSLATION = "?task=translate&tokens=8&temperature=0.8&k=3"
CHOICES = "[data-ref=method] option"


def a_method(holds: Callable[[Method], bool]) -> Method:
    """Return the first method for which `holds` is true; the tests know no method by name."""
    return next(method for method in DRAFTERS.values() if holds(method))


WITH_OPTIONS = a_method(lambda method: len(method.options) > 1)
WITHOUT_OPTIONS = a_method(lambda method: not method.options and len(method.drawings) == 1)
PLAIN = a_method(lambda method: not method.needs)
PAIR = next(pair for pair in pairs() if pair.draft and refusals(pair))
REFUSED, REASON = next(iter(refusals(PAIR).items()))


def test_the_open_menu_shows_every_method_with_its_description_and_works_with_keys(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    tab.ref("method").focus()
    tab.page.keyboard.press("Space")
    tab.page.wait_for_selector(CHOICES)
    for method in DRAFTERS.values():
        choice = tab.page.locator(f"{CHOICES}[value='{method.name}']")
        assert choice.is_visible() and method.title in choice.inner_text()
    assert tab.page.locator("[data-ref=method] legend:visible").count() >= 2
    before = tab.ref("method").input_value()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.until(f"document.querySelector('[data-ref=method]').value !== '{before}'")
    tab.page.locator(CHOICES).first.wait_for(state="hidden")
    assert tab.text("methodNote") == DRAFTERS[tab.ref("method").input_value()].summary


def test_escape_closes_the_menu_and_does_not_stop_the_race(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?tokens=600&seed=4&temperature=0.7")
    tab.press_race()
    tab.wait_for_rounds(2)
    tab.ref("method").focus()
    tab.page.keyboard.press("Space")
    tab.page.wait_for_selector(CHOICES)
    tab.page.keyboard.press("Escape")
    tab.page.locator(CHOICES).first.wait_for(state="hidden")
    tab.wait_for_rounds(tab.rounds + 20)  # this Escape closes only the list, so the race continues
    assert tab.is_busy
    tab.page.keyboard.press("Escape")
    tab.wait_for_end()


def test_methods_that_a_pair_cannot_run_are_disabled_with_a_reason(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, f"?pair={PAIR.name}")
    tab.ref("method").click()
    choice = tab.page.locator(f"{CHOICES}[value='{REFUSED}']")
    assert choice.is_disabled()
    assert REASON.split(";")[0] in choice.inner_text()
    for name in DRAFTERS:
        is_refused = name in refusals(PAIR)
        assert tab.page.locator(f"{CHOICES}[value='{name}']").is_disabled() == is_refused


HEADER_AND_LIST = """(() => {
    const first = document.querySelector("[data-ref=method] optgroup").getBoundingClientRect();
    return [document.querySelector("header").getBoundingClientRect().bottom, first.top]; })()"""


def test_the_list_does_not_cover_the_header_and_links_to_models_for_other_methods(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, f"?pair={PAIR.name}", {"width": 1280, "height": 760})
    tab.page.keyboard.press("Escape")  # closes the list if an earlier test left it open
    tab.ref("method").click()
    tab.page.locator(CHOICES).first.wait_for()
    header, first = tab.evaluate(HEADER_AND_LIST)
    assert first > header
    tab.page.keyboard.press("Escape")
    assert "more method" in tab.text("otherCount")
    tab.ref("otherPair").click()
    assert tab.ref("pair").input_value() != PAIR.name
    assert not tab.ref("otherModels").is_visible()


def test_a_method_that_the_new_pair_cannot_run_stays_selected_but_does_not_race(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, f"?method={REFUSED}&tokens=8&seed=4")
    tab.ref("pair").select_option(PAIR.name)
    assert tab.ref("method").input_value() == REFUSED
    assert tab.text("methodRefusal") == f"{REASON[0].upper()}{REASON[1:]}."
    assert tab.ref("race").is_disabled()
    assert REASON in tab.text("raceRefusal")
    tab.page.locator("body").press("Enter")
    assert not tab.is_busy
    tab.ref("pair").select_option("bundled")
    assert tab.errors == [] and not tab.ref("raceRefusal").is_visible()
    tab.race()
    assert tab.rounds > 0


def test_without_styled_lists_the_menu_shows_titles_followed_by_reasons(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    script = """async ([title, reason]) => {
      const { Menu } = await import(document.querySelector("link[href$='shared/menu.js']").href);
      const select = document.createElement("select");
      new Menu(select, false).fill([
        { name: "a", title: "Anna", note: "not shown", group: "First" },
        { name: "b", title, refusal: reason, group: "First" },
      ]);
      return [select.innerHTML, select.options[1].disabled];
    }"""
    markup, is_disabled = tab.page.evaluate(script, ["Bert", "needs a thing; there is none"])
    assert is_disabled
    assert '<optgroup label="First"><option value="a">Anna</option>' in markup
    assert "Bert: needs a thing; there is none" in markup and "not shown" not in markup


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_the_form_has_the_fields_of_the_method(
    random_url: str, turn_page: Open, method: Method
) -> None:
    tab = turn_page(random_url, f"?method={method.name}")
    assert tab.ref("branchingField").is_visible() == method.takes_branching
    assert tab.ref("drawingField").is_visible() == (len(method.drawings) > 1)
    # The user can choose the drawing even at temperature 0, because it may decide the tree's shape.
    assert tab.ref("drawing").is_enabled()
    labels = tab.ref("methodOptions").locator("label").all_inner_texts()
    assert labels == [option.title for option in method.options]
    order = tab.evaluate("specviz.race.form.order")
    assert ("branching" in order, "drawing" in order) == (
        *(method.takes_branching, len(method.drawings) > 1),
    )
    expected = {option.name: str(option.default) for option in method.options}
    assert order.get("options", {}) == expected
    for option in method.options:
        shown = tab.ref("methodOptions").locator(".field", has_text=option.title)
        assert option.hint in shown.inner_text()


def test_an_option_is_sent_stored_in_the_link_and_read_again(
    random_url: str, open_page: Open, turn_page: Open
) -> None:
    first, *_ = WITH_OPTIONS.options
    tab = turn_page(random_url, f"?method={WITH_OPTIONS.name}&tokens=6&temperature=0.7")
    tab.page.fill(f"#sv-option-{first.name}", str(first.high))
    assert f"option-{first.name}={first.high}" in tab.query
    tab.race()
    sent = dict(tab.evaluate("specviz.race.view.trace.main.config.options"))
    assert sent[first.name] == first.high
    again = open_page(random_url, tab.query)
    assert again.page.input_value(f"#sv-option-{first.name}") == str(first.high)
    assert again.evaluate("specviz.race.form.order") == tab.evaluate("specviz.race.form.order")
    tab.ref("method").select_option(WITHOUT_OPTIONS.name)
    assert "option-" not in tab.query
    tab.ref("method").select_option(WITH_OPTIONS.name)
    # The form remembers the value that the option had before
    assert tab.page.input_value(f"#sv-option-{first.name}") == str(first.high)


def test_the_draft_length_names_other_settings_that_limit_it(
    random_url: str, turn_page: Open
) -> None:
    capped = a_method(lambda method: bool(method.depth_cap))
    tab = turn_page(random_url, f"?method={capped.name}")
    assert tab.text("depthCap") == capped.depth_cap
    tab.ref("method").select_option(a_method(lambda method: not method.depth_cap).name)
    assert not tab.ref("depthCap").is_visible()


def test_an_option_s_slider_and_number_show_the_same_value(
    random_url: str, turn_page: Open
) -> None:
    method = a_method(lambda each: any(option.high <= 64 for option in each.options))
    option = next(option for option in method.options if option.high <= 64)
    tab = turn_page(random_url, f"?method={method.name}")
    field = tab.page.locator(".field", has=tab.page.locator(f"#sv-option-{option.name}")).last
    field.locator("input[type=range]").press("End")
    assert tab.page.input_value(f"#sv-option-{option.name}") == str(option.high)
    assert tab.evaluate("specviz.race.form.order.options")[option.name] == str(option.high)


def test_a_bad_option_is_named_by_its_title_next_to_its_field(
    random_url: str, turn_page: Open
) -> None:
    option = WITH_OPTIONS.options[0]
    tab = turn_page(random_url, f"?method={WITH_OPTIONS.name}&tokens=6")
    for value in (str(option.high + 1), "many", ""):
        tab.page.fill(f"#sv-option-{option.name}", value)
        tab.press_race()
        tab.wait_for_end()
        (error,) = tab.errors
        assert re.match(rf"\W*{re.escape(option.title)} must be ", error)
        field = tab.page.locator(".field", has=tab.page.locator(f"#sv-option-{option.name}")).last
        assert field.locator(".error:visible").count() == 1
        tab.page.fill(f"#sv-option-{option.name}", str(option.default))
        assert tab.errors == []


def test_options_and_rules_in_a_link_that_the_method_lacks_are_named(
    random_url: str, turn_page: Open
) -> None:
    option = WITH_OPTIONS.options[0]
    query = f"?method={WITH_OPTIONS.name}&option-{option.name}={option.high + 1}"
    tab = turn_page(random_url, f"{query}&option-magic=1&rule=typical&tokens=6")
    notice = tab.text("linkNotice")
    rule = f"must be a whole number from {option.low} to {option.high}"
    assert f"{option.title} {rule}" in notice
    assert "“magic” is no option of this method" in notice
    lacks_typical = all(rule.is_lossless for rule in WITH_OPTIONS.rules)
    assert ("Verification rule must be one of" in notice) == lacks_typical
    tab.race()
    assert tab.errors == [] and tab.rounds > 0


def test_a_refused_setting_keeps_the_previous_race(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?tokens=12&seed=4&temperature=0.7")
    tab.race()
    speedup, text = tab.text("speedup"), tab.lane_text("speculative")
    tab.fill("draftLength", "0")
    tab.press_race()
    tab.wait_for_end()
    assert len(tab.errors) == 1
    assert tab.rounds == 12
    assert (tab.text("speedup"), tab.lane_text("speculative")) == (speedup, text)
    assert "earlier setting" in tab.text("staleNotice")
    tab.page.keyboard.press("Home")


def test_a_race_that_cannot_load_keeps_the_previous_race(app_url: str, turn_page: Open) -> None:
    tab = turn_page(app_url, f"?task=code&tokens=12&method={PLAIN.name}")
    tab.race()
    rounds, speedup = tab.rounds, tab.text("speedup")
    tab.ref("pair").select_option("custom")
    tab.fill("target", "/does/not/exist")
    tab.fill("draft", "/does/not/exist")
    tab.press_race()
    tab.wait_for_end()
    assert len(tab.errors) == 1
    assert (tab.rounds, tab.text("speedup")) == (rounds, speedup)
    assert "earlier setting" in tab.text("staleNotice")


def of_every_form() -> list[Method]:
    """Return the first method of each kind of form: with or without options and branching.

    Methods with different rules also count as different kinds.
    """
    kinds: dict[object, Method] = {}
    for method in DRAFTERS.values():
        kinds.setdefault((bool(method.options), method.takes_branching, method.drawings), method)
    return list(kinds.values())


@pytest.mark.slow
def test_each_kind_of_form_and_every_rule_starts_a_race(random_url: str, turn_page: Open) -> None:
    race_all(turn_page(random_url, TRANSLATION), of_every_form())


@pytest.mark.slow
def test_every_method_and_every_rule_can_race(app_url: str, turn_page: Open) -> None:
    race_all(turn_page(app_url, TRANSLATION), list(DRAFTERS.values()))


def race_all(tab: RaceDriver, methods: list[Method]) -> None:
    """Race each method with its default drawing.

    Also race it with each other drawing that no method before it has raced.
    """
    raced: set[Drawing] = set()
    for method in methods:
        tab.ref("method").select_option(method.name)
        for kind in (
            method.drawings[0],
            *(each for each in method.drawings[1:] if each not in raced),
        ):
            raced.add(kind)
            if len(method.drawings) > 1:
                tab.ref("drawing").select_option(kind.value)
            tab.race()
            assert tab.errors == [], (method.name, kind)
            assert tab.evaluate("specviz.race.view.trace.main.config.drawing") == kind.value
            assert tab.rounds > 0
