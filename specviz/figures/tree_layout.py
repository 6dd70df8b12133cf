"""The positions of a draft tree's nodes: x is the depth of a node, y is its row."""

from __future__ import annotations

import networkx as nx

from specviz.records import DraftTree, Round

ROOT, EXTRA = -1, -2
Places = dict[int, tuple[float, float]]  # node index -> (depth, row)
Curve = tuple[list[float], list[float]]


def to_networkx(tree: DraftTree) -> nx.DiGraph:
    """Return the tree as a directed graph: node -1 is the root, others index `tree.nodes`.

    All nodes have the attribute `depth`. All except the root also have `token_id`, `draft_prob` and
    `draft_score`.
    """
    graph = nx.DiGraph(drawing=tree.drawing.value)
    graph.add_node(ROOT, depth=0)
    for index, node in enumerate(tree.nodes):
        graph.add_node(
            index,
            depth=node.depth,
            token_id=node.token_id,
            draft_prob=node.draft_prob,
            draft_score=node.draft_score,
        )
        graph.add_edge(node.parent, index)
    return graph


def tidy_places(round_: Round) -> Places:
    """Return positions with leaves on rows 0, 1, 2, … and parents in the middle of their children.

    The extra token moves no other node. If it follows a leaf, it is on the row of this leaf.
    Otherwise, it is on a row below all others.
    """
    graph = to_networkx(round_.tree)
    places: Places = {}
    leaves = 0
    for node in nx.dfs_postorder_nodes(graph, ROOT):
        rows = [places[child][1] for child in graph.successors(node)]
        row = (rows[0] + rows[-1]) / 2 if rows else float(leaves)
        leaves += not rows
        places[node] = (float(graph.nodes[node]["depth"]), row)
    if round_.extra is not None:
        depth, row = places[round_.extra.parent]
        is_leaf = not graph.out_degree(round_.extra.parent)
        places[EXTRA] = (depth + 1, row if is_leaf else float(leaves))
    return places


def row_count(round_: Round, places: Places) -> float:
    """Return the number of rows of a tree; one row is always reserved for a recovered token."""
    rows = [row for node, (_, row) in places.items() if node != EXTRA]
    return 1 + max(rows) + bool(round_.tree.nodes)


def curve(start: tuple[float, float], end: tuple[float, float], steps: int = 12) -> Curve:
    """Return the points of an S-shaped edge that starts and ends horizontally."""
    (x0, y0), (x1, y1) = start, end
    if y0 == y1:
        return [x0, x1], [y0, y1]
    shares = [step / steps for step in range(steps + 1)]
    bends = [share * share * (3 - 2 * share) for share in shares]
    return [x0 + s * (x1 - x0) for s in shares], [y0 + b * (y1 - y0) for b in bends]
