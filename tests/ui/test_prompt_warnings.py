"""The page warns if a prompt already contains the chat template."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from specviz.experiments.run.racing import start_race
from specviz.ui.lab.lab_sweeps import sweep_order
from specviz.ui.profiles import profile_messages, profile_request
from specviz.ui.race_messages import RaceMessages
from specviz.ui.settings_form import race_request
from tests.chat_folder import chat_folder

TEXT = "<|story|>user Why?"


@pytest.fixture
def form(tmp_path: Path) -> dict[str, str]:
    method = {"method": "prompt-lookup", "draft_length": "2", "max_new_tokens": "4"}
    return {"pair": "custom", "target": chat_folder(tmp_path), "device": "cpu", **method}


def warnings(messages: Any) -> list[str]:
    return [each["text"] for each in messages if each["kind"] == "warning"]


@pytest.mark.parametrize(("text", "count"), [(TEXT, 1), ("Why?", 0)])
def test_a_race_sends_the_warning_after_its_header(
    form: dict[str, str], text: str, count: int
) -> None:
    race = start_race(race_request({**form, "prompt": text}))
    said = warnings(RaceMessages(race).messages(threading.Event()))
    assert len(said) == count
    assert all(each.startswith("the prompt holds <|story|>, which") for each in said)


def test_a_profile_sends_the_warning(form: dict[str, str]) -> None:
    question = {"form": form, "name": "a.txt", "text": f"Why?\n{TEXT}"}
    (said,) = warnings(profile_messages(profile_request(question), threading.Event()))
    assert said.startswith("prompt 2 of 2 holds <|story|>, which")


def test_the_lab_sends_the_warning(form: dict[str, str]) -> None:
    axes = [{"name": "draft-length", "values": "2"}]
    question = {"form": form, "prompts": {"text": f"Why?\n{TEXT}"}, "axes": axes, "repeats": "1"}
    (said,) = warnings(sweep_order(question).messages(threading.Event()))
    assert said.startswith("prompt 2 of 2 holds <|story|>, which")
