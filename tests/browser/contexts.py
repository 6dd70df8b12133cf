"""Browser contexts and tabs that several tests use one after the other.

A page opens in a third of the time if the browser has already loaded and compiled its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, ViewportSize

from tests.browser.race_driver import RaceDriver

Scheme = Literal["light", "dark"]
Motion = Literal["reduce", "no-preference"]
SIZE: ViewportSize = {"width": 1280, "height": 900}

# Count the timers of a page that end within two seconds, such as the one that writes its address.
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

# Remove what the page has stored, and let its timers store nothing more.
EMPTY_STORAGE = """(() => {
    Storage.prototype.setItem = () => {};
    sessionStorage.clear();
    localStorage.clear();
})()"""


class Contexts:
    """A pool of browser contexts; a visitor gets one without data that an earlier page stored."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._idle: list[BrowserContext] = []

    def take(
        self,
        viewport: ViewportSize = SIZE,
        color_scheme: Scheme = "light",
        reduced_motion: Motion = "reduce",
    ) -> BrowserContext:
        """Return a context with one tab of this size, colour scheme and motion preference."""
        context = self._idle.pop() if self._idle else self._new()
        (page,) = context.pages
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        return context

    def _new(self) -> BrowserContext:
        context = self.browser.new_context()
        context.add_init_script(COUNT_TIMERS)
        context.new_page()
        return context

    def give_back(self, driver: RaceDriver) -> None:
        """Reset the visitor's tab to an empty one, and keep it for the next visitor."""
        context = driver.context
        driver.leave()
        page, *others = context.pages or [context.new_page()]
        for other in others:
            other.close()
        session = context.new_cdp_session(page)
        if page.url.startswith(driver.url):
            page.evaluate(EMPTY_STORAGE)
            stored = {"origin": driver.url.rstrip("/"), "storageTypes": "indexeddb"}
            session.send("Storage.clearDataForOrigin", stored)
        page.goto("about:blank")
        session.send("Page.resetNavigationHistory")
        session.detach()
        page.mouse.move(0, 0)
        context.clear_permissions()
        self._idle.append(context)


def give_all_back(pages: dict[str, RaceDriver], contexts: Contexts) -> None:
    for driver in pages.values():
        contexts.give_back(driver)
    pages.clear()


def pages_of_a_module(contexts: Contexts) -> Iterator[dict[str, RaceDriver]]:
    """Yield the pages of one test module.

    Its tests change forms, so they cannot use the pages that all tests share.
    """
    pages: dict[str, RaceDriver] = {}
    yield pages
    give_all_back(pages, contexts)
