"""The timeline shows each measured span at its time, and simultaneous work side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from specviz.figures.theme import Figure
from specviz.figures.timeline import timeline_figure
from specviz.records import Round, Span
from tests.random_traces import random_trace

ALONE = random_trace(3, rounds=5).rounds
AHEAD = random_trace(3, rounds=5, is_ahead=True).rounds


def bars(figure: Figure) -> list[dict[str, Any]]:
    """Return every bar: its round, its row's name, its start and its length in milliseconds."""
    axis = figure["layout"]["yaxis"]
    names = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    return [
        {"round": i, "who": names[y].split("  ")[0], "start": base, "length": x, "opacity": opacity}
        for trace in figure["data"]
        for i, y, base, x, opacity in zip(
            trace["customdata"],
            trace["y"],
            trace["base"],
            trace["x"],
            trace["marker"]["opacity"],
            strict=True,
        )
    ]


def test_every_span_is_a_bar_that_starts_relative_to_the_selected_round() -> None:
    chosen = AHEAD[2]
    shown = bars(timeline_figure(AHEAD[1:4], 2))
    expected = [
        (
            each.index,
            "rest" if span.who == "host" else span.who,
            (span.start - chosen.spans[0].start) * 1000,
        )
        for each in AHEAD[1:4]
        for span in each.spans
    ]
    found = sorted((bar["round"], bar["who"], round(bar["start"], 3)) for bar in shown)
    assert found == sorted((i, who, round(start, 3)) for i, who, start in expected)


def test_neighbouring_rounds_are_faint_and_the_axis_includes_them() -> None:
    figure = timeline_figure(ALONE[1:4], 2)
    assert all((bar["opacity"] == 1) == (bar["round"] == 2) for bar in bars(figure))
    low, high = figure["layout"]["xaxis"]["range"]
    assert low == min(bar["start"] for bar in bars(figure)) < 0
    assert high == pytest.approx(max(bar["start"] + bar["length"] for bar in bars(figure)))


def test_work_in_parallel_has_its_own_row_and_its_overlap_is_shaded() -> None:
    figure = timeline_figure(AHEAD[1:4], 2)
    axis, (shade,) = figure["layout"]["yaxis"], figure["layout"]["shapes"]
    assert [text.split("  ")[0] for text in axis["ticktext"]] == [
        *("draft", "verify", "rest", "draft ahead")
    ]
    verify, ahead = (
        next(span for span in AHEAD[2].spans if span.who == who)
        for who in ("verify", "draft ahead")
    )
    overlap = min(verify.end, ahead.end) - max(verify.start, ahead.start)
    assert shade["x1"] - shade["x0"] == pytest.approx(overlap * 1000, abs=1e-3)
    assert f"{overlap * 1000:.1f} ms of it while the target verified" in str(figure["layout"])


def test_a_method_that_works_sequentially_has_three_rows_and_no_shade() -> None:
    figure = timeline_figure(ALONE[:2], 1)
    assert len(figure["layout"]["yaxis"]["tickvals"]) == 3
    assert figure["layout"]["shapes"] == []
    assert "while the target verified" not in str(figure["layout"])


def test_work_that_starts_when_the_verification_ends_does_not_overlap_it() -> None:
    verify = next(span for span in ALONE[0].spans if span.who == "verify")
    after = Span("later", verify.end, verify.end + 0.01)
    touching = dataclasses.replace(ALONE[0], spans=(*ALONE[0].spans, after))
    assert timeline_figure([touching], 0)["layout"]["shapes"] == []


def test_a_round_without_spans_is_an_empty_chart() -> None:
    empty: Round = dataclasses.replace(ALONE[0], spans=())
    figure = timeline_figure([empty], 0)
    assert bars(figure) == []
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < high


def test_a_short_neighbour_loses_its_label_before_two_labels_overlap() -> None:
    short = dataclasses.replace(ALONE[0], spans=(Span("draft", 0.0, 1e-4),))
    long = dataclasses.replace(ALONE[1], spans=(Span("draft", 1e-4, 0.1),))
    labels = [each["text"] for each in timeline_figure([short, long], 1)["layout"]["annotations"]]
    assert "<b>round 2</b>" in labels and "1" not in labels


def test_a_neighbour_loses_its_label_before_that_of_a_short_round() -> None:
    for end, is_labelled in ((1e-3, False), (0.033, False), (0.04, True)):
        short = dataclasses.replace(ALONE[1], spans=(Span("draft", 0.0, end),))
        after = dataclasses.replace(ALONE[2], spans=(Span("draft", end, 0.1),))
        layout = timeline_figure([short, after], 1)["layout"]
        labels = [each["text"] for each in layout["annotations"]]
        assert "<b>round 2</b>" in labels and ("3" in labels) == is_labelled


def test_a_short_round_at_the_edge_keeps_its_label_inside() -> None:
    before = dataclasses.replace(ALONE[0], spans=(Span("draft", 0.0, 0.1),))
    short = dataclasses.replace(ALONE[1], spans=(Span("draft", 0.1, 0.101),))
    layout = timeline_figure([before, short], 1)["layout"]
    label = next(each for each in layout["annotations"] if each["text"] == "<b>round 2</b>")
    assert (label["x"], label["xanchor"]) == (layout["xaxis"]["range"][1], "right")
