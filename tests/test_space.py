"""The README begins with the settings from which Hugging Face builds a Space."""

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

# The fields of a Space's README.md that https://huggingface.co/docs/hub/spaces-config-reference
# documents, and fields that the README.md of every repository on the Hub may have.
DOCUMENTED = {
    *("title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version"),
    *("app_file", "app_port", "app_build_command", "base_path", "fullWidth", "header"),
    *("suggested_hardware", "suggested_storage", "short_description", "thumbnail", "pinned"),
    *("models", "datasets", "tags", "license", "preload_from_hub", "custom_headers"),
    *("startup_duration_timeout", "disable_embedding", "hf_oauth", "hf_oauth_scopes"),
    *("hf_oauth_expiration_minutes", "hf_oauth_authorized_org"),
}
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
# The name of a repository, optionally followed by file names and a commit.
PRELOADED = re.compile(r"[\w.-]+/[\w.-]+( [\w./-]+(,[\w./-]+)*( [0-9a-f]{40})?)?")


def test_every_field_is_documented_and_has_the_right_type() -> None:
    assert set(FRONT) <= DOCUMENTED
    assert {FRONT["colorFrom"], FRONT["colorTo"]} <= COLOURS
    assert FRONT["sdk"] == "gradio" and (ROOT / FRONT["app_file"]).is_file()
    assert len(FRONT["short_description"]) <= 60
    assert isinstance(FRONT["fullWidth"], bool) and isinstance(FRONT["python_version"], str)


def test_the_space_uses_the_tested_versions() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert f"gradio=={FRONT['sdk_version']}" in constraints
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"FROM python:{FRONT['python_version']}-" in docker


def test_building_the_space_downloads_the_chat_model() -> None:
    (line,) = FRONT["preload_from_hub"]
    assert PRELOADED.fullmatch(line) and line.split()[0] == CHAT_ID


def test_requirements_txt_lists_what_the_app_needs() -> None:
    asked = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {re.split(r"[<>=]", line)[0] for line in asked if line and line[0] != "#"}
    assert {"torch", "transformers", "gradio", "plotly"} <= named


@pytest.mark.skipif(
    not ((ROOT / ".git").exists() and shutil.which("git")), reason="asks git what is kept"
)
def test_the_repository_is_small_enough_for_a_space_without_lfs() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    # git stores a symbolic link as the path to which it points, so only the path's length counts.
    sizes = [file.lstat().st_size for file in files if file.is_file()]
    assert max(sizes) < 10e6 and sum(sizes) < 60 * 2**20


def test_the_image_is_public_and_the_server_cannot_change_the_app_s_files() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and line[0] not in "# "]
    settings = " ".join(given for step, given in steps if step == "ENV").split()
    assert "SPECVIZ_PUBLIC=1" in settings and "HOST=0.0.0.0" in settings
    user = steps.index(["USER", "user"])
    copied = [at for at, (step, _) in enumerate(steps) if step == "COPY"]
    assert max(copied) < user, "all that is copied belongs to root"
    assert not any("--chown" in given for _, given in steps)
    assert any(step == "RUN" and "chmod -R a-w" in given for step, given in steps[:user])
