"""What happens before the page is served."""

import runpy
import threading

import gradio as gr

from specviz.ui import preload as preloading


def test_nothing_is_loaded_beside_the_first_race(monkeypatch) -> None:
    """Two loads at once would leave the process with the default precision of a model."""
    order: list[str] = []

    def load(*_: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        order.append("loaded")

    monkeypatch.setattr(preloading, "load_pair", load)
    monkeypatch.setattr(gr.Blocks, "launch", lambda *_, **__: order.append("served"))
    runpy.run_path("app.py", run_name="__main__")
    assert order == ["loaded", "served"]


def test_a_pair_that_cannot_be_loaded_does_not_keep_the_page_from_opening(
    monkeypatch, caplog
) -> None:
    def fail(*_: object) -> None:
        raise preloading.InputError("no such folder")

    monkeypatch.setattr(preloading, "load_pair", fail)
    preloading.preload()
    assert "the bundled pair is not ready: no such folder" in caplog.text
