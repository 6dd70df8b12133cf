"""A sweep over the page: asked, streamed as lines of its file, stopped, gone on, drawn, refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import gradio as gr
import plotly.graph_objects as go
import pytest

from specviz.cli import main
from specviz.errors import InputError
from specviz.ui.handlers import Handlers
from specviz.ui.lab_sweep_file import csv_text, read_sweep
from specviz.ui.lab_sweeps import SweepOrder, sweep_offer, sweep_order
from specviz.ui.lab_views import SweepViews

TICKET = "a-ticket-of-the-lab"
FORM = {"pair": "bundled", "task": "code", "method": "draft-model", "max_new_tokens": "6"}
LENGTHS = {"name": "draft-length", "values": "1-3"}
TASKS = {"name": "task", "values": "code,story"}


def asked(*axes: dict[str, str], **question: Any) -> dict[str, Any]:
    usual = {
        "form": FORM,
        "axes": list(axes) or [LENGTHS],
        "prompts": {"count": "1"},
        "repeats": "1",
    }
    return usual | question


def lines(messages: list[dict[str, Any]]) -> str:
    found = [each["line"] for each in messages if each["kind"] in ("plan", "point")]
    return "".join(f"{line}\n" for line in found)


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """All messages of a sweep over two axes."""
    order = sweep_order(asked(LENGTHS, {"name": "temperature", "values": "0,1"}))
    return list(order.messages(threading.Event()))


def test_a_sweep_tells_its_plan_its_noise_and_each_point(measured: list[dict[str, Any]]) -> None:
    kinds = [each["kind"] for each in measured]
    assert kinds[0] == "plan" and kinds[-1] == "end" and kinds.count("point") == 6
    assert kinds.index("noise") < kinds.index("point")
    last = [each for each in measured if each["kind"] == "progress"][-1]
    assert (last["done"], last["points"], last["seconds_left"]) == (6, 6, 0)


def test_the_lines_are_the_file_that_the_command_line_goes_on_with(
    measured: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(lines(measured))
    axes = ["--axis", "draft-length=1-3", "--axis", "temperature=0,1"]
    sizes = ["--max-new-tokens", "6", "--prompts", "1", "--repeat", "1"]
    assert main(["sweep", *axes, *sizes, "--output", str(file), "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert points == read_sweep(lines(measured)).points  # nothing was measured again


def test_a_stop_keeps_what_was_measured_and_the_rest_can_be_measured_later() -> None:
    stop = threading.Event()
    messages = []
    for message in sweep_order(asked()).messages(stop):
        messages.append(message)
        if message["kind"] == "point":
            stop.set()
    assert messages[-1] == {"kind": "end", "reason": "stopped"}
    kept = read_sweep(lines(messages))
    assert len(kept.points) == 1 and not kept.is_complete
    noise = next(each["noise"] for each in messages if each["kind"] == "noise")
    rest = sweep_order({"file": lines(messages), "noise": noise})
    later = list(rest.messages(threading.Event()))
    assert [each["noise"] for each in later if each["kind"] == "noise"] == [noise]
    assert [json.loads(each["line"])["setting"] for each in later if each["kind"] == "point"] == [
        {"draft-length": 2},
        {"draft-length": 3},
    ]


def test_a_stop_before_the_first_point_measures_none() -> None:
    stop = threading.Event()
    stop.set()
    kinds = [each["kind"] for each in sweep_order(asked()).messages(stop)]
    assert kinds == ["plan", "end"]


def test_a_sweep_waits_in_the_queue_of_the_races() -> None:
    handlers = Handlers()
    assert handlers.lab.measure({"ticket": TICKET, "what": "sweep", **asked()}) == {"error": None}
    assert handlers.look({"ticket": TICKET, "after": 0})["state"] == "waiting"
    events = handlers.race(gr.EventData(None, {"ticket": TICKET}))
    messages = [each for text in events for each in json.loads(text)["messages"]]
    assert [messages[0]["kind"], messages[-1]["kind"]] == ["loading", "end"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (asked({"name": "draft-length", "values": "0-3"}), "draft_length must be"),
        (asked({"name": "draft-length", "values": "many"}), "draft-length must be whole numbers"),
        (asked({"name": "method", "values": "draft-model,magic"}), "method must be one of"),
        (asked({"name": "speed", "values": "1"}), "axis must be one of"),
        (asked(LENGTHS, LENGTHS), "axis must be one or two different ones"),
        (asked(prompts={"count": "0"}), "prompts must be a whole number from 1 to 40, got '0'"),
        (asked(TASKS, prompts={"text": "a"}), "task must be of held-out prompts to be varied"),
        (asked(repeats="x"), "repeats must be a whole number"),
        (asked(repeats="0"), "repeat must be an integer from 1"),
        (asked(form=FORM | {"temperature": "hot"}), "temperature must be a number"),
        (asked(form=FORM | {"task": "poetry"}), "task must be one of"),
        (asked({"name": "nodes", "values": "4"}), "options of method draft-model"),
        (asked(form=FORM | {"pair": "custom"}), "target must be a model folder or a Hub id"),
        (asked(form=[1]), "form must be settings by name"),
        (asked(form=FORM | {"temperature": 1.0}), "form must be settings by name"),
        (asked(form=FORM | {"task": "x" * 1000}), "task must have at most 500 characters"),
        (asked() | {"axes": "K"}, "axes must be a list"),
        (asked({"name": "draft-length", "values": "1," * 999}), "axes must have values of at most"),
    ],
)
def test_nonsense_is_refused_before_the_queue(question: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        sweep_order(question)
    assert str(error.value).startswith(sentence)


def test_every_axis_says_under_which_names_its_values_are_refused() -> None:
    axes = {each["name"]: each["settings"] for each in sweep_offer()["axes"]}
    assert "draft_length" in axes["draft-length"] and "options" in axes["nodes"]


def test_the_charts_stand_round_the_picked_point(measured: list[dict[str, Any]]) -> None:
    sweep = read_sweep(lines(measured))
    told = SweepViews(sweep, [0.98, 1.02], picked=3).told()
    assert told["picked_words"] == "draft length K 2, temperature 1"
    assert told["line_words"] == "at temperature 1" and told["line"] == {"0": 1, "1": 3, "2": 5}
    assert told["cells"]["1,1"] == 3
    assert set(told["figures"]) == {"speedup", "times", "depth", "heatmap"}
    for figure in told["figures"].values():
        go.Figure(figure)
    speedups = [point["speedup"] for point in sweep.points]
    assert told["best"] == speedups.index(max(speedups))
    assert told["setting"].startswith("Bundled pair · code: prompt 1 · Draft model, chain · 6")


def test_the_time_of_a_token_is_told_of_all_tokens_of_all_rows() -> None:
    axis = {"name": "batch-size", "values": "2"}
    order = sweep_order(asked(axis, prompts={"count": "3"}, repeats="2"))
    sweep = read_sweep(lines(list(order.messages(threading.Event()))))
    (point,) = sweep.points
    bars = [t for t in SweepViews(sweep, [], None).told()["figures"]["times"]["data"]]
    parts = {bar["name"]: bar["y"][0] for bar in bars if bar["type"] == "bar"}
    tokens = 2 * (2 * 2) * 6  # repeats, batches of rows, new tokens of each
    for part in ("prefill", "draft", "verify", "host"):
        assert parts[part] == pytest.approx(1000 * point[f"{part}_seconds"] / tokens)


@pytest.mark.parametrize(
    ("spread", "noise", "beginning"),
    [
        ([1.5, 1.7], [0.9, 1.1], "Fastest: 1.60× (1.50 to 1.70) at draft length K 1."),
        ([1.05, 1.7], [0.9, 1.1], "No clear gain"),
        ([0.5, 0.8], [0.9, 1.1], "Speculation loses at every point"),
        ([1.1, 1.2], [], "The best: 1.15× (1.10 to 1.20) at draft length K 1; the noise of its"),
        ([1.9, 2.0], [0.9, 1.8], "The machine is too busy to tell: plain decoding beside itself"),
        ([1.9, 2.0], [0.6, 1.1], "The machine is too busy to tell: plain decoding beside itself"),
    ],
)
def test_the_sentence_is_judged_by_the_spread_and_by_the_noise(
    measured: list[dict[str, Any]], spread: list[float], noise: list[float], beginning: str
) -> None:
    order = sweep_order(asked({"name": "draft-length", "values": "1"}, repeats="2"))
    point = json.loads(lines(measured).splitlines()[1])
    point |= {"setting": {"draft-length": 1}, "speedup": sum(spread) / 2, "speedup_spread": spread}
    plan = next(iter(order.messages(threading.Event())))["line"]
    sweep = read_sweep(f"{plan}\n{json.dumps(point)}\n")
    assert SweepViews(sweep, noise, None).sentence().startswith(beginning)


@pytest.mark.parametrize(
    ("spreads", "beginning"),
    [
        (([0.9, 1.7], [1.25, 1.33]), "Above the noise in every repeat: 1.29× (1.25 to 1.33) at"),
        (([0.88, 0.92], [0.3, 1.4]), "No clear gain"),
        (([0.88, 0.92], [0.3, 0.9]), "Speculation loses at every point"),
    ],
)
def test_the_sentence_is_of_all_points_and_not_of_the_fastest_alone(
    measured: list[dict[str, Any]], spreads: tuple[list[float], ...], beginning: str
) -> None:
    order = sweep_order(asked({"name": "draft-length", "values": "1-2"}, repeats="2"))
    point = json.loads(lines(measured).splitlines()[1])
    plan = next(iter(order.messages(threading.Event())))["line"]
    text = [plan]
    for place, spread in enumerate(spreads, start=1):
        told = {"speedup": sum(spread) / 2, "speedup_spread": spread}
        text.append(json.dumps(point | {"setting": {"draft-length": place}} | told))
    sweep = read_sweep("".join(f"{line}\n" for line in text))
    assert SweepViews(sweep, [0.95, 1.05], None).sentence().startswith(beginning)


def test_one_repeat_has_no_spread_to_be_judged_by(measured: list[dict[str, Any]]) -> None:
    views = SweepViews(read_sweep(lines(measured)), [1.0], None)
    assert views.sentence().startswith("The best: ") and "in one repeat" in views.sentence()


def test_a_name_speaks_for_itself_and_the_noise_is_told_once() -> None:
    axes = [{"name": "method", "values": "draft-model,prompt-lookup"}, LENGTHS]
    plan = next(iter(sweep_order(asked(*axes)).messages(threading.Event())))["line"]
    views = SweepViews(read_sweep(f"{plan}\n"), [1.02], None)
    assert views.words(4) == "prompt-lookup, draft length K 2"
    assert views.told()["noise_words"] == "1.02"


def test_the_table_has_a_row_for_each_point(measured: list[dict[str, Any]]) -> None:
    table = csv_text(read_sweep(lines(measured)))
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
def test_what_a_hostile_header_says_does_not_come_back(
    measured: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    plan = json.loads(lines(measured).split("\n")[0])
    config = plan["config"] | change.get("config", {})
    reply = Handlers().lab.draw({"file": json.dumps(plan | change | {"config": config}) + "\n"})
    assert reply["error"].startswith("file ") and len(reply["error"]) < 200


def test_the_longest_axis_of_the_form_comes_back_from_its_file() -> None:
    values = ",".join(f"1.{number:05}" for number in range(1, 63))
    order = sweep_order(asked({"name": "temperature", "values": values}))
    assert len(values) > 490 and len(order.plan.places) == 62
    header = next(iter(order.messages(threading.Event())))["line"]
    assert read_sweep(f"{header}\n").plan == order.plan


def test_a_line_that_was_cut_off_does_not_count(measured: list[dict[str, Any]]) -> None:
    whole = lines(measured)
    assert len(read_sweep(whole[:-40]).points) == 5


def test_an_order_is_of_the_pair_that_it_loads() -> None:
    assert isinstance(sweep_order(asked()), SweepOrder)
    assert sweep_order(asked()).pair.name == "bundled"
