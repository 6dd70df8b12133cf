"""Where the copy of plotly.js lies that the Python package brings: pages serve it themselves."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def plotly_script() -> Path:
    """The path of plotly.min.js; the package is found, not imported (that takes a while)."""
    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None, "plotly is a requirement"
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"
