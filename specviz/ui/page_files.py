"""The files of the page, and its JavaScript modules as one import map.

A page opened from disk must not import files, but it may import `data:` addresses. A module at a
`data:` address has no folder, so a relative import such as `./chart.js` fails in it. Relative
imports therefore become bare names, and the map gives the module of each name as a `data:` address.
This module does not know what the modules do.
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
PREFIX = "specviz/"  # prefix of every bare name in the import map
_SPECIFIER = re.compile(r'(\b(?:from|import)\s*\(?\s*)"(\.{1,2}/[^"]+)"')


@cache
def page_files() -> dict[str, bytes]:
    """Return all files that the page loads or offers, as they were at the first call.

    The keys are the addresses of the files, and the values their content.
    """
    paths = sorted(path for path in PLAYER.rglob("*") if path.is_file())
    player = {f"player/{path.relative_to(PLAYER).as_posix()}": path.read_bytes() for path in paths}
    notebooks = {f"exercises/{path.name}": path.read_bytes() for path in NOTEBOOKS.glob("*.ipynb")}
    return player | notebooks | {"plotly.min.js": plotly_script().read_bytes()}


@cache
def packed_file(name: str) -> bytes:
    """Return a file compressed with gzip; each file is compressed only once."""
    return gzip.compress(page_files()[name], 6)


def version() -> str:
    """Return a version that changes whenever one of the page's files changes."""
    content = sha256()
    for name, text in page_files().items():
        content.update(name.encode() + b"\0" + text)
    return content.hexdigest()[:12]


def styles(folder: str) -> list[str]:
    """Return the style sheets in a folder of PLAYER, as paths relative to PLAYER."""
    return sorted(str(path.relative_to(PLAYER)) for path in (PLAYER / folder).glob("*.css"))


def page_folders() -> list[str]:
    """Return the folders of the app's pages, in the order of the tabs (the list in `pages.js`)."""
    return re.findall(r'from "\./(\w+)/', _LIST.read_text(encoding="utf-8"))


def module_sources(folder: Path, entry: str) -> dict[str, str]:
    """Return the texts of the module `entry` and of all its imports, by path in `folder`."""
    sources: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = (folder / name).read_text(encoding="utf-8")
            waiting += _imported(folder, name, sources[name]).values()
    return dict(sorted(sources.items()))


def module_map(folder: Path, entry: str) -> dict[str, str]:
    """Return the import map of the module `entry` and its imports: bare name -> data: address."""
    return {
        f"{PREFIX}{name}": _address(
            _SPECIFIER.sub(partial(_bare, _imported(folder, name, text)), text)
        )
        for name, text in module_sources(folder, entry).items()
    }


def _imported(folder: Path, name: str, text: str) -> dict[str, str]:
    """Return the modules that `text`, the source of the module `name`, imports.

    The keys are the relative specifiers in the text, and the values are paths in `folder`.
    """
    return {given: _within(folder, name, given) for _, given in _SPECIFIER.findall(text)}


def _within(folder: Path, importer: str, specifier: str) -> str:
    """Return the path in `folder` to which a module's relative specifier points."""
    target = (folder / importer).parent / specifier
    return target.resolve().relative_to(folder.resolve()).as_posix()


def _bare(imported: dict[str, str], found: re.Match[str]) -> str:
    return f'{found[1]}"{PREFIX}{imported[found[2]]}"'


def _address(source: str) -> str:
    return f"data:text/javascript;base64,{b64encode(source.encode()).decode()}"
