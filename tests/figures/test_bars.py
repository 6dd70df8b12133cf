"""The bars show the distributions that the rule compared, the drafted tokens and the draw."""

from __future__ import annotations

import dataclasses

import pytest

from specviz.figures.bars import bars_figure
from specviz.figures.distribution_rows import OWN_TOKENS, distribution_rows
from specviz.figures.labels import drawn, percent
from specviz.figures.residual import residual_figure
from specviz.figures.theme import Figure
from specviz.records import Drawing, Outcome, Position, Round, Verdict
from tests.random_distributions import TEXTS
from tests.random_rounds import random_round

NAMES = dict(enumerate(TEXTS))
AREA, TARGET, DRAFT, TRACK, SHADE, PIN, THRESHOLD, CUT = range(8)


def position_of(each: Round, child: int) -> Position | None:
    parent = each.tree.nodes[child].parent
    return next((p for p in each.positions if p.parent == parent), None)


def figure_of(each: Round, child: int | None, temperature: float = 0.7) -> Figure:
    position = each.positions[0] if child is None else position_of(each, child)
    return bars_figure(position, each, NAMES, temperature, child)


def find(outcome: Outcome, widths: tuple[int, ...] = (1, 1, 1)) -> tuple[Round, int]:
    for seed in range(200):
        each = random_round(seed, widths)
        for child, verdict in enumerate(each.verdicts):
            if verdict.outcome is outcome:
                return each, child
    raise AssertionError(outcome)


def test_rows_are_sorted_by_p_and_end_with_all_other_tokens() -> None:
    each, child = find(Outcome.ACCEPTED)
    rows = distribution_rows(position_of(each, child), each, child, is_raw=False)
    targets = [row.target for row in rows[:-1]]
    assert targets == sorted(targets, reverse=True)
    assert rows[-1].token_id is None
    assert sum(row.target for row in rows) == pytest.approx(1)
    assert sum(row.draft or 0 for row in rows) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(30))
def test_drafted_tokens_always_have_a_row(seed: int) -> None:
    each = random_round(seed, (4,))
    rows = distribution_rows(each.positions[0], each, 0, is_raw=False)
    assert {node.token_id for node in each.tree.nodes} <= {row.token_id for row in rows}
    examined = [row.token_id for row in rows if row.is_examined]
    assert examined == [each.tree.nodes[0].token_id]


def test_the_shaded_area_is_the_overlap_of_p_and_q() -> None:
    each, child = find(Outcome.REJECTED)
    position = position_of(each, child)
    assert position is not None
    figure = figure_of(each, child)
    data, heading = figure["data"], figure["layout"]["meta"]["heading"]
    shared = [min(p, q) for p, q in zip(data[TARGET]["x"], data[DRAFT]["x"], strict=True)]
    assert data[AREA]["x"][:-1] == pytest.approx(shared[:-1])
    assert sum(data[AREA]["x"]) == pytest.approx(position.overlap, abs=1e-6)
    assert heading.endswith(f". Shaded: what both have in common, {percent(position.overlap)}")


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.REJECTED])
@pytest.mark.parametrize("drawing", [Drawing.INDEPENDENT, Drawing.CHOSEN])
def test_the_line_of_the_draw_is_inside_the_area_only_for_accepted_tokens(
    outcome: Outcome, drawing: Drawing
) -> None:
    for seed in range(40):
        each = random_round(seed, (1, 1), drawing)
        for child, verdict in enumerate(each.verdicts):
            if verdict.outcome is not outcome:
                continue
            figure = figure_of(each, child)
            area, cut = figure["data"][AREA], figure["data"][CUT]
            row = round(sum(cut["y"]) / 2)
            assert figure["layout"]["yaxis"]["ticktext"][row].startswith("<b>")
            assert (cut["x"][0] < area["x"][row]) == (outcome is Outcome.ACCEPTED) or (
                verdict.acceptance_prob == 1
            )
            assert outcome.value in figure["layout"]["meta"]["remark"]


