"""The race page as a person uses it: press, wait, read."""

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
# Until nothing is left to draw: charts come frames after what they show, or once they are in sight.
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
# Left in mid-sentence, Gradio complains of its own broken connection, sometimes a while later.
FAREWELLS = ("AbortError", "Connection errored out")


class RaceDriver:
    """One tab; `complaints` collects whatever should not have happened in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.complaints: list[str] = []
        self.has_left = False  # by a reload
        self.may_complain = False  # set where the server itself is taken away
        self.page = next(iter(context.pages), None) or context.new_page()
        self.page.set_default_timeout(END_SECONDS * 1000)  # two busy cores can be very slow
        self._listeners: dict[str, Callable[[Any], None]] = {
            "console": self._console,
            "pageerror": self._exception,
            "request": self._request,
            "response": self._response,
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)  # type: ignore[call-overload]

    def leave(self) -> None:
        """Whatever happens in the tab from now on is another visitor's."""
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

    # ---- doing

    def go(self, query: str = "") -> None:
        """Open the page, with all settings unfolded and its first recording, if any, at its end."""
        self.page.goto(self.url + query)
        self._until_ready()
        self.until("!specviz.race?.isReopening")

    def _until_ready(self) -> None:
        self.page.wait_for_selector("[data-ready][data-charts]")
        self.unfold()

    def unfold(self) -> None:
        """All settings in sight; a report has none."""
        self.evaluate("{ if (specviz.race) specviz.race.form.refs.more.open = true; }")

    def turn(self, query: str) -> None:
        """To another setting, as its address says it, without opening the page again."""
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
        """As by the browser's history, without opening the page again."""
        self.evaluate(f"history.pushState(null, '', {query!r})")
        self.evaluate("dispatchEvent(new PopStateEvent('popstate'))")

    def reload(self) -> None:
        """Leave in mid-sentence."""
        self.has_left = True
        self.page.reload()
        self._until_ready()

    def press_race(self) -> None:
        self.evaluate("window.headerBefore = specviz.race.view.trace.header")
        self.ref("race").click()

    def race(self) -> None:
        """Press Race and wait for the end."""
        self.press_race()
        self.wait_for_end()

    def wait_for_end(self, seconds: float = END_SECONDS) -> None:
        self.page.wait_for_selector(".is-busy", state="detached", timeout=seconds * 1000)
        self.settle()

    def wait_for_rounds(self, count: int = 1) -> None:
        """Of the race just begun: until it begins, the one before it stays."""
        self.until(f"{HAS_BEGUN} && specviz.race.view.trace.rounds.length >= {count}")

    def until(self, condition: str, seconds: float = END_SECONDS) -> None:
        try:
            self.page.wait_for_function(condition, timeout=seconds * 1000)
        except TimeoutError as error:
            raise AssertionError(f"{condition} in {seconds} s, at {self.state}") from error

    @property
    def state(self) -> str:
        """Where the page stands and what it says, for a test that waited in vain."""
        return f"{self.evaluate(STATE)}, {self.errors}"

    def rest(self) -> None:
        """Until the page has done what it puts off for a moment, such as writing its address."""
        self.until("hasNothingPutOff()")

    def settle(self) -> None:
        """Until the race is drawn."""
        self.evaluate(DRAW)

    def until_steady(self) -> None:
        """Until no colour or size changes by and by any more."""
        self.settle()
        self.until(IS_STEADY)

    def fill(self, ref: str, text: str) -> None:
        self.ref(ref).fill(text)

    # ---- reading

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
        """Whether the race that was pressed for is the one that shows."""
        return bool(self.evaluate(HAS_BEGUN))

    @property
    def errors(self) -> list[str]:
        return [each.inner_text() for each in self.page.locator(".specviz .error:visible").all()]

    @property
    def address(self) -> str:
        """As the page has it now, without what it has put off; `page.url` may come later."""
        return str(self.evaluate("location.href"))

    @property
    def query(self) -> str:
        """The present address after the server's own part."""
        self.rest()
        return self.address.removeprefix(self.url)

    @property
    def rounds(self) -> int:
        return int(self.evaluate("specviz.race.view.trace.rounds.length"))

    def lane_text(self, lane: str) -> str:
        """What the lane wrote, as the ribbon's own text."""
        script = (
            f"[...specviz.race.view.lanes.ribbons.{lane}.spans].map((s) => s.textContent).join('')"
        )
        return str(self.evaluate(script))
