"""The lab's figures are valid and use the palette; a point that is not measured keeps its space."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go
import pytest

from specviz.figures.lab_heatmap import lab_heatmap_figure
from specviz.figures.lab_speedup import lab_speedup_figure
from specviz.figures.lab_times import lab_times_figure
from specviz.figures.theme import LIGHT, PALETTES, Figure


def point(speedup: float, *, drafted: bool = True) -> dict[str, Any]:
    return {
        "speedup": speedup,
        "speedup_spread": [speedup - 0.1, speedup + 0.1],
        "theory_speedup": speedup + 0.05 if drafted else None,
        "theory_band": [speedup, speedup + 0.1] if drafted else None,
        "acceptance_rate": 0.8 if drafted else None,
        "block_efficiency": 3.0 if drafted else None,
        "baseline_tokens_per_second": 50.0,
        "tokens_per_second": 50.0 * speedup,
        "texts": 3,
        "rounds": 10 if drafted else 0,
        "prefill_seconds": 0.1,
        "draft_prefill_seconds": 0.05,
        "draft_seconds": 0.2,
        "verify_seconds": 0.6,
        "host_seconds": 0.1,
    }


POINTS = {0: point(0.8), 2: point(1.6), 3: point(1.2, drafted=False)}
VALUES = (1, 2, 4, 8)
FIGURES = {
    "speedup": lab_speedup_figure("K", VALUES, POINTS, [0.97, 1.02], picked=2),
    "speedup without noise": lab_speedup_figure("K", VALUES, POINTS),
    "no speedup yet": lab_speedup_figure("Method", ("draft-model", "cross-vocabulary"), {}),
    "times": lab_times_figure("K", VALUES, POINTS, picked=0),
    "no times yet": lab_times_figure("K", VALUES, {}),
    "heatmap": lab_heatmap_figure(
        ("K", "Temperature"), (VALUES, (0.0, 1.0)), {(0, 0): POINTS[0], (3, 1): POINTS[2]}, (3, 1)
    ),
    "no heatmap yet": lab_heatmap_figure(("K", "Task"), (VALUES, ("code", "story")), {}),
}
NAMED = lab_speedup_figure("Method", ("a", "b", "c", "d"), POINTS, [0.97, 1.02], picked=2)
FIGURES["speedup of names"] = NAMED
every_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


@every_figure
def test_plotly_accepts_the_figures_and_they_are_plain_json(figure: Figure) -> None:
    go.Figure(figure)
    json.dumps(figure, allow_nan=False)


@every_figure
def test_every_colour_and_every_role_belongs_to_the_palette(figure: Figure) -> None:
    assert set(colours(figure)) <= {*LIGHT.values(), "rgba(0,0,0,0)"}
    assert {trace["meta"]["role"] for trace in figure["data"]} <= LIGHT.keys()


def traces(figure: Figure, role: str) -> list[dict[str, Any]]:
    return [trace for trace in figure["data"] if trace["meta"]["role"] == role]


def colours(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if "color" in key and isinstance(each, str):
                yield each
            yield from colours(each)
    elif isinstance(value, list):
        yield from (each for pair in value for each in colours(pair))


@every_figure
def test_the_columns_of_a_plotly_trace_have_the_same_length(figure: Figure) -> None:
    for trace in figure["data"]:
        if trace["type"] != "heatmap":
            columns = [trace[key] for key in ("x", "y", "text", "customdata") if trace.get(key)]
            assert len({len(column) for column in columns}) <= 1


@pytest.mark.parametrize("name", ["speedup", "no speedup yet"])
def test_the_axis_has_space_for_every_value_before_it_is_measured(name: str) -> None:
    axis = FIGURES[name]["layout"]["xaxis"]
    assert axis["range"] == [-0.5, len(axis["tickvals"]) - 0.5]


def test_no_line_crosses_a_point_that_is_not_measured() -> None:
    lines = [t for t in FIGURES["speedup"]["data"] if t["mode"] == "lines"]
    line = next(each for each in lines if each["meta"]["role"] == "accepted")
    assert line["x"] == [0, 1.5, 2, 3] and line["y"] == [0.8, None, 1.6, 1.2]
    bars = FIGURES["speedup"]["data"][-1]
    ends = [y + e for y, e in zip(bars["y"], bars["error_y"]["array"], strict=True)]
    starts = [y - e for y, e in zip(bars["y"], bars["error_y"]["arrayminus"], strict=True)]
    spreads = [POINTS[place]["speedup_spread"] for place in bars["x"]]
    assert list(zip(starts, ends, strict=True)) == [pytest.approx(each) for each in spreads]


def test_values_that_are_names_are_not_joined_by_a_line() -> None:
    joined = [trace for trace in NAMED["data"] if "lines" in trace["mode"] and trace["x"]]
    # The only Plotly trace with a line is the band that shows the noise, whose role is "muted".
    assert [trace["meta"]["role"] for trace in joined] == ["muted"]
    (theory,) = (trace for trace in traces(NAMED, "expected") if trace["mode"] == "markers")
    assert len(theory["error_y"]["array"]) == len(theory["x"]) == 2


def test_the_noise_is_a_band_around_1() -> None:
    (band,) = traces(FIGURES["speedup"], "muted")
    assert (min(band["y"]), max(band["y"])) == pytest.approx((0.97, 1 / 0.97))
    assert [min(band["x"]), max(band["x"])] == FIGURES["speedup"]["layout"]["xaxis"]["range"]
    assert traces(FIGURES["speedup without noise"], "muted")[0]["x"] == []
    (line,) = FIGURES["speedup"]["layout"]["shapes"]
    assert line["y0"] == line["y1"] == 1


def test_noise_theory_and_measurements_look_different() -> None:
    (noise,) = traces(FIGURES["speedup"], "muted")
    band, line = traces(FIGURES["speedup"], "expected")
    assert noise["fillpattern"]["shape"] and "fillpattern" not in band
    assert (line["line"]["dash"], noise["line"]["dash"]) == ("dash", "solid")
    assert band["x"] == [0, 2, 2, 0] and band["y"] == pytest.approx([0.8, 1.6, 1.7, 0.9])
    for palette in PALETTES.values():
        assert len({palette[role] for role in ("muted", "expected", "accepted")}) == 3


def test_the_parts_of_a_token_s_time_add_up_to_its_whole_time() -> None:
    bars = [trace for trace in FIGURES["times"]["data"] if trace["type"] == "bar"]
    for at, each in enumerate(POINTS.values()):
        whole = 1000 / each["tokens_per_second"]
        assert sum(bar["y"][at] for bar in bars) == pytest.approx(whole)
    # A token takes 1000 / 40 ms. The second-last bar shows a part that takes 0.6 s of the 1.05 s in
    # which the whole run decodes.
    assert bars[-2]["y"][0] == pytest.approx(1000 / 40 * 0.6 / 1.05)


def test_the_middle_colour_of_the_heatmap_is_always_1() -> None:
    for name in ("heatmap", "no heatmap yet"):
        heat = FIGURES[name]["data"][0]
        assert heat["zmin"] + heat["zmax"] == 2


def test_a_cell_of_the_heatmap_is_at_its_own_two_values() -> None:
    heat, numbers = FIGURES["heatmap"]["data"]
    assert heat["z"] == [[0.8, None, None, None], [None, None, None, 1.6]]
    assert heat["customdata"][1][3] == [3, 1]
    assert heat["hovertext"][1][3].startswith("1.60× measured (1.50 to 1.70)")
    assert heat["hovertext"][0][1] == ""
    told = zip(numbers["x"], numbers["y"], numbers["text"], strict=True)
    assert list(told) == [(0, 0, "0.80"), (3, 1, "1.60")]
    axes = FIGURES["heatmap"]["layout"]
    assert axes["xaxis"]["ticktext"] == ["1", "2", "4", "8"]
    assert (axes["xaxis"]["title"]["text"], axes["yaxis"]["title"]["text"]) == ("K", "Temperature")
    (frame,) = axes["shapes"]
    assert frame["x0"] < 3 < frame["x1"] and frame["y0"] < 1 < frame["y1"]


def test_the_hover_text_has_the_point_s_numbers() -> None:
    told = FIGURES["speedup"]["data"][-1]["hovertext"]
    assert told[1].split("<br>") == [
        "1.60× measured (1.50 to 1.70)",
        "1.65× explained (1.60 to 1.70)",
        "acceptance rate 0.80",
    ]
    # This point drafted nothing, so it has only the measured speedup.
    assert told[2] == "1.20× measured (1.10 to 1.30)"


def test_no_name_in_a_sweep_becomes_a_link() -> None:
    link = '<a href="https://example.org">log-in</a>'
    figures = [
        lab_speedup_figure(link, (link, "b"), {0: point(0.8)}),
        lab_times_figure(link, (link, "b"), {0: point(0.8)}),
        lab_heatmap_figure((link, link), ((link,), (link, "b")), {(0, 0): point(0.8)}),
    ]
    assert "<a" not in json.dumps(figures)