def test_after_a_rejected_sibling_no_line_shows_the_draw() -> None:
    rounds = (random_round(seed, (3,)) for seed in range(200))
    each = next(r for r in rounds if r.accepted and r.accepted[0] > 0)
    assert figure_of(each, each.accepted[0])["data"][CUT]["x"] == []


def test_with_picked_siblings_the_area_belongs_to_the_first_and_says_so() -> None:
    each = random_round(1, (3,), Drawing.CHOSEN)
    headings = [figure_of(each, child)["layout"]["meta"]["heading"] for child in (0, 1)]
    share = percent(each.positions[0].overlap)
    assert headings[0].endswith(f". Shaded: how often the guess passes, {share}")
    assert headings[1].endswith(f". Shaded: how often the first sibling passes, {share}")


@pytest.mark.parametrize("rule", ["typical", "token"])
def test_without_a_deciding_draw_there_is_neither_area_nor_line(rule: str) -> None:
    temperature = 0.7 if rule == "typical" else 0.0
    data = figure_of(random_round(1, rule=rule), 0, temperature)["data"]
    assert data[AREA]["x"] == data[CUT]["x"] == []


@pytest.mark.parametrize("seed", range(20))
def test_the_token_that_the_target_adds_always_has_a_row(seed: int) -> None:
    each = random_round(seed, (1,))
    position = each.positions[-1]
    assert each.extra is not None
    rare = dataclasses.replace(
        position,
        token_ids=(*position.token_ids, 999),
        target_probs=(*position.target_probs, 1e-5),
        draft_probs=(*position.draft_probs, 0.0) if position.draft_probs else (),
        raw_target_probs=(*position.raw_target_probs, 1e-5),
        raw_draft_probs=(*position.raw_draft_probs, 0.0) if position.raw_draft_probs else (),
    )
    extra = dataclasses.replace(each.extra, token_id=999)
    drawn = dataclasses.replace(each, extra=extra)
    (own,) = (r for r in distribution_rows(rare, drawn, None, is_raw=False) if r.is_examined)
    assert own.token_id == 999
    before = distribution_rows(rare, drawn, 0, is_raw=False)
    assert 999 not in {row.token_id for row in before}, "it is drawn later"


def test_the_shade_ends_at_the_acceptance_probability_and_the_pin_is_at_u() -> None:
    each, child = find(Outcome.REJECTED)
    data = figure_of(each, child)["data"]
    verdict = each.verdicts[child]
    assert data[TRACK]["x"] == [1.0]
    assert data[SHADE]["x"] == data[THRESHOLD]["x"] == [verdict.acceptance_prob]
    (said,) = data[THRESHOLD]["text"]  # the acceptance probability is at the end of the shaded part
    assert said == drawn(verdict.acceptance_prob, verdict.uniform_draw)[0]
    assert data[PIN]["x"] == [verdict.uniform_draw] * 2
    assert (
        data[PIN]["text"][1].strip()
        == f"u = {drawn(verdict.acceptance_prob, verdict.uniform_draw)[1]}"
    )
    # The token is rejected because the draw is to the right of the shaded part.
    assert verdict.uniform_draw >= verdict.acceptance_prob


def test_a_node_that_was_never_examined_has_no_pin() -> None:
    each, child = find(Outcome.UNREACHED)
    figure = figure_of(each, child)
    assert figure["data"][PIN]["x"] == []
    assert "never examined" in figure["layout"]["meta"]["remark"]


def test_without_a_recorded_position_only_the_siblings_have_rows() -> None:
    each, child = find(Outcome.UNREACHED, widths=(1, 3))
    rows = distribution_rows(None, each, child, is_raw=False)
    siblings = each.tree.children(each.tree.nodes[child].parent)
    assert {row.token_id for row in rows} == {each.tree.nodes[i].token_id for i in siblings}


def test_without_a_selected_node_no_draw_is_shown() -> None:
    data = figure_of(random_round(0), None)["data"]
    assert data[TRACK]["x"] == data[SHADE]["x"] == data[PIN]["x"] == []


