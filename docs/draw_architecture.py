"""Draw docs/architecture.svg from the imports in the code: `make picture`.

A box is a package of specviz, or a module at its top level. An arrow means "imports" and points
down to a lower layer. If A imports B and B imports C, the picture has no arrow from A to C.
"""

import ast
from html import escape
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"
# In pixels: width and height of a box, the gap between boxes, the distance between layers, and the
# margin.
BOX, GAP, LAYER, MARGIN = (128, 26), 14, 78, 24
STYLE = """
  rect { fill: #f4f6fb; stroke: #5468a0; rx: 5px }
  text { font: 13px sans-serif; fill: #1c2440; text-anchor: middle; dominant-baseline: central }
  path { fill: none; stroke: #8a95b5; stroke-width: 1.1 }
  @media (prefers-color-scheme: dark) {
    rect { fill: #20263a; stroke: #8c9bd0 } text { fill: #e6e9f5 } path { stroke: #6b7698 }
  }
"""


def rooms(root: Path = ROOT) -> nx.DiGraph:
    """Return the graph in which an edge goes from a package to each package that it imports."""
    graph = nx.DiGraph()
    for path in sorted((root / "specviz").rglob("*.py")):
        room = path.relative_to(root / "specviz").with_suffix("").parts[0]
        if room.startswith("__"):
            continue
        graph.add_node(room)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in imported(node):
                other = name.split(".")[1]
                is_room = any((root / "specviz" / f"{other}{end}").exists() for end in ("", ".py"))
                if is_room and other != room:
                    graph.add_edge(room, other)
    return graph


def imported(node: ast.AST) -> list[str]:
    """Return the names of specviz modules in one node of the syntax tree.

    They are the modules that an import statement imports, and those that a string names, because
    the program imports some modules only when it needs them, by a name in a string.
    """
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        names = [node.value]
    return [name for name in names if name.startswith("specviz.")]


def layers(graph: nx.DiGraph) -> list[list[str]]:
    """Return the layers from the top down. Every package is below all packages that import it."""
    found = [sorted(layer) for layer in nx.topological_generations(graph.reverse())]
    # Place each package near the middle of the packages that it imports.
    for index in range(1, len(found)):
        below = {name: place / len(found[index - 1]) for place, name in enumerate(found[index - 1])}
        pulls = {n: [below[m] for m in graph.successors(n) if m in below] for n in found[index]}
        found[index].sort(key=lambda name: sum(pulls[name]) / max(1, len(pulls[name])))
    return found[::-1]


def drawn(graph: nx.DiGraph) -> str:
    """Return the picture as SVG."""
    (wide, high), rows = BOX, layers(graph)
    width = max(map(len, rows)) * (wide + GAP) - GAP + 2 * MARGIN
    corners = {}
    for row, names in enumerate(rows):
        left = (width - len(names) * (wide + GAP) + GAP) / 2
        for place, name in enumerate(names):
            corners[name] = (left + place * (wide + GAP), MARGIN + row * LAYER)
    lines = []
    for one, other in sorted(nx.transitive_reduction(graph).edges):
        (x, y), (end_x, end_y) = corners[one], corners[other]
        x, end_x, y = x + wide / 2, end_x + wide / 2, y + high
        bend = (end_y - y) / 2
        curve = f"M{x:g} {y:g} C{x:g} {y + bend:g} {end_x:g} {end_y - bend:g} {end_x:g} {end_y:g}"
        lines.append(f'<path d="{curve}" marker-end="url(#tip)"/>')
    for name, (x, y) in sorted(corners.items()):
        lines.append(f'<rect x="{x:g}" y="{y:g}" width="{wide}" height="{high}"/>')
        lines.append(f'<text x="{x + wide / 2:g}" y="{y + high / 2:g}">{escape(name)}</text>')
    height = (len(rows) - 1) * LAYER + high + 2 * MARGIN
    size = 'refX="8" refY="4" markerWidth="9" markerHeight="9" orient="auto"'
    marker = f'<marker id="tip" {size}><path d="M0 0 L8 4 L0 8"/></marker>'
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
    return "\n".join([frame, f"<style>{STYLE}</style>", marker, *lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawn(rooms()), encoding="utf-8")
