"""The lab's settings of models, prompts and sampling are the same for every card."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.models.pair_catalog import models_folder
from specviz.records import DecodingConfig
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_advice import advice_order
from specviz.ui.lab.lab_setting import MOST_OWN_TEXT, lab_setting
from specviz.ui.lab.lab_sweeps import header_line, read_sweep, sweep_order
from specviz.ui.lab.lab_views import SweepViews

FORM = {"pair": "bundled", "task": "code", "method": "draft-model", "max_new_tokens": "6"}
LENGTHS = {"name": "draft-length", "values": "2"}


def asked(**question: Any) -> dict[str, Any]:
    usual = {"form": FORM, "prompts": {"count": "1"}, "axes": [LENGTHS], "repeats": "1"}
    return usual | question


@pytest.mark.parametrize(
    ("prompts", "texts"),
    [
        ({"text": "one\ntwo\n"}, ("one", "two")),
        ({"text": "one\ntwo\n\nthree", "count": "1"}, ("one\ntwo",)),
        ({"text": '{"prompt": "one"}\n'}, ("one",)),
        ({"text": '{"prompt": "one"}\n', "name": "my.txt"}, ("one",)),
    ],
)
def test_custom_prompts_replace_the_held_out_ones(
    prompts: dict[str, str], texts: tuple[str, ...]
) -> None:
    setting = sweep_order(asked(prompts=prompts)).plan.setting
    assert tuple(each.prompt for each in setting.requests) == texts
    assert {each.task for each in setting.requests} == {None}


def test_a_sweep_file_restores_custom_models_prompts_and_sampling() -> None:
    folder = models_folder()
    models = {"pair": "custom", "target": str(folder / "target"), "draft": str(folder / "draft")}
    form = FORM | models | {"temperature": "0.7", "top_k": "40", "top_p": "0.9"}
    own = {"text": "def f(x):\n\nOnce upon a time"}
    order = sweep_order(asked(form=form, prompts=own))
    messages = list(order.messages(threading.Event()))
    lines = [each["line"] for each in messages if each["kind"] in ("plan", "point")]
    sweep = read_sweep("".join(f"{line}\n" for line in lines))
    assert sweep.plan == order.plan and len(sweep.points) == len(sweep.plan.places)
    words = SweepViews(sweep, [1.0], None).answer()["setting"]
    assert "2 prompts of your own" in words and "temperature 0.7 · top-k 40 · top-p 0.9" in words


def test_a_sweep_has_either_held_out_prompts_or_custom_texts_without_a_task() -> None:
    plan = sweep_order(asked()).plan
    assert plan.setting.texts == () and plan.setting.task == "code"
    header = json.loads(header_line(plan)) | {"texts": ["Once upon a time"]}
    sweep = read_sweep(f"{json.dumps(header)}\n")
    said = SweepViews(sweep, [], None).answer()["setting"]
    assert "1 prompt of your own" in said and "code" not in said


def test_at_temperature_0_other_sampling_settings_are_not_shown() -> None:
    assert DecodingConfig(top_k=40, top_p=0.9).sampling_words == ["temperature 0"]


def test_advice_and_a_sweep_with_the_same_form_decode_the_same_prompts() -> None:
    for prompts in ({"count": "3"}, {"text": "one\ntwo"}):
        question = asked(prompts=prompts) | {"batch_size": "1", "seconds": "10"}
        swept = sweep_order(question).plan.setting.requests
        assert advice_order(question).request.prompts == tuple(each.prompt for each in swept)


@pytest.mark.parametrize(
    ("prompts", "sentence"),
    [
        ("4", "prompts must be an object with 'count' or 'text', got '4'"),
        ({"count": ""}, "count must be a whole number from 1 to 40, got ''"),
        ({"text": " "}, "prompts must have at least one text of your own"),
        ({"text": "a\nb", "count": "3"}, "count must be a whole number from 1 to 2"),
        ({"text": "a", "name": "a.jsonl"}, "prompts line 1 must be a JSON object"),
        ({"text": '{"prompt": "\\ud800"}'}, "prompts must be valid Unicode"),
        ({"text": "a" * (MOST_OWN_TEXT + 1)}, "prompts must be a text of at most 200,000"),
        ({"text": "a\n" + "b" * 100_001}, "prompt 2 is invalid: prompt must have"),
        ({"text": "a\n" * 41}, "count must be a whole number from 1 to 40, got '41'"),
    ],
)
def test_unusable_prompts_are_refused(prompts: object, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        lab_setting(asked(prompts=prompts))
    assert str(error.value).startswith(sentence)


def test_the_page_learns_how_many_prompts_a_text_contains() -> None:
    lab = Handlers().lab
    assert lab.prompts({"text": "one\ntwo", "name": ""}) == {"error": None, "count": 2}
    assert lab.prompts({"text": "", "name": ""})["error"].startswith("prompts must have")
