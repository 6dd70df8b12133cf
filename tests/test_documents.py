"""What README and docs say is what runs."""

import re
import shlex
from pathlib import Path

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.trace_file import load

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = {
    path: path.read_text(encoding="utf-8")
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
}
README = DOCUMENTS[ROOT / "README.md"]
ALL = "\n".join(DOCUMENTS.values())
OF_A_SERVER = ROOT / "docs" / "api.md"  # its examples are run by tests/ui/test_api.py
BLOCKS = [
    block
    for path, text in DOCUMENTS.items()
    if path != OF_A_SERVER
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
COMMANDS = re.findall(r"^(?:python -m )?specviz (.*)$", ALL, re.MULTILINE)


def run_block(marker, folder, monkeypatch):
    """Run the one block that holds `marker`, in a folder that has the assets; its names."""
    (source,) = (block for block in BLOCKS if marker in block)
    (folder / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(folder)
    names = {}
    exec(compile(source, marker, "exec"), names)
    return names


def test_a_race_in_one_call_is_saved_for_the_page(capsys, tmp_path, monkeypatch):
    names = run_block("add.json.gz", tmp_path, monkeypatch)
    assert load(tmp_path / "add.json.gz").emitted_ids == names["trace"].emitted_ids
    assert capsys.readouterr().out.endswith(f" {len(names['trace'].rounds)} rounds\n")


def test_the_numbers_of_a_race_in_one_call_are_there(capsys, tmp_path, monkeypatch):
    run_block("numbers.speedup", tmp_path, monkeypatch)
    assert all(float(each) > 0 for each in capsys.readouterr().out.split())


def test_the_subscriber_runs_as_it_stands(capsys, tmp_path, monkeypatch):
    run_block("acceptance_by_depth", tmp_path, monkeypatch)
    rates = eval(capsys.readouterr().out.splitlines()[-1])
    assert len(rates) == 4 and all(0 <= rate <= 1 for rate in rates)


def test_a_trace_becomes_a_data_frame(capsys, tmp_path, monkeypatch):
    names = run_block("import pandas", tmp_path, monkeypatch)
    drafted = sum(len(each.tree.nodes) for each in names["trace"].rounds)
    assert len(names["nodes"]) == drafted > 0
    assert "accepted" in capsys.readouterr().out


def test_a_figure_shows_in_a_notebook(tmp_path, monkeypatch):
    names = run_block("import plotly", tmp_path, monkeypatch)
    figure = names["plotly"].graph_objects.Figure(
        names["tree_figure"](names["trace"].rounds[3], dict(names["trace"].token_texts))
    )
    assert len(figure.data) > 0


def test_a_recording_of_generate_is_saved_as_a_trace(tmp_path, monkeypatch):
    names = run_block("specviz.record(", tmp_path, monkeypatch)
    trace = load(tmp_path / "generate.json.gz")
    assert trace.emitted_ids == names["recording"].trace.emitted_ids
    assert 1 <= len(trace.emitted_ids) <= 48 and trace.config.method == "draft-model"


def test_every_block_is_run_by_a_test():
    assert len(BLOCKS) == 6


def test_the_table_of_methods_is_the_registry():
    methods = DOCUMENTS[ROOT / "docs" / "methods.md"]
    rows = re.findall(r"^\| `([a-z-]+)` \|", methods, re.MULTILINE)
    assert rows == list(DRAFTERS)


def test_every_file_that_is_linked_exists():
    for path, text in DOCUMENTS.items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_every_file_that_the_contributors_guide_names_exists():
    guide = DOCUMENTS[ROOT / "CONTRIBUTING.md"]
    named = re.findall(r"`((?:specviz|assets|docs|tests)/[\w/.]+)`", guide)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_is_read_in_five_minutes_and_has_five_pictures():
    assert len(README.split("---", 2)[2].split()) < 900
    assert len(re.findall(r"^!\[", README, re.MULTILINE)) == 5


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_that_is_shown_parses(line):
    from specviz.cli import _parser

    _parser().parse_args(shlex.split(line))


def test_the_image_is_made_of_what_is_there():
    """Every path that is copied, every command that is run, the versions that are tested."""
    from specviz.cli import _parser

    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    copied = [line.split()[2:-1] for line in lines if line.startswith("COPY")]
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


def test_the_rule_of_acceptance_is_written_in_one_way():
    folders = (ROOT / "assets" / "player", ROOT / "assets" / "lessons", ROOT / "specviz")
    files = [file for folder in folders for file in folder.rglob("*.*")]
    shown = [file for file in files if file.suffix in {".js", ".html", ".toml", ".py"}]
    assert not [file for file in shown if OTHER_WAYS.search(file.read_text(encoding="utf-8"))]
