"""The tree figure shows each node once, at the right position and with the right role."""

from __future__ import annotations

import dataclasses
from typing import Any

import networkx as nx
import pytest

from specviz.figures.theme import Figure
from specviz.figures.tree import EDGE_WIDTHS, tree_drawing, tree_figure
from specviz.figures.tree_layout import EXTRA, ROOT, curve, tidy_places, to_networkx
from specviz.records import (
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    Outcome,
    Round,
)
from tests.random_distributions import TEXTS
from tests.random_rounds import random_round

NAMES = dict(enumerate(TEXTS))
WIDTHS = ((1, 1, 1), (3, 2), (2, 2, 2), (8, 7), ())


def find(accepted: int, widths: tuple[int, ...]) -> Round:
    rounds = (random_round(seed, widths) for seed in range(400))
    return next(each for each in rounds if len(each.accepted) == accepted)


def markers(figure: Figure) -> dict[int, dict[str, Any]]:
    """Return, for the index of each node, its role, symbol, position and hover text."""
    found = {}
    for trace in figure["data"]:
        if trace["mode"] == "markers":
            rows = zip(trace["customdata"], trace["x"], trace["y"], trace["hovertext"], strict=True)
            for index, x, y, hover in rows:
                symbol = trace["marker"]["symbol"]
                role = trace["meta"]["role"]
                found[index] = {"role": role, "symbol": symbol, "x": x, "y": y, "hover": hover}
    return found


@pytest.mark.parametrize("widths", WIDTHS)
def test_every_node_the_root_and_the_extra_token_appear_once(widths: tuple[int, ...]) -> None:
    each = random_round(3, widths)
    figure = tree_figure(each, NAMES)
    shown = [i for t in figure["data"] if t["mode"] == "markers" for i in t["customdata"]]
    assert sorted(shown) == [EXTRA, ROOT, *range(len(each.tree.nodes))]


def test_shape_and_role_show_the_outcome() -> None:
    each = find(1, (1, 1, 1))
    shown = markers(tree_figure(each, NAMES))
    assert [(shown[i]["role"], shown[i]["symbol"]) for i in range(3)] == [
        ("accepted", "circle"),
        ("rejected", "x"),
        ("unreached", "circle-open"),
    ]
    assert (shown[EXTRA]["role"], shown[EXTRA]["symbol"]) == ("recovered", "diamond")


def test_the_bonus_token_is_at_the_end_of_the_accepted_path() -> None:
    each = find(3, (1, 1, 1))
    shown = markers(tree_figure(each, NAMES))
    assert (shown[EXTRA]["role"], shown[EXTRA]["symbol"]) == ("bonus", "star")
    assert shown[EXTRA]["x"] == 4 and shown[EXTRA]["y"] == shown[2]["y"]


def test_a_cut_round_has_no_extra_token() -> None:
    each = dataclasses.replace(find(2, (1, 1, 1)), extra=None)
    assert EXTRA not in markers(tree_figure(each, NAMES))


@pytest.mark.parametrize("widths", WIDTHS)
def test_x_is_the_depth_leaves_are_evenly_spaced_and_parents_centred(
    widths: tuple[int, ...],
) -> None:
    each = random_round(5, widths)
    places = tidy_places(each)
    parents = {node.parent for node in each.tree.nodes}
    leaves = sorted(places[i][1] for i in places if i not in parents and i != EXTRA)
    assert leaves == list(range(len(leaves)))
    for index, node in enumerate(each.tree.nodes):
        assert places[index][0] == node.depth
    for parent in parents:
        rows = [places[child][1] for child in each.tree.children(parent)]
        assert places[parent][1] == (min(rows) + max(rows)) / 2


