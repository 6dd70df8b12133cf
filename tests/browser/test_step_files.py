"""The debugger saves and opens runs as files, and an address leads back to its moment."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.golden import golden_trace
from specviz.trace_file import dumps, load
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import CURSOR, KEPT_RUN_SHOWN, LAST, NAME, TRACE, StepDriver, moments
from tests.random_traces import random_trace

OpenPage = Callable[..., RaceDriver]


def test_an_address_leads_back_to_its_moment(opened: StepDriver) -> None:
    opened.press("n", "n", "ArrowRight")
    here = opened.place
    opened.driver.rest()
    assert f"trace={NAME}&round={here[0] + 1}&pos={here[1] + 1}" in opened.driver.evaluate(
        "location.search"
    )
    opened.driver.reload()
    again = StepDriver(opened.driver)
    assert again.place == here


def test_a_saved_run_can_be_opened_and_is_the_same_run(
    debugger: StepDriver, tmp_path: Path
) -> None:
    step = debugger.afresh("dynamic-tree.chat.smollm2")
    with step.page.expect_download() as download:
        step.driver.ref("stepSave").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert load(path) == golden_trace("dynamic-tree.chat.smollm2")
    step.driver.ref("stepFile").set_input_files(path)
    step.driver.until(KEPT_RUN_SHOWN)
    step.press("Shift+ArrowRight")
    step.driver.rest()
    step.driver.reload()
    again = StepDriver(step.driver)
    assert again.place[0] == 1
    assert len(again.rounds()) == len(golden_trace("dynamic-tree.chat.smollm2").rounds)


HOSTILE: list[tuple[str, bytes]] = [
    ("text", b"hello"),
    ("empty", b""),
    ("list", b"[]"),
    ("torn gzip", gzip.compress(b"{}", mtime=0)[:9]),
    ("deep", b"[" * 100_000),
    ("not finite", dumps(random_trace(1)).replace(b'"seconds":', b'"seconds":NaN,"x":', 1)),
]


@pytest.mark.parametrize(("name", "data"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_a_broken_file_is_refused_and_the_open_run_stays(
    opened: StepDriver, tmp_path: Path, name: str, data: bytes
) -> None:
    opened.press("n")
    here = opened.place
    (tmp_path / "run.json").write_bytes(data)
    opened.driver.ref("stepFile").set_input_files(tmp_path / "run.json")
    opened.page.wait_for_selector("[data-ref=stepError]:visible")
    assert opened.driver.text("stepError").startswith("trace")
    assert opened.place == here and opened.driver.ref("stepTrace").input_value() == NAME


def test_markup_in_a_token_stays_text(opened: StepDriver, tmp_path: Path) -> None:
    hostile = json.loads(dumps(TRACE))
    hostile["tokens"] = [[i, f"<img src=x onerror=pwned=1>{i}"] for i, _ in hostile["tokens"]]
    hostile["prompt"] = "<script>window.pwned=1</script>${window.pwned=1}"
    (tmp_path / "run.json").write_text(json.dumps(hostile))
    opened.driver.ref("stepFile").set_input_files(tmp_path / "run.json")
    opened.driver.until(KEPT_RUN_SHOWN)
    opened.press("n", "ArrowRight", "ArrowRight")
    assert opened.driver.evaluate("window.pwned ?? null") is None
    assert opened.page.locator("[data-specviz] img[src=x]").count() == 0


def test_an_address_beyond_the_run_leads_to_its_end(open_page: OpenPage, random_url: str) -> None:
    driver = open_page(random_url, f"?view=step&trace={NAME}&round=999&pos=999")
    step = StepDriver(driver)
    driver.until(f"{CURSOR}.trace.ending")
    step.settle()
    assert step.place == (LAST, moments(TRACE.rounds[-1]) - 1)


def test_two_recordings_are_shown_side_by_side_with_their_first_difference(
    opened: StepDriver,
) -> None:
    opened.driver.ref("compareWith").select_option("draft-model.code")
    opened.driver.until("!specviz.step.compare.transport.isBusy")
    opened.page.wait_for_selector("[data-ref=differenceRow]:visible")
    opened.driver.until(
        "document.querySelector('[data-ref=difference]').textContent.includes('prompt')"
    )
    assert opened.driver.ref("otherText").is_visible()
    opened.driver.ref("compareWith").select_option("")
    opened.settle()
    assert not opened.driver.ref("otherText").is_visible()


def test_several_quick_choices_end_with_the_last_one(opened: StepDriver) -> None:
    for name in ("medusa.chat.smollm2", "eagle.code.smollm2", "prompt-lookup.chat.smollm2"):
        opened.driver.ref("stepTrace").select_option(name)
    opened.driver.until(f"!specviz.step.transport.isBusy && {CURSOR}.trace.ending")
    assert opened.driver.evaluate("specviz.step.source") == "prompt-lookup.chat.smollm2"
    assert len(opened.rounds()) == len(golden_trace("prompt-lookup.chat.smollm2").rounds)


def test_a_text_that_arrives_in_parts_fades_only_tokens_after_the_moment(
    open_page: OpenPage, random_url: str
) -> None:
    step = StepDriver(open_page(random_url, f"?view=step&trace={NAME}&round=5&pos=2"))
    later = (
        "[...document.querySelectorAll('[data-ref=stepText] .token')]"
        ".map((token) => token.classList.contains('is-later'))"
    )
    first = step.driver.evaluate(f"{CURSOR}.current.firstToken")
    faded = step.driver.evaluate(later)
    assert first > 3 and not any(faded[:first]) and all(faded[first + 1 :])
    step.press("End")
    assert not any(step.driver.evaluate(later))


def test_a_file_refused_while_a_recording_opens_leaves_the_whole_recording(
    debugger: StepDriver,
) -> None:
    name = "early-exit.chat.smollm2"
    debugger.driver.evaluate(
        f"""(() => {{ const step = specviz.step, take = step.take.bind(step);
            step.take = (message) => {{
                take(message);
                if (message.kind !== "header") return;
                step.take = take;
                step.open("kept-wrong", {{ data: btoa("nonsense") }}, "wrong.json");
            }};
            step.choose({name!r}); }})()"""
    )
    debugger.page.wait_for_selector("[data-ref=stepError]:visible")
    debugger.driver.until(f"{CURSOR}.trace.ending && specviz.step.source === {name!r}")
    assert len(debugger.rounds()) == len(golden_trace(name).rounds)
    assert "text that is not JSON" in debugger.driver.text("stepError")
