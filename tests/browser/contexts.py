"""Browser contexts that are used again: a page opens quicker where its files are known already."""

from __future__ import annotations

from collections import defaultdict

from playwright.sync_api import Browser, BrowserContext, ViewportSize
from race_driver import RaceDriver

SIZE: ViewportSize = {"width": 1280, "height": 900}


class Contexts:
    """Each visitor has one for himself; the next one finds nothing that the page had stored."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._idle: defaultdict[str, list[BrowserContext]] = defaultdict(list)
        self._options: dict[BrowserContext, str] = {}

    def take(self, **options: object) -> BrowserContext:
        key = repr(sorted(options.items()))
        if self._idle[key]:
            return self._idle[key].pop()
        context = self.browser.new_context(**{"viewport": SIZE} | options)  # type: ignore[arg-type]
        self._options[context] = key
        return context

    def give_back(self, driver: RaceDriver) -> None:
        page = next(iter(driver.context.pages), None) or driver.context.new_page()
        session = driver.context.new_cdp_session(page)
        stored = {"origin": driver.url.rstrip("/"), "storageTypes": "local_storage,indexeddb"}
        session.send("Storage.clearDataForOrigin", stored)
        for page in driver.context.pages:
            page.close()
        driver.context.clear_permissions()
        self._idle[self._options[driver.context]].append(driver.context)