@pytest.mark.parametrize("widths", WIDTHS)
def test_the_layout_of_a_tree_does_not_reveal_the_verdicts(
    widths: tuple[int, ...],
) -> None:
    """Before the draft is verified, a tree must look the same whatever its verdicts will be."""
    each = random_round(5, widths)
    ends = [-1, *range(len(each.tree.nodes))]
    shown = [
        dataclasses.replace(each, extra=ExtraToken(0, ExtraKind.RECOVERED, end, 0.5))
        for end in ends
    ]
    drawings = [tree_drawing(other, NAMES)["layout"] for other in shown]
    frames = [(d["height"], d["xaxis"], d["yaxis"], d["meta"]["min_width"]) for d in drawings]
    assert all(frame == frames[0] for frame in frames)
    places = [{n["node"]: (n["x"], n["y"]) for n in d["meta"]["nodes"]} for d in drawings]
    for place in places:
        del place[EXTRA]
    assert all(place == places[0] for place in places)


@pytest.mark.parametrize("widths", WIDTHS)
def test_no_two_nodes_have_the_same_position(widths: tuple[int, ...]) -> None:
    places = list(tidy_places(random_round(7, widths)).values())
    assert len(set(places)) == len(places)


def test_an_accepted_chain_is_drawn_in_one_row() -> None:
    places = tidy_places(find(3, (1, 1, 1)))
    assert {row for _, row in places.values()} == {0.0}


def test_the_graph_is_a_tree_from_the_root_with_the_drafter_s_numbers() -> None:
    tree = random_round(1, (3, 2)).tree
    graph = to_networkx(tree)
    assert nx.is_arborescence(graph)
    assert graph.nodes[0]["token_id"] == tree.nodes[0].token_id
    # The graph lists the children of a node in the order in which they were drawn.
    assert list(graph.successors(ROOT)) == [0, 1, 2]


def test_edges_are_wider_for_larger_q() -> None:
    nodes = [DraftNode(i, -1, 1, q, q) for i, q in enumerate((0.1, 0.5, 1.0))]
    each = random_round(2, (3,))
    figure = tree_figure(
        dataclasses.replace(each, tree=DraftTree(each.tree.drawing, tuple(nodes))), NAMES
    )
    roles = {outcome.value for outcome in Outcome}
    edges = [t for t in figure["data"] if t["mode"] == "lines" and t["meta"]["role"] in roles]
    widths = {t["y"][-2]: t["line"]["width"] for t in edges if t["y"]}
    assert [widths[tidy_places(each)[index][1]] for index in range(3)] == list(EDGE_WIDTHS)


def test_an_edge_is_horizontal_at_both_ends() -> None:
    _, ys = curve((0, 0), (1, 1))
    steps = [later - earlier for earlier, later in zip(ys, ys[1:], strict=False)]
    assert ys[0] == 0 and ys[-1] == 1
    assert steps[0] < max(steps) / 2 and steps[-1] < max(steps) / 2


def test_the_hover_text_has_p_q_u_and_the_verdict() -> None:
    each = find(1, (1, 1, 1))
    hover = markers(tree_figure(each, NAMES))[1]["hover"]
    assert "<br>p " in hover and "<br>q " in hover
    assert f"u {each.verdicts[1].uniform_draw:.3f}: rejected" in hover
    assert "never examined" in markers(tree_figure(each, NAMES))[2]["hover"]


def test_the_hover_text_shows_a_probability_before_and_after_a_rejection() -> None:
    rounds = (random_round(seed, (3,)) for seed in range(200))
    each = next(r for r in rounds if len(r.accepted) == 1 and r.accepted[0] > 0)
    assert "→" in markers(tree_figure(each, NAMES))[each.accepted[0]]["hover"]


def test_a_drafter_without_probabilities_shows_that_the_rule_uses_q_1() -> None:
    each = random_round(2, (3,), drawing=Drawing.CHOSEN)
    assert "a point mass" in markers(tree_figure(each, NAMES))[0]["hover"]


def test_a_guess_of_unknown_probability_shows_a_dash_and_no_q() -> None:
    each = random_round(2, (1, 1), drawing=Drawing.CHOSEN)
    bare = [dataclasses.replace(p, draft_probs=(), raw_draft_probs=()) for p in each.positions]
    small = tree_figure(dataclasses.replace(each, positions=tuple(bare)), NAMES)["data"][-1]["text"]
    assert small[:2] == ["—", "—"] and not any("q" in text for text in small)
    assert any("q " in text for text in tree_figure(each, NAMES)["data"][-1]["text"])


