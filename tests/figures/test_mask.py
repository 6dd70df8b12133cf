"""The mask figure shows exactly which tokens each token sees in the tree forward."""

import dataclasses

import torch

from specviz.decoding.topology import topology
from specviz.figures.mask import CONTEXT_COLUMNS, GAP_COLUMNS, mask_figure, position_id
from tests.random_rounds import random_round

WIDTHS = [(), (1, 1, 1), (3, 2), (2, 2, 2)]


def tree_part(figure: dict) -> list[list[bool]]:  # type: ignore[type-arg]
    return [[z > 0 for z in row[CONTEXT_COLUMNS + GAP_COLUMNS :]] for row in figure["data"][0]["z"]]


def test_the_cells_are_the_mask_of_the_forward() -> None:
    for seed, widths in enumerate(WIDTHS):
        each = random_round(seed, widths=widths)
        parents = tuple(node.parent for node in each.tree.nodes)
        used = topology(parents, torch.device("cpu")).mask
        assert tree_part(mask_figure(each, {})) == used.tolist()


def test_every_row_sees_the_whole_context() -> None:
    for row in mask_figure(random_round(3, widths=(3, 2)), {})["data"][0]["z"]:
        assert row[:CONTEXT_COLUMNS] == [1.0] * CONTEXT_COLUMNS


def test_position_ids_continue_the_committed_text_by_depth() -> None:
    each = random_round(3, widths=(3, 2))
    assert position_id(each, -1) == each.context_length - 1
    for index, node in enumerate(each.tree.nodes):
        assert position_id(each, index) == each.context_length - 1 + node.depth


def test_siblings_share_a_position_id_and_do_not_see_each_other() -> None:
    each = random_round(1, widths=(2,))
    assert position_id(each, 0) == position_id(each, 1)
    cells = tree_part(mask_figure(each, {}))
    assert not cells[1][2] and not cells[2][1]


def test_a_large_tree_has_no_labels_at_its_rows() -> None:
    each = random_round(2, widths=(8, 7))
    assert mask_figure(each, {})["layout"]["yaxis"]["ticktext"] == []
    small = dataclasses.replace(random_round(2, widths=(2,)), context_length=40)
    texts = mask_figure(small, {}, root_id=None)["layout"]["yaxis"]["ticktext"]
    assert texts[0] == "root 39"
