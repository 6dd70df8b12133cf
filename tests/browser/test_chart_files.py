"""Any chart can be saved as a PNG or an SVG, with the shown content and colours."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator

from tests.browser.contexts import Contexts
from tests.browser.race_driver import RaceDriver
from tests.browser.step_driver import StepDriver

OpenPage = Callable[..., RaceDriver]
RUN = "?view=step&trace=draft-tree.story&round=3&pos=6"


@pytest.fixture(scope="module")
def opened(contexts: Contexts, random_url: str) -> Iterator[StepDriver]:
    driver = RaceDriver(contexts.take(color_scheme="dark"), random_url)
    driver.go(RUN)
    driver.evaluate("specviz.step.view.refs.hood.open = true")
    yield StepDriver(driver)
    assert driver.complaints == []
    contexts.give_back(driver)


def saved(opened: StepDriver, button: Locator, path: Path) -> bytes:
    with opened.page.expect_download() as download:
        button.press("Enter")
    path = path / download.value.suggested_filename
    download.value.save_as(path)
    return path.read_bytes()


def button(opened: StepDriver, chart: str, name: str) -> Locator:
    label = opened.driver.ref(chart).get_attribute("aria-label")
    return opened.page.get_by_role("button", name=f"{name} of this chart: {label}", exact=True)


@pytest.mark.parametrize("chart", ["stepTree", "stepBars", "stepResidual", "stepMask"])
def test_a_chart_is_saved_as_a_png_of_twice_its_size(
    opened: StepDriver, tmp_path: Path, chart: str
) -> None:
    data = saved(opened, button(opened, chart, "PNG"), tmp_path)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = opened.driver.ref(chart).locator("svg").first.bounding_box()
    assert drawn
    assert struct.unpack(">II", data[16:24]) == (
        round(2 * drawn["width"]),
        round(2 * drawn["height"]),
    )


def test_a_chart_is_saved_as_an_svg_with_the_background_of_the_current_theme(
    opened: StepDriver, tmp_path: Path
) -> None:
    text = saved(opened, button(opened, "stepTree", "SVG"), tmp_path).decode()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    card = opened.driver.evaluate("specviz.race.shell.theme.palette.card")
    red, green, blue = (int(card[i : i + 2], 16) for i in (1, 3, 5))
    assert f"fill: rgb({red}, {green}, {blue})" in text


def test_the_buttons_appear_when_a_chart_has_the_focus(opened: StepDriver) -> None:
    opened.page.mouse.move(2, 2)
    png = button(opened, "stepMask", "PNG")
    opened.leave_field()
    bar = png.locator("..")
    assert bar.evaluate("e => getComputedStyle(e).opacity") == "0"
    png.focus()
    assert bar.evaluate("e => getComputedStyle(e).opacity") == "1"


def test_a_chart_without_a_figure_has_no_buttons(opened: StepDriver) -> None:
    opened.driver.evaluate("specviz.step.view.views.residual.clear()")
    assert not button(opened, "stepResidual", "PNG").is_visible()
    opened.driver.evaluate("specviz.step.view.repaint()")


@pytest.mark.slow
def test_charts_of_a_race_can_be_saved(
    open_page: OpenPage, random_url: str, tmp_path: Path
) -> None:
    driver = open_page(random_url, "?tokens=20")
    assert driver.page.locator(".chart-save:visible").count() == 0
    driver.race()
    for chart in ("speedupChart", "depthChart"):
        label = driver.ref(chart).get_attribute("aria-label")
        save = driver.page.get_by_role("button", name=f"PNG of this chart: {label}", exact=True)
        with driver.page.expect_download() as download:
            save.click()
        assert download.value.suggested_filename.endswith(".png")
        assert Path(download.value.path()).read_bytes()[:4] == b"\x89PNG"


# Return whether a button of a visible chart covers a line of a title.
COVERED = """(() => {
    const linesOf = (title) => {
        const range = document.createRange();
        range.selectNodeContents(title);
        return [...range.getClientRects()];
    };
    const lines = [...document.querySelectorAll(".chart-card h3")].flatMap(linesOf);
    const bars = [...document.querySelectorAll(".chart-save")].filter((bar) => bar.offsetParent);
    const isOn = (a, b) =>
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return bars.some((bar) => lines.some((line) => isOn(line, bar.getBoundingClientRect())));
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_the_buttons_cover_no_title(turn_page: OpenPage, random_url: str, width: int) -> None:
    driver = turn_page(random_url, viewport={"width": width, "height": 900})
    driver.race()
    assert driver.page.locator(".chart-save:visible").count() >= 5
    assert not driver.evaluate(COVERED)
    driver.page.locator(".tabs [data-page=step]").click()
    step = StepDriver(driver)
    step.press("n")
    assert driver.page.locator(".chart-save:visible").count() >= 2
    assert not driver.evaluate(COVERED)
