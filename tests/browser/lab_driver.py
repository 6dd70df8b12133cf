"""A driver that operates the lab as a person does: a small sweep, its points, its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.browser.race_driver import RaceDriver

SWEEP = "specviz.lab.sweep"


class LabDriver:
    def __init__(self, driver: RaceDriver) -> None:
        self.driver, self.page = driver, driver.page

    def order(self, values: str = "1-2", tokens: int = 6) -> None:
        """Fill in the form for a very small sweep: one prompt, one repeat."""
        for ref, text in (("values1", values), ("labMaxNewTokens", str(tokens))):
            self.driver.fill(ref, text)
        for ref in ("labPrompts", "labRepeats"):
            self.driver.fill(ref, "1")

    def run(self, **order: Any) -> None:
        self.start(**order)
        self.wait_for_end()

    def start(self, **order: Any) -> None:
        """Start a sweep and wait for its first point (not for a point of an earlier sweep)."""
        self.order(**order)
        self.driver.evaluate(f"{SWEEP}.refs.sweepBar.removeAttribute('value')")
        self.driver.ref("sweepGo").click()
        self.driver.until(f"{SWEEP}.refs.sweepBar.hasAttribute('value')")
        self.wait_for_points(1)

    def wait_for_points(self, count: int) -> None:
        self.driver.until(f"{SWEEP}.views.places.length >= {count}")

    def wait_for_end(self) -> None:
        self.driver.until(f"!{SWEEP}.run.isBusy && !{SWEEP}.isDrawing")

    @property
    def points(self) -> int:
        return self.driver.ref("sweepTable").locator("tbody tr").count()

    @property
    def picked(self) -> str:
        return self.driver.ref("sweepTable").locator("tr.is-selected .pick").inner_text()

    def saved(self, ref: str) -> tuple[str, str]:
        """Click a button that saves a file; return the file's name and text."""
        with self.page.expect_download() as waiting:
            self.driver.ref(ref).click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text("utf-8")

    def chart(self, name: str) -> Any:
        """Return the traces of a chart as Plotly drew them."""
        data = f"{SWEEP}.views.charts.{name}.box.data"
        return json.loads(self.driver.evaluate(f"JSON.stringify({data} ?? null)"))
