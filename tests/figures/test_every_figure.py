"""Claims about every figure: plotly accepts it, it is plain JSON, and it is built quickly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest

from specviz.figures.bars import bars_figure
from specviz.figures.depth import depth_figure
from specviz.figures.mask import mask_figure
from specviz.figures.residual import residual_figure
from specviz.figures.speedup import speedup_figure
from specviz.figures.theme import LIGHT, Figure
from specviz.figures.time_split import time_split_figure
from specviz.figures.timeline import timeline_figure
from specviz.figures.tree import tree_figure
from specviz.metrics import RoundTotals, meter
from specviz.records import Drawing, Trace
from tests.random_distributions import TEXTS
from tests.random_rounds import random_round
from tests.random_traces import random_trace

NAMES = dict(enumerate(TEXTS))
SHAPES = {
    "chain": random_trace(1, rounds=6),
    "sampled tree": random_trace(2, rounds=6, branching=(3, 2)),
    "top-k tree": random_trace(3, rounds=4, branching=(3, 3), drawing=Drawing.CHOSEN),
    "wide tree": random_trace(4, rounds=2, branching=(8, 7), draft_length=2),
    "long chain": random_trace(5, rounds=3, draft_length=32),
    "lookup": random_trace(6, rounds=8, has_distributions=False, temperature=0.0),
    "cut": random_trace(8, rounds=5, cut=True),
    "lossy": random_trace(9, rounds=5, branching=(3, 2), drawing=Drawing.CHOSEN, rule="typical"),
    "block": random_trace(11, rounds=6, rule="block"),
    "traversal": random_trace(12, rounds=6, branching=(3, 2), rule="traversal"),
    "ahead": random_trace(10, rounds=5, is_ahead=True),
}


def trees(trace: Trace) -> Iterator[Figure]:
    for each in trace.rounds:
        yield tree_figure(each, NAMES, root_id=3)


def bars(trace: Trace) -> Iterator[Figure]:
    for each in trace.rounds:
        positions = {position.parent: position for position in each.positions}
        for child, node in enumerate(each.tree.nodes):
            position = positions.get(node.parent)
            yield bars_figure(position, each, NAMES, trace.config.temperature, child)
        yield bars_figure(each.positions[-1], each, NAMES, trace.config.temperature)


def residuals(trace: Trace) -> Iterator[Figure]:
    yield from (residual_figure(p, NAMES) for each in trace.rounds for p in each.positions)
    yield residual_figure(None, NAMES)


def timelines(trace: Trace) -> Iterator[Figure]:
    for index in range(len(trace.rounds)):
        yield timeline_figure(trace.rounds[max(0, index - 1) : index + 2], index)


def totals(trace: Trace) -> Iterator[Figure]:
    measured = meter(trace)
    yield speedup_figure(measured.points, measured.theory_band)
    yield time_split_figure(measured.totals)
    yield depth_figure(measured.totals.acceptance_by_depth, measured.totals.acceptance_rate)


def skeletons(_: Trace) -> Iterator[Figure]:
    yield speedup_figure(())
    yield time_split_figure(RoundTotals())
    yield depth_figure((), None)
    yield residual_figure(None, NAMES)
    yield tree_figure(random_round(0, widths=()), {})


BUILDERS = (trees, bars, residuals, timelines, totals, skeletons)
every_figure = pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
every_shape = pytest.mark.parametrize("shape", SHAPES)
Build = Callable[[Trace], Iterator[Figure]]


@every_figure
@every_shape
def test_plotly_accepts_every_figure(build: Build, shape: str) -> None:
    figures = list(build(SHAPES[shape]))
    for figure in figures[:3] + figures[-3:]:
        assert set(figure) == {"data", "layout"}
        go.Figure(figure)


@every_figure
@every_shape
def test_every_figure_is_plain_finite_json(build: Build, shape: str) -> None:
    for figure in build(SHAPES[shape]):
        json.dumps(figure, allow_nan=False)


@every_figure
@every_shape
def test_every_plotly_trace_has_a_role_of_the_palette(build: Build, shape: str) -> None:
    for figure in build(SHAPES[shape]):
        assert {trace["meta"]["role"] for trace in figure["data"]} <= LIGHT.keys()


@every_figure
@every_shape
def test_every_colour_belongs_to_the_palette(build: Build, shape: str) -> None:
    known = {*LIGHT.values(), "rgba(0,0,0,0)"}
    for figure in build(SHAPES[shape]):
        assert set(_colours(figure)) <= known


def _colours(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if "color" in key and isinstance(each, str):
                yield each
            yield from _colours(each)
    elif isinstance(value, list):
        for each in value:
            yield from _colours(each)


LINK = '<a href="https://example.org">log in</a>'


@every_shape
def test_text_of_a_run_never_becomes_a_link_or_a_tag(shape: str) -> None:
    hostile = dict.fromkeys(range(1000), LINK)
    for each in SHAPES[shape].rounds:
        spans = tuple(replace(span, who=f"{LINK}{span.who}") for span in each.spans)
        verify = [span for span in each.spans if span.who == "verify"]
        each = replace(each, spans=(*spans, *verify))
        drawn = [timeline_figure([each], each.index), tree_figure(each, hostile, root_id=3)]
        drawn.append(mask_figure(each, hostile, root_id=3))
        drawn += [bars_figure(p, each, hostile, 1.0) for p in each.positions]
        drawn += [residual_figure(p, hostile) for p in each.positions]
        assert not [text for text in _texts(drawn) if "<a" in text]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


@pytest.mark.parametrize(
    "build", (trees, bars, residuals, timelines), ids=lambda build: build.__name__
)
def test_plotly_traces_keep_their_number_order_and_type_from_round_to_round(build: Build) -> None:
    shapes = {
        tuple((trace["type"], trace["meta"]["role"]) for trace in figure["data"])
        for trace_ in SHAPES.values()
        for figure in build(trace_)
    }
    assert len(shapes) == 1


@every_figure
@every_shape
def test_the_columns_of_a_plotly_trace_have_the_same_length(build: Build, shape: str) -> None:
    for figure in build(SHAPES[shape]):
        for trace in figure["data"]:
            columns = [trace[key] for key in ("x", "y", "text", "customdata") if trace.get(key)]
            assert len({len(column) for column in columns}) <= 1


def test_a_figure_is_built_in_much_less_than_the_time_of_a_frame() -> None:
    each = SHAPES["wide tree"].rounds[0]
    for build in (
        lambda: tree_figure(each, NAMES),
        lambda: bars_figure(each.positions[0], each, NAMES, 0.7, 0),
    ):
        seconds = []
        for _ in range(5):
            started = time.thread_time()
            build()
            seconds.append(time.thread_time() - started)
        assert min(seconds) < 0.010
