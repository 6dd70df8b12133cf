"""Accessibility faults that axe-core finds on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def findings(page: Page, part: str | None = None) -> list[str]:
    """Return every fault that axe-core finds on the page or in `part`, from minor to critical.

    Each line names one element.
    """
    # axe-core takes half the time if it does not report the passed checks
    only = {"resultTypes": ["violations"]}
    violations = Axe().run(page, part, options=only).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in violations
        for node in each["nodes"]
    ]
