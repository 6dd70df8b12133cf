"""The page reads a whole or truncated sweep file as a table, and refuses any other file."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from specviz.experiments.sweep.sweep_file import csv_text
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_sweeps import read_sweep, sweep_order
from tests.ui.small_sweep import asked, lines


def test_the_table_has_a_row_for_each_point(measured: list[dict[str, Any]]) -> None:
    table = csv_text(read_sweep(lines(measured)).points)
    assert table.startswith("draft-length,temperature,speedup,") and table.count("\n") == 7


def broken(measured: list[dict[str, Any]], name: str) -> str:
    header, first, *rest = lines(measured).split("\n")
    plan, point = json.loads(header), json.loads(first)
    changed = {
        "no json": "hello\n",
        "another format": json.dumps(plan | {"format": 9}) + "\n",
        "an unknown pair": json.dumps(plan | {"pair": "nobody"}) + "\n",
        "too many repeats": json.dumps(plan | {"repeats": 10**6}) + "\n",
        "a point of elsewhere": f"{header}\n{json.dumps(point | {'setting': {'seed': 1}})}\n",
        "a word for a number": f"{header}\n{json.dumps(point | {'speedup': 'fast'})}\n",
        "a number beyond all": f"{header}\n{json.dumps(point | {'rounds': 1e300})}\n",
        "no number at all": f"{header}\n{first.replace(str(point['speedup']), 'NaN')}\n",
        "prompts of another type": json.dumps(plan | {"prompts": 1.0}) + "\n",
        "prompt tokens in part": json.dumps(plan | {"prompt_tokens": 5.5}) + "\n",
        "repeats in part": json.dumps(plan | {"repeats": 1.5}) + "\n",
        "a device that is a number": json.dumps(plan | {"device": 5}) + "\n",
        "a dtype that is a list": json.dumps(plan | {"dtype": ["x"]}) + "\n",
        "a device that is no text": json.dumps(plan | {"device": "\ud800"}) + "\n",
        "a device that there is not": json.dumps(plan | {"device": "tpu"}) + "\n",
        "a dtype that there is not": json.dumps(plan | {"dtype": "int4"}) + "\n",
        "texts that are numbers": json.dumps(plan | {"texts": [1, 2]}) + "\n",
        "texts that are one": json.dumps(plan | {"texts": "one"}) + "\n",
        "a point twice": f"{header}\n{first}\n{first}\n",
        "a band without its speedup": f"{header}\n{json.dumps(point | {'theory_speedup': None})}\n",
        "a field too many": f"{header}\n{json.dumps(point | {'more': 1})}\n",
        "a broken depth": f"{header}\n{json.dumps(point | {'acceptance_by_depth': [1]})}\n",
    }
    return changed[name]


@pytest.mark.parametrize(
    "name",
    [
        *("no json", "another format", "an unknown pair", "too many repeats", "a broken depth"),
        *("a point of elsewhere", "a word for a number", "a number beyond all", "no number at all"),
        *("prompts of another type", "prompt tokens in part", "repeats in part", "a point twice"),
        *("a device that is a number", "a dtype that is a list", "a device that is no text"),
        *("a band without its speedup", "a field too many"),
        *("texts that are numbers", "texts that are one"),
        *("a device that there is not", "a dtype that there is not"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused_in_one_sentence(
    measured: list[dict[str, Any]], name: str
) -> None:
    reply = Handlers().lab.draw({"file": broken(measured, name)})
    assert reply["error"].startswith("file ") and "\n" not in reply["error"]


ENDLESS = "x" * 5000


@pytest.mark.parametrize(
    "change",
    [
        *({"pair": ENDLESS}, {"task": ENDLESS}, {"device": ENDLESS}, {"dtype": ENDLESS}),
        *({"axes": [[ENDLESS, [1]]]}, {"axes": [["method", [ENDLESS]]]}),
        *({"axes": [["draft-length", [1] * 5000]]}, {"axes": [["temperature", [0]]] * 5000}),
        *({"config": {"method": ENDLESS}}, {"config": {"seed": ENDLESS}}),
        *({"config": {"branching": [1] * 5000}}, {"config": {"seed": 10**4000}}),
        *({"config": {"options": [["a", "b"]] * 5000}}, {"repeats": 10**4000}),
    ],
)
def test_text_of_a_hostile_header_is_not_repeated(
    measured: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    plan = json.loads(lines(measured).split("\n")[0])
    config = plan["config"] | change.get("config", {})
    reply = Handlers().lab.draw({"file": json.dumps(plan | change | {"config": config}) + "\n"})
    assert reply["error"].startswith("file ") and len(reply["error"]) < 200


def test_the_longest_axis_of_the_form_can_be_read_from_its_file() -> None:
    values = ",".join(f"1.{number:05}" for number in range(1, 63))
    order = sweep_order(asked({"name": "temperature", "values": values}))
    assert len(values) > 490 and len(order.plan.places) == 62
    header = next(iter(order.messages(threading.Event())))["line"]
    assert read_sweep(f"{header}\n").plan == order.plan


def test_a_truncated_last_line_does_not_count(measured: list[dict[str, Any]]) -> None:
    whole = lines(measured)
    assert len(read_sweep(whole[:-40]).points) == 5
