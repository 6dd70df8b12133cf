"""Gradio starts in little more than half the time where it leaves its components' stubs alone.

At each import it reads and parses the source of every component, to keep a `.pyi` file beside it:
for the editors of those who write components, of which there are none here.
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
    """Finds the module that writes them as Python does, and takes that one function from it."""

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
    """Must run before Gradio is imported."""
    sys.meta_path.insert(0, WithoutStubs())
