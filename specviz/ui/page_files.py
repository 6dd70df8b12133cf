"""Where the files lie that a page is made of."""

from __future__ import annotations

import re
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PLAYER = ASSETS / "player"
_LIST = PLAYER / "pages.js"


def styles(folder: str) -> list[str]:
    """The style sheets of a folder of PLAYER, as paths in it."""
    return sorted(str(path.relative_to(PLAYER)) for path in (PLAYER / folder).glob("*.css"))


def page_folders() -> list[str]:
    """The folders of the app's pages, in the order of the list that the browser reads."""
    return re.findall(r'from "\./(\w+)/', _LIST.read_text(encoding="utf-8"))
