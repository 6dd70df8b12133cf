"""The page Serve answers while the user types, keeps the form in its address, and names errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from playwright.sync_api import Locator, expect

from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod
from specviz.models.pair_catalog import pair_named
from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver
from tests.sizing.test_measured_times import LOAD

Open = Callable[..., RaceDriver]
# A script that types letter by letter. The pauses are shorter than the delay after which the page
# sends a request.
TYPE = """(box, text) => {
    for (const letter of text) {
        box.value += letter;
        box.dispatchEvent(new Event("input", { bubbles: true }));
    }
}"""


class Serve:
    """The page Serve; the test finds its cards and fields by the titles that a person sees."""

    def __init__(self, tab: RaceDriver) -> None:
        self.page = tab.page
        self.answer = self.card("Does it pay?").get_by_role("status")
        self.load = self.card("When requests come as they like")
        self.served = self.load.get_by_role("status")
        self.measured_by = self.load.get_by_role("list", name="Measured times")
        self.computed = self.load.get_by_role("button", name="Back to computed times")
        self.file = self.load.get_by_label("A file of measured times")
        self.gains = self.page.get_by_role("img", name="Speedup of whole requests by requests")
        self.memory = self.page.get_by_role("img", name="The content of a card’s memory")
        self.money = self.page.locator("summary", has_text="Times and money")
        self.configuration = self.card("Configuration")
        self.take_plan = self.configuration.get_by_role("button", name="Fill in what you plan")
        self.server = self.card("Your server")

    def card(self, title: str) -> Locator:
        return self.page.get_by_role("region", name=title)

    def chart(self, label: str) -> Locator:
        return self.server.get_by_role("img", name=label)


def test_a_plan_is_answered_stored_in_the_address_and_corrected(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    page = Serve(tab)
    tab.visit("?view=serve&serve-gpus=1&serve-batch=nine")
    ids = tab.evaluate("[...document.querySelectorAll('[id^=sv-]')].map(({ id }) => id)")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    error, sentence = tab.page.locator("#sv-serve-batch-error"), page.answer
    error.wait_for()
    assert sentence.inner_text() == f"No answer yet. {error.inner_text()}"
    assert (
        error.inner_text() == "Requests at once must be a whole number from 1 to 1,024, got 'nine'"
    )
    assert not page.money.is_visible()
    batch = tab.page.locator("#sv-serve-batch")
    assert batch.get_attribute("aria-invalid") == "true"
    assert not findings(tab.page, ".serve-fields"), "the sentence of an error can be read, too"
    batch.fill("2")
    sentence.filter(has_text="Does not fit: 2 requests at once need").wait_for()
    facts = page.card("Does it pay?").locator("dl")
    for part in (page.load, facts, page.gains, page.money):
        assert not part.is_visible()
    assert page.take_plan.is_disabled()
    assert page.configuration.get_by_text("once there is a plan that fits").is_visible()
    assert not error.is_visible() and page.memory.is_visible()
    tab.page.locator("#sv-serve-gpus").fill("4")
    sentence.filter(has_text="Yes: with 2 requests at once, a whole request takes").wait_for()
    assert "serve-batch=2" in tab.address and "serve-gpus" not in tab.address
    tab.page.locator("[data-page=lab]").click()
    assert "serve-" not in tab.address


def test_a_model_s_name_is_requested_once_after_typing_and_stored_in_the_address(
    random_url: str, turn_page: Open
) -> None:
    tab, asked = turn_page(random_url), list[str]()
    tab.visit("?view=serve")
    tab.page.locator("#sv-serve-target").select_option("own")
    error, box = (
        tab.page.locator("#sv-serve-target-error"),
        tab.page.locator(".serve-plan textarea"),
    )
    error.filter(has_text="a name on the Hub or a config.json, got none").wait_for()
    tab.page.on("request", lambda request: asked.append(request.post_data or ""))
    box.first.evaluate(TYPE, "owner/model")
    error.filter(has_text="Target model 'owner/model' is not on this machine and HF_HUB").wait_for()
    named = [each for each in asked if "target_config" in each]
    assert named and all("owner/model" in each for each in named), "a part is no name"
    assert "serve-target=owner%2Fmodel" in tab.address
    tab.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    assert box.first.input_value() == "owner/model" and not findings(tab.page, ".serve-fields")
    tab.page.locator("#sv-serve-target").select_option("llama-3-1-70b")
    Serve(tab).answer.filter(has_text="a whole request takes").wait_for()
    assert not error.is_visible() and not box.first.is_visible()


def test_a_file_of_measured_times_is_used_named_and_removed_again(
    random_url: str, turn_page: Open
) -> None:
    tab = turn_page(random_url)
    tab.visit("?view=serve&serve-output=16")
    page = Serve(tab)
    served, told = page.served, page.measured_by
    served.filter(has_text="stay within both limits").wait_for()
    computed = served.inner_text()
    chosen = {"name": "load.json", "mimeType": "application/json"}
    page.file.set_input_files([chosen | {"buffer": json.dumps(LOAD).encode()}])
    told.filter(has_text="measured, not computed: llama.cpp b1 at http://a").wait_for()
    assert served.inner_text() != computed and not findings(tab.page, ".answer")
    assert tab.page.locator("#sv-serve-acceptance").get_attribute("placeholder") == "0.7"
    # llama-3-1-405b does not fit on the GPUs of the plan.
    tab.page.locator("#sv-serve-target").select_option("llama-3-1-405b")
    page.answer.filter(has_text="Does not fit").wait_for()
    assert told.is_visible() and not page.gains.is_visible()
    tab.page.locator("#sv-serve-target").select_option("llama-3-1-70b")
    page.computed.press("Enter")
    expect(served).to_have_text(computed)
    assert not told.is_visible() and not page.computed.is_visible()
    page.file.set_input_files([chosen | {"buffer": b"[1, 2]"}])
    error = page.load.get_by_role("alert")
    error.filter(has_text="The file must be the JSON of load, of bench").wait_for()
    assert not page.computed.is_visible()


def test_a_plan_becomes_a_configuration_and_old_flags_become_current_ones(
    random_url: str, turn_page: Open
) -> None:
    """The test uses only keys, on a phone's screen."""
    tab = turn_page(random_url)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.visit("?view=serve")
    page = Serve(tab)
    card, take = page.configuration, page.take_plan
    expect(take).to_be_enabled()
    take.press("Enter")
    forms, translated = card.locator(".engine-forms").first, card.locator(".engine-forms").last
    forms.locator("pre", has_text="vllm serve meta-llama/Llama-3.3-70B-Instruct").wait_for()
    forms.get_by_role("button", name="Kubernetes", exact=True).press("Enter")
    expect(forms.locator("pre")).to_contain_text("kind: Deployment")
    engine = card.get_by_label("Engine", exact=True)
    engine.select_option("sglang")
    forms.locator("pre", has_text="sglang.launch_server").wait_for()
    assert "schedule has no equivalent in SGLang" in forms.inner_text()
    method = card.get_by_label("Method")
    method.select_option("eagle")
    engine.select_option("llama.cpp")
    forms.get_by_text("cannot draft with an EAGLE head: this is plain decoding").wait_for()
    assert method.input_value() == "none"
    engine.select_option("sglang")
    expect(method).to_have_value("eagle")  # the user's choice comes back
    method.select_option("draft-model")
    field = tab.page.locator("#sv-engine-draft_tokens")
    field.fill("none")
    error = card.locator("#sv-engine-error")
    error.wait_for()
    assert error.inner_text() == "Draft length K must be a whole number, got 'none'"
    assert field.get_attribute("aria-invalid") == "true" and not forms.is_visible()
    field.fill("4")
    forms.locator("pre", has_text="--speculative-num-steps 4").wait_for()
    assert not error.is_visible() and field.get_attribute("aria-invalid") is None
    draft = card.locator("label[for=sv-engine-draft]")
    expect(draft).to_have_text("Draft model")
    assert not tab.page.locator("#sv-engine-draft_device").is_visible(), (
        "SGLang has no place for it"
    )
    engine.select_option("llama.cpp")
    tab.page.locator("#sv-engine-draft_device").fill("CUDA1")
    tab.page.locator("#sv-engine-quantization").fill("Q4_K_M")
    forms.locator("pre", has_text="Llama-3.3-70B-Instruct:Q4_K_M").wait_for()
    assert "--spec-draft-device CUDA1" in forms.locator("pre").inner_text()
    method.select_option("eagle3")
    expect(draft).to_have_text("EAGLE-3 head, made for the target")
    pasted, start = (
        card.get_by_label("Older flags, or"),
        card.get_by_role("button", name="Translate"),
    )
    pasted.fill("--model a/b --speculative-model [ngram] --num-speculative-tokens 5")
    start.press("Enter")
    changes = card.get_by_role("list", name="What became of each flag")
    changes.wait_for()
    assert "--speculative-model [ngram] changed → method ngram in --speculative-config" in (
        changes.inner_text()
    )
    assert "vllm serve a/b" in translated.inner_text()
    pasted.fill("x" * 30_000)
    start.press("Enter")
    card.locator("#sv-pasted-error").filter(
        has_text="at most 20000 characters, got 30000"
    ).wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_server_can_be_watched_and_its_key_is_stored_nowhere(
    random_url: str, turn_page: Open
) -> None:
    """Two real servers run, one with drafts and one without."""
    tab, pair = turn_page(random_url), pair_named("bundled")
    with (
        engine_with(pair, EngineMethod.DRAFT_MODEL, 3, "Q8_0") as fast,
        ExitStack() as until_gone,
    ):
        plain = until_gone.enter_context(engine_with(pair, EngineMethod.NONE, 3, "Q8_0"))
        tab.visit(f"?view=serve&serve-server={fast.url}&serve-plain={plain.url}")
        page = Serve(tab)
        card = page.server
        attach, stop = (card.get_by_role("button", name=name) for name in ("Attach", "Stop"))
        sentence, reading, verdict = (card.get_by_role("status").nth(at) for at in range(3))
        card.get_by_label("Key").fill("open-sesame")
        attach.press("Enter")
        sentence.filter(has_text="speculation is active").wait_for()
        facts = card.locator("dl")
        before = facts.inner_text()
        card.get_by_role("button", name="Send").press("Enter")
        verdict.filter(has_text="the texts are the same").wait_for()
        lanes = card.locator("article:has(pre)")
        assert "nothing drafted" in lanes.first.inner_text()
        assert "drafted tokens accepted" in lanes.last.inner_text()
        expect(facts).not_to_have_text(before, use_inner_text=True)
        for name in ("Share of drafted", "Share of drafts", "Tokens that a", "Tokens that the"):
            page.chart(name).locator(".main-svg").first.wait_for()
        page.chart("Requests that").locator(".main-svg").first.wait_for()
        assert not page.chart("Milliseconds until").is_visible()
        each = card.get_by_role("group", name="Each server separately")
        assert not each.is_visible()
        absent = "No chart of first token and cache in use: llama.cpp does not count that."
        assert card.get_by_text(absent).is_visible()
        assert not findings(tab.page, ".serve-engine")
        stop.press("Enter")
        expect(reading).to_have_text("Stopped: the charts show what was read.")
        # Two addresses in the field count as two replicas of one service.
        card.get_by_label("Address").fill(f"{fast.url}, {plain.url}")
        card.get_by_label("It should speculate").press("Space")
        attach.press("Enter")
        servers = each.locator("tbody tr")
        servers.nth(1).filter(has_text="nothing drafted").wait_for()
        expect(sentence).to_contain_text("speculation is asked for but not active")
        expect(sentence).to_contain_text("These servers are not alike: speculation")
        assert not lanes.count(), "the texts were those of other servers"
        assert not card.get_by_text("the texts are the same").is_visible()
        assert not findings(tab.page, ".serve-engine")
        until_gone.close()
        servers.nth(1).filter(has_text="nothing listens there").wait_for()
        assert "llama.cpp" in servers.nth(0).inner_text()
        stop.press("Enter")
    attach.press("Enter")
    error = card.locator("#sv-watch-error")
    error.filter(has_text="none of the 2 servers answers").wait_for()
    assert "serve-server=" in tab.address and "sesame" not in tab.address
    assert "serve-speculates=1" in tab.address
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_the_whole_page_has_no_accessibility_fault(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    tab.page.locator("[data-page=serve]").click()
    Serve(tab).served.filter(has_text="100 %").wait_for()
    tab.page.locator("summary", has_text="How far to trust this").click()
    runs = tab.page.locator(".serve-runs")
    runs.locator("summary", has_text="weights of 4 or 8 bits").click()
    assert "Llama 2 70B, int4" in runs.inner_text() and "16.03" not in runs.inner_text()
    assert findings(tab.page) == []
