"""Every model with a chat template offers the task "chat", whichever file has the template."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from specviz.commands.flags import chosen_rows
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest
from specviz.models.files.chat_template_file import has_chat_template
from specviz.models.pair_catalog import custom_pair
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig
from tests.models.conftest import build_tokenizer
from tests.models.hub_stub import HubStub

Save = Callable[..., Path]
TEMPLATE = "{% for turn in messages %}{{ turn.content }}<|endoftext|>{% endfor %}"


@pytest.fixture(params=["file", "config", "gguf"])
def source(request: pytest.FixtureRequest, save_model: Save, tmp_path: Path) -> str:
    if request.param == "gguf":
        writer = gguf.GGUFWriter(str(tmp_path / "tiny.gguf"), "llama")
        writer.add_chat_template(TEMPLATE)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return str(tmp_path / "tiny.gguf")
    folder = save_model()
    if request.param == "file":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    else:
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": TEMPLATE}))
    return str(folder)


def test_a_model_with_a_template_has_the_task_chat(source: str) -> None:
    pair = custom_pair(source)
    assert has_chat_template(source)
    request = RaceRequest(pair, held_out_prompt("chat", 1, True), DecodingConfig(), "chat")
    assert request.task == "chat"
    assert not pair.is_asked_to_chat("code")


def test_a_model_without_a_template_does_not_have_the_task_chat(save_model: Save) -> None:
    folder = str(save_model())
    assert has_chat_template(folder) is False
    with pytest.raises(InputError, match="task must be one of code, story"):
        RaceRequest(custom_pair(folder), "Why?", DecodingConfig(), "chat")


def test_a_model_that_is_not_downloaded_may_have_the_task_chat(hub: HubStub) -> None:
    assert has_chat_template("owner/model") is None
    assert custom_pair("owner/model").is_asked_to_chat("chat")


@pytest.mark.parametrize("text", ["{", "[]", "", '{"chat_template": ""}'])
def test_a_broken_tokenizer_configuration_has_no_template(save_model: Save, text: str) -> None:
    folder = save_model()
    (folder / "tokenizer_config.json").write_text(text)
    assert has_chat_template(str(folder)) is False


def test_the_prompts_of_the_task_chat_are_messages(source: str) -> None:
    from argparse import Namespace

    names = ("pair", "draft", "eagle", "medusa", "prompt", "prompt_file", "system")
    options = Namespace(
        target=source, task="chat", prompt_number=1, raw=False, **dict.fromkeys(names)
    )
    assert chosen_rows(options, 1) == ("chat", (held_out_prompt("chat", 1, True),))


def test_the_tests_own_tokenizer_has_no_template() -> None:
    assert not build_tokenizer().chat_template
