"""Where the nodes of a draft tree stand: x is depth, y a row; networkx walks the tree.

Knows no colour and no pixel.
"""

from __future__ import annotations

import networkx as nx

from specviz.records import DraftTree, Round

ROOT, EXTRA = -1, -2
Places = dict[int, tuple[float, float]]  # node index -> (depth, row)
Curve = tuple[list[float], list[float]]


def to_networkx(tree: DraftTree) -> nx.DiGraph:
    """The tree as a directed graph: node -1 is the root, others are indices into `tree.nodes`.

    Nodes carry `depth`, and all but the root `token_id`, `draft_prob` and `draft_score`.
    """
    graph = nx.DiGraph(kind=tree.kind.value)
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
    """Leaves on rows 0, 1, 2, … in draw order, every parent midway between its outer children.

    Where the extra token stands moves no node: behind a leaf on the leaf's row, else on a row below
    all others.
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
    """Rows of the tree, and one for a recovered token whether there is one or not."""
    rows = [row for node, (_, row) in places.items() if node != EXTRA]
    return 1 + max(rows) + bool(round_.tree.nodes)


def curve(start: tuple[float, float], end: tuple[float, float], steps: int = 12) -> Curve:
    """Points of an S-shaped edge that leaves and arrives level."""
    (x0, y0), (x1, y1) = start, end
    if y0 == y1:
        return [x0, x1], [y0, y1]
    shares = [step / steps for step in range(steps + 1)]
    bends = [share * share * (3 - 2 * share) for share in shares]
    return [x0 + s * (x1 - x0) for s in shares], [y0 + b * (y1 - y0) for b in bends]
