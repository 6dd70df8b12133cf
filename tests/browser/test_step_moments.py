"""At each moment of a round the page shows what is known then, and no more."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.labels import percent
from specviz.golden import golden_trace
from specviz.records import Outcome, Round
from specviz.trace_file import dumps
from tests.browser.step_driver import CURSOR, TRACE, StepDriver
from tests.random_traces import random_trace

SHOWN = 10  # number of table rows for nodes that are not examined yet
BARS = """(() => { const box = document.querySelector('[data-ref=stepBars]');
    return box.classList.contains('is-veiled') ? null : {
        roles: box.data.map((t) => t.meta.role), q: box.data.find((t) => t.meta.role === 'draft').x,
        ticks: box.layout.yaxis.ticktext } })()"""
PLACES = """Object.fromEntries(document.querySelector('[data-ref=stepTree]').data
    .filter((t) => t.mode === 'markers')
    .flatMap((t) => t.customdata.map((node, i) => [node, [t.x[i], t.y[i]]])))"""
CARDS = """document.querySelector('[data-ref=stepTree]').data
    .filter((t) => t.mode === 'markers' && t.meta.role !== 'root').flatMap((t) => t.hovertext)"""


def table(step: StepDriver) -> list[int | None]:
    """Return the node of each table row, or None for a row that has only a text."""
    script = "(all) => all.map((row) => row.dataset.node ? Number(row.dataset.node) : null)"
    found = step.driver.ref("stepTable").locator("tbody tr").evaluate_all(script)
    return list(found)


def go(step: StepDriver, round_: int, at: int) -> StepDriver:
    step.driver.evaluate(f"{CURSOR}.go({round_}, {at})")
    step.settle()
    return step


def test_no_token_is_called_accepted_before_its_verdict(opened: StepDriver) -> None:
    assert opened.phase == "draft"
    assert "accepted" not in opened.driver.text("stepOrigin")
    opened.page.get_by_role("button", name="accept/reject").click()
    opened.settle()
    assert "accepted" in opened.driver.text("stepOrigin")


def test_nothing_shows_a_verdict_before_its_moment(opened: StepDriver) -> None:
    first = next(i for i, each in enumerate(TRACE.rounds) if is_rejected(each, 0))
    go(opened, first, 0)
    places = opened.driver.evaluate(PLACES)
    listed = opened.driver.ref("matches").locator("li").all_inner_texts()
    assert not [row for row in listed if row.startswith(f"round {first + 1}\n")]
    assert all("rejected" not in row for row in listed if "ahead" in row)
    colour = "(token) => getComputedStyle(token).color"
    to_come = opened.driver.ref("stepText").locator(".token.is-later").first
    assert to_come.evaluate(colour) == "rgba(0, 0, 0, 0)"
    assert " of " not in opened.driver.text("stepMoment").partition("moment")[2]
    opened.page.get_by_role("button", name="accept/reject").click()
    opened.settle()
    judged = opened.driver.ref("matches").locator("[aria-current]").inner_text()
    assert "rejected" in judged
    assert places.items() <= opened.driver.evaluate(PLACES).items(), "no node has moved"


def is_rejected(each: Round, node: int) -> bool:
    return bool(each.verdicts) and each.verdicts[node].outcome is Outcome.REJECTED


def test_before_the_verification_the_bars_show_only_the_draft_s_q_in_order(
    opened: StepDriver,
) -> None:
    bars = opened.driver.evaluate(BARS)
    assert bars["roles"] == ["draft"]
    assert bars["ticks"][-1] == "other" and len(bars["ticks"]) == len(bars["q"])
    assert bars["q"][:-1] == sorted(bars["q"][:-1], reverse=True)
    assert sum(bars["q"]) == pytest.approx(1, abs=1e-3)
    assert "p comes with the target" in opened.driver.text("stepBarsNote")
    orders = []
    for at in (4, 5):  # moment 4 is the verification, moment 5 the verdict on the first node
        orders.append(go(opened, 0, at).driver.evaluate(BARS)["ticks"][:-1])
    assert orders[0] == orders[1]


def test_the_mask_appears_with_the_forward_that_uses_it(opened: StepDriver) -> None:
    mask = opened.driver.ref("stepMask")
    assert not mask.is_visible()
    assert opened.page.get_by_text("its mask comes with verify").is_visible()
    go(opened, 0, 4)
    assert opened.phase == "verify" and mask.is_visible()
    assert not opened.page.get_by_text("its mask comes with verify").is_visible()
    go(opened, 3, 0)
    assert not mask.is_visible()


def test_before_the_walk_the_table_shows_the_drafted_tokens(opened: StepDriver) -> None:
    nodes = TRACE.rounds[0].tree.nodes
    for level in range(1, 5):
        go(opened, 0, level - 1)
        known = [i for i, node in enumerate(nodes) if node.depth <= level]
        first = next(i for i in known if nodes[i].depth == level)
        from_ = max(0, min(first, len(known) - SHOWN))
        shown = table(opened)
        assert [each for each in shown if each is not None] == known[from_ : from_ + SHOWN]
        assert shown.count(None) == (from_ > 0) + (len(known) > from_ + SHOWN)
    go(opened, 0, 4)
    assert table(opened) == [*range(SHOWN), None]
    assert "and 11 more" in opened.driver.text("stepTable")


def test_during_the_walk_the_table_shows_the_next_candidates_but_not_the_result(
    debugger: StepDriver,
) -> None:
    opened = debugger.afresh("eagle.chat.smollm2")
    for index, each in enumerate(golden_trace("eagle.chat.smollm2").rounds[:3]):
        if index < 1:
            continue  # rounds 1 and 2 are enough, because they contain verdicts of every kind
        verdicts = enumerate(each.verdicts)
        walk = [i for i, verdict in verdicts if verdict.outcome is not Outcome.UNREACHED]
        walk.sort(key=lambda i: (each.tree.nodes[i].depth, i))
        levels = max(node.depth for node in each.tree.nodes)
        for turn, node in enumerate(walk):
            go(opened, index, levels + 1 + turn)
            parent = each.tree.nodes[node].parent
            if each.verdicts[node].outcome is Outcome.ACCEPTED:
                following = list(each.tree.children(node))
            else:
                following = [i for i in each.tree.children(parent) if i > node]
            ending = [None] if not following and each.extra else []
            assert table(opened) == [*walk[: turn + 1], *following, *ending]


def test_a_node_s_card_shows_only_what_is_known(opened: StepDriver) -> None:
    def cards(at: int) -> list[str]:
        return list(go(opened, 0, at).driver.evaluate(CARDS))

    assert cards(0) and all("<br>p " not in card and "u " not in card for card in cards(0))
    assert all("<br>p " in card and "acceptance" not in card for card in cards(4))
    judged = [card for card in cards(5) if "acceptance" in card]
    assert len(judged) == 1 and "accepted" in judged[0]


def test_in_a_round_without_a_draft_no_token_is_named_before_the_target_draws_it(
    debugger: StepDriver,
) -> None:
    opened = debugger.afresh("prompt-lookup.chat.smollm2")
    assert opened.driver.text("stepBarsTitle") == "Target p against draft q"
    assert opened.driver.text("stepBarsNote").startswith("Nothing was drafted")
    assert opened.driver.evaluate(BARS) is None
    opened.press("ArrowRight")
    assert opened.phase == "verify"
    assert opened.driver.text("stepBarsTitle") == "Target p against draft q"
    opened.press("ArrowRight")
    assert "nothing drafted: the target alone" in opened.driver.text("stepBarsTitle")
    assert "bonus" not in opened.driver.text("stepSentence")


@pytest.mark.parametrize("name", ["eagle.chat.smollm2", "medusa.chat.smollm2"])
def test_a_draft_with_confidence_has_a_bar_for_every_drafted_node(
    debugger: StepDriver, name: str
) -> None:
    opened = debugger.afresh(name)
    for index, each in enumerate(golden_trace(name).rounds[:3]):
        for level in range(max(node.depth for node in each.tree.nodes)):
            node = next(n for n in each.tree.nodes if n.depth == level + 1)
            bars = go(opened, index, level).driver.evaluate(BARS)
            assert any(abs(q - node.draft_score) < 1e-6 for q in bars["q"]), (index, level)


def test_a_draft_without_probabilities_says_so_instead_of_bars(debugger: StepDriver) -> None:
    opened = debugger.afresh("prompt-lookup.chat.smollm2")
    go(opened, 3, 0)
    assert opened.driver.evaluate(BARS) is None
    assert "no probabilities" in opened.driver.text("stepBarsNote")


def numbers(step: StepDriver) -> dict[str, str]:
    script = "(all) => all.map((each) => [...each.children].map((part) => part.textContent))"
    return dict(step.driver.ref("stepNumbers").locator("> div").evaluate_all(script))


def test_each_number_names_the_temperature_of_its_distribution(opened: StepDriver) -> None:
    go(opened, 0, 5)
    first = TRACE.rounds[0].positions[0]
    assert "at temperature 0.7" in opened.driver.text("stepBarsNote")
    shown = numbers(opened)
    assert shown["overlap with q at T = 0.7"] == percent(first.overlap)
    assert shown["entropy of p at T = 1"] == f"{first.entropy:.2f} nats"
    assert all("T = " in term or "logit" in term for term in shown)


def test_at_temperature_0_the_table_asks_for_the_most_probable_token_and_shows_raw_numbers(
    opened: StepDriver, tmp_path: Path
) -> None:
    trace = random_trace(3, rounds=4, temperature=0.0)
    path = tmp_path / "greedy.json.gz"
    path.write_bytes(gzip.compress(dumps(trace)))
    opened.driver.ref("stepFile").set_input_files(path)
    opened.driver.until(f"{CURSOR}.trace.ending && {CURSOR}.trace.isGreedy")
    at, each = next((i, each) for i, each in enumerate(trace.rounds) if each.extra)
    go(opened, at, 99)
    lines = [row.split("\t") for row in opened.driver.text("stepTable").split("\n")]
    assert [name.strip() for name in lines[0]][1:4] == ["raw p", "raw q", "most probable?"]
    assert {line[3].strip() for line in lines[1:]} <= {"yes", "no"}
    assert each.extra is not None
    position = next(p for p in each.positions if p.parent == each.extra.parent)
    raw: Any = dict(zip(position.token_ids, position.raw_target_probs, strict=True))
    known = raw.get(each.extra.token_id)
    assert lines[-1][1].strip() == ("" if known is None else percent(known))
    assert "most probable" in opened.driver.text("stepResidualNote")


def test_the_divergence_s_lower_bound_is_never_rounded_up(opened: StepDriver) -> None:
    for round_, each in enumerate(TRACE.rounds[:6]):
        root = next(position for position in each.positions if position.parent == -1)
        p, q = (
            [*distribution, max(0.0, 1 - sum(distribution))]
            for distribution in (root.target_probs, root.draft_probs)
        )
        exact = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0)
        opened.driver.evaluate(f"{CURSOR}.toNode({round_}, 0)")
        opened.settle()
        told = numbers(opened)["KL(p ‖ q) at T = 0.7"]
        bound = float(told.removeprefix("≥ ").removesuffix(" nats"))
        assert exact - 0.001 < bound <= exact + 1e-6
