"""A driver that operates the debugger's page as a person does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specviz.golden import golden_trace
from specviz.records import Outcome, Round
from tests.browser.race_driver import RaceDriver

CURSOR = "specviz.step.view.cursor"
# A script that is true as soon as the page shows a complete run from a file or a fork. Until then,
# the page shows the previous run.
KEPT_RUN_SHOWN = (
    f"specviz.step.source.startsWith('kept-') && {CURSOR}.trace.ending"
    f" && {CURSOR}.trace === specviz.step.opened"
)
# The server always sends the same messages for a recording. So the script stores them when the
# recording is first opened, and uses the stored messages each further time.
OPEN_AFRESH = """(name) => {
    const page = specviz.step, { view, transport } = page;
    document.activeElement.blur();
    scrollTo(0, 0);
    for (const row of view.stops.rows) {
        row.box.checked = row.rule.name === "rejection";
        if (row.input) row.input.value = String(row.rule.value);
    }
    for (const field of Object.values(view.fork.controls)) field.value = "";
    view.chooseAxis("round");
    view.refs.hood.open = true;
    window.recordings ??= {};
    if (window.recordings[name]) {
        page.begin(name, name);
        view.isOurs = false;
        for (const text of window.recordings[name]) page.take(JSON.parse(text));
        return;
    }
    const take = transport.on.message, texts = [];
    transport.on.message = (message) => {
        texts.push(JSON.stringify(message));
        if (message.kind === "end") {
            window.recordings[name] = texts;
            transport.on.message = take;
        }
        take(message);
    };
    page.choose(name);
}"""
DRAW = """(async () => {
    const { frame } = specviz.step.view;
    const next = () => new Promise((done) => requestAnimationFrame(done));
    const isDone = () => !frame.isAsked && frame.rest === null;
    for (let n = 0; n < 600 && (n < 2 || !isDone()); n += 1) await next();
})()"""
NAME = "draft-tree.story"
TRACE = golden_trace(NAME)
LAST = len(TRACE.rounds) - 1


def moments(each: Round) -> int:
    """Return the number of moments that the debugger shows for this round."""
    levels = max((node.depth for node in each.tree.nodes), default=1)
    examined = sum(v.outcome is not Outcome.UNREACHED for v in each.verdicts)
    return levels + 1 + examined + (each.extra is not None) + 1


class StepDriver:
    """The debugger in one tab, with an open run."""

    def __init__(self, driver: RaceDriver) -> None:
        self.driver, self.page = driver, driver.page
        self.driver.until(f"{CURSOR}.trace && !specviz.step.transport.isBusy")
        self.settle()

    def afresh(self, name: str) -> StepDriver:
        """Open a recording as a new page would, with the default rules, axis and moment."""
        self.page.evaluate(OPEN_AFRESH, name)
        whole = f"specviz.step.source === {name!r} && !specviz.step.transport.isBusy"
        self.driver.until(f"{whole} && {CURSOR}.trace.ending")
        self.driver.evaluate(f"{CURSOR}.go(0, 0)")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until everything is drawn; charts are drawn one frame after the tree."""
        self.driver.evaluate(DRAW)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def leave_field(self) -> None:
        """Remove the focus from a field, because a focused menu would receive the keys."""
        self.driver.evaluate("document.activeElement.blur()")

    def click(self, ref: str) -> None:
        self.driver.ref(ref).click()
        self.settle()

    @property
    def place(self) -> tuple[int, int]:
        """Return the indices of the current round and of its current moment."""
        return tuple(self.driver.evaluate(f"[{CURSOR}.round, {CURSOR}.at]"))

    @property
    def phase(self) -> str:
        return self.page.locator("[data-ref=stepPhases] [aria-current]").inner_text()

    @property
    def stop(self) -> dict[str, Any]:
        """Return the node at the debugger's cursor and the node's recorded outcome."""
        script = f"""(() => {{ const c = {CURSOR}, r = c.current;
            return {{ node: c.node, outcome: r.outcomes[c.node] ?? r.extraKind }} }})()"""
        return dict(self.driver.evaluate(script))

    def rounds(self) -> list[dict[str, Any]]:
        return list(self.driver.evaluate(f"{CURSOR}.trace.rounds.map((r) => r.record)"))


OpenStep = Callable[..., StepDriver]
