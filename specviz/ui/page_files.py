"""Where the files lie that a page is made of."""

from __future__ import annotations

from pathlib import Path

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PLAYER = ASSETS / "player"
STYLES = ("shared/base", "shared/form", "shared/menu", "race/race", "step/step")  # in this order
