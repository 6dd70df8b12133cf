"""What axe-core objects to on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from race_driver import RaceDriver

GRAVE = ("serious", "critical")


def findings(driver: RaceDriver) -> list[str]:
    """What axe-core calls serious or critical, an element a line."""
    violations = Axe().run(driver.page).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in violations
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]
