"""The package specviz can be imported, and its wheel works in a new environment."""

import importlib.metadata
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

import specviz
from specviz.folders import ASSETS
from tests.browser.app_server import free_port

ROOT = Path(__file__).parent.parent
# The number of seconds after the start of the process within which the page must answer, with the
# bundled pair.
READY_SECONDS = 20
# The programs that train the bundled weights. No other part of specviz imports them.
RECIPE = "specviz/training/"
# The files and folders that the wheel must not contain.
KEPT_OUT = ("tests/", "docs/", "assets/", "app.py", "Makefile", RECIPE)


def test_a_race_from_python_is_a_trace_that_can_be_saved_and_loaded(tmp_path) -> None:
    trace = specviz.race("def add(a, b):\n", "bundled", "prompt-lookup", max_new_tokens=6)
    specviz.save(trace, tmp_path / "race.json.gz")
    assert specviz.load(tmp_path / "race.json.gz").emitted_ids == trace.emitted_ids
    assert specviz.summarise(trace).speculative.tokens == len(trace.emitted_ids) == 6


def test_a_race_from_python_refuses_bad_settings() -> None:
    with pytest.raises(specviz.InputError, match="draft_length must be"):
        specviz.race("x", "bundled", draft_length=0)


def test_importing_specviz_imports_no_library_of_models() -> None:
    code = "import specviz, sys; assert not {'torch', 'transformers', 'gradio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    made = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *made, str(ROOT)], check=True)
    (file,) = folder.glob("specviz-*.whl")
    return file


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment that has the wheel.

    The environment uses the dependencies that are installed here.
    """
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=True)
    run([str(home / "bin" / "pip"), "install", "--quiet", "--no-deps", str(wheel)], home)
    (site,) = home.glob("lib/python*/site-packages")
    (here,) = {path for path in sys.path if path.endswith("site-packages")}
    (site / "dependencies.pth").write_text(f"{here}\n")
    return home / "bin"


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    """Return this process's environment variables without PYTHONPATH, which names the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.slow
def test_the_wheel_has_every_asset_and_nothing_outside_the_package(wheel: Path) -> None:
    listed = run([sys.executable, "-m", "zipfile", "-l", str(wheel)], ROOT).splitlines()[1:]
    names = {line.split()[0] for line in listed}
    tracked = run(["git", "ls-files", "assets", "specviz"], ROOT).split()
    shipped = [name for name in tracked if not name.startswith(RECIPE)]
    wanted = {name if name.startswith("specviz/") else f"specviz/{name}" for name in shipped}
    assert wanted <= names
    assert {"specviz/docs/sixty_lines.py", "specviz/docs/sixty_lines.toml"} <= names
    notebooks = {path.name for path in (ROOT / "docs" / "exercises").glob("*.ipynb")}
    assert notebooks and {f"specviz/docs/exercises/{name}" for name in notebooks} <= names
    assert not [name for name in names if name.startswith(KEPT_OUT)]


@pytest.mark.slow
def test_the_installed_command_knows_its_version_and_its_dependencies(
    bin_folder: Path, tmp_path: Path
) -> None:
    assert run([str(bin_folder / "specviz"), "--version"], tmp_path) == (
        f"specviz {specviz.__version__}\n"
    )
    (site,) = bin_folder.parent.glob("lib/python*/site-packages")
    (installed,) = importlib.metadata.distributions(name="specviz", path=[str(site)])
    asked = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needed = [each for each in installed.requires or [] if "extra ==" not in each]
    assert len(needed) == len([line for line in asked if line[0] != "#"])


@pytest.mark.slow
def test_the_installed_package_runs_a_race_on_the_models_in_the_wheel(
    bin_folder: Path, tmp_path: Path
) -> None:
    flags = ["--pair", "bundled", "--task", "code", "--max-new-tokens", "16", "--repeat", "1"]
    raced = run([str(bin_folder / "specviz"), "race", *flags, "--json"], tmp_path)
    assert json.loads(raced)["speculative"]["tokens"] == 16
    code = "import specviz; print(specviz.__file__); from specviz.golden import *\n"
    code += "print(len(golden_names())); from specviz.lessons import *; print(len(read_lessons()))"
    file, runs, lessons = run([str(bin_folder / "python"), "-c", code], tmp_path).splitlines()
    assert Path(file).is_relative_to(bin_folder.parent)
    assert int(runs) == len(list((ASSETS / "traces").glob("*.json.gz"))) and int(lessons) > 6


@pytest.mark.slow
def test_the_installed_command_soon_serves_the_page(bin_folder: Path, tmp_path: Path) -> None:
    port, began = free_port(), time.monotonic()
    command = [str(bin_folder / "specviz"), "serve", "--port", str(port)]
    bundled = environment() | {"SPECVIZ_PAIR": "bundled", "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(command, cwd=tmp_path, env=bundled, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert f":{port}/" in line, line
        url = f"http://127.0.0.1:{port}/"
        while httpx.get(f"{url}ready").status_code == 503:
            assert time.monotonic() - began < READY_SECONDS
            time.sleep(0.2)
        assert "specviz" in httpx.get(url).text
        assert httpx.get(f"{url}specviz-page/lessons.json").json()
    finally:
        server.terminate()
        server.wait(20)
