"""Methods and rules of installed packages join those of specviz, and broken ones are left out."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from specviz.decoding import plugins, speculative
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.plugins import with_installed
from specviz.decoding.rules.rule import Rule
from specviz.decoding.rules.rule_table import RULES
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing, Round
from tests.decoding.events import tokens_of
from tests.decoding.test_odd_drafters import PROMPT, baseline_text

EXAMPLE = Path(__file__).parents[2] / "docs/bigram_drafter"
GROUP = "specviz.drafters"


def load_example():
    spec = importlib.util.spec_from_file_location("bigram_drafter", EXAMPLE / "bigram_drafter.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.METHOD


def install(folder):
    """Make the example importable from `folder`, as an installer does: with its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    about = folder / f"bigram_drafter-{project['version']}.dist-info"
    about.mkdir()
    name, version = project["name"], project["version"]
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    points = project["entry-points"].items()
    about.joinpath("entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in named.items())
            for group, named in points
        )
    )
    source = (EXAMPLE / "bigram_drafter.py").read_text("utf-8")
    (folder / "bigram_drafter.py").write_text(source, encoding="utf-8")


def test_an_installed_method_is_listed_and_runs_from_the_command_line(tmp_path):
    install(tmp_path)
    path = os.pathsep.join([str(tmp_path), str(EXAMPLE.parents[1])])
    command = (
        "race",
        *("--pair", "bundled", "--method", "bigram", "--task", "code"),
        *("--max-new-tokens", "24", "--json"),
    )
    run = subprocess.run(
        [sys.executable, "-m", "specviz", *command],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["identical"] is True


def test_the_example_in_the_docs_is_a_lossless_method(target, monkeypatch):
    monkeypatch.setitem(DRAFTERS, "bigram", load_example())
    config = DecodingConfig(method="bigram", drawing=Drawing.CHOSEN, max_new_tokens=60)
    drafter = make_drafter(Setup(target, Parts(), config, 256))
    events = list(speculative.decode(target, drafter, PROMPT, config))
    assert tokens_of(events) == baseline_text(target, config)
    assert sum(len(event.accepted) for event in events if isinstance(event, Round)) > 0


def test_the_example_in_the_docs_has_at_most_40_lines_of_code():
    source = (EXAMPLE / "bigram_drafter.py").read_text("utf-8")
    body = source.split('"""', 2)[2]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 40


def found_with(monkeypatch, own, group, kind, **points):
    """Return the table and the warnings if packages name these entry points in the group."""
    entries = [EntryPoint(name, value, group) for name, value in points.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints(entries))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        table = with_installed(own, group, kind)
    return table, [str(each.message) for each in warned]


def test_an_installed_rule_joins_the_others(monkeypatch):
    table, warned = found_with(
        monkeypatch,
        [RULES["token"]],
        "specviz.rules",
        Rule,
        block="specviz.decoding.rules.block:RULE",
    )
    assert list(table) == ["token", "block"] and warned == []


BROKEN = {
    "specviz.no_such_module:METHOD": "cannot be loaded: ModuleNotFoundError: No module named",
    "specviz.decoding.drafters.suffix:NO": "cannot be loaded: AttributeError",
    "specviz.decoding.rules.block:RULE": "must be a Method, got Rule",
    "specviz.decoding.drafters.suffix:METHOD": "must have a name that is not taken, got 'suffix'",
    "tests.decoding.test_plugins:SHOUTING": "must have a name of lower-case letters, digits",
}
SHOUTING = Method("LOUD name", "Loud", "", lambda setup: None)


@pytest.mark.parametrize("value", BROKEN)
def test_an_entry_point_that_cannot_be_used_is_left_out_with_the_reason(monkeypatch, value):
    own = [DRAFTERS["suffix"]]
    table, warned = found_with(monkeypatch, own, GROUP, Method, mine=value)
    assert list(table) == ["suffix"]
    (warning,) = warned
    assert warning.startswith(f"entry point mine of {GROUP} {BROKEN[value]}")
