"""The figures of a whole race show the sums over all its rounds."""

from __future__ import annotations

import pytest

from specviz.decoding.race import race
from specviz.figures.depth import depth_figure
from specviz.figures.speedup import speedup_figure
from specviz.figures.time_split import time_split_figure
from specviz.golden import golden_trace
from specviz.metrics import DepthAcceptance, RoundTotals, RunMeter, SpeedupPoint, TheoryBand, meter
from tests.tiny_trace import tiny_trace

TRACE = tiny_trace()
METER = meter(TRACE)


def test_the_speedup_line_ends_at_its_last_point() -> None:
    data = speedup_figure(METER.points, METER.theory_band)["data"]
    line, end = data[-2], data[-1]
    moments = [0.1, 0.2, 0.24, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert line["x"] == pytest.approx(moments)
    assert line["y"] == pytest.approx([1, 1, 1.25, 1.25, 1.75, 1.75, 1.75, 1.75])
    assert end["x"] == pytest.approx([0.7]) and end["y"] == pytest.approx([1.75])
    assert line["customdata"] == [1, 1, 3, 3, 7, 7, 7, 7]


def test_the_theory_band_is_between_its_low_and_high_values() -> None:
    low, high, middle = speedup_figure(METER.points, TheoryBand(1.5, 2.0, 2.5))["data"][:3]
    assert low["y"] == [1.5, 1.5] and high["y"] == [2.5, 2.5] and middle["y"] == [2.0, 2.0]
    assert high["fill"] == "tonexty"


def test_everything_that_is_drawn_is_within_the_axes() -> None:
    band = TheoryBand(0.3, 3.0, 6.0)
    layout = speedup_figure(METER.points, band)["layout"]
    low, high = layout["yaxis"]["range"]
    assert low < 0.3 and high > 6


def test_the_axis_includes_a_slow_start_but_ignores_a_brief_peak() -> None:
    points = [
        SpeedupPoint(0.1, 1, 0.2),
        SpeedupPoint(0.2, 8, 9.0),
        SpeedupPoint(4.0, 90, 1.5),
    ]
    low, high = speedup_figure(points)["layout"]["yaxis"]["range"]
    assert low < 0.2 and high < 5
    points[1] = SpeedupPoint(0.2, 8, 3.1)
    assert speedup_figure(points)["layout"]["yaxis"]["range"][1] > 3.1, "a peak of a usual start"


@pytest.mark.parametrize(
    "name", ["draft-tree.chat.smollm2", "draft-model.code", "draft-tree.story"]
)
def test_during_a_race_the_axis_always_includes_the_line_after_its_start(
    name: str,
) -> None:
    trace = golden_trace(name)
    seen = RunMeter(trace)
    for each in race({lane.name: lane.events for lane in trace.lanes}):
        seen.add(each.lane, each.event)
        figure = speedup_figure(seen.points, seen.theory_band)
        (_, last), (low, high) = (figure["layout"][axis]["range"] for axis in ("xaxis", "yaxis"))
        assert all(low < point.speedup for point in seen.points)
        assert all(point.speedup < high for point in seen.points if point.seconds >= last / 10)


def test_the_shares_of_time_add_up_and_show_milliseconds() -> None:
    figure = time_split_figure(METER.totals)
    shares = [share for bar in figure["data"] for share in bar["x"]]
    assert shares == pytest.approx([0.06 / 0.3, 0.22 / 0.3, 0.02 / 0.3])
    texts = [label["text"] for label in figure["layout"]["annotations"]]
    assert texts == ["draft 20%<br>30.0 ms", "verify 73%<br>110 ms", "rest 7%<br>10.0 ms"]


def test_the_percentages_of_time_add_up_to_100() -> None:
    totals = RoundTotals()
    totals.rounds = 1
    totals.draft_seconds, totals.verify_seconds, totals.host_seconds = 61.24, 38.28, 0.48
    labels = time_split_figure(totals)["layout"]["annotations"]
    texts = [label["text"].split("<br>")[0] for label in labels]
    assert texts == ["draft 61%", "verify 38%", "rest 1%"]


def test_acceptance_by_depth_is_shown_with_the_constant_rate() -> None:
    totals = METER.totals
    constant, measured = depth_figure(totals.acceptance_by_depth, totals.acceptance_rate)["data"]
    assert constant["y"] == [0.8, 0.8]
    assert measured["y"] == [1.0, 0.5, 1.0]
    assert measured["customdata"][1] == [1, 2]


def depths(count: int) -> tuple[DepthAcceptance, ...]:
    return tuple(DepthAcceptance(depth, 50, 49 - depth, 0.5) for depth in range(1, count + 1))


@pytest.mark.parametrize("count", [1, 5, 6, 7, 16, 32])
def test_at_most_six_depths_show_a_number_and_every_depth_a_marker(count: int) -> None:
    figure = depth_figure(depths(count), 0.5)
    line, axis = figure["data"][1], figure["layout"]["xaxis"]
    assert len(line["x"]) == count
    labelled = [depth for depth, text in zip(line["x"], line["text"], strict=True) if text]
    assert len(labelled) <= 6 and labelled[0] == axis["tick0"] == 1
    assert all(step == axis["dtick"] for step in _steps(labelled))


def _steps(values: list[int]) -> list[int]:
    return [later - earlier for earlier, later in zip(values, values[1:], strict=False)]


@pytest.mark.parametrize("speedup", [0.4, 1.0, 1.5, 3.0])
def test_the_labels_of_the_speedup_are_outside_the_plot(speedup: float) -> None:
    points = [SpeedupPoint(0.1 * i, 10 * i, speedup) for i in range(1, 9)]
    theory, baseline = speedup_figure(points, TheoryBand(0.9, 1.2, 1.5))["layout"]["annotations"]
    assert theory["yref"] == "paper" and theory["y"] == 1 and theory["yanchor"] == "bottom"
    assert (
        baseline["x"] == pytest.approx(0.8)
        and baseline["xanchor"] == "left"
        and baseline["xshift"] > 5
    )
