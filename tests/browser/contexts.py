"""Browser contexts and tabs that are used again: a page opens in a third of the time where the
browser has its files and has compiled them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ViewportSize

from tests.browser.race_driver import RaceDriver

SIZE: ViewportSize = {"width": 1280, "height": 900}

# Counts what a page has put off for less than two seconds, such as writing its address.
COUNT_TIMERS = """(() => {
    const [set, clear, waiting] = [window.setTimeout, window.clearTimeout, new Set()];
    window.setTimeout = (run, wait = 0, ...given) => {
        const id = set(() => { waiting.delete(id); run(...given); }, wait);
        if (wait > 0 && wait < 2000) waiting.add(id);
        return id;
    };
    window.clearTimeout = (id) => { waiting.delete(id); clear(id); };
    window.hasNothingPutOff = () => waiting.size === 0;
})()"""


class Contexts:
    """Each visitor has one to itself; the next one finds nothing that the page had stored."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._idle: defaultdict[str, list[BrowserContext]] = defaultdict(list)
        self._options: dict[BrowserContext, dict[str, Any]] = {}

    def take(self, **options: object) -> BrowserContext:
        whole: dict[str, Any] = {"viewport": SIZE} | options
        if self._idle[repr(whole)]:
            return self._idle[repr(whole)].pop()
        context = self.browser.new_context(**whole)
        context.add_init_script(COUNT_TIMERS)
        self._options[context] = whole
        return context

    def give_back(self, driver: RaceDriver) -> None:
        """Empty the visitor's tab, as if it had just been opened, and keep it."""
        context, options = driver.context, self._options[driver.context]
        driver.leave()
        page, *others = context.pages or [context.new_page()]
        for other in others:
            other.close()
        session = context.new_cdp_session(page)
        if page.url.startswith(driver.url):
            page.evaluate("sessionStorage.clear(), localStorage.clear()")
            stored = {"origin": driver.url.rstrip("/"), "storageTypes": "indexeddb"}
            session.send("Storage.clearDataForOrigin", stored)
        page.goto("about:blank")
        session.send("Page.resetNavigationHistory")
        session.detach()
        page.mouse.move(0, 0)
        page.set_viewport_size(options["viewport"])
        context.clear_permissions()
        self._idle[repr(options)].append(context)


def give_all_back(pages: dict[str, RaceDriver], contexts: Contexts) -> None:
    for driver in pages.values():
        contexts.give_back(driver)
    pages.clear()


def pages_of_a_module(contexts: Contexts) -> Iterator[dict[str, RaceDriver]]:
    """Instead of the pages that all tests share, where a page's forms stay as they are left."""
    pages: dict[str, RaceDriver] = {}
    yield pages
    give_all_back(pages, contexts)
