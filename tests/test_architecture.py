"""The source obeys the dependency rules of the design; a failure lists the files."""

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

# An external package -> the only parts of specviz that may import the package.
PLACES = {
    "torch": {"models", "inflation", "decoding", "experiments", "training"},
    "transformers": {"models", "inflation", "decoding", "experiments", "training"},
    "plotly": {"figures"},
    "networkx": {"figures"},
    "yaml": {"engines"},
    "gradio": {"ui", "app"},
    "spaces": {"ui"},
    "prometheus_client": {"ui", "serving"},
    "llguidance": {"models"},
    "llvmlite": {"models"},
    "xllamacpp": {"serving"},
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib3", "http.client"), {"serving"}),
    "urllib.request": {"serving"},
}
# Part of specviz -> the parts that it may import. A part without an entry may import every part
# except those in FRONT.
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
    "shape_source": {"errors", "environment", "models", "sizing"},
    "serving": {"errors", "environment", "models", "engines"},
    "whole_file": set[str](),
    "trace_file": {"errors", "records", "whole_file"},
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
# Subpackage -> the subpackages of the same package that it may import.
MAY_ENTER = {
    "models.text": set[str](),
    "models.matrix_kernels": set[str](),
    "models.llama": {"models.matrix_kernels"},
    "models.graphs": {"models.llama", "models.matrix_kernels"},
    "models.heads": {"models.llama", "models.matrix_kernels"},
    "models.files": {"models.text", "models.llama", "models.graphs"},
    "engines.readers": set[str](),
    **dict.fromkeys(
        (
            *("engines.vllm", "engines.sglang", "engines.llama_cpp", "engines.tensorrt_llm"),
            "engines.transformers",
        ),
        {"engines.readers"},
    ),
    "experiments.run": set[str](),
    "experiments.sweep": {"experiments.run"},
    "experiments.bug_zoo": {"experiments.run"},
    "experiments.advice": {"experiments.run"},
    "experiments.benchmark": {"experiments.run", "experiments.sweep"},
}
PURE = {"records", "errors", "folders", "metrics", "theory", "trace_file", "glossary", "figures"}
PURE |= {"trace_diff", "what_if", "claims", "forward_curve", "advisor", "lessons", "sixty_lines"}
PURE |= {"sizing"}
FRONT = {"ui", "cli", "__main__", "app", "training"}
READS_ENVIRONMENT = {"environment"}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}


def part(path: Path) -> str:
    """Return the part that a file belongs to: a package or module of specviz, or `app`."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return names[1] if len(names) > 1 else names[0]


def imported(path: Path) -> set[str]:
    """Return the names of all modules that a file imports.

    `from a import b` counts as a and a.b. A string such as "specviz.ui.page" counts as well,
    because it names a module that is imported later.
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
    """Return the package and subpackage of a module of specviz, such as models.files."""
    return ".".join(names[1:3])


def outside(path: Path) -> set[str]:
    """Return the imported packages that belong neither to the standard library nor to specviz."""
    tops = {name.split(".")[0] for name in IMPORTS[path]}
    return tops - sys.stdlib_module_names - {"__future__", "specviz"}


def inner_parts(path: Path) -> set[str]:
    """Return the parts of specviz that a file imports, without the file's own part."""
    names = {name.split(".")[1] for name in IMPORTS[path] if name.startswith("specviz.")}
    return (names & PARTS) - {part(path)}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code(path: Path) -> str:
    """Return the code of a file without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.unparse(tree)


def owners(pairs: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """Return, for each name that occurs in more than one file, these files."""
    found = defaultdict(list)
    for name, path in pairs:
        found[name].append(short(path))
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_imports_are_absolute() -> None:
    assert [short(path) for path in FILES if any(n.startswith(".") for n in IMPORTS[path])] == []


def test_outside_packages_are_imported_only_where_they_are_allowed() -> None:
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
        wrong += [f"{short(path)}: {here} must not import {sorted(refused)}"] if refused else []
    assert wrong == []


def test_subpackages_import_each_other_in_one_direction_only() -> None:
    wrong = []
    for path in FILES:
        here = room(path.relative_to(ROOT).with_suffix("").parts)
        rooms = {room(name.split(".")) for name in IMPORTS[path]} & set(MAY_ENTER)
        neighbours = {each for each in rooms if each.split(".")[0] == here.split(".")[0]}
        refused = neighbours - MAY_ENTER.get(here, neighbours) - {here}
        wrong += [f"{short(path)} must not import {sorted(refused)}"] if refused else []
    assert wrong == []


def test_only_the_experiments_and_the_page_import_the_wrong_rules() -> None:
    """The rules of the bug zoo are wrong on purpose, so the decoder must never import them."""
    inside = ROOT / "specviz" / "experiments" / "bug_zoo"
    others = [path for path in FILES if inside not in path.parents and part(path) not in FRONT]
    knows = [path for path in others if any("bug_zoo" in name for name in IMPORTS[path])]
    assert [short(path) for path in knows] == []


def test_code_names_an_engine_only_in_the_engine_s_folder() -> None:
    """Other code of engines and of serving goes through the interfaces. Comments may name engines.

    The registry has the list of folders.
    """
    adapters = (ROOT / "specviz" / "engines").glob("*/*_adapter.py")
    engines = {path.parent.name for path in adapters}
    assert len(engines) > 3
    names = re.compile("|".join(each.replace("_", "[_.-]?") for each in engines), re.IGNORECASE)
    others = [
        path
        for path in FILES
        if part(path) in {"engines", "serving"}
        and path.parent.name not in engines
        and path.stem != "engine_registry"
    ]
    named = {short(path): names.findall(code(path)) for path in others}
    assert {path: found for path, found in named.items() if found} == {}


def test_every_part_that_a_rule_names_exists() -> None:
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


def test_one_file_defines_the_paths_of_assets_and_docs() -> None:
    """A path written in another file would work in a checkout and fail in an installed wheel."""
    folders = {"assets", "docs"}
    named = {
        short(path)
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Constant) and node.value in folders
    }
    assert named == {"specviz/folders.py"}


def test_no_file_has_a_name_for_mixed_contents() -> None:
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


def test_no_two_helper_modules_of_tests_share_a_name() -> None:
    shared = [p for p in (ROOT / "tests").rglob("*.py") if not p.stem.startswith("test_")]
    named = ((path.stem, path) for path in shared if path.stem not in {"__init__", "conftest"})
    assert owners(named) == {}


def test_every_file_has_a_docstring() -> None:
    full = [path for path in FILES if TREES[path].body]
    assert [short(path) for path in full if not ast.get_docstring(TREES[path])] == []


def test_figures_build_dicts_not_graph_objects() -> None:
    figures = [path for path in FILES if part(path) == "figures"]
    pattern = re.compile(r"graph_objects|plotly\.express")
    assert [short(p) for p in figures if pattern.search(p.read_text(encoding="utf-8"))] == []
