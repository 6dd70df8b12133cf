"""Charts and sentences about a sweep and its selected point take spread and noise into account."""

from __future__ import annotations

import json
import threading
from typing import Any

import plotly.graph_objects as go
import pytest

from specviz.decoding.drafters.registry import OPTIONS
from specviz.ui.lab.lab_sweeps import read_sweep, sweep_order
from specviz.ui.lab.lab_views import SweepViews
from tests.ui.small_sweep import FORM, LENGTHS, asked, lines

ENDS = ("shortest", "longest")


def test_the_charts_are_drawn_around_the_selected_point(measured: list[dict[str, Any]]) -> None:
    sweep = read_sweep(lines(measured))
    answer = SweepViews(sweep, [0.98, 1.02], picked=3).answer()
    assert answer["picked_words"] == "draft length K 2, temperature 1"
    assert answer["line_words"] == "at temperature 1" and answer["line"] == {"0": 1, "1": 3, "2": 5}
    assert answer["cells"]["1,1"] == 3
    assert set(answer["figures"]) == {"speedup", "times", "depth", "heatmap"}
    for figure in answer["figures"].values():
        go.Figure(figure)
    speedups = [point["speedup"] for point in sweep.points]
    assert answer["best"] == speedups.index(max(speedups))
    assert answer["setting"].startswith("Bundled pair · code: prompt 1 · Draft model, chain · 6")


def test_two_options_of_a_method_make_a_heat_map_of_their_own_values() -> None:
    values = ("1,2", "2,4")
    axes = [{"name": f"{end}-ngram", "values": v} for end, v in zip(ENDS, values, strict=True)]
    order = sweep_order(asked(*axes, form=FORM | {"method": "prompt-lookup"}))
    sweep = read_sweep(lines(list(order.messages(threading.Event()))))
    answer = SweepViews(sweep, [], picked=None).answer()
    heat, layout = answer["figures"]["heatmap"]["data"][0], answer["figures"]["heatmap"]["layout"]
    titles = [layout[f"{side}axis"]["title"]["text"] for side in "xy"]
    assert titles == [OPTIONS[f"{end}_ngram"].title for end in ENDS]
    assert [layout[f"{side}axis"]["ticktext"] for side in "xy"] == [["1", "2"], ["2", "4"]]
    cells = {tuple(point["setting"].values()): point["speedup"] for point in sweep.points}
    assert heat["z"] == [[cells[across, up] for across in (1, 2)] for up in (2, 4)]


def test_the_time_per_token_counts_all_tokens_of_all_rows() -> None:
    axis = {"name": "batch-size", "values": "2"}
    order = sweep_order(asked(axis, prompts={"count": "3"}, repeats="2"))
    sweep = read_sweep(lines(list(order.messages(threading.Event()))))
    (point,) = sweep.points
    bars = [t for t in SweepViews(sweep, [], None).answer()["figures"]["times"]["data"]]
    parts = {bar["name"]: bar["y"][0] for bar in bars if bar["type"] == "bar"}
    tokens = (2 * 2) * 6  # tokens of one repeat: 2 batches of 2 rows with 6 new tokens each
    for part in ("prefill", "draft prefill", "draft", "verify", "host"):
        seconds = point[f"{part.replace(' ', '_')}_seconds"]
        shown = parts["rest" if part == "host" else part]
        assert shown == pytest.approx(1000 * seconds / tokens)


