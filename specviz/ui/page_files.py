"""The files that a page is made of: where they lie, and its JavaScript modules as one import map.

A page opened from disk may not import the files beside it. Data addresses it may, but nothing is
relative to them, so relative specifiers become bare names that a map knows: in it each module is a
data: address. Knows nothing of what the modules do.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from specviz.figures.plotly_script import plotly_script
from specviz.folders import ASSETS, NOTEBOOKS

PLAYER = ASSETS / "player"
_LIST = PLAYER / "pages.js"
PREFIX = "specviz/"  # of the bare names
_SPECIFIER = re.compile(r'(\b(?:from|import)\s*\(?\s*)"(\.{1,2}/[^"]+)"')


@cache
def page_files() -> dict[str, bytes]:
    """All that the page loads or offers, by its address, as it was when this process began."""
    paths = sorted(path for path in PLAYER.rglob("*") if path.is_file())
    player = {f"player/{path.relative_to(PLAYER).as_posix()}": path.read_bytes() for path in paths}
    notebooks = {f"exercises/{path.name}": path.read_bytes() for path in NOTEBOOKS.glob("*.ipynb")}
    return player | notebooks | {"plotly.min.js": plotly_script().read_bytes()}


@cache
def packed_file(name: str) -> bytes:
    """A file as gzip, made once."""
    return gzip.compress(page_files()[name], 6)


def version() -> str:
    """Of these files: others, another version."""
    content = sha256()
    for name, text in page_files().items():
        content.update(name.encode() + b"\0" + text)
    return content.hexdigest()[:12]


def styles(folder: str) -> list[str]:
    """The style sheets of a folder of PLAYER, as paths in it."""
    return sorted(str(path.relative_to(PLAYER)) for path in (PLAYER / folder).glob("*.css"))


def page_folders() -> list[str]:
    """The folders of the app's pages, in the order of the list that the browser reads."""
    return re.findall(r'from "\./(\w+)/', _LIST.read_text(encoding="utf-8"))


def module_sources(folder: Path, entry: str) -> dict[str, str]:
    """Path in `folder` -> text, for the module `entry` and all that it imports."""
    sources: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = (folder / name).read_text(encoding="utf-8")
            waiting += _imported(folder, name, sources[name]).values()
    return dict(sorted(sources.items()))


def module_map(folder: Path, entry: str) -> dict[str, str]:
    """Bare name -> data: address, for the module `entry` of `folder` and all that it imports."""
    return {
        f"{PREFIX}{name}": _address(
            _SPECIFIER.sub(partial(_bare, _imported(folder, name, text)), text)
        )
        for name, text in module_sources(folder, entry).items()
    }


def _imported(folder: Path, name: str, text: str) -> dict[str, str]:
    """Relative specifier -> path in `folder`, of each module that `text` imports."""
    return {given: _within(folder, name, given) for _, given in _SPECIFIER.findall(text)}


def _within(folder: Path, importer: str, specifier: str) -> str:
    """The path in `folder` that a module's relative specifier means."""
    target = (folder / importer).parent / specifier
    return target.resolve().relative_to(folder.resolve()).as_posix()


def _bare(imported: dict[str, str], found: re.Match[str]) -> str:
    return f'{found[1]}"{PREFIX}{imported[found[2]]}"'


def _address(source: str) -> str:
    return f"data:text/javascript;base64,{b64encode(source.encode()).decode()}"
