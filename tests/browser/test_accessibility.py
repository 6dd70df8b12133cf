"""axe-core finds nothing serious on either page, wide and light or narrow and dark, with a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from race_driver import RaceDriver
from step_driver import StepDriver

OpenPage = Callable[..., RaceDriver]
GRAVE = ("serious", "critical")
LOOKS = {"light": (1280, 900, "light"), "dark": (390, 844, "dark")}
RUN = "?view=step&trace=draft-tree.story&round=3&pos=7"


def findings(driver: RaceDriver) -> list[str]:
    """What axe-core calls serious or critical, an element a line."""
    violations = Axe().run(driver.page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in violations
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


@pytest.fixture(params=LOOKS)
def options(request: pytest.FixtureRequest) -> dict[str, object]:
    width, height, scheme = LOOKS[request.param]
    return {"viewport": {"width": width, "height": height}, "color_scheme": scheme}


def test_the_race_page_has_no_serious_finding_before_and_after_a_race(
    open_page: OpenPage, random_url: str, options: dict[str, object]
) -> None:
    driver = open_page(random_url, **options)
    assert findings(driver) == []
    driver.race()
    assert findings(driver) == []


def test_the_debugger_has_no_serious_finding_at_any_phase(
    open_page: OpenPage, random_url: str, options: dict[str, object]
) -> None:
    step = StepDriver(open_page(random_url, RUN, **options))
    for key in ("Home", "n"):
        step.press(key)
        assert findings(step.driver) == []


def test_the_check_itself_sees_a_button_without_a_name(
    open_page: OpenPage, random_url: str
) -> None:
    driver = open_page(random_url)
    driver.evaluate("document.querySelector('[data-ref=theme]').removeAttribute('aria-label')")
    driver.evaluate("document.querySelector('[data-ref=theme]').removeAttribute('title')")
    assert any(each.startswith("button-name") for each in findings(driver))
