"""Run a Python module as if the packages of the web app, GGUF and the browser tests were missing.

A machine with a GPU often has torch, transformers and pytest, and no way to install more packages.

    python -m tests.absent_packages pytest -m cuda
"""

from __future__ import annotations

import importlib.metadata
import runpy
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ABSENT = frozenset(
    {
        *("gguf", "gradio", "gradio_client", "limits", "mcp", "plotly", "segno", "shtab"),
        *("axe_playwright_python", "playwright", "pytest_playwright", "pytest_rerunfailures"),
        *("simpy", "xllamacpp", "zopfli"),
    }
)


class _Finder:
    """An import finder that finds everything except the packages in ABSENT."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_absent = name.partition(".")[0] in ABSENT
        return None if is_absent else PathFinder.find_spec(name, path, target)

    @staticmethod
    def find_distributions(
        context: importlib.metadata.DistributionFinder.Context,
    ) -> Iterable[importlib.metadata.Distribution]:
        """Yield the installed distributions except those in ABSENT.

        pytest searches these distributions for its plugins.
        """
        for found in importlib.metadata.MetadataPathFinder.find_distributions(context):
            if found.metadata["Name"].replace("-", "_").lower() not in ABSENT:
                yield found


def hide() -> None:
    """Make the packages in ABSENT missing for the rest of this process."""
    assert not ABSENT & sys.modules.keys()
    sys.meta_path[sys.meta_path.index(PathFinder)] = _Finder  # type: ignore[call-overload]


if __name__ == "__main__":
    hide()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
