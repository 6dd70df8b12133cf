"""What README says is what runs."""

import re
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.decoding.drafters.registry import DRAFTERS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_subscriber_runs_as_it_stands(capsys):
    (source,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(source, "README.md", "exec"), {})
    rates = eval(capsys.readouterr().out.splitlines()[-1])
    assert len(rates) == 4 and all(0 <= rate <= 1 for rate in rates)


def test_the_table_of_methods_is_the_registry():
    rows = re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE)
    assert rows == list(DRAFTERS)


def test_every_file_that_is_linked_exists():
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("line", re.findall(r"^python -m specviz (.*)$", README, re.MULTILINE))
def test_every_command_that_is_shown_parses(line):
    from specviz.cli import _parser

    _parser().parse_args(line.split())


def test_the_space_starts_what_is_there():
    front = README.split("---")[1]
    assert "app_file: app.py" in front and (ROOT / "app.py").exists()
    assert "sdk: gradio" in front
    assert main(["methods"]) == 0
