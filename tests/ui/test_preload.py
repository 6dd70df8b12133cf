"""The app loads its models when it starts."""

import logging
import runpy
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import gradio as gr
import pytest
from uvicorn import Config

from specviz.models.files import chat_model
from specviz.models.threads import begin_in_decoding_thread
from specviz.ui import preload as preloading


@pytest.fixture(autouse=True)
def nothing_is_rehearsed(monkeypatch):
    monkeypatch.setattr(preloading, "get_ready", lambda loaded: None)


def test_the_page_is_served_while_its_models_are_loaded(monkeypatch) -> None:
    served = threading.Event()
    loaded: Future[str] = Future()

    def load(*_: object, **__: object) -> None:
        assert served.wait(20)
        loaded.set_result(threading.current_thread().name)

    monkeypatch.setattr(preloading, "load_pair", load)
    monkeypatch.setattr(preloading, "HEAD_START_SECONDS", 0.1)

    def launch(page: gr.Blocks, **_: object) -> None:
        page.server = SimpleNamespace(config=Config(app=None))
        served.set()

    monkeypatch.setattr(gr.Blocks, "launch", launch)
    monkeypatch.setattr(gr.Blocks, "block_thread", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["app.py"])
    with pytest.raises(SystemExit):
        runpy.run_path("app.py", run_name="__main__")
    assert loaded.result(20) == "decoding"


def test_a_race_waits_until_the_models_are_loaded(monkeypatch) -> None:
    """Two loads at once could leave a wrong default dtype in the process."""
    order: list[str] = []
    may_end = threading.Event()

    def load(*_: object, **__: object) -> None:
        assert may_end.wait(20)
        order.append("loaded")

    monkeypatch.setattr(preloading, "load_pair", load)
    preloading.preload()
    threading.Timer(0.1, may_end.set).start()
    begin_in_decoding_thread(lambda: order.append("raced")).result(20)
    assert order == ["loaded", "raced"]


def test_a_pair_that_cannot_be_loaded_does_not_prevent_the_page_from_opening(
    monkeypatch, caplog
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise preloading.InputError("no such folder")

    monkeypatch.setattr(preloading, "load_pair", fail)
    preloading.preload().result(20)
    assert "the pair bundled is not ready: no such folder" in caplog.text


def test_without_the_chat_model_the_app_says_once_how_to_get_it(
    monkeypatch, caplog, tmp_path
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    monkeypatch.setattr(chat_model, "fetched_folder", lambda source: None)
    monkeypatch.setattr(preloading, "load_pair", lambda *_, **__: None)
    with caplog.at_level(logging.WARNING):
        preloading.preload().result(20)
    assert caplog.text.count("python -m specviz models --get smollm2") == 1
