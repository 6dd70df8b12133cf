"""The page reports on two models before it loads their weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.models.pair_catalog import BUNDLED, pairs
from specviz.prompts import held_out_prompt
from tests.browser.app_server import ROOT
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]
HEADS = ("eagle", "medusa")

MODELS = Path(os.environ.get("SPECVIZ_MODELS") or ROOT / "assets" / "models")


def test_the_bundled_pair_needs_no_check(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    assert tab.ref("pair").input_value() == BUNDLED
    assert not tab.ref("checkPair").is_visible()
    assert not tab.ref("pairClaim").is_visible()


def test_chat_models_get_messages_and_other_models_get_texts_to_continue(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?pair=smollm2-1.7b&task=chat&prompt=2")
    assert tab.ref("prompt").input_value() == held_out_prompt("chat", 2, is_chat=True)
    tab.ref("pair").select_option("bundled")
    assert tab.ref("prompt").input_value() == held_out_prompt("code", 2)
    assert not tab.page.locator("[data-task=chat]").is_visible()
    tab.ref("pair").select_option("smollm2-1.7b")
    assert tab.ref("prompt").input_value() == held_out_prompt("code", 2, is_chat=True)
    tab.fill("prompt", "Mine.")
    tab.ref("pair").select_option("bundled")
    assert tab.ref("prompt").input_value() == "Mine."


def test_lab_and_profile_offer_only_the_tasks_and_methods_of_the_pair(
    random_url: str, turn_page: Open
) -> None:
    asked = "?lab-pair=smollm2-1.7b&lab-task=chat&lab-vary=task&lab-values=chat,maths"
    tab = turn_page(random_url, asked)
    tab.evaluate("specviz.lab.readAddress()")
    tab.evaluate("document.querySelector('[data-page=lab]').click()")
    assert tab.ref("labTask").input_value() == "chat"
    assert not tab.ref("labNotice").is_visible()
    tab.ref("labPair").select_option("bundled")
    assert tab.ref("labTask").input_value() == "code" and "chat" not in tab.text("labTask")
    assert tab.ref("values1").input_value() == "maths" and "chat" not in tab.text("choices1")
    tab.ref("labPair").select_option("smollm2-1.7b")
    tab.ref("axis1").select_option("method")
    assert "EAGLE" not in tab.text("choices1") and "Draft model" in tab.text("choices1")
    for pair in ("bundled", "smollm2-1.7b"):
        turn_page(random_url, f"?pair={pair}")
        tab.evaluate("document.querySelector('[data-page=step]').click()")
        assert ("chat" in tab.text("profileTask")) == (pair != "bundled")


@pytest.mark.parametrize("pair", [pair for pair in pairs() if pair.claim], ids=lambda p: p.name)
def test_published_speedups_of_a_pair_are_shown_as_claims(
    random_url: str, turn_page: Open, pair: object
) -> None:
    tab = turn_page(random_url, f"?pair={pair.name}")  # type: ignore[attr-defined]
    assert tab.text("pairClaim") == pair.claim  # type: ignore[attr-defined]
    assert "not measured here" in tab.text("pairClaim")


def test_a_check_shows_one_line_per_fact_with_a_shape_and_words(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?pair=custom")
    rounds = tab.rounds
    assert tab.ref("checkPair").is_disabled()
    tab.fill("target", "a/b")
    tab.fill("draft", "c/d")
    tab.ref("checkPair").focus()
    tab.page.keyboard.press("Enter")
    tab.ref("pairReport").wait_for()
    lines = tab.ref("pairReport").locator("li")
    tones = lines.evaluate_all("lines => lines.map((line) => line.className)")
    assert set(tones) == {"good", "plain", "warning", "problem"}
    assert "50% of the target's tokens are also tokens of the draft" in tab.text("pairReport")
    # the line is shown as text, never as markup
    assert lines.last.inner_text() == "<b>no model</b>"
    marks = lines.evaluate_all("all => all.map((l) => getComputedStyle(l, '::before').content)")
    assert len(set(marks)) == 4
    assert not tab.is_busy and tab.rounds == rounds


def test_a_report_disappears_when_the_models_change(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?pair=custom&target=a%2Fb&draft=c%2Fd")
    tab.ref("checkPair").click()
    tab.ref("pairReport").wait_for()
    tab.fill("draft", "c/e")
    assert not tab.ref("pairReport").is_visible()


def test_a_user_s_folders_are_checked_on_the_server(app_url: str, open_page: Open) -> None:
    tab = open_page(app_url, "?pair=custom")
    tab.fill("target", str(MODELS / "target"))
    tab.fill("draft", str(MODELS / "draft"))
    tab.ref("checkPair").click()
    tab.ref("pairReport").wait_for()
    assert "both models have the same vocabulary" in tab.text("pairReport")
    assert "are free" in tab.text("pairReport")
    tab.fill("draft", "/does/not/exist")
    tab.ref("checkPair").click()
    tab.ref("pairReport").wait_for()
    (problem,) = tab.ref("pairReport").locator("li").all()
    assert problem.get_attribute("class") == "problem"
    assert "/does/not/exist" in problem.inner_text()


def test_a_target_may_be_used_without_a_draft(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, "?pair=custom&target=a%2Fb&draft=c%2Fd")
    refusal = "needs a draft model; the pair without a draft has none"
    assert refusal not in tab.evaluate("JSON.stringify(specviz.race.form.methodPart.refusals)")
    tab.fill("draft", "")
    assert refusal in tab.evaluate("JSON.stringify(specviz.race.form.methodPart.refusals)")
    assert tab.ref("checkPair").is_enabled()


def test_fields_for_published_heads_make_their_methods_available(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url, "?pair=custom&target=a%2Fb&eagle=c%2Fhead")
    order = "JSON.stringify(specviz.race.form.order)"
    assert json.loads(tab.evaluate(order))["eagle"] == "c/head"
    refused = {name: tab.ref("method").locator(f"option[value={name}]") for name in HEADS}
    assert refused["eagle"].is_enabled() and refused["medusa"].is_disabled()
    tab.page.locator("#sv-medusa").fill("c/heads")
    assert refused["medusa"].is_enabled()
    assert json.loads(tab.evaluate(order))["medusa"] == "c/heads"
    assert "medusa=c%2Fheads" in tab.evaluate("specviz.race.address.link")
    tab.page.locator("#sv-eagle").fill("")
    assert refused["eagle"].is_disabled()
