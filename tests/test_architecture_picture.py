"""docs/architecture.md names only files that exist, and its picture shows the real imports."""

import importlib.util
import re
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_spec = importlib.util.spec_from_file_location("drawing", ROOT / "docs" / "draw_architecture.py")
drawing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(drawing)


@pytest.fixture(scope="module")
def graph():
    return drawing.rooms()


def test_the_picture_is_up_to_date(graph):
    today = drawing.drawn(graph)
    assert drawing.PICTURE.read_text(encoding="utf-8") == today, "run `make picture`"


def test_no_arrow_points_upwards(graph):
    assert nx.is_directed_acyclic_graph(graph), list(nx.simple_cycles(graph))
    height = {room: row for row, layer in enumerate(drawing.layers(graph)) for room in layer}
    assert all(height[above] < height[below] for above, below in graph.edges)
    assert set(height) == set(graph)


def test_omitted_arrows_follow_from_those_that_are_drawn(graph):
    kept = nx.transitive_reduction(graph)
    assert drawing.drawn(graph).count("marker-end") == kept.number_of_edges()
    assert all(nx.has_path(kept, above, below) for above, below in graph.edges)


def test_every_file_that_the_page_names_exists():
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:specviz|assets|tests|docs)/[\w./-]+|app\.py)`", page))
    assert len(named) > 20
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_folder_that_the_page_names_is_in_the_picture(graph):
    rows = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text(encoding="utf-8"), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) > 10 and named <= set(graph)
