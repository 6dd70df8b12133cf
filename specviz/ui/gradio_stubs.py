"""A patch that almost halves Gradio's start time: it skips Gradio's component stubs.

At each import, Gradio reads and parses the source of every component to write a `.pyi` file next to
it. Only authors of components need these files, and this app has none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

WRITER = "gradio.component_meta"


class WithoutStubs(MetaPathFinder):
    """An import finder that replaces the one function of Gradio that writes stubs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == WRITER else None
        if spec is None:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def run_without(module: Any) -> None:
            run(module)
            module.create_or_modify_pyi = lambda *given: None

        loader.exec_module = run_without
        return spec


def skip_stubs() -> None:
    """Install the finder; this must run before Gradio is imported."""
    sys.meta_path.insert(0, WithoutStubs())
