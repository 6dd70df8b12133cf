"""A sweep from the page is streamed as lines of its file, and can be stopped and continued."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.errors import InputError
from specviz.records import BATCH
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_batch import batch_order
from specviz.ui.lab.lab_sweeps import SweepOrder, header_line, read_sweep, sweep_offer, sweep_order
from tests.ui.heard import heard
from tests.ui.small_sweep import FORM, LENGTHS, asked, lines

TICKET = "a-ticket-of-the-lab"
TASKS = {"name": "task", "values": "code,story"}


def test_the_help_of_a_batch_field_is_not_the_help_of_a_flag() -> None:
    for field in sweep_offer()["batch"]:
        assert field["hint"] != BATCH[field["name"]].flag_help
        assert field["hint"][0].isupper() and field["hint"].endswith(".")


def test_a_sweep_sends_its_plan_its_noise_and_each_point(measured: list[dict[str, Any]]) -> None:
    kinds = [each["kind"] for each in measured]
    assert kinds[0] == "plan" and kinds[-1] == "end" and kinds.count("point") == 6
    assert kinds.index("noise") < kinds.index("point")
    last = [each for each in measured if each["kind"] == "progress"][-1]
    assert (last["done"], last["points"], last["seconds_left"]) == (6, 6, 0)


def test_the_lines_are_a_file_that_the_command_line_can_continue(
    measured: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(lines(measured))
    axes = ["--axis", "draft-length=1-3", "--axis", "temperature=0,1"]
    sizes = ["--max-new-tokens", "6", "--prompt-count", "1", "--repeat", "1"]
    assert main(["sweep", *axes, *sizes, "--output", str(file), "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert points == read_sweep(lines(measured)).points  # the command measured no point again


def test_a_stopped_sweep_keeps_its_points_and_the_rest_can_be_measured_later() -> None:
    stop = threading.Event()
    messages = []
    for message in sweep_order(asked()).messages(stop):
        messages.append(message)
        if message["kind"] == "point":
            stop.set()
    assert messages[-1] == {"kind": "end", "reason": "stopped"}
    kept = read_sweep(lines(messages))
    assert len(kept.points) == 1 < len(kept.plan.places)
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
    messages = heard(handlers, TICKET)
    assert [messages[0]["kind"], messages[-1]["kind"]] == ["loading", "end"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (asked({"name": "draft-length", "values": "0-3"}), "draft_length must be"),
        (asked({"name": "draft-length", "values": "many"}), "draft-length must be whole numbers"),
        (asked({"name": "method", "values": "draft-model,magic"}), "method must be one of"),
        (asked({"name": "speed", "values": "1"}), "axis must be one of"),
        (asked(LENGTHS, LENGTHS), "axis must name one or two different axes"),
        (asked(prompts={"count": "0"}), "count must be a whole number from 1 to 40, got '0'"),
        (
            asked(TASKS, prompts={"text": "a"}),
            "task must not be an axis together with your own prompts",
        ),
        (asked(repeats="x"), "repeats must be a whole number"),
        (asked(repeats="0"), "repeats must be a whole number from 1"),
        (asked(form=FORM | {"temperature": "hot"}), "temperature must be a number"),
        (asked(form=FORM | {"task": "poetry"}), "task must be one of"),
        (
            asked({"name": "nodes", "values": "4"}),
            "nodes must be an option of the method, but",
        ),
        (
            asked({"name": "bits", "values": "5"}, form=FORM | {"method": "quantised-self"}),
            "bits must be one of 0, 4, 8, got 5",
        ),
        (
            asked(
                {"name": "shortest-ngram", "values": "4"}, form=FORM | {"method": "prompt-lookup"}
            ),
            "longest_ngram must be at least shortest_ngram = 4, got 3",
        ),
        (asked(form=FORM | {"pair": "custom"}), "target must be a model folder, a GGUF file"),
        (asked(form=[1]), "form must be an object from setting to value"),
        (asked(form=FORM | {"temperature": 1.0}), "temperature must be text, got 1.0"),
        (asked(form=FORM | {"task": "x" * 1000}), "task must have at most 500 characters"),
        (asked() | {"axes": "K"}, "axes must be a list"),
        (asked(batch=[]), "batch settings must be among batch_size, speculate_up_to, draft_budget"),
        (
            asked(batch={"rows": "2"}),
            "batch settings must be among batch_size, speculate_up_to, draft_budget",
        ),
        (asked(batch={"batch_size": "many"}), "batch_size must be a whole number, got 'many'"),
        (
            asked(batch={"draft_budget": "5000"}),
            "draft_budget must be a whole number from 0 to 4,096",
        ),
        (asked({"name": "draft-length", "values": "1," * 999}), "axes must have values of at most"),
    ],
)
def test_invalid_requests_are_refused_before_the_queue(
    question: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        sweep_order(question)
    assert str(error.value).startswith(sentence)


def test_every_axis_names_the_settings_under_which_its_values_are_refused() -> None:
    axes = {each["name"]: each["settings"] for each in sweep_offer()["axes"]}
    assert "draft_length" in axes["draft-length"] and "longest_ngram" in axes["longest-ngram"]


def test_a_sweep_s_work_names_the_pair_that_it_loads() -> None:
    assert isinstance(sweep_order(asked()), SweepOrder)
    assert sweep_order(asked()).pair.name == "bundled"


def test_unusual_batch_options_are_stored_in_the_file() -> None:
    plan = sweep_order(asked(batch={"batch_size": "4", "draft_budget": "8"})).plan
    assert (plan.setting.batch_size, plan.setting.batch.draft_budget) == (4, 8)
    assert json.loads(header_line(plan))["batch"] == {"batch_size": 4, "draft_budget": 8}
    assert read_sweep(f"{header_line(plan)}\n").plan == plan
    # If the batch has its default settings, the first line of the file has no field "batch". Older
    # files have none either.
    assert "batch" not in json.loads(header_line(sweep_order(asked()).plan))


@pytest.mark.parametrize("batch", ["4", {"rows": 4}, {"batch_size": "4"}, {"batch_size": 99}])
def test_a_file_with_another_batch_is_refused(batch: object) -> None:
    header = json.loads(header_line(sweep_order(asked()).plan)) | {"batch": batch}
    with pytest.raises(InputError, match="^file "):
        read_sweep(f"{json.dumps(header)}\n")


def test_the_batch_of_a_point_is_sent_row_by_row() -> None:
    order = asked({"name": "draft-budget", "values": "2,0"}, batch={"batch_size": "2"})
    file = f"{header_line(sweep_order(order).plan)}\n"
    *_, found, end = batch_order({"file": file, "picked": 0}).messages(threading.Event())
    assert (found["kind"], end["reason"]) == ("batch", "done")
    rows, steps = [row["rounds"] for row in found["rows"]], found["steps"]
    assert len(rows) == 2 and max(map(len, rows)) == len(steps)
    for rounds in rows:
        assert 1 + sum(len(each["written"]) for each in rounds) == int(FORM["max_new_tokens"])
    for at, step in enumerate(steps):
        alive = [rounds[at] for rounds in rows if len(rounds) > at]
        assert step["rows"] == len(alive) and sum(len(each["guesses"]) for each in alive) <= 2


@pytest.mark.parametrize("picked", [None, -1, 3, True, "0"])
def test_the_batch_of_a_point_that_does_not_exist_is_refused(picked: object) -> None:
    file = f"{header_line(sweep_order(asked()).plan)}\n"
    with pytest.raises(InputError, match="^picked must be a whole number from 0 to 2, got "):
        batch_order({"file": file, "picked": picked})
    with pytest.raises(InputError, match="^file must be a text"):
        batch_order({"picked": 0})
