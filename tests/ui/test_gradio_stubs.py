"""The app does not let Gradio write its editor stubs again at each start."""

from __future__ import annotations

from importlib.util import module_from_spec

import gradio as gr

from specviz.ui.gradio_stubs import WRITER, WithoutStubs


def test_the_module_that_writes_stubs_can_be_imported_without_writing() -> None:
    spec = WithoutStubs().find_spec(WRITER, gr.__path__)
    assert spec is not None and spec.loader is not None
    writer = module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.ComponentMeta and writer.create_or_modify_pyi(gr.HTML, "HTML", []) is None
    assert writer.create_or_modify_pyi.__module__ == "specviz.ui.gradio_stubs"


def test_other_modules_are_imported_by_python_as_usual() -> None:
    assert WithoutStubs().find_spec("gradio.events", gr.__path__) is None
