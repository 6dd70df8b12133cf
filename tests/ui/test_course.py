"""The course's server side: lessons as they are sent, and rounds that a person drafts."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.experiments.run.typed_round import BEGINNING, MAX_TYPED, rival_of
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.records import Outcome, ProposalKind, Round
from specviz.trace_file import decode
from specviz.ui.course.course import Course, course_offer
from specviz.ui.course.forwards_order import COUNTS, REPEATS, forwards_order
from specviz.ui.course.lengths_order import lengths_order
from specviz.ui.course.typed_order import typed_order
from specviz.ui.runs import Runs

TICKET = "a-word-long-enough-to-be-secret"
FORM = {"pair": BUNDLED, "prompt": "def add(a, b):", "temperature": "0.7", "seed": "3"}


def told(typed: str, written: list[int], **changes: Any) -> dict[str, Any]:
    """What one order says before its end."""
    order = typed_order({"form": FORM | changes, "written": written, "typed": typed})
    found, end = order.messages(threading.Event())
    assert (found["kind"], end["kind"]) == ("typed", "end")
    json.dumps(found, allow_nan=False)
    return found


@pytest.fixture(scope="module")
def begun() -> dict[str, Any]:
    return told("", [])


def round_of(found: dict[str, Any], name: str = "round") -> Round:
    return decode(Round, found[name], name)


def test_the_course_is_sent_as_plain_values() -> None:
    sent = json.loads(json.dumps(course_offer(), allow_nan=False))
    widgets = {each["name"] for each in sent["widgets"]}
    assert sent["lessons"] and {each["widget"] for each in sent["lessons"]} <= widgets


def test_a_text_begins_with_tokens_of_the_target_alone(begun: dict[str, Any]) -> None:
    assert len(begun["begun"]) == BEGINNING and begun["round"] is None
    assert {*begun["begun"]} <= begun["texts"].keys()


def test_what_a_person_types_is_a_point_mass_that_the_target_judges(begun: dict[str, Any]) -> None:
    found = told("\n    return a", begun["begun"])
    record = round_of(found)
    assert record.tree.kind is ProposalKind.DETERMINISTIC
    assert "".join(found["texts"][n.token_id] for n in record.tree.nodes) == "\n    return a"
    for verdict in record.verdicts:
        if verdict.outcome is not Outcome.UNREACHED:
            assert verdict.draft_prob == 1
            assert verdict.acceptance_prob == pytest.approx(verdict.target_prob, rel=1e-4)
            accepted = verdict.uniform_draw < verdict.acceptance_prob
            assert accepted == (verdict.outcome is Outcome.ACCEPTED)
    rival = round_of(found, "rival")
    assert len(rival.tree.nodes) == len(record.tree.nodes) and found["rival_title"]


def test_the_same_place_draws_the_same_whatever_was_guessed(begun: dict[str, Any]) -> None:
    one, other = (round_of(told(typed, begun["begun"])) for typed in (" x", " y"))
    assert one.verdicts[0].uniform_draw == other.verdicts[0].uniform_draw


def test_nothing_typed_has_the_target_write_one_token(begun: dict[str, Any]) -> None:
    found = told("", begun["begun"])
    assert len(round_of(found).emitted_ids) == 1 and found["rival"] is None


def test_at_temperature_0_the_typed_text_of_the_target_itself_is_kept_whole() -> None:
    begun = told("", [], temperature="0")["begun"]
    found = told("", begun, temperature="0")
    (next_id,) = round_of(found).emitted_ids
    kept = round_of(told(found["texts"][next_id], begun, temperature="0"))
    assert [verdict.outcome for verdict in kept.verdicts] == [Outcome.ACCEPTED]
    assert kept.emitted_ids[0] == next_id and len(kept.emitted_ids) == 2


@pytest.mark.parametrize(
    ("typed", "written", "words"),
    [
        (" a b c d e f g h i j k l m n", [1, 2], f"guess must be at most {MAX_TYPED} tokens, got"),
        ("x" * 201, [1, 2], "guess must be text of at most 200 characters, got 201"),
        ("x", [10**7], "written must be tokens from 0 to"),
        ("x", [1] * 401, "text must be at most 400 tokens long to be guessed further, got 401"),
        ("\ud800", [1], "guess must be Unicode text"),
        ("x", "12", "written must be a list of token ids"),
    ],
)
def test_a_guess_that_breaks_a_rule_is_refused_in_one_line(
    typed: str, written: Any, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        told(typed, written)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_every_pair_has_something_that_guesses_beside_a_person() -> None:
    assert rival_of(pair_named(BUNDLED)) == "draft-model"


def test_an_order_takes_its_place_in_the_queue_and_an_unknown_one_is_refused() -> None:
    runs = Runs()
    course = Course(runs)
    question = {"form": FORM, "written": [], "typed": "", "ticket": TICKET}
    assert course.drive({"what": "typed", **question}) == {"error": None}
    assert runs.look(TICKET, 0)["state"] == "waiting"
    assert (
        "what must be one of typed, forwards, lengths"
        in course.drive({"what": "x", **question})["error"]
    )


def test_forwards_are_measured_pass_by_pass_until_they_are_stopped() -> None:
    stop = threading.Event()
    found = []
    for message in forwards_order({"form": FORM}).messages(stop):
        found.append(message)
        if len(found) == 2:
            stop.set()
    first, second, end = found
    assert first["kind"] == "forwards" and first["counts"] == list(COUNTS)
    assert len(second["seconds"]) == len(COUNTS) and min(second["seconds"]) > 0
    assert first["weight_bytes"] == 4 * first["model"]["parameters"] > 0
    assert first["passes"] == REPEATS
    assert end == {"kind": "end", "reason": "stopped"}


def test_a_lesson_sweeps_the_draft_lengths_of_the_pair_that_comes_with_the_app() -> None:
    plan = lengths_order({}).plan
    assert [dict(place)["draft-length"] for place in plan.places] == [1, 2, 4, 8]
    assert plan.setting.pair == pair_named(BUNDLED) and plan.setting.config.max_new_tokens == 24


QUESTION = {"a": 0.8, "K": 5, "c": 0.1, "v": 0.0, "measured": [[1, 1.4], [4, 2.0]]}


def test_theory_answers_with_its_numbers_and_a_figure_of_them() -> None:
    found = Course(Runs()).theory(QUESTION)
    assert round(found["speedup"], 2) == 2.46 and round(found["accepted"], 2) == 2.69
    assert (found["best"], found["naive"]) == (6, 4.0)
    curve, chosen, measured = found["figure"]["data"]
    assert curve["y"][4] == chosen["y"][0] == found["speedup"]
    assert measured["x"] == [1, 4]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": 1.5}, "a must be from 0 to 1, got 1.5"),
        ({"c": float("nan")}, "c must be a number of at least 0"),
        ({"K": 0}, "K must be an integer from 1 to 32, got 0"),
        ({"measured": [[1]]}, "measured must be at most 32 pairs of K and speedup"),
    ],
)
def test_theory_refuses_what_is_no_setting(change: dict[str, Any], words: str) -> None:
    assert words in Course(Runs()).theory(QUESTION | change)["error"]