@pytest.mark.parametrize(
    ("spread", "noise", "beginning"),
    [
        ([1.5, 1.7], [0.9, 1.1], "Fastest: 1.60× (1.50 to 1.70) at draft length K 1."),
        ([1.05, 1.7], [0.9, 1.1], "No clear gain"),
        ([0.5, 0.8], [0.9, 1.1], "Speculation loses at every point"),
        ([1.1, 1.2], [], "The best: 1.15× (1.10 to 1.20) at draft length K 1; the noise of its"),
        (
            [1.9, 2.0],
            [0.9, 1.8],
            "The machine is too busy to tell: plain decoding compared with itself",
        ),
        (
            [1.9, 2.0],
            [0.6, 1.1],
            "The machine is too busy to tell: plain decoding compared with itself",
        ),
    ],
)
def test_the_sentence_takes_the_spread_and_the_noise_into_account(
    measured: list[dict[str, Any]], spread: list[float], noise: list[float], beginning: str
) -> None:
    order = sweep_order(asked({"name": "draft-length", "values": "1"}, repeats="2"))
    point = json.loads(lines(measured).splitlines()[1])
    point |= {"setting": {"draft-length": 1}, "speedup": sum(spread) / 2, "speedup_spread": spread}
    plan = next(iter(order.messages(threading.Event())))["line"]
    sweep = read_sweep(f"{plan}\n{json.dumps(point)}\n")
    assert SweepViews(sweep, noise, None).sentence().startswith(beginning)


@pytest.mark.parametrize(
    ("spreads", "beginning"),
    [
        (([0.9, 1.7], [1.25, 1.33]), "Above the noise in every repeat: 1.29× (1.25 to 1.33) at"),
        (([0.88, 0.92], [0.3, 1.4]), "No clear gain"),
        (([0.88, 0.92], [0.3, 0.9]), "Speculation loses at every point"),
    ],
)
def test_the_sentence_is_about_all_points_and_not_only_the_fastest(
    measured: list[dict[str, Any]], spreads: tuple[list[float], ...], beginning: str
) -> None:
    order = sweep_order(asked({"name": "draft-length", "values": "1-2"}, repeats="2"))
    point = json.loads(lines(measured).splitlines()[1])
    plan = next(iter(order.messages(threading.Event())))["line"]
    text = [plan]
    for place, spread in enumerate(spreads, start=1):
        answer = {"speedup": sum(spread) / 2, "speedup_spread": spread}
        text.append(json.dumps(point | {"setting": {"draft-length": place}} | answer))
    sweep = read_sweep("".join(f"{line}\n" for line in text))
    assert SweepViews(sweep, [0.95, 1.05], None).sentence().startswith(beginning)


def test_a_single_repeat_has_no_spread(measured: list[dict[str, Any]]) -> None:
    plan, text, *_ = lines(measured).splitlines()
    once = {"speedup": 1.2, "speedup_spread": [1.2, 1.2], "speedups": [1.2]}
    point = json.dumps(json.loads(text) | once)
    sentence = SweepViews(read_sweep(f"{plan}\n{point}\n"), [1.0], None).sentence()
    assert sentence.startswith("The best: ") and "in one repeat" in sentence


def test_a_disturbed_point_with_one_repeat_was_measured_twice(
    measured: list[dict[str, Any]],
) -> None:
    plan, text, *_ = lines(measured).splitlines()
    twice = {"speedup": 2.3, "speedup_spread": [1.95, 2.99], "speedups": [2.99, 1.95]}
    point = json.loads(text) | twice | {"block_efficiency": 2.5}
    sentence = SweepViews(read_sweep(f"{plan}\n{json.dumps(point)}\n"), [1.0], None).sentence()
    assert sentence.startswith("The best: 2.30× (1.95 to 2.99) at draft length K 1,")
    assert sentence.endswith(
        ", measured twice, because other work disturbed the first run: "
        "its 2.99× is impossible with 2.50 tokens per forward."
    )


def test_a_value_that_is_a_name_needs_no_title_and_the_noise_is_shown_once() -> None:
    axes = [{"name": "method", "values": "draft-model,prompt-lookup"}, LENGTHS]
    plan = next(iter(sweep_order(asked(*axes)).messages(threading.Event())))["line"]
    views = SweepViews(read_sweep(f"{plan}\n"), [1.02], None)
    assert views.words(4) == "prompt-lookup, draft length K 2"
    assert views.answer()["noise_words"] == "0.98 to 1.02"
