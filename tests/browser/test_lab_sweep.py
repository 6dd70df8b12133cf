"""The lab shows a sweep while it is measured, saves it, stops it, and keeps it after a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser.axe_findings import findings
from tests.browser.contexts import Contexts, pages_of_a_module
from tests.browser.lab_driver import SWEEP, LabDriver
from tests.browser.race_driver import OVERFLOW, RaceDriver

OpenPage = Callable[..., RaceDriver]


@pytest.fixture(scope="module")
def kept_pages(contexts: Contexts) -> Iterator[dict[str, RaceDriver]]:
    yield from pages_of_a_module(contexts)


@pytest.fixture
def lab(turn_page: Callable[..., RaceDriver], random_url: str) -> LabDriver:
    driver = turn_page(random_url)
    driver.page.locator("[data-page=lab]").click()
    return LabDriver(driver)


def test_before_a_sweep_the_page_says_what_will_appear(lab: LabDriver) -> None:
    driver = lab.driver
    assert driver.ref("sweepLesson").is_visible() and driver.ref("sweepViews").is_hidden()
    assert driver.text("sweepSize") == "8 points, 192 runs"
    assert findings(driver.page) == []


@pytest.mark.slow
def test_a_link_and_a_reload_restore_the_forms(open_page: OpenPage, random_url: str) -> None:
    given = "lab-task=own&lab-text=one%0Atwo&lab-vary=temperature&lab-values=0%2C1&lab-top-k=40"
    driver = open_page(random_url, f"?view=lab&{given}&lab-batch=4&lab-tokens=0&lab-method=magic")
    said = driver.text("labNotice")
    assert (
        "lab-tokens must be a whole number from 1" in said and "lab-method must be one of" in said
    )

    def values() -> list[str]:
        refs = ("labTask", "ownText", "axis1", "values1", "labTopK", "adviceBatch")
        return [driver.ref(ref).input_value() for ref in (*refs, "labMaxNewTokens")]

    wanted = ["own", "one\ntwo", "temperature", "0,1", "40", "4", "64"]
    assert values() == wanted
    driver.until(
        "document.querySelector('[data-ref=sweepSize]').textContent === '2 points, 16 runs'"
    )
    assert set(given.split("&")) <= set(driver.query.removeprefix("?").split("&"))
    driver.page.locator("[data-page=race]").click()
    assert "lab-" not in driver.query
    driver.reload()
    driver.page.locator("[data-page=lab]").click()
    assert values() == wanted and driver.ref("labNotice").is_hidden()


def test_a_sweep_ends_with_charts_a_table_and_files_that_can_be_opened(lab: LabDriver) -> None:
    driver = lab.driver
    lab.run(values="1-2")
    assert "×" in driver.text("sweepSentence") and "draft length K" in driver.text("sweepSentence")
    assert driver.text("sweepSetting").endswith("6 new tokens · 1 repeat")
    assert driver.text("sweepSetting").startswith("Bundled pair · code: prompt 1 · ")
    assert lab.points == 2 and len(lab.chart("speedup")[-1]["x"]) == 2
    assert [trace["name"] for trace in lab.chart("times")][:5] == [
        *("prefill", "draft prefill", "draft", "verify", "rest"),
    ]
    assert lab.chart("heatmap") is None
    name, text = lab.saved("sweepSave")
    assert name.endswith(".jsonl") and text.count("\n") == 3
    assert lab.saved("sweepCsv")[1].startswith("draft-length,speedup,")
    file = {"name": "mine.jsonl", "mimeType": "text/plain", "buffer": text.encode()}
    driver.ref("sweepFile").set_input_files(file)  # type: ignore[arg-type]
    driver.until(f"{SWEEP}.sweep.noise.length === 0")
    assert lab.points == 2 and driver.text("sweepState").startswith("mine.jsonl")
    file["buffer"] = b"{}\n"  # type: ignore[assignment]
    driver.ref("sweepFile").set_input_files(file)  # type: ignore[arg-type]
    driver.page.wait_for_selector("[data-ref=sweepError]:visible")
    assert driver.text("sweepError").startswith("mine.jsonl: file must be a sweep's file")
    assert lab.points == 2
    assert driver.evaluate("sessionStorage.getItem('specviz-sweep')")
    # This sweep is too large for the tab's storage.
    driver.evaluate(f"{SWEEP}.sweep.setNoise(Array(2e6).fill(1.0625))")
    assert driver.evaluate("sessionStorage.getItem('specviz-sweep')") is None
    driver.evaluate(f"{SWEEP}.sweep.setNoise([])")


def test_keys_and_rows_select_points_and_the_charts_follow(lab: LabDriver) -> None:
    lab.run(values="1-3")
    for key, value in (("Home", "1"), ("ArrowRight", "2"), ("End", "3"), ("ArrowLeft", "2")):
        lab.page.keyboard.press(key)
        picked = "document.querySelector('.is-selected .pick')?.textContent"
        lab.driver.until(f"!{SWEEP}.isDrawing && {picked} === '{value}'")
        assert lab.picked == value
        assert lab.driver.text("pickedWords") == f"at draft length K {value}"
        assert len(lab.chart("depth")[1]["x"]) <= int(value)
    lab.page.get_by_role("button", name="Show the point 1", exact=True).click()
    lab.driver.until("document.querySelector('.is-selected .pick').textContent === '1'")
    assert lab.page.evaluate("document.activeElement.textContent") == "1"

    said = lab.driver.evaluate(
        """(async () => {
            const { sweep } = specviz.lab;
            const { transport } = sweep.run;
            transport.ask = async () => null; // as where there is no server
            await sweep.draw();
            sweep.failed("The server cannot be reached.");
            await sweep.draw();
            delete transport.ask;
            const lines = [...document.querySelectorAll(".lab .error")].filter((each) => each.offsetWidth);
            sweep.form.clearErrors();
            sweep.begun();
            sweep.drawState();
            return lines.length;
        })()"""  # noqa: E501
    )
    assert said == 1


@pytest.mark.slow
def test_two_axes_make_a_heatmap_and_nothing_is_cut_off(lab: LabDriver) -> None:
    driver = lab.driver
    driver.ref("axis2").select_option("temperature")
    driver.fill("values2", "0,1")
    lab.run(values="1-2")
    assert lab.points == 4 and len(lab.chart("heatmap")[0]["z"]) == 2
    assert driver.ref("labPair").is_visible() and driver.ref("settingChange").is_hidden()
    for width in (390, 1280):
        lab.page.set_viewport_size({"width": width, "height": 900})
        # On a narrow screen, the page hides the fields of the form once it shows a result.
        assert driver.ref("labPair").is_hidden() is (width == 390)
        for _ in range(2):
            driver.ref("large").click()
            driver.settle()
            driver.until(f"!{SWEEP}.isDrawing")
            assert driver.evaluate(OVERFLOW) <= 0
    driver.ref("theme").click()
    driver.until_steady()
    driver.until(f"!{SWEEP}.isDrawing")
    assert findings(lab.page, "#sv-lab-sweep") == []
    driver.ref("theme").click()
    lab.page.set_viewport_size({"width": 390, "height": 900})
    for change, field in (("settingChange", "labPair"), ("sweepChange", "axis2")):
        driver.ref(change).click()
        assert driver.ref(field).is_visible()
    driver.ref("axis2").select_option("")


@pytest.mark.parametrize(
    ("ref", "text", "sentence"),
    [
        ("values1", "0", "Draft length K must be"),
        ("values1", "", "Draft length K must have at least one value"),
        ("labTemperature", "hot", "Temperature must be a number"),
        ("labPrompts", "99", "Prompts must be a whole number from 1 to 40"),
        ("labRepeats", "0", "Repeats must be a whole number from 1 to 100"),
        ("adviceBatch", "0.5", "Batch size must be a whole number from 1 to 64"),
        ("adviceMethods", "magic", "Methods must be names of"),
        ("peersLength", "99", "Draft length must be a whole number from 1 to 32"),
    ],
)
def test_an_invalid_value_shows_one_line_at_its_field_while_it_is_typed(
    lab: LabDriver, ref: str, text: str, sentence: str
) -> None:
    lab.order()
    before = lab.driver.ref(ref).input_value()
    lab.driver.fill(ref, text)
    (error,) = lab.driver.errors
    assert error.startswith(sentence) and error.endswith(f"got “{text}”")
    described = lab.driver.ref(ref).get_attribute("aria-describedby") or ""
    assert error in lab.page.locator(f"#{described.split()[-1]}").inner_text()
    assert lab.driver.ref(ref).get_attribute("aria-invalid") == "true"
    lab.driver.fill(ref, before)
    assert lab.driver.errors == []


@pytest.mark.slow
def test_a_stopped_sweep_keeps_its_points_and_continues_while_another_page_is_used(
    lab: LabDriver,
) -> None:
    driver = lab.driver
    lab.start(values="1-3", tokens=60)  # the sweep is long enough to be stopped on any machine
    driver.page.locator("[data-page=race]").click()
    driver.fill("prompt", "while it runs")
    assert driver.ref("prompt").input_value() == "while it runs"
    driver.page.locator("[data-page=lab]").click()
    driver.page.keyboard.press("Escape")
    lab.wait_for_end()
    kept = lab.points
    assert 1 <= kept < 3 and driver.text("sweepState") == f"stopped: {kept} of 3 points"
    driver.ref("sweepRest").click()
    driver.until(f"{SWEEP}.views.places.length === 3 && !{SWEEP}.run.isBusy")
    assert driver.ref("sweepRest").is_hidden()


@pytest.mark.slow
def test_a_sweep_that_is_stopped_while_it_waits_keeps_the_one_before_it(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url, "?view=lab")
    lab = LabDriver(driver)
    driver.ref("adviceGo").click()
    driver.until("specviz.lab.advice.refs.adviceState.textContent.startsWith('trying')")
    lab.order()
    driver.ref("sweepGo").click()
    driver.until(f"{SWEEP}.refs.sweepState.textContent.includes('ahead of yours: advice · about')")
    driver.ref("sweepStop").click()
    driver.until(f"{SWEEP}.refs.sweepState.textContent === 'stopped before it began'")
    assert driver.ref("sweepLesson").is_visible() and driver.ref("sweepRest").is_hidden()
    driver.page.keyboard.press("Escape")
    driver.until("!specviz.lab.advice.run.isBusy")


def test_values_that_are_names_are_chosen_and_numbers_are_typed(lab: LabDriver) -> None:
    driver = lab.driver
    driver.ref("axis1").select_option("method")
    assert driver.ref("values1").is_hidden() and driver.ref("labMethod").is_hidden()
    chips = driver.ref("choices1").locator("button")
    for chip in chips.all():
        if chip.get_attribute("aria-pressed") == "true":
            chip.click()
    driver.ref("choices1").locator("[data-name=prompt-lookup]").click()
    driver.ref("choices1").locator("[data-name=draft-model]").click()
    assert driver.ref("values1").input_value() == "draft-model,prompt-lookup"
    driver.ref("axis1").select_option("draft-length")
    assert driver.ref("values1").is_visible() and driver.ref("labMethod").is_visible()


def test_the_menu_has_the_axes_of_the_method_and_two_options_make_a_heat_map(
    lab: LabDriver,
) -> None:
    driver = lab.driver

    def offered() -> list[str]:
        return driver.ref("axis1").locator("option").evaluate_all("all => all.map((o) => o.value)")

    assert "longest-ngram" not in offered() and "temperature" in offered()
    driver.ref("labMethod").select_option("prompt-lookup")
    assert "longest-ngram" in offered() and "width" not in offered()
    for at, (axis, values) in enumerate({"shortest-ngram": "1,2", "longest-ngram": "2,3"}.items()):
        driver.ref(f"axis{at + 1}").select_option(axis)
        driver.fill(f"values{at + 1}", values)
    driver.ref("labMethod").select_option("draft-model")
    error = driver.page.locator("[data-error=axis1]")
    assert error.inner_text() == (
        "Shortest n-gram is varied with Prompt lookup alone, not with Draft model, chain"
    )
    assert driver.ref("axis1").input_value() == "shortest-ngram" and not findings(driver.page)
    driver.ref("labMethod").select_option("prompt-lookup")
    assert error.is_hidden()
    lab.run(values="1,2")
    assert lab.points == 4 and len(lab.chart("heatmap")[0]["z"]) == 2


def test_an_address_with_an_axis_of_another_method_says_which_methods_have_it(
    random_url: str, turn_page: Callable[..., RaceDriver]
) -> None:
    tab = turn_page(random_url, "?lab-method=draft-model&lab-vary=longest-ngram&lab-values=2,3")
    tab.evaluate("specviz.lab.readAddress()")
    assert "Vary “longest-ngram” is varied with Prompt lookup alone" in tab.text("labNotice")
    tab = turn_page(random_url, "?lab-method=prompt-lookup&lab-vary=longest-ngram&lab-values=2,3")
    tab.evaluate("specviz.lab.readAddress()")
    assert (
        tab.ref("axis1").input_value() == "longest-ngram" and not tab.ref("labNotice").is_visible()
    )


@pytest.mark.slow
def test_after_a_reload_during_a_sweep_its_points_are_kept_and_the_page_says_so(
    open_page: OpenPage, random_url: str
) -> None:
    lab = LabDriver(open_page(random_url, "?view=lab"))
    lab.start(values="1-3", tokens=24)
    lab.driver.reload()
    lab.wait_for_points(1)
    said = lab.driver.text("sweepState")
    assert said.startswith("Leaving the page ends a sweep:")
    assert lab.driver.ref("sweepRest").is_visible()
    lab.start(values="1-3", tokens=24)
    lab.wait_for_end()
    values = lab.driver.evaluate(f"{SWEEP}.sweep.points.map((p) => p.setting['draft-length'])")
    assert values == sorted(set(values))


@pytest.mark.slow
def test_the_batch_of_the_selected_point_is_drawn_round_by_round(lab: LabDriver) -> None:
    driver = lab.driver
    driver.ref("axis1").select_option("batch-size")
    lab.run(values="1,2")
    driver.page.click("[data-place='0']")
    driver.until(f"{SWEEP}.views.reply.picked === 0")
    assert driver.ref("batchCard").is_hidden(), "a single text is no batch"
    driver.page.click("[data-place='1']")
    driver.ref("batchGo").click()
    driver.page.wait_for_selector(".batch-rows li")
    assert driver.ref("batchRows").locator("li").count() == 2
    assert driver.text("batchSaid").startswith("At batch size 2, round ")
    driver.ref("batchRound").fill("0")
    assert driver.text("batchSaid") == "2 prompts have been read. Each row has one token."
