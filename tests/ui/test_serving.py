"""What the page Serve asks is answered with a size and charts, or with one line."""

from __future__ import annotations

import json
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import plotly.graph_objects as go
import pytest

from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.sizing.serving_plan import FIELDS
from specviz.ui import serving
from specviz.ui.handlers import Handlers
from specviz.ui.serving import OWN, SIMULATIONS, WAITING, serving_offer

SMALL = {"target": "llama-3-1-8b", "gpus": "1", "output": "16"}
CONFIG = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


def size(**fields: Any) -> dict[str, Any]:
    return Handlers().serving.size({"plan": fields})


def test_the_form_has_a_field_for_everything_that_can_be_planned() -> None:
    offer = serving_offer()
    assert [field["name"] for field in offer["fields"]] == list(FIELDS)
    assert all(field["title"] and field["meaning"].endswith(".") for field in offer["fields"])
    assert size(**{each["name"]: each["default"] for each in offer["fields"]})["error"] is None
    json.dumps(offer, allow_nan=False)


@pytest.mark.parametrize(
    "fields",
    [
        SMALL,
        {"target": "llama-3-1-405b"},
        {"draft_gpus": "1", "batch": "1024", "output": "16"},
        {"load": "1000", "output": "16"},
    ],
)
def test_every_plan_has_its_charts_and_numbers(fields: dict[str, Any]) -> None:
    reply = size(**fields)
    load = Handlers().serving.arrivals({"plan": fields})
    assert reply["error"] is load["error"] is None
    for figure in (*reply["figures"].values(), *load["figures"].values()):
        go.Figure(figure)
    json.dumps((reply, load), allow_nan=False)
    assert bool(load["results"]) == (reply["size"]["largest_batch"] > 0)


def test_the_line_is_dotted_where_memory_is_full() -> None:
    gains = [(1, 2.0), (4, 1.5), (16, 0.8)]
    whole, cut = batch_speedup_figure(gains, (4, 1.5)), batch_speedup_figure(gains, (4, 1.5), 4)
    assert whole["data"][0]["x"] == [1, 4, 16] and whole["data"][1]["x"] == []
    assert (cut["data"][0]["x"], cut["data"][1]["x"]) == ([1, 4], [4, 16])


def test_a_pasted_configuration_is_a_model_of_ones_own() -> None:
    plan = {"plan": SMALL | {"target": OWN}, "target_config": json.dumps(CONFIG)}
    own = Handlers().serving.size(plan)["size"]
    assert own["speedup"] == size(**SMALL)["size"]["speedup"]


@pytest.mark.parametrize(
    "question, said",
    [
        ({}, "plan is missing"),
        ({"plan": 3}, "plan must be an object, got 3"),
        ({"plan": {"gpus": "x"}}, "gpus must be an integer from 1 to 64, got 'x'"),
        ({"plan": {"target": OWN}}, "target must be a preset or have its config.json pasted"),
        ({"plan": {"draft": OWN}, "draft_config": "[" * 90_000}, "a config.json that is JSON"),
        ({"plan": {"draft": OWN}, "draft_config": "[]"}, "that is an object"),
        ({"plan": {"draft": OWN}, "draft_config": " " * 100_001 + "1"}, "of at most 100,000"),
        (
            {"plan": {"target": OWN}, "target_config": '{"num_hidden_layers": 1e12}'},
            "num_hidden_layers of at most 512",
        ),
        (
            {"plan": {"target": OWN}, "target_config": '{"num_hidden_layers": 2}'},
            "must have hidden_size in its configuration",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(question: dict[str, Any], said: str) -> None:
    for ask in (Handlers().serving.size, Handlers().serving.arrivals):
        error = ask(question)["error"]
        assert said in error and len(error) < 500


def test_loads_that_wait_keep_few_of_the_threads_that_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end, asked = threading.Event(), SIMULATIONS + WAITING
    monkeypatch.setattr(serving, "by_load", lambda _: may_end.wait(20) and [])
    ask = Handlers().serving.arrivals
    with ThreadPoolExecutor(asked + 1) as pool:
        answers = [pool.submit(ask, {"plan": {}}) for _ in range(asked + 1)]
        (refused,) = wait(answers, return_when=FIRST_COMPLETED).done
        may_end.set()
    assert refused.result()["error"].startswith("other loads are being simulated")
    assert [each.result()["error"] for each in answers if each is not refused] == [None] * asked
