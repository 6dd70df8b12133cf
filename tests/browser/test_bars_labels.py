"""The labels of the chart of p and q never overlap or leave their card, at any width."""

from __future__ import annotations

import pytest

from tests.browser.step_driver import CURSOR, StepDriver

# A script that returns the texts which overlap another text of the chart's card or leave the card.
CLASHES = """(() => {
    const card = document.querySelector("[data-ref=stepBars]").closest("article");
    const whole = card.getBoundingClientRect();
    const texts = [...card.querySelectorAll("svg text, p:not(:empty)")]
        .map((each) => ({ text: each.textContent, box: each.getBoundingClientRect() }))
        .filter(({ text, box }) => text.trim() && box.width > 0);
    const isOut = ({ box }) => box.left < whole.left || box.right > whole.right;
    const isOn = ({ box: a }, { box: b }) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
    const clashes = (each, at) => isOut(each) || texts.slice(at + 1).some((b) => isOn(each, b));
    return texts.filter(clashes).map(({ text }) => text);
})()"""
# A script that returns the first node that was examined after a rejected sibling, with its round.
SIBLING = """(() => {
    const { rounds } = specviz.step.view.trace;
    const said = (round, node) => round.barsFigure(node)?.layout.meta.remark ?? "";
    return rounds
        .flatMap((round, at) => round.outcomes.map((_, node) => ({ round, at, node })))
        .filter(({ round, node }) => said(round, node).startsWith("after"))
        .map(({ at, node }) => [at, node])[0];
})()"""


@pytest.mark.parametrize("width", [1024, 1280, 1400, 390])
def test_no_label_of_the_bars_overlaps_another_or_leaves_its_card(
    opened: StepDriver, width: int
) -> None:
    step = opened
    step.page.set_viewport_size({"width": width, "height": 900})
    round_, node = step.driver.evaluate(SIBLING)
    step.driver.evaluate(f"{CURSOR}.toNode({round_}, {node})")
    step.settle()
    assert step.driver.text("stepBarsRemark").startswith("after the rejected sibling")
    assert step.driver.evaluate(CLASHES) == []
    step.page.set_viewport_size({"width": width - 70, "height": 900})
    step.settle()
    assert step.driver.evaluate(CLASHES) == []
