"""The folders of the files that specviz reads.

They contain the assets, docs/sixty_lines.py and the exercises. In a checkout they are next to the
package. A wheel contains these folders (see `pyproject.toml`).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_HOME = _PACKAGE if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
# folder with the bundled models, the prompts, the lessons, the recorded runs and the web page
ASSETS = _HOME / "assets"
# In a wheel, the folder docs contains only sixty_lines.py, sixty_lines.toml and the exercises.
DOCS = _HOME / "docs"
NOTEBOOKS = DOCS / "exercises"
