"""For each moment, the debugger shows the executed lines of code and their values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specviz.figures.labels import token_name
from specviz.golden import golden_trace
from specviz.records import Outcome, Round, Trace
from tests.browser.step_driver import StepDriver

LINES = """[...document.querySelectorAll("[data-ref=stepCode] .is-now")]
    .map((row) => row.textContent.trim())"""

DRAW = "specviz.step.view.cursor.current.verdict(specviz.step.view.cursor.node).u"
SHOWN_DRAW = """[...document.querySelectorAll("[data-ref=stepCode] dt")]
    .find((each) => each.textContent === "uniform").nextElementSibling.textContent"""


def test_the_code_follows_every_moment(debugger: StepDriver) -> None:
    step = debugger.afresh("draft-model.code")
    card = step.driver.ref("codeCard")
    assert step.driver.evaluate(LINES) == [], "closed, it is not drawn"
    card.locator("summary").click()
    # After the click, it takes a moment until the browser reports that the card is open.
    step.driver.until(f"{LINES}.length > 0")
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


# A script that returns four values for every moment of a run: the moment's phase, the text that the
# card shows if it cannot show the code, the marked lines, and the values next to the lines.
ALL_SHOWN = """(() => {
    const { code, cursor } = specviz.step.view, { trace } = cursor;
    const text = (each) => each.textContent.trim();
    const texts = (what) => [...code.box.querySelectorAll(what)].map(text);
    return trace.rounds.flatMap((round) => cursor.momentsOf(round).map((moment) => {
        code.draw(trace, round, moment);
        const [names, values] = [texts("dt"), texts("dd")];
        const shown = Object.fromEntries(names.map((name, at) => [name, values[at]]));
        const words = code.words.hidden ? "" : code.words.textContent;
        return [moment.phase, words, texts(".is-now"), shown];
    }));
})()"""
CACHES = ["for cache in caches:", "if (rejected :=", "cache.crop(-rejected)", "round_index += 1"]
# A moment's phase, the beginnings of its marked lines, and the values of its variables.
Executed = tuple[str, list[str], dict[str, object]]


def executed(trace: Trace, each: Round) -> Iterator[Executed]:
    """Yield what docs/sixty_lines.py would do in a round, computed from the round's record."""
    tokens = [*trace.prompt_ids, *trace.emitted_ids][: each.context_length]
    known, drafted = len(tokens), [node.token_id for node in each.tree.nodes]
    named = [label(trace, token) for token in drafted]
    counts = {"known": known, "drafted": f"[{', '.join(named)}]"}
    for depth, (node, name) in enumerate(zip(each.tree.nodes, named, strict=True), 1):
        values = {"depth": depth, "tokens[-1]": name, "q[-1][tokens[-1]]": node.draft_prob}
        yield "draft", ["q.append(next_probs(draft", "tokens.append(pick(q[-1]"], values
    if not drafted:
        yield "draft", ["for depth in range(1,"], counts
    yield "verify", ["p = next_probs(target"], counts
    n = 0
    for x, verdict in zip(named, each.verdicts, strict=True):
        assert verdict.uniform_draw is not None and verdict.draft_prob is not None
        threshold = min(1.0, verdict.target_prob / verdict.draft_prob)
        values = {"x": x, "n": n, "p[n][x]": verdict.target_prob, "q[n][x]": verdict.draft_prob}
        values |= {"min(1, p/q)": threshold, "uniform": verdict.uniform_draw}
        is_rejected = verdict.uniform_draw >= threshold
        assert verdict.outcome is (Outcome.REJECTED if is_rejected else Outcome.ACCEPTED)
        yield "judge", ['if uniform("verify"', "break" if is_rejected else "n += 1"], values
        if is_rejected:
            break
        n += 1
    if each.extra:
        rest = "max(0, p[n] − q[n])" if n < len(drafted) else "p[n], for nothing was rejected"
        values = {"n": n, "len(drafted)": len(drafted), "rest": rest}
        values |= {"tokens[-1]": label(trace, each.extra.token_id)}
        yield "extra", ["rest = (p[n] - q[n])", "tokens = tokens[: known + n]"], values
    rejected = len(drafted) - n
    after = {"n": n, "rejected": rejected, "len(tokens)": known + n + bool(each.extra)}
    yield "commit", CACHES if rejected else CACHES[:2] + CACHES[3:], after


def label(trace: Trace, token: int) -> str:
    return f"'{token_name(dict(trace.token_texts)[token])}'"


@pytest.mark.parametrize("name", ["draft-model.code", "quantised-self.opening.smollm2"])
def test_at_every_moment_the_executed_lines_and_their_values_are_marked(
    name: str, debugger: StepDriver
) -> None:
    step, trace = debugger.afresh(name), golden_trace(name)
    step.driver.evaluate("specviz.step.view.code.card.open = true")
    shown = step.driver.evaluate(ALL_SHOWN)
    wanted = [moment for each in trace.rounds for moment in executed(trace, each)]
    assert len(shown) == len(wanted) > 100
    for (phase, words, lines, values), (its_phase, begins, its_values) in zip(
        shown, wanted, strict=True
    ):
        assert (phase, words) == (its_phase, "")
        assert len(lines) == len(begins) and all(map(str.startswith, lines, begins)), lines
        assert set(values) == set(its_values)
        for key, value in its_values.items():
            if isinstance(value, float):
                about = pytest.approx(value, rel=0.01, abs=6e-4)
                told = values[key].removeprefix("under ").removeprefix("over ").lstrip("<> ")
                assert float(told) == about, key
            else:
                assert values[key] == str(value), key
    step.driver.evaluate("specviz.step.view.code.card.open = false")


@pytest.mark.parametrize(
    ("name", "why"),
    [("draft-tree.story", "a tree"), ("prompt-lookup.chat.smollm2", "without dice")],
)
def test_a_moment_without_matching_lines_marks_none_and_says_so(
    name: str, why: str, debugger: StepDriver
) -> None:
    step = debugger.afresh(name)
    step.driver.evaluate("specviz.step.view.code.card.open = true")
    drafting = {len(each.tree.nodes) > 0 for each in golden_trace(name).rounds}
    shown = step.driver.evaluate(ALL_SHOWN)
    silent = [each for each in shown if each[1]]
    assert silent and all(why in words and not lines for _, words, lines, _ in silent)
    assert (len(silent) == len(shown)) == (drafting == {True})
    step.driver.evaluate("specviz.step.view.code.card.open = false")
