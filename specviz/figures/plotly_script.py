"""Find plotly.js in the installed Python package of Plotly.

The server of this app sends this copy to its pages.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def plotly_script() -> Path:
    """Return the path of plotly.min.js without importing the package, which takes a while."""
    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None, "plotly is a requirement"
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"
