"""The dependency rules of the design, read from the source with ast."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "specviz").rglob("*.py")) + [p for p in (ROOT / "app.py",) if p.exists()]

# outside package -> the only places that may import it
ALLOWED = {
    "torch": ("models", "decoding", "experiments", "training"),
    "transformers": ("models", "decoding", "experiments", "training"),
    "plotly": ("figures",),
    "networkx": ("figures",),
    "gradio": ("ui", "app"),
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib3", "http.client"), ("serving",)),
    "urllib.request": ("serving",),
}
PURE = {"records", "errors", "metrics", "theory", "trace_file", "glossary", "figures"}
PURE |= {"trace_diff", "what_if", "claims", "forward_curve", "advisor"}
# part -> parts of specviz that it may import ("*": all but ui, cli, app)
MAY_IMPORT = {
    "errors": set[str](),
    "records": {"errors"},
    "forward_curve": {"errors"},
    "theory": {"errors", "records", "forward_curve"},
    "advisor": {"errors", "records", "theory", "forward_curve"},
    "glossary": {"errors"},
    "metrics": {"errors", "records", "theory"},
    "claims": {"errors", "records", "theory", "metrics", "serving_cost", "forward_curve"},
    "trace_file": {"errors", "records"},
    "trace_diff": {"errors", "records", "metrics"},
    "what_if": {"errors", "records", "decoding"},
    "figures": {"errors", "records", "metrics", "theory", "glossary"},
    "models": {"errors", "records", "settings"},
    "decoding": {"errors", "records", "settings", "models", "forward_curve"},
}
FRONT = {"ui", "cli", "__main__", "app"}


def part(path: Path) -> str:
    """The part of the design that a file belongs to: a package or a module of specviz, or app."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return names[1] if len(names) > 1 else names[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file; relative ones made absolute."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            assert node.level == 0, f"{path}: relative import"
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def inner_parts(path: Path) -> set[str]:
    names = (name.split(".") for name in imports(path) if name.startswith("specviz."))
    return {name[1] for name in names} - {part(path)}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_outside_packages_stay_in_their_place(path: Path) -> None:
    for name in imports(path):
        for package, places in ALLOWED.items():
            if name == package or name.startswith(f"{package}."):
                rule = f"{package} is allowed in {', '.join(places)} only"
                assert part(path) in places, rule


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_dependencies_point_one_way(path: Path) -> None:
    here, used = part(path), inner_parts(path)
    known = {each for each in used if (ROOT / "specviz" / each).exists() or _is_module(each)}
    if here in MAY_IMPORT:
        assert known <= MAY_IMPORT[here], f"{here} may import {sorted(MAY_IMPORT[here])} only"
    if here not in FRONT:
        assert not known & FRONT, f"{here} must not know {sorted(FRONT)}"


def _is_module(name: str) -> bool:
    return (ROOT / "specviz" / f"{name}.py").exists()


def test_records_import_the_standard_library_and_errors_only() -> None:
    for path in (ROOT / "specviz" / "records").glob("*.py"):
        outside = {each.split(".")[0] for each in imports(path)} - sys.stdlib_module_names
        assert outside - {"__future__"} <= {"specviz"}
        assert inner_parts(path) <= {"errors"}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_pure_parts_import_no_outside_package_but_networkx(path: Path) -> None:
    if part(path) in PURE:
        outside = {name.split(".")[0] for name in imports(path)} - sys.stdlib_module_names
        assert outside - {"__future__", "specviz"} <= {"networkx"}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_only_settings_reads_environment_variables(path: Path) -> None:
    if part(path) == "settings":
        return
    assert not {"os.environ", "os.getenv"} & set(imports(path))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("os", "environ"), ("os", "getenv")}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_no_file_is_a_drawer_of_odds_and_ends(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_holds_one_noun_and_at_most_300_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_figures_build_dicts_not_graph_objects() -> None:
    for path in (ROOT / "specviz" / "figures").glob("*.py"):
        assert not re.search(r"graph_objects|plotly\.express", path.read_text(encoding="utf-8"))
