"""README's front matter, by which a Space of Hugging Face is built."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from specviz.models.files.hub import CHAT_ID

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT = yaml.safe_load(README.split("---")[1])

# https://huggingface.co/docs/hub/spaces-config-reference, and the fields of any repository's card
DOCUMENTED = {
    *("title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version"),
    *("app_file", "app_port", "app_build_command", "base_path", "fullWidth", "header"),
    *("suggested_hardware", "suggested_storage", "short_description", "thumbnail", "pinned"),
    *("models", "datasets", "tags", "license", "preload_from_hub", "custom_headers"),
    *("startup_duration_timeout", "disable_embedding", "hf_oauth", "hf_oauth_scopes"),
    *("hf_oauth_expiration_minutes", "hf_oauth_authorized_org"),
}
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
PRELOADED = re.compile(r"[\w.-]+/[\w.-]+( [\w./-]+(,[\w./-]+)*( [0-9a-f]{40})?)?")  # files, commit


def test_every_field_is_a_documented_one_of_its_type() -> None:
    assert set(FRONT) <= DOCUMENTED
    assert {FRONT["colorFrom"], FRONT["colorTo"]} <= COLOURS
    assert FRONT["sdk"] == "gradio" and (ROOT / FRONT["app_file"]).is_file()
    assert len(FRONT["short_description"]) <= 60
    assert isinstance(FRONT["fullWidth"], bool) and isinstance(FRONT["python_version"], str)


def test_the_versions_are_the_tested_ones() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert f"gradio=={FRONT['sdk_version']}" in constraints
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"FROM python:{FRONT['python_version']}-" in docker


def test_the_chat_model_is_put_into_the_cache_while_the_space_is_built() -> None:
    (line,) = FRONT["preload_from_hub"]
    assert PRELOADED.fullmatch(line) and line.split()[0] == CHAT_ID


def test_a_space_installs_what_the_app_needs_from_the_file_that_it_reads() -> None:
    asked = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {re.split(r"[<>=]", line)[0] for line in asked if line and line[0] != "#"}
    assert {"torch", "transformers", "gradio", "plotly"} <= named


@pytest.mark.skipif(
    not ((ROOT / ".git").exists() and shutil.which("git")), reason="asks git what is kept"
)
def test_all_files_together_and_each_of_them_are_as_small_as_a_space_takes_without_lfs() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    sizes = [file.lstat().st_size for file in files if file.is_file()]  # a link is but its path
    assert max(sizes) < 10e6 and sum(sizes) < 52 * 2**20
