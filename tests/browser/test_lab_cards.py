"""The lab's cards about costs, claims, peers and advice; test_lab_sweep.py tests the sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser.app_server import ROOT
from tests.browser.axe_findings import findings
from tests.browser.contexts import Contexts, pages_of_a_module
from tests.browser.lab_driver import LabDriver
from tests.browser.race_driver import OVERFLOW, RaceDriver

# Claim 3 is about distributions, not about speed, so its measurement needs no idle machine.
QUICK_CLAIM = 3


@pytest.fixture(scope="module")
def kept_pages(contexts: Contexts) -> Iterator[dict[str, RaceDriver]]:
    yield from pages_of_a_module(contexts)


@pytest.fixture
def lab(turn_page: Callable[..., RaceDriver], random_url: str) -> LabDriver:
    driver = turn_page(random_url)
    driver.page.locator("[data-page=lab]").click()
    driver.page.wait_for_selector(".lab-claim")
    return LabDriver(driver)


def cost(lab: LabDriver, name: str, text: str) -> None:
    lab.page.locator(f"[data-cost={name}]").fill(text)


def test_costs_follow_every_field_and_name_an_invalid_one(lab: LabDriver) -> None:
    for name, text in (
        ("tokens_per_day", "30000000"),
        ("peak_factor", "2"),
        ("price_per_hour", "3"),
        ("baseline_rate", "50"),
        ("speculative_rate", "100"),
    ):
        cost(lab, name, text)
    saved = "Speculation saves 7 of 14 machines, which is 504.00 a day."
    lab.driver.until(f"specviz.lab.costs.refs.costsSentence.textContent === '{saved}'")
    cells = lab.driver.ref("costsTable").locator("tbody tr").first.inner_text().split()
    assert cells[:4] == ["plain", "decoding", "14", "1,008.00"]
    cost(lab, "price_per_hour", "dear")
    lab.page.wait_for_selector("[data-ref=costsError]:visible")
    assert lab.driver.text("costsError").startswith("Price must be a number")
    field = lab.page.locator("[data-cost=price_per_hour]")
    assert field.get_attribute("aria-invalid") == "true"
    assert lab.driver.text("costsSentence") == ""
    cost(lab, "price_per_hour", "3")
    lab.page.wait_for_selector("[data-ref=costsError]", state="hidden")


@pytest.mark.slow
def test_claims_can_be_filtered_by_verdict_and_measured_with_a_click(lab: LabDriver) -> None:
    claims = lab.page.locator(".lab-claim")
    assert claims.count() == 32
    counts = lab.page.locator("[data-ref=claimsFilter] button").all_inner_texts()
    assert sum(int(text.split()[-1]) for text in counts[1:]) == 32
    lab.page.locator("[data-ref=claimsFilter] [data-verdict=wrong]").click()
    shown = lab.page.locator(".lab-claim:visible")
    assert {each.get_attribute("data-verdict") for each in shown.all()} == {"wrong"}
    assert shown.count() == next(
        int(each.split()[-1]) for each in counts if each.startswith("wrong")
    )
    lab.page.locator("[data-ref=claimsFilter] button").first.click()
    first = lab.page.locator(".lab-claim[data-number='1'] > summary").inner_text()
    assert "4 times as fast" in first and "2.69 of 5 pass on average, which makes 2.46×" in first
    claim = lab.page.locator(f".lab-claim[data-number='{QUICK_CLAIM}']")
    claim.locator("summary").click()
    claim.locator("[data-measure]").click()
    claim.get_by_text("Measured on cpu").wait_for()
    assert claim.locator(".claim-part .verdict-chip").count() == 1
    assert claim.get_attribute("open") is not None
    claim.locator("[data-own=p]").fill("0.6, 0.3, 0.2")
    error = claim.locator(".claim-try .error:visible")
    assert error.inner_text() == "p, the target must sum to 1, got 1.1"
    claim.locator("[data-own=p]").fill("0.3, 0.6, 0.1")
    claim.locator(".claim-tried .verdict-chip.holds").wait_for()
    assert claim.locator(".claim-try [aria-invalid]").count() == 0
    lab.driver.until("!specviz.lab.claims.run.isBusy")
    assert lab.page.locator("[data-measure]:disabled").count() == 0
    lab.page.set_viewport_size({"width": 390, "height": 900})
    lab.driver.ref("theme").click()
    lab.driver.until_steady()
    assert lab.driver.evaluate(OVERFLOW) <= 0
    assert findings(lab.page, "#sv-lab-claims") == []


def test_many_draws_of_a_position_show_that_the_method_is_exact(
    lab: LabDriver,
) -> None:
    driver = lab.driver
    driver.ref("labPair").select_option("bundled")
    temperature = driver.page.locator("#lab [data-setting=temperature]")
    temperature.fill("1")
    driver.fill("exactText", "I'm sorry.\nDésolé")
    driver.fill("exactDraws", "0")
    driver.ref("exactGo").click()
    error = driver.page.locator("#sv-exact-error:visible")
    assert error.inner_text().startswith("Draws must be a whole number from 1 to 50,000")
    driver.fill("exactDraws", "1000")
    drawn = "!specviz.lab.exact.run.isBusy && specviz.lab.exact.history.length"
    driver.ref("exactGo").click()
    driver.until(f"{drawn} && specviz.lab.exact.history.at(-1).draws === 1000")
    verdict = driver.page.locator("#sv-lab-exact .guess-verdict")
    assert "No difference from the target is visible" in verdict.inner_text()
    assert "degrees of freedom" in verdict.inner_text()
    assert driver.page.locator("#sv-lab-exact .redraw-bins li").count() == 2 * 9
    assert findings(driver.page, "#sv-lab-exact") == []
    driver.ref("exactDraft").select_option("random")
    temperature.fill("0")
    driver.ref("exactGo").click()
    driver.until("specviz.lab.exact.isGreedy && " + drawn)
    assert "At temperature 0 one token is certain" in verdict.inner_text()
    assert "nothing to count" in driver.text("exactHow")


def test_custom_prompts_and_models_are_measured_and_named(lab: LabDriver) -> None:
    driver = lab.driver
    driver.ref("labTask").select_option("own")
    driver.ref("peersGo").click()
    error = driver.page.locator("#sv-lab-task-error:visible")
    assert error.inner_text().startswith("Prompts must have at least one text of your own")
    assert driver.evaluate("document.activeElement.dataset.ref") == "ownText"
    driver.fill("ownText", "def area(r):\n\nOnce upon a time")
    driver.until("document.querySelector('[data-ref=ownCount]').textContent.startsWith('2 prom')")
    assert driver.errors == [] and driver.text("sweepSize") == "8 points, 96 runs"
    text = b'{"prompt": "one"}\n'
    driver.ref("ownFile").set_input_files(
        {"name": "my.jsonl", "mimeType": "text/plain", "buffer": text}
    )
    driver.until("document.querySelector('[data-ref=ownCount]').textContent.includes('in my.json')")
    driver.fill("ownText", "Pasted over it")
    driver.until(
        "document.querySelector('[data-ref=ownCount]').textContent.startsWith('1 prompt.')"
    )
    driver.ref("labPair").select_option("custom")
    driver.ref("adviceGo").click()
    assert driver.page.locator("#sv-lab-pair-error:visible").inner_text().startswith("Target")
    for ref, name in (("labTarget", "target"), ("labDraft", "draft")):
        driver.fill(ref, str(ROOT / "assets" / "models" / name))
    lab.run(values="1")
    said = driver.text("sweepSetting")
    assert "1 prompt of your own" in said and said.startswith(str(ROOT))
    driver.ref("labPair").select_option("bundled")
    driver.ref("labTask").select_option("code")


def test_peers_show_an_invalid_draft_length_at_its_field(lab: LabDriver) -> None:
    lab.driver.fill("peersLength", "0")
    lab.driver.ref("peersGo").click()
    assert lab.driver.text("peersError") == (
        "Draft length must be a whole number from 1 to 32, got “0”"
    )
    assert lab.driver.ref("peersLength").get_attribute("aria-invalid") == "true"
    lab.driver.fill("peersLength", "4")
    assert lab.driver.errors == []


@pytest.mark.slow
def test_the_results_of_peers_are_pairs_of_bars(lab: LabDriver) -> None:
    lab.order(tokens=8)
    lab.driver.fill("peersLength", "4")
    lab.driver.ref("peersGo").click()
    lab.driver.until("specviz.lab.peers.refs.peersState.textContent.endsWith(' left')")
    lab.driver.until("!specviz.lab.peers.run.isBusy")
    assert lab.page.locator(".peer").count() == 4 and lab.page.locator(".peer-bar").count() == 8
    assert "code: prompt 1" in lab.driver.text("peersSetting")
    assert findings(lab.page, "#sv-lab-peers") == []


@pytest.mark.slow
def test_stopped_advice_uses_its_measurements_and_links_to_a_sweep(lab: LabDriver) -> None:
    lab.driver.fill("labMaxNewTokens", "16")
    lab.driver.fill("adviceSeconds", "x")
    lab.driver.ref("adviceGo").click()
    lab.page.wait_for_selector("[data-ref=adviceError]:visible")
    assert lab.driver.ref("adviceSeconds").get_attribute("aria-invalid") == "true"
    lab.driver.fill("adviceSeconds", "20")
    lab.driver.ref("adviceGo").click()
    lab.driver.until("specviz.lab.advice.refs.adviceState.textContent.includes('static tree')")
    lab.driver.ref("adviceStop").click()
    lab.page.wait_for_selector("[data-ref=adviceResult]:visible")
    assert "peculate" in lab.driver.text("adviceVerdict")
    assert lab.page.locator("[data-ref=adviceReasons] li").count() >= 1
    titles = lab.page.locator("[data-ref=adviceRanking] tbody th").all_inner_texts()
    methods = [title.split(", K")[0] for title in titles]
    assert len(methods) == len(set(methods)) >= 1  # the ranking lists each method once
    assert findings(lab.page, "#sv-lab-advice") == []
    lab.driver.until("!specviz.lab.advice.run.isBusy")
    lab.driver.ref("adviceSweep").click()
    lab.driver.until("specviz.lab.sweep.run.isBusy")
    method = lab.driver.evaluate("specviz.lab.advice.advice.best.candidate.method")
    assert lab.driver.ref("labMethod").input_value() == method
    lab.page.keyboard.press("Escape")
    lab.driver.until("!specviz.lab.sweep.run.isBusy")
    verdict = lab.driver.text("adviceVerdict")
    lab.driver.reload()
    lab.page.locator("[data-page=lab]").click()
    assert lab.driver.text("adviceVerdict") == verdict and verdict
    assert lab.driver.ref("labMaxNewTokens").input_value() == "16"