def test_a_drafter_without_a_distribution_has_no_q_bars() -> None:
    each = random_round(0, drawing=Drawing.CHOSEN, has_distributions=False)
    figure = figure_of(each, 0)
    assert figure["data"][DRAFT]["x"] == []
    assert "min(1, p/1)" in figure["layout"]["yaxis"]["ticktext"]
    assert "no probabilities" in figure["layout"]["meta"]["heading"]
    assert figure["layout"]["meta"]["drafted"]["bars"] is None


def processed_to_one_hot(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, target_prob=1.0, residual_prob=1.0)


def test_at_temperature_0_the_title_says_that_raw_distributions_are_shown() -> None:
    each = random_round(4)
    greedy = dataclasses.replace(each, verdicts=tuple(map(processed_to_one_hot, each.verdicts)))
    figure = figure_of(greedy, 0, temperature=0)
    raw = greedy.verdicts[0].raw_target_prob
    assert any(value == pytest.approx(raw) for value in figure["data"][TARGET]["x"])
    assert figure["layout"]["meta"]["heading"].startswith("Raw p and q, at temperature 1")


def test_a_later_sibling_says_how_p_has_changed() -> None:
    rounds = (random_round(seed, (3,)) for seed in range(200))
    each = next(r for r in rounds if r.accepted and r.accepted[0] > 0)
    remark = figure_of(each, each.accepted[0])["layout"]["meta"]["remark"]
    assert remark.startswith("after the rejected sibling the rule compared p ")


def test_the_height_does_not_change_from_position_to_position() -> None:
    figures = [figure_of(random_round(seed), child) for seed in range(9) for child in range(5)]
    assert len({figure["layout"]["height"] for figure in figures}) == 1


def test_token_text_is_never_markup() -> None:
    each = random_round(0)
    evil = dict.fromkeys(NAMES, "<a href='javascript:1'>")
    figure = bars_figure(each.positions[0], each, evil, 0.7, 0)
    assert "<a" not in str(figure["layout"]["yaxis"]["ticktext"])


def test_the_residual_is_sorted_and_exists_only_after_a_rejection() -> None:
    each, child = find(Outcome.REJECTED)
    position = position_of(each, child)
    residual = residual_figure(position, NAMES)["data"][1]["x"]
    assert residual and residual == sorted(residual, reverse=True)
    accepted, node = find(Outcome.ACCEPTED)
    assert residual_figure(position_of(accepted, node), NAMES)["data"][1]["x"] == []


def test_a_lossy_rule_shows_neither_a_draw_nor_a_ratio_nor_a_residual() -> None:
    rounds = [
        random_round(seed, (1, 1), drawing=Drawing.CHOSEN, rule="typical") for seed in range(40)
    ]
    each = next(r for r in rounds if r.verdicts[0].outcome is Outcome.REJECTED)
    figure = figure_of(each, 0)
    assert figure["data"][PIN]["x"] == figure["data"][TRACK]["x"] == []
    assert figure["layout"]["yaxis"]["ticktext"][-1] == ""
    heading, remark = (figure["layout"]["meta"][name] for name in ("heading", "remark"))
    assert heading.startswith("A lossy rule") and "below the threshold" in remark
    assert "drawn from p " in figure_of(each, None)["layout"]["meta"]["remark"]


def test_at_temperature_0_no_draw_is_shown() -> None:
    each = next(r for r in (random_round(seed, (1, 1)) for seed in range(50)) if r.accepted)
    position = each.positions[0]
    texts = {node.token_id: "x" for node in each.tree.nodes}
    greedy = bars_figure(position, each, texts, 0.0, 0)
    assert greedy["data"][PIN]["x"] == greedy["data"][TRACK]["x"] == [], "nor a question as a bar"
    assert greedy["layout"]["yaxis"]["ticktext"][-1] == ""
    assert bars_figure(position, each, texts, 0.7, 0)["data"][PIN]["x"]


