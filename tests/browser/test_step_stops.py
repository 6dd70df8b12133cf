"""The debugger stops at the moments that the user chooses, and finds the next match."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specviz.golden import golden_trace
from specviz.records import Outcome, Round
from tests.browser.step_driver import CURSOR, TRACE, StepDriver


def found(rule: Callable[[Round, int], bool]) -> list[tuple[int, int]]:
    """Return the round and node of every examined node for which `rule` is true."""
    return [
        (each.index, node)
        for each in TRACE.rounds
        for node, verdict in enumerate(each.verdicts)
        if verdict.outcome is not Outcome.UNREACHED and rule(each, node)
    ]


def tie(each: Round, node: int) -> bool:
    v = each.verdicts[node]
    assert v.uniform_draw is not None
    if v.compared_prob >= v.draft_prob:
        return False  # an acceptance probability of 1 accepts the token at any draw
    return abs(v.uniform_draw - v.compared_prob / v.draft_prob) < 0.05


def favourites_differ(each: Round, node: int) -> bool:
    position = next(p for p in each.positions if p.parent == each.tree.nodes[node].parent)
    p, q = position.raw_target_probs, position.raw_draft_probs
    return position.token_ids[p.index(max(p))] != position.token_ids[q.index(max(q))]


RULES: dict[str, Callable[[Round, int], bool]] = {
    "rejection": lambda each, node: each.verdicts[node].outcome is Outcome.REJECTED,
    "over": lambda each, node: each.verdicts[node].draft_prob > each.verdicts[node].compared_prob,
    "tie": tie,
    "depth": lambda each, node: each.tree.nodes[node].depth == 3,
    "argmax": favourites_differ,
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_finds_its_nodes_in_the_records(opened: StepDriver, name: str) -> None:
    opened.page.locator("[data-rule=rejection]").uncheck()
    opened.page.locator(f"[data-rule={name}]").check()
    expected = found(RULES[name])
    places = opened.driver.evaluate("specviz.step.view.stops.all.map((m) => [m.round, m.node])")
    assert sorted(map(tuple, places)) == expected and expected
    for _ in expected[:3]:
        opened.press("n")
    assert (opened.place[0], opened.stop["node"]) in expected
    row = opened.page.locator("li", has=opened.page.locator(f"[data-rule={name}]"))
    assert row.locator(".count").inner_text() == str(len(expected))


def test_one_can_also_stop_at_extra_tokens_entropy_and_texts(opened: StepDriver) -> None:
    opened.page.locator("[data-rule=rejection]").uncheck()
    opened.page.locator("[data-rule=bonus]").check()
    opened.press("n")
    assert opened.stop["outcome"] == "bonus" and opened.phase == "bonus"
    opened.page.locator("[data-rule=bonus]").uncheck()
    opened.page.locator("[data-rule=recovered]").check()
    opened.press("n")
    assert opened.stop["outcome"] == "recovered"
    opened.page.locator("[data-rule=recovered]").uncheck()
    word = dict(TRACE.token_texts)[TRACE.emitted_ids[20]]
    opened.page.locator("input.wide").fill(word)
    opened.press("Tab")
    opened.click("nextMatch")
    text = opened.driver.evaluate(f"{CURSOR}.trace.text({CURSOR}.current.tokenId({CURSOR}.node))")
    assert word in text


def test_next_and_previous_match_are_inverse(opened: StepDriver) -> None:
    opened.press("n", "n")
    second = opened.place
    opened.press("n", "Shift+N")
    assert opened.place == second
    fifth = opened.page.locator(".match[data-at='4']")
    assert "ahead" in fifth.inner_text()
    fifth.click()
    opened.settle()
    assert opened.driver.text("matchWord") == f"match 5 of {len(found(RULES['rejection']))}"
    assert "rejected" in fifth.inner_text()


def test_the_first_rejected_token_its_probability_and_its_replacement_can_be_read(
    debugger: StepDriver,
) -> None:
    """A newcomer follows the button that the page suggests: the next match."""
    trace = golden_trace("draft-model.code")
    step = debugger.afresh("draft-model.code")
    step.click("nextMatch")
    first = next(r for r in trace.rounds if any(v.outcome is Outcome.REJECTED for v in r.verdicts))
    node, verdict = next(
        (i, v) for i, v in enumerate(first.verdicts) if v.outcome is Outcome.REJECTED
    )
    row = step.driver.ref("stepTable").locator("tr.is-selected")
    texts = dict(trace.token_texts)
    assert texts[first.tree.nodes[node].token_id].strip() in row.inner_text()
    assert "rejected" in row.inner_text() and f"{verdict.uniform_draw:.3f}" in row.inner_text()
    step.press("ArrowRight")
    extra = step.driver.ref("stepTable").locator("tr.is-selected").inner_text()
    assert first.extra is not None
    assert texts[first.extra.token_id].strip() in extra and "recovered" in extra


def test_the_count_says_that_matches_of_this_round_are_listed_when_they_are_reached(
    opened: StepDriver,
) -> None:
    count, later = len(found(RULES["rejection"])), " · those of this round are listed once reached"
    opened.driver.evaluate(f"{CURSOR}.go({TRACE.rounds[0].index}, 0)")
    opened.settle()
    assert opened.driver.text("matchWord") == f"{count} matches{later}"
    opened.driver.evaluate(f"{CURSOR}.toLast()")
    opened.settle()
    assert opened.driver.text("matchWord").startswith(f"{count} matches")
    assert opened.page.locator(".match").count() == count
