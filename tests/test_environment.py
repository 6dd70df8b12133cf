"""Settings are read from environment variables; the error for a bad value names the variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specviz.environment import PUBLIC_CACHE_GB, SPINS, Environment, let_threads_sleep
from specviz.errors import InputError


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Environment.read({}) == Environment()


def test_every_setting_is_read() -> None:
    environment = {
        "HOST": "0.0.0.0",
        "PORT": "80",
        "SPECVIZ_MODELS": "some/folder",
        "SPECVIZ_THREADS": "2",
        "SPECVIZ_MAX_MODEL_GB": "3",
        "HF_HUB_OFFLINE": "1",
        "SPECVIZ_CUDA_GRAPHS": "0",
        "SPECVIZ_CACHE": "another/folder",
        "SPECVIZ_PAIR": "bundled",
        "SPECVIZ_PUBLIC": "1",
        "SPECVIZ_MODELS_ALLOWED": "owner/model, /a/folder,,owner/model",
        "SPECVIZ_ENGINE_KEY": " sesame ",
        "SPECVIZ_ENGINES_ALLOWED": "http://a:1, http://b:2",
    }
    expected = Environment(
        *("0.0.0.0", 80, Path("some/folder"), 2, 3, True, False),
        *(Path("another/folder"), "bundled"),
        is_public=True,
        allowed_models=("owner/model", "/a/folder"),
        hub_cache_gb=PUBLIC_CACHE_GB,
        engine_key="sesame",
        allowed_engines=("http://a:1", "http://b:2"),
    )
    assert Environment.read(environment) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "1.5"),
        ("SPECVIZ_THREADS", "two"),
        ("SPECVIZ_MAX_MODEL_GB", "0"),
        ("HF_HUB_OFFLINE", "maybe"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be .*, got '{value}'"):
        Environment.read({name: value})


@pytest.mark.parametrize(("value", "is_offline"), [("true", True), ("0", False), ("", False)])
def test_switches_accept_the_usual_words(value: str, is_offline: bool) -> None:
    assert Environment.read({"HF_HUB_OFFLINE": value}).hub_offline is is_offline


def test_a_space_is_public_unless_its_owner_says_otherwise() -> None:
    assert not Environment.read({}).is_public
    assert Environment.read({"SPACE_ID": "owner/space"}).is_public
    assert not Environment.read({"SPACE_ID": "owner/space", "SPECVIZ_PUBLIC": "0"}).is_public


def test_waiting_threads_spin_for_a_moment_and_then_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "")
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    let_threads_sleep()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"]) == ("PASSIVE", SPINS)


def test_environment_variables_choose_how_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    let_threads_sleep()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"]) == ("ACTIVE", "7")


def test_the_host_that_gradio_reads_is_known_to_the_warning() -> None:
    """The app must know the host that Gradio uses, to warn if the page is open to the network."""
    assert Environment.read({"GRADIO_SERVER_NAME": "0.0.0.0"}).host == "0.0.0.0"
    both = {"HOST": "127.0.0.1", "GRADIO_SERVER_NAME": "0.0.0.0"}
    assert Environment.read(both).host == "127.0.0.1"
    assert Environment.read({"HOST": " ", "GRADIO_SERVER_NAME": ""}).host == "127.0.0.1"
