"""What axe-core objects to on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def findings(page: Page, part: str | None = None) -> list[str]:
    """Whatever axe-core objects to, minor or critical, an element a line; perhaps in a part."""
    only = {"resultTypes": ["violations"]}  # collecting what passes would take twice as long
    violations = Axe().run(page, part, options=only).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in violations
        for node in each["nodes"]
    ]
