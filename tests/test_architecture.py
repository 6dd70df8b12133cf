"""The dependency rules of the design, read from the source with ast; offenders are listed."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "specviz").rglob("*.py")) + [ROOT / "app.py"]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}

# outside package -> the only parts that may import it
PLACES = {
    "torch": {"models", "inflation", "decoding", "experiments", "training"},
    "transformers": {"models", "inflation", "decoding", "experiments", "training"},
    "plotly": {"figures"},
    "networkx": {"figures"},
    "yaml": {"engines"},
    "gradio": {"ui", "app"},
    "spaces": {"ui"},
    "prometheus_client": {"ui", "serving"},
    "xllamacpp": {"serving"},
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib3", "http.client"), {"serving"}),
    "urllib.request": {"serving"},
}
# part -> the parts of specviz that it may import; the others may import all but the front
MAY_IMPORT = {
    "errors": set[str](),
    "folders": set[str](),
    "records": {"errors"},
    "forward_curve": {"errors"},
    "theory": {"errors", "records", "forward_curve"},
    "advisor": {"errors", "records", "theory", "forward_curve"},
    "glossary": {"errors"},
    "metrics": {"errors", "records", "theory"},
    "sizing": {"errors", "records", "theory", "serving_cost"},
    "claims": {
        *("errors", "records", "theory", "metrics", "serving_cost", "forward_curve", "sizing")
    },
    "engines": {"errors", "environment", "models", "sizing"},
    "serving": {"errors", "environment", "models", "engines"},
    "trace_file": {"errors", "records"},
    "trace_diff": {"errors", "records", "metrics"},
    "lessons": {"errors", "folders", "records", "trace_file", "glossary"},
    "sixty_lines": {"errors", "folders"},
    "what_if": {"errors", "records", "decoding"},
    "figures": {"errors", "records", "metrics", "theory", "glossary"},
    "slices": set[str](),
    "models": {"errors", "folders", "records", "environment", "slices"},
    "inflation": {"errors", "models"},
    "decoding": {"errors", "records", "environment", "models", "forward_curve", "slices"},
}
# room of a package -> the other rooms of that package that it may import
MAY_ENTER = {
    "models.text": set[str](),
    "models.llama": set[str](),
    "models.graphs": {"models.llama"},
    "models.heads": {"models.llama"},
    "models.files": {"models.text", "models.llama", "models.graphs"},
    "experiments.run": set[str](),
    "experiments.sweep": {"experiments.run"},
    "experiments.bug_zoo": {"experiments.run"},
    "experiments.advice": {"experiments.run"},
    "experiments.benchmark": {"experiments.run", "experiments.sweep"},
}
PURE = {"records", "errors", "folders", "metrics", "theory", "trace_file", "glossary", "figures"}
PURE |= {"trace_diff", "what_if", "claims", "forward_curve", "advisor", "lessons", "sixty_lines"}
PURE |= {"sizing"}
FRONT = {"ui", "cli", "__main__", "app"}
READS_ENVIRONMENT = {"environment"}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}


def part(path: Path) -> str:
    """The part of the design that a file belongs to: a package or a module of specviz, or app."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return names[1] if len(names) > 1 else names[0]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file; of `from a import b` a and a.b.

    A text such as "specviz.ui.page" names a module that is imported later.
    """
    names = set[str]()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"specviz(\.\w+)+", str(node.value)):
            names.add(node.value)
    return names


IMPORTS = {path: imported(path) for path in FILES}
PARTS = {part(path) for path in FILES}


def room(names: Sequence[str]) -> str:
    """Package and room of a module of specviz, such as models.files; of others nothing of ours."""
    return ".".join(names[1:3])


def outside(path: Path) -> set[str]:
    """The packages from outside the standard library and specviz that a file imports."""
    tops = {name.split(".")[0] for name in IMPORTS[path]}
    return tops - sys.stdlib_module_names - {"__future__", "specviz"}


def inner_parts(path: Path) -> set[str]:
    """The other parts of specviz that a file imports."""
    names = {name.split(".")[1] for name in IMPORTS[path] if name.startswith("specviz.")}
    return (names & PARTS) - {part(path)}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def owners(pairs: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """name -> the files that have it, of the names that more than one has."""
    found = defaultdict(list)
    for name, path in pairs:
        found[name].append(short(path))
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_imports_are_absolute() -> None:
    assert [short(path) for path in FILES if any(n.startswith(".") for n in IMPORTS[path])] == []


def test_outside_packages_stay_in_their_places() -> None:
    wrong = [
        f"{short(path)}: {name} is allowed in {sorted(places)} only"
        for path in FILES
        for name in sorted(IMPORTS[path])
        for package, places in PLACES.items()
        if f"{name}.".startswith(f"{package}.") and part(path) not in places
    ]
    assert wrong == []


def test_dependencies_point_one_way() -> None:
    wrong = []
    for path in FILES:
        here, used = part(path), inner_parts(path)
        refused = used - MAY_IMPORT.get(here, used)
        refused |= used & FRONT if here not in FRONT else set()
        wrong += [f"{short(path)}: {here} may not import {sorted(refused)}"] if refused else []
    assert wrong == []


def test_rooms_of_a_package_point_one_way() -> None:
    wrong = []
    for path in FILES:
        here = room(path.relative_to(ROOT).with_suffix("").parts)
        rooms = {room(name.split(".")) for name in IMPORTS[path]} & set(MAY_ENTER)
        neighbours = {each for each in rooms if each.split(".")[0] == here.split(".")[0]}
        refused = neighbours - MAY_ENTER.get(here, neighbours) - {here}
        wrong += [f"{short(path)} may not import {sorted(refused)}"] if refused else []
    assert wrong == []


def test_wrong_rules_are_known_to_the_laboratory_and_the_page_alone() -> None:
    """Above all not to the decoder."""
    inside = ROOT / "specviz" / "experiments" / "bug_zoo"
    others = [path for path in FILES if inside not in path.parents and part(path) not in FRONT]
    knows = [path for path in others if any("bug_zoo" in name for name in IMPORTS[path])]
    assert [short(path) for path in knows] == []


def test_every_part_that_a_rule_names_is_there() -> None:
    assert {
        each for each in MAY_ENTER if not (ROOT / "specviz" / each.replace(".", "/")).is_dir()
    } == set()
    named = {*MAY_IMPORT, *PURE, *FRONT, *READS_ENVIRONMENT, *set.union(*MAY_IMPORT.values())}
    named |= set.union(*PLACES.values())
    assert named - PARTS == set()


def test_pure_parts_import_no_outside_package_but_graphs() -> None:
    pure = [path for path in FILES if part(path) in PURE]
    assert {short(path): extra for path in pure if (extra := outside(path) - {"networkx"})} == {}


def test_records_import_the_standard_library_and_errors_only() -> None:
    records = [path for path in FILES if part(path) == "records"]
    assert {short(path): extra for path in records if (extra := outside(path))} == {}


def test_environment_variables_are_read_in_one_place() -> None:
    names = {"os.environ", "os.getenv"}
    others = [path for path in FILES if part(path) not in READS_ENVIRONMENT]
    wrong = {short(path) for path in others if names & IMPORTS[path]}
    for path in others:
        attributes = (node for node in ast.walk(TREES[path]) if isinstance(node, ast.Attribute))
        wrong |= {short(path) for each in attributes if ast.unparse(each) in names}
    assert wrong == set()


def test_where_assets_and_docs_lie_is_said_in_one_place() -> None:
    """Anywhere else it would be right in a checkout, and wrong in an installed wheel."""
    folders = {"assets", "docs"}
    named = {
        short(path)
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Constant) and node.value in folders
    }
    assert named == {"specviz/folders.py"}


def test_no_file_is_a_drawer_of_odds_and_ends() -> None:
    assert [short(path) for path in FILES if path.stem in DRAWERS] == []


def test_no_two_modules_share_a_name() -> None:
    named = ((path.stem, path) for path in FILES if path.stem not in {"__init__", "__main__"})
    assert owners(named) == {}


def test_no_two_classes_share_a_name() -> None:
    classes = (
        (node.name, path)
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.ClassDef)
    )
    assert owners(classes) == {}


def test_no_two_modules_that_tests_share_have_a_name_in_common() -> None:
    shared = [p for p in (ROOT / "tests").rglob("*.py") if not p.stem.startswith("test_")]
    named = ((path.stem, path) for path in shared if path.stem not in {"__init__", "conftest"})
    assert owners(named) == {}


def test_a_file_says_what_it_is_for() -> None:
    full = [path for path in FILES if TREES[path].body]
    assert [short(path) for path in full if not ast.get_docstring(TREES[path])] == []


def test_figures_build_dicts_not_graph_objects() -> None:
    figures = [path for path in FILES if part(path) == "figures"]
    pattern = re.compile(r"graph_objects|plotly\.express")
    assert [short(p) for p in figures if pattern.search(p.read_text(encoding="utf-8"))] == []
