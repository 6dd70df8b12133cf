"""The commands and examples of README and docs run, and they print what the pages say."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.theory import best_draft_length
from specviz.trace_file import load

ROOT = Path(__file__).resolve().parents[1]


def script(name):
    """Return a script of docs as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


examples, reference = script("print_examples"), script("write_reference")
DOCUMENTS = {
    path: path.read_text(encoding="utf-8")
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
}
README = DOCUMENTS[ROOT / "README.md"]
ALL = "\n".join(DOCUMENTS.values())
# The document whose examples need a running server, so that tests/ui/test_api.py runs them.
OF_A_SERVER = ROOT / "docs" / "api.md"
BLOCKS = [
    block
    for path, text in DOCUMENTS.items()
    if path != OF_A_SERVER
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
COMMANDS = re.findall(r"^(?:python -m )?specviz (.*)$", ALL, re.MULTILINE)


def run_block(marker, folder, monkeypatch):
    """Run the one code block that contains `marker`, and return the names that it defines.

    It runs in `folder`, which gets a link to the assets.
    """
    (source,) = (block for block in BLOCKS if marker in block)
    (folder / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(folder)
    names = {}
    exec(compile(source, marker, "exec"), names)
    return names


def test_a_race_from_one_call_is_saved_for_the_page(capsys, tmp_path, monkeypatch):
    names = run_block("add.json.gz", tmp_path, monkeypatch)
    assert load(tmp_path / "add.json.gz").emitted_ids == names["trace"].emitted_ids
    assert capsys.readouterr().out.endswith(f" {len(names['trace'].rounds)} rounds\n")


def test_the_example_prints_the_numbers_of_a_race(capsys, tmp_path, monkeypatch):
    run_block("numbers.speedup", tmp_path, monkeypatch)
    assert all(float(each) > 0 for each in capsys.readouterr().out.split())


def test_the_example_of_a_subscriber_runs_unchanged(capsys, tmp_path, monkeypatch):
    run_block("acceptance_by_depth", tmp_path, monkeypatch)
    rates = eval(capsys.readouterr().out.splitlines()[-1])
    assert len(rates) == 4 and all(0 <= rate <= 1 for rate in rates)


def test_a_trace_becomes_a_data_frame(capsys, tmp_path, monkeypatch):
    names = run_block("import pandas", tmp_path, monkeypatch)
    drafted = sum(len(each.tree.nodes) for each in names["trace"].rounds)
    assert len(names["nodes"]) == drafted > 0
    assert "accepted" in capsys.readouterr().out


def test_the_example_draws_a_figure_in_a_notebook(tmp_path, monkeypatch):
    names = run_block("import plotly", tmp_path, monkeypatch)
    figure = names["plotly"].graph_objects.Figure(
        names["tree_figure"](names["trace"].rounds[3], dict(names["trace"].token_texts))
    )
    assert len(figure.data) > 0


def test_a_recording_of_generate_from_transformers_is_saved_as_a_trace(tmp_path, monkeypatch):
    names = run_block("specviz.record(", tmp_path, monkeypatch)
    trace = load(tmp_path / "generate.json.gz")
    assert trace.emitted_ids == names["recording"].trace.emitted_ids
    assert 1 <= len(trace.emitted_ids) <= 48 and trace.config.method == "draft-model"


def test_every_block_is_run_by_a_test():
    assert len(BLOCKS) == 6


def test_the_documented_table_of_methods_equals_the_registry():
    methods = DOCUMENTS[ROOT / "docs" / "methods.md"]
    rows = re.findall(r"^\| `([a-z-]+)` \|", methods, re.MULTILINE)
    assert rows == list(DRAFTERS)


def test_the_documented_draft_lengths_are_the_best_ones_in_theory():
    page = DOCUMENTS[ROOT / "docs" / "how_to" / "draft_length.md"]
    rows = re.findall(r"^\| (0\.\d+) \| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for c, lengths in rows:
        best = [best_draft_length(a / 10, float(c)) for a in (4, 5, 6, 7, 8, 9)]
        assert [int(each) for each in lengths.split(" | ")] == best


def test_every_linked_file_exists():
    for path, text in DOCUMENTS.items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_every_file_that_contributing_names_exists():
    guide = DOCUMENTS[ROOT / "CONTRIBUTING.md"]
    named = re.findall(r"`((?:specviz|assets|docs|tests)/[\w/.]+)`", guide)
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_has_at_most_70_lines_and_one_picture():
    assert len(README.split("---", 2)[2].strip().splitlines()) <= 70
    assert len(re.findall(r"^!\[", README, re.MULTILINE)) == 1


def test_the_reference_is_what_the_code_says():
    for path, text in reference.renewed():
        assert path.read_text(encoding="utf-8") == text, "make reference writes it anew"


@pytest.mark.parametrize("line", COMMANDS)
def test_every_shown_command_can_be_parsed(line):
    from specviz.cli import _parser

    _parser().parse_args(shlex.split(line))


EXAMPLES = [
    match.groups() for text in DOCUMENTS.values() for match in examples.EXAMPLE.finditer(text)
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[each[1] for each in EXAMPLES])
def test_every_example_with_output_is_what_its_command_prints(example):
    _, command, lines, output, _ = example
    assert output == examples.printed(command, lines), "make examples writes it anew"


def test_examples_with_output_are_generated():
    """Numbers of `specviz size` that were typed by hand have been wrong before."""
    assert len(EXAMPLES) >= 5
    document = "<!-- prints: size --list | head -1 -->\n```\n13.2 requests a second\n```\n"
    told = examples.renewed(document)
    assert "13.2" not in told and examples.renewed(told) == told and "name" in told


def test_the_docker_image_is_built_from_files_and_commands_that_exist():
    """Every copied path, every command and the tested versions exist."""
    from specviz.cli import _parser

    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in (each for names in copied for each in names):
        assert (ROOT / name).exists() and name not in left_out, name
    assert {"app.py", "specviz", "assets"} <= {each for names in copied for each in names}
    (fetching,) = re.findall(r"python -m specviz (.*?) \|\|", "\n".join(lines))
    assert _parser().parse_args(fetching.split()).get == "smollm2"
    assert lines[-1] == 'CMD ["python", "app.py"]'
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert set(re.findall(r"torch==[\d.]+", "\n".join(lines))) <= set(constraints)


OTHER_WAYS = re.compile(
    r"u ?[·*] ?q <|u q <|u times q|accept if u <$|(?<!Math\.)min\(1, p / q\)|[ (]u < p/q",
    re.MULTILINE,
)


def test_the_acceptance_rule_has_one_notation_everywhere():
    folders = (ROOT / "assets" / "player", ROOT / "assets" / "lessons", ROOT / "specviz")
    files = [file for folder in folders for file in folder.rglob("*.*")]
    shown = [file for file in files if file.suffix in {".js", ".html", ".toml", ".py"}]
    assert not [file for file in shown if OTHER_WAYS.search(file.read_text(encoding="utf-8"))]
