"""The copied view library is exactly the pinned one, and its licences are part of what we ship."""

import json
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from docs.vendor_scripts import MODULES, PACKAGES, RECORD, VENDOR
from specviz.ui.page_files import PLAYER, module_sources

ROOT = Path(__file__).parents[2]
RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED)
def test_a_copy_is_the_file_of_the_pinned_version(name: str) -> None:
    copy, recorded = VENDOR / name, RECORDED[name]
    pinned = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert recorded["version"] == pinned[recorded["package"]], "run `make vendor`"
    assert sha256(copy.read_bytes()).hexdigest() == recorded["sha256"]
    original = PACKAGES / recorded["package"] / recorded["module"]
    if original.is_file():
        assert copy.read_bytes() == original.read_bytes()


def test_every_copied_module_is_recorded_and_has_its_licence() -> None:
    assert {path.name for path in VENDOR.glob("*.js")} == {f"{name}.js" for name in MODULES}
    assert RECORDED.keys() == {f"{name}.js" for name in MODULES}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = {path for pattern in project["license-files"] for path in ROOT.glob(pattern)}
    for name in MODULES:
        text = VENDOR / f"{name}.LICENSE.txt"
        assert text in licences and "Copyright" in text.read_text(encoding="utf-8")


def test_the_library_has_no_imports_so_a_report_can_contain_it() -> None:
    """A module at a data: address cannot import a bare name that the import map does not have."""
    sources = module_sources(PLAYER, "shared/view.js")
    assert [*sources] == ["shared/view.js", "vendor/htm.js", "vendor/preact.js"]
    for name in MODULES:
        assert "import" not in sources[f"vendor/{name}.js"]
