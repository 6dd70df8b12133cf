"""A driver that operates the race page as a person does: click, wait, read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Locator,
    Request,
    Response,
    TimeoutError,
)

END_SECONDS = 90
# Wait until nothing is left to draw. Charts are drawn some frames after their data arrive, or when
# they become visible.
DRAW = """(async () => {
    const { frame } = specviz.race.view;
    const next = () => new Promise((done) => requestAnimationFrame(done));
    const isDone = () => !frame.isAsked && frame.rest === null;
    for (let n = 0; n < 600 && (n < 3 || !isDone()); n += 1) await next();
})()"""
IS_STEADY = """document.getAnimations()
    .filter((each) => each.effect.getTiming().iterations < Infinity)
    .every((each) => each.playState !== "running")"""
STATE = """[location.search, specviz?.step?.source, specviz?.race?.refs.runState.textContent,
    document.querySelector("[data-ref=stepNote]")?.textContent].join(" | ")"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HAS_BEGUN = "specviz.race.view.trace.header !== window.headerBefore"
# After a reload during a run, Gradio reports that its connection broke. The report may come late.
FAREWELLS = ("AbortError", "Connection errored out")


class RaceDriver:
    """One tab; `complaints` collects errors and other events that must not happen in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.complaints: list[str] = []
        # True after a reload, because the page may then report broken connections.
        self.has_left = False
        self.may_complain = False  # True in tests that cause errors on purpose
        self.page = next(iter(context.pages), None) or context.new_page()
        self.page.set_default_timeout(END_SECONDS * 1000)  # a page is slow if two cores are busy
        self._listeners: dict[str, Callable[[Any], None]] = {
            "console": self._console,
            "pageerror": self._exception,
            "request": self._request,
            "response": self._response,
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)  # type: ignore[call-overload]

    def leave(self) -> None:
        """Stop collecting complaints, because later events in the tab belong to another visitor."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)

    def _exception(self, error: object) -> None:
        self.complaints.append(f"exception: {error}")

    def _console(self, message: ConsoleMessage) -> None:
        is_farewell = self.has_left and any(each in message.text for each in FAREWELLS)
        if message.type in ("error", "warning") and not is_farewell:
            self.complaints.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"outside request: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")

    def go(self, query: str = "") -> None:
        """Open the page, show all its settings, and wait until the opening recording has ended."""
        self.page.goto(self.url + query)
        self._until_ready()
        self.until("!specviz.race?.isReopening")

    def _until_ready(self) -> None:
        self.page.wait_for_selector("[data-ready][data-charts]")
        self.unfold()

    def unfold(self) -> None:
        """Show all settings of the form. Do nothing in a report, because a report has no form."""
        self.evaluate("{ if (specviz.race) specviz.race.form.refs.more.open = true; }")

    def turn(self, query: str) -> None:
        """Change the form to the settings of an address without loading the page again."""
        self.evaluate("document.querySelector('[data-page=race]').click()")
        self.evaluate(
            f"""(() => {{ history.replaceState(null, "", location.pathname + {json.dumps(query)});
                const {{ race }} = specviz, {{ form, address }} = race;
                form.clearErrors();
                const usual = address.setup.settings.map((each) => [each.name, each.default]);
                form.fields = Object.fromEntries(usual);
                race.showProblems(address.read());
                race.drawRefusal();
                scrollTo(0, 0); }})()"""
        )

    def visit(self, query: str) -> None:
        """Add an address to the browser's history and go there, without loading the page again."""
        self.evaluate(f"history.pushState(null, '', {query!r})")
        self.evaluate("dispatchEvent(new PopStateEvent('popstate'))")

    def reload(self) -> None:
        """Load the page again, even during a run."""
        self.has_left = True
        self.page.reload()
        self._until_ready()

    def press_race(self) -> None:
        self.evaluate("window.headerBefore = specviz.race.view.trace.header")
        self.ref("race").click()

    def race(self) -> None:
        """Click Race and wait for the end of the race."""
        self.press_race()
        self.wait_for_end()

    def wait_for_end(self, seconds: float = END_SECONDS) -> None:
        self.page.wait_for_selector(".is-busy", state="detached", timeout=seconds * 1000)
        self.settle()

    def wait_for_rounds(self, count: int = 1) -> None:
        """Wait for `count` rounds of the race that was just started, not of the one before."""
        self.until(f"{HAS_BEGUN} && specviz.race.view.trace.rounds.length >= {count}")

    def until(self, condition: str, seconds: float = END_SECONDS) -> None:
        try:
            self.page.wait_for_function(condition, timeout=seconds * 1000)
        except TimeoutError as error:
            raise AssertionError(f"{condition} in {seconds} s, at {self.state}") from error

    @property
    def state(self) -> str:
        """Return the page's address and messages, for the report of a timeout."""
        return f"{self.evaluate(STATE)}, {self.errors}"

    def rest(self) -> None:
        """Wait until the page has done its delayed work, such as writing its address."""
        self.until("hasNothingPutOff()")

    def settle(self) -> None:
        """Wait until the race is drawn."""
        self.evaluate(DRAW)

    def until_steady(self) -> None:
        """Wait until no colour and no size changes any more."""
        self.settle()
        self.until(IS_STEADY)

    def fill(self, ref: str, text: str) -> None:
        self.ref(ref).fill(text)

    def ref(self, name: str) -> Locator:
        return self.page.locator(f"[data-ref={name}]")

    def text(self, name: str) -> str:
        return self.ref(name).inner_text().strip()

    def evaluate(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    @property
    def is_busy(self) -> bool:
        return self.page.locator(".is-busy").count() > 0

    @property
    def has_begun(self) -> bool:
        """Return whether the page shows the race that was just started."""
        return bool(self.evaluate(HAS_BEGUN))

    @property
    def errors(self) -> list[str]:
        return [each.inner_text() for each in self.page.locator(".specviz .error:visible").all()]

    @property
    def address(self) -> str:
        """Return the page's current address; `page.url` may be an older one."""
        return str(self.evaluate("location.href"))

    @property
    def query(self) -> str:
        """Return the query of the address after the page has written it."""
        self.rest()
        return self.address.removeprefix(self.url)

    @property
    def rounds(self) -> int:
        return int(self.evaluate("specviz.race.view.trace.rounds.length"))

    def lane_text(self, lane: str) -> str:
        """Return the text that a lane of the race shows."""
        script = (
            f"[...specviz.race.view.lanes.ribbons.{lane}.spans].map((s) => s.textContent).join('')"
        )
        return str(self.evaluate(script))
