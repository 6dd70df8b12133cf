"""The user changes the draw of a guess to any value, and every view shows the new result."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.figures.labels import percent
from specviz.golden import golden_trace
from specviz.records import Outcome, Round
from tests.browser.step_driver import CURSOR, StepDriver

NAME = "draft-model.code"
TRACE = golden_trace(NAME)
THOUGHT = "specviz.step.view.whatIf.thought"
FORCED = "specviz.step.view.whatIf.forced"
PIN = """document.querySelector('[data-ref=stepBars]').data.find((t) => t.meta.role === 'ink').x"""
MARKED = """(role) => document.querySelector('[data-ref=stepTree]').data
    .filter((t) => t.mode === 'markers' && t.meta.role === role).flatMap((t) => t.customdata)"""
STRIP = "specviz.race.view.refs.stepStrip.toDataURL()"
EXTRA = -2


def examined(outcome: Outcome, low: float = 0.05, high: float = 0.95) -> tuple[Round, int]:
    """Return a round, and 0, the index of its first drafted node.

    This node has the given outcome and an acceptance probability between `low` and `high`.
    """
    for each in TRACE.rounds:
        verdict = each.verdicts[0]
        if verdict.outcome is outcome and low < verdict.acceptance_prob < high:
            return each, 0
    raise AssertionError(outcome)


@pytest.fixture
def thinking(debugger: StepDriver) -> StepDriver:
    return debugger.afresh(NAME)


def stand(step: StepDriver, each: Round, node: int) -> StepDriver:
    step.driver.evaluate(f"{CURSOR}.toNode({each.index}, {node})")
    step.settle()
    return step


def think(step: StepDriver, draw: str) -> None:
    step.page.get_by_label("The uniform draw u, exactly").fill(draw)
    step.page.wait_for_selector("[data-ref=whatIfResult]:not(:empty)")
    step.settle()


def selected(step: StepDriver) -> str:
    return step.driver.ref("stepTable").locator("tr.is-selected").inner_text()


def test_the_recorded_draw_is_not_rounded_and_is_no_supposition(thinking: StepDriver) -> None:
    each, node = examined(Outcome.REJECTED)
    stand(thinking, each, node)
    drawn = each.verdicts[node].uniform_draw
    assert float(thinking.driver.ref("whatIfDraw").input_value()) == drawn
    field = thinking.page.get_by_label("The uniform draw u, exactly")
    assert float(field.input_value()) == drawn
    assert thinking.driver.evaluate(f"{THOUGHT} === null") and not thinking.driver.evaluate(FORCED)


@pytest.mark.parametrize("draw", ["0", "0.0000012", "0.9996", "0.99999999"])
def test_every_draw_below_1_can_be_supposed(thinking: StepDriver, draw: str) -> None:
    each, node = examined(Outcome.REJECTED)
    think(stand(thinking, each, node), draw)
    assert thinking.driver.evaluate(FORCED) == {str(node): float(draw)}
    assert thinking.driver.evaluate(PIN) == [float(draw)] * 2
    is_accepted = float(draw) < each.verdicts[node].acceptance_prob
    assert ("accepted" in selected(thinking)) == is_accepted
    assert "counterfactual" in thinking.driver.text("stepBarsTitle")


def test_the_sentence_names_the_supposed_draw(thinking: StepDriver) -> None:
    each, node = examined(Outcome.REJECTED)
    stand(thinking, each, node)
    threshold = each.verdicts[node].acceptance_prob
    # Draws below the threshold would accept the rejected token.
    for share in (0.25, 0.5, 0.75):
        draw = round(share * threshold, 4)
        think(thinking, str(draw))
        said = f"the draw was {draw:.3f}: accepted"
        thinking.driver.until(
            f"""document.querySelector("[data-ref=stepSentence]").textContent
                .replaceAll("\u00a0", " ").includes({said!r})""",
        )


def test_the_round_s_column_shows_the_verdicts_of_the_supposition(thinking: StepDriver) -> None:
    each, node = examined(Outcome.REJECTED)
    stand(thinking, each, node)
    recorded = thinking.driver.evaluate(STRIP)
    think(thinking, "0")
    assert thinking.driver.evaluate(STRIP) != recorded
    thinking.click("whatIfReset")
    thinking.settle()
    assert thinking.driver.evaluate(STRIP) == recorded


def test_a_supposition_that_the_user_leaves_is_named_and_can_be_reached_again(
    thinking: StepDriver,
) -> None:
    each, node = examined(Outcome.REJECTED)
    think(stand(thinking, each, node), "0,25")
    thought = {str(node): 0.25}
    assert thinking.driver.evaluate(FORCED) == thought
    away = thinking.driver.ref("whatIfAway")
    assert not away.is_visible()
    thinking.driver.evaluate(f"{CURSOR}.stepRound(1)")
    thinking.settle()
    assert (
        "0.25 was a thought at" in away.inner_text()
        and f"round {each.index + 1};" in away.inner_text()
    )
    away.get_by_role("button", name="Back to it").click()
    thinking.settle()
    assert thinking.driver.evaluate(FORCED) == thought and not away.is_visible()
    thinking.click("whatIfReset")
    thinking.driver.evaluate(f"{CURSOR}.stepRound(1)")
    thinking.settle()
    assert not away.is_visible()


@pytest.mark.parametrize("draw", ["1", "-0.1", "x", ""])
def test_an_invalid_draw_is_refused_at_its_field(thinking: StepDriver, draw: str) -> None:
    stand(thinking, *examined(Outcome.REJECTED))
    think(thinking, "0.5")
    think(thinking, draw)
    field = thinking.page.get_by_label("The uniform draw u, exactly")
    assert field.get_attribute("aria-invalid") == "true"
    assert "from 0 to below 1" in thinking.driver.text("whatIfResult")
    thinking.click("whatIfReset")
    assert field.get_attribute("aria-invalid") is None


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.REJECTED])
def test_a_button_moves_the_draw_just_past_the_threshold_and_back(
    thinking: StepDriver, outcome: Outcome
) -> None:
    each, node = examined(outcome)
    stand(thinking, each, node)
    for turn in range(2):
        thinking.page.get_by_role("button", name="the threshold").click()
        thinking.page.wait_for_selector("[data-ref=whatIfResult]:not(:empty)")
        thinking.settle()
        draw = thinking.driver.evaluate(FORCED)[str(node)]
        assert draw == pytest.approx(each.verdicts[node].acceptance_prob, rel=2e-2)
        flipped = (outcome is Outcome.REJECTED) == (turn == 0)
        assert ("accepted" in selected(thinking)) == flipped


def card(step: StepDriver) -> Any:
    script = """(() => { const trace = document.querySelector('[data-ref=stepTree]').data
        .find((t) => t.mode === 'markers' && t.customdata.includes(-2));
        return trace.hovertext[trace.customdata.indexOf(-2)] })()"""
    return step.driver.evaluate(script)


def test_a_supposed_rejection_shows_the_recovered_token_in_tree_and_table(
    thinking: StepDriver,
) -> None:
    each, node = examined(Outcome.ACCEPTED)
    think(stand(thinking, each, node), "0.999999")
    assert thinking.page.evaluate(MARKED, "recovered") == [EXTRA]
    last = thinking.driver.ref("stepTable").locator("tbody tr").last.inner_text()
    thought = thinking.driver.evaluate(f"{THOUGHT}.extra")
    assert "recovered" in last and "—" not in last
    if thought["prob"] is None:
        assert "unknown" in thinking.driver.text("stepResidualNote") and "unknown" in card(thinking)
    else:
        assert percent(thought["prob"]) in last
    assert "rejected" in thinking.driver.text("stepBarsTitle")


def test_after_a_node_that_was_not_examined_the_probability_is_called_unknown(
    thinking: StepDriver,
) -> None:
    think(stand(thinking, *examined(Outcome.REJECTED)), "0")
    assert "?" in thinking.driver.ref("stepTable").locator("tbody tr").last.inner_text()
    assert "unknown" in thinking.driver.text("stepResidualNote")
    assert "probability unknown" in card(thinking)


def test_a_supposed_draw_that_changes_no_verdict_is_still_shown(thinking: StepDriver) -> None:
    each, node = examined(Outcome.REJECTED)
    think(stand(thinking, each, node), "0.9996")
    assert thinking.driver.text("whatIfResult").startswith("Nothing changes")
    assert thinking.driver.evaluate(PIN) == [0.9996] * 2
    assert "counterfactual" not in thinking.driver.text("stepTreeTitle")
    thinking.click("whatIfReset")
    drawn = each.verdicts[node].uniform_draw
    assert thinking.driver.evaluate(PIN) == [drawn] * 2
    assert "counterfactual" not in thinking.driver.text("stepBarsTitle")


def test_a_supposition_stays_at_its_node_until_it_is_removed(thinking: StepDriver) -> None:
    each, node = examined(Outcome.REJECTED)
    low = f"{each.verdicts[node].acceptance_prob / 2:.6f}"
    stand(thinking, each, node)
    think(thinking, low)
    thinking.leave_field()
    thinking.press("Home")
    assert thinking.driver.evaluate(f"{THOUGHT} === null")
    stand(thinking, each, node)
    assert thinking.driver.evaluate(f"{THOUGHT}.forced.u") == float(low)
    thinking.driver.ref("whatIfReset").click()
    thinking.leave_field()
    thinking.press("Home")
    stand(thinking, each, node)
    assert thinking.driver.evaluate(f"{THOUGHT} === null")


def test_if_the_first_draft_passed_the_residual_is_called_not_needed(
    thinking: StepDriver,
) -> None:
    for outcome, is_needed in ((Outcome.ACCEPTED, False), (Outcome.REJECTED, True)):
        stand(thinking, *examined(outcome))
        assert thinking.driver.ref("stepResidual").is_visible()
        assert ("Not needed" in thinking.driver.text("stepNoResidual")) is not is_needed


def test_numbers_of_the_whole_run_stay_and_are_called_recorded(
    thinking: StepDriver,
) -> None:
    stand(thinking, *examined(Outcome.REJECTED))
    recorded = thinking.driver.text("stepRates")
    think(thinking, "0")
    assert thinking.driver.text("stepRates") == f"As recorded: {recorded}"
    assert thinking.driver.text("matchWord").endswith("as recorded")
    thinking.click("whatIfReset")
    thinking.settle()
    assert thinking.driver.text("stepRates") == recorded
    assert "recorded" not in thinking.driver.text("matchWord")


def test_a_button_opens_the_fork_form_with_the_supposed_draw(thinking: StepDriver) -> None:
    think(stand(thinking, *examined(Outcome.REJECTED)), "0")
    thinking.driver.evaluate("scrollTo(0, 600)")
    thinking.click("whatIfFork")
    thinking.page.wait_for_function("document.activeElement.dataset.ref === 'forkGo'")
    box = thinking.driver.ref("fork").bounding_box()
    size = thinking.page.viewport_size
    assert box and size and box["y"] >= 0 and box["y"] + box["height"] <= size["height"]
    assert "is forced to 0" in thinking.driver.text("forkDraws")
