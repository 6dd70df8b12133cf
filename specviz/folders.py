"""Where the files lie that specviz reads besides its own modules: the assets, the method in sixty
lines, and the exercises as notebooks.

In a checkout they lie beside the package; a wheel has them inside (`pyproject.toml` says which).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_HOME = _PACKAGE if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
ASSETS = _HOME / "assets"  # bundled models, prompts, lessons, recorded runs, the player
DOCS = _HOME / "docs"  # of an installed specviz: sixty_lines.py and .toml, and the exercises
NOTEBOOKS = DOCS / "exercises"
