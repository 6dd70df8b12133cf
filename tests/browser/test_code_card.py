"""The code beside a moment, in the debugger: the lines that are executed, and their values."""

from __future__ import annotations

from tests.browser.step_driver import StepDriver

LINES = """[...document.querySelectorAll("[data-ref=stepCode] .is-now")]
    .map((row) => row.textContent.trim())"""

DRAW = "specviz.step.view.cursor.current.verdict(specviz.step.view.cursor.node).u"
SHOWN_DRAW = """[...document.querySelectorAll("[data-ref=stepCode] dt")]
    .find((each) => each.textContent === "uniform").nextElementSibling.textContent"""


def test_the_code_goes_along_with_every_moment(debugger: StepDriver) -> None:
    step = debugger.afresh("draft-model.code")
    card = step.driver.ref("codeCard")
    assert step.driver.evaluate(LINES) == [], "closed, it is not drawn"
    card.locator("summary").click()
    step.settle()
    seen: list[str] = []
    for _ in range(12):
        lines = step.driver.evaluate(LINES)
        assert lines, step.phase
        seen += lines
        if step.phase == "accept/reject":
            ends = "n += 1" if step.stop["outcome"] == "accepted" else "break"
            assert lines[-1] == ends
            u = step.driver.evaluate(DRAW)
            assert abs(float(step.driver.evaluate(SHOWN_DRAW)) - u) < 0.001
        step.press("ArrowRight")
    for part in ("next_probs(draft", "next_probs(target", "uniform(", "rest = ", "cache.crop"):
        assert any(part in line for line in seen), part
    step.driver.evaluate("document.querySelector('[data-ref=codeCard]').open = false")