def test_the_extra_token_is_shown_with_its_probability() -> None:
    each = next(r for r in (random_round(seed, (1,)) for seed in range(50)) if r.extra)
    assert each.extra is not None
    figure = bars_figure(each.positions[-1], each, {}, 0.7, None)
    remark = figure["layout"]["meta"]["remark"]
    assert remark.startswith("drawn from ") and "with probability" in remark


def own_tokens(each: Round, child: int) -> list[tuple[int | None, float | None]]:
    """Return the tokens that the chart may show before p is known, each with its q.

    The tokens come from the drafter alone. The token with the largest q is first.
    """
    rows = [
        row for row in distribution_rows(position_of(each, child), each, child, False) if row.is_own
    ]
    return sorted(((row.token_id, row.draft) for row in rows), key=lambda pair: -(pair[1] or 0))


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_shown_before_verification_do_not_depend_on_p(seed: int) -> None:
    each = random_round(seed, (2,))
    first = each.positions[0]
    uniform = tuple(1 / len(first.token_ids) for _ in first.token_ids)
    other = dataclasses.replace(first, target_probs=uniform, raw_target_probs=uniform)
    changed = dataclasses.replace(each, positions=(other, *each.positions[1:]))
    assert own_tokens(each, 0) == own_tokens(changed, 0)


@pytest.mark.parametrize("seed", range(20))
def test_before_verification_the_rows_are_the_draft_s_best_tokens_and_its_guesses(
    seed: int,
) -> None:
    each = random_round(seed, (2,))
    first = each.positions[0]
    favourites = sorted(zip(first.draft_probs, first.token_ids, strict=True), reverse=True)
    named = {token for _, token in favourites[:OWN_TOKENS]}
    drafted = {node.token_id for node in each.tree.nodes}
    assert {token for token, _ in own_tokens(each, 0)} == named | drafted
    drafted = figure_of(each, 0)["layout"]["meta"]["drafted"]
    assert drafted["bars"]["x"][:-1] == [q for _, q in own_tokens(each, 0)]
    assert (
        sum(drafted["bars"]["x"]) == pytest.approx(1) and drafted["axis"]["ticktext"][-1] == "other"
    )
    ticks = [drafted["axis"][key] for key in ("tickvals", "ticktext")]
    columns = [*drafted["bars"].values(), *ticks]
    assert len({len(column) for column in columns}) == 1


def test_with_q_1_the_draft_s_own_confidence_is_shown_for_every_node() -> None:
    drawing = Drawing.CHOSEN
    rounds = (random_round(seed, (2, 2), drawing=drawing) for seed in range(50))
    each = next(r for r in rounds if r.verdicts[0].outcome is Outcome.REJECTED)
    for child in (0, 2):  # a child of the root, and a child of the rejected node 0
        bars = figure_of(each, child)["data"][DRAFT]
        scores = {each.tree.nodes[child].draft_score, each.tree.nodes[child + 1].draft_score}
        assert scores <= set(bars["x"]), child
    heading = figure_of(each, 0)["layout"]["meta"]["heading"]
    assert "own confidence, at temperature 1" in heading


def test_the_heading_names_the_temperature_of_the_distributions() -> None:
    each = random_round(0)
    assert "at temperature 0.7" in figure_of(each, 0)["layout"]["meta"]["heading"]


@pytest.mark.parametrize(
    ("draw", "word"), [(0.0031, "0.0031"), (0.00004, "0.000040"), (0.9996, "0.9996")]
)
def test_a_draw_near_0_or_1_is_not_shown_as_0_or_1(draw: float, word: str) -> None:
    each, child = find(Outcome.REJECTED)
    verdicts = list(each.verdicts)
    verdicts[child] = dataclasses.replace(verdicts[child], uniform_draw=draw)
    figure = figure_of(dataclasses.replace(each, verdicts=tuple(verdicts)), child)
    assert figure["data"][PIN]["text"][1].strip() == f"u = {word}"