def test_at_temperature_0_edges_and_labels_show_the_raw_confidence() -> None:
    each = random_round(0, (1,))
    (node,) = each.tree.nodes
    greedy = dataclasses.replace(node, draft_prob=1.0, draft_score=0.25)
    tree = dataclasses.replace(each.tree, nodes=(greedy,))
    figure = tree_figure(dataclasses.replace(each, tree=tree), NAMES)
    assert "q 25.0\xa0%" in figure["data"][-1]["text"]


def test_token_text_is_never_markup() -> None:
    evil = dict.fromkeys(NAMES, "<img src=x onerror=alert(1)>")
    figure = tree_figure(random_round(0, (3, 2)), evil, root_id=0)
    for trace in figure["data"]:
        assert "<img" not in str(trace.get("text")) + str(trace.get("hovertext"))


def test_a_token_without_a_text_shows_its_id() -> None:
    each = random_round(0)
    texts = [t for trace in tree_figure(each, {})["data"] for t in trace.get("text", [])]
    assert f"#{each.tree.nodes[0].token_id}" in texts


@pytest.mark.parametrize("widths", [(8, 7), (4, 3, 2), (3, 3, 2, 1, 1), (2, 2, 2, 2, 2)])
def test_wide_trees_keep_a_readable_distance(widths: tuple[int, ...]) -> None:
    each = random_round(0, widths, drawing=Drawing.CHOSEN)
    layout = tree_figure(each, NAMES)["layout"]
    rows = 1 + max(row for _, row in tidy_places(each).values())
    assert 18 <= (layout["height"] - 24) / rows <= 36
    assert layout["height"] <= 1200


@pytest.mark.parametrize("widths", [(1,) * 5, (1,) * 16, (1,) * 32, (3, 2, 2), (8, 7)])
def test_labels_of_neighbours_never_overlap(widths: tuple[int, ...]) -> None:
    layout = (figure := tree_figure(random_round(2, widths), NAMES, root_id=3))["layout"]
    labels = next(trace for trace in figure["data"] if "room" in trace["meta"])
    (low, high), margin = layout["xaxis"]["range"], layout["margin"]
    unit = (layout["meta"]["min_width"] - margin["l"] - margin["r"]) / (high - low)
    # The page cuts a label to the available width. Even the smallest width must leave four
    # characters.
    character = 0.62 * labels["textfont"]["size"]
    assert min(labels["meta"]["room"]) * unit / character >= 4
    usual = {"y": labels["y"], "room": labels["meta"]["room"]}
    for fitted in (usual, labels["meta"].get("narrow", usual)):
        rows: dict[float, list[tuple[float, float]]] = {}
        for x, y, room, position in zip(
            labels["x"], fitted["y"], fitted["room"], labels["textposition"], strict=True
        ):
            start = x - room / 2 if position.endswith("center") else x
            rows.setdefault(y, []).append((start, start + room))
        for spans in rows.values():
            ordered = sorted(spans)
            for (_, end), (start, _) in zip(ordered, ordered[1:], strict=False):
                assert end <= start


def test_on_a_phone_the_labels_of_a_chain_may_be_two_columns_wide() -> None:
    figure = tree_figure(random_round(2, (1,) * 5), NAMES, root_id=3)
    labels = next(trace for trace in figure["data"] if "room" in trace["meta"])
    assert min(labels["meta"]["room"]) < 1 < 1.8 < min(labels["meta"]["narrow"]["room"])


def test_accepted_edges_are_drawn_above_the_others() -> None:
    roles = [t["meta"]["role"] for t in tree_figure(random_round(0), NAMES)["data"]]
    assert roles.index(Outcome.ACCEPTED.value) > roles.index(Outcome.REJECTED.value)
