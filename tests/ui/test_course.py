"""The server sends the lessons, and the target verifies a draft that a person types."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from specviz import theory
from specviz.errors import InputError
from specviz.experiments.run.typed_recording import GUESSED, record_typed
from specviz.experiments.run.typed_round import BEGINNING, MAX_TYPED, rival_of
from specviz.models.pair_catalog import BUNDLED, CHAT, pair_named
from specviz.prompts import TASKS
from specviz.records import Drawing, Outcome, Round
from specviz.sizing.shape import MODELS
from specviz.trace_file import decode
from specviz.ui.course import batch_order as batch_orders
from specviz.ui.course import block_orders, copy_orders, forced_orders, pair_orders, stop_orders
from specviz.ui.course.batch_order import LENGTH, ROWS, batch_order
from specviz.ui.course.block_orders import blocks_order
from specviz.ui.course.copy_orders import CopiesOrder, copies_order
from specviz.ui.course.course import course_offer
from specviz.ui.course.forced_orders import ForcedOrder, forced_order
from specviz.ui.course.lesson_recordings import RECORDED, recorded
from specviz.ui.course.lesson_sweeps import SWEEPS, lesson_sweep
from specviz.ui.course.pair_orders import (
    COUNTS,
    NUMBERS,
    PLACES,
    REPEATS,
    forwards_order,
    head_order,
    rounding_order,
)
from specviz.ui.course.race_order import RACES, race_order
from specviz.ui.course.race_order import REPEATS as RACE_REPEATS
from specviz.ui.course.typed_order import typed_order
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_order import LabOrder
from tests.ui.heard import heard

TICKET = "a-word-long-enough-to-be-secret"
FORM = {"pair": BUNDLED, "prompt": "def add(a, b):", "temperature": "0.7", "seed": "3"}


def played(typed: str, written: list[int], **changes: Any) -> dict[str, Any]:
    """Return the server's message about a round whose draft is the text `typed`."""
    order = typed_order({"form": FORM | changes, "written": written, "typed": typed})
    found, end = order.messages(threading.Event())
    assert (found["kind"], end["kind"]) == ("typed", "end")
    json.dumps(found, allow_nan=False)
    return found


@pytest.fixture(scope="module")
def begun() -> dict[str, Any]:
    return played("", [])


def round_of(found: dict[str, Any], name: str = "round") -> Round:
    return decode(Round, found[name], name)


def test_the_course_is_sent_as_plain_values() -> None:
    sent = json.loads(json.dumps(course_offer(), allow_nan=False))
    widgets = {each["name"] for each in sent["widgets"]}
    assert sent["lessons"] and {each["widget"] for each in sent["lessons"]} <= widgets


def test_a_text_begins_with_tokens_that_the_target_alone_writes(begun: dict[str, Any]) -> None:
    assert len(begun["begun"]) == BEGINNING and begun["round"] is None
    assert {*begun["begun"]} <= begun["texts"].keys()


def test_a_typed_guess_has_q_1_and_the_target_verifies_it(begun: dict[str, Any]) -> None:
    found = played("\n    return a", begun["begun"])
    record = round_of(found)
    assert record.tree.drawing is Drawing.CHOSEN
    assert "".join(found["texts"][n.token_id] for n in record.tree.nodes) == "\n    return a"
    for verdict in record.verdicts:
        if verdict.outcome is not Outcome.UNREACHED:
            assert verdict.draft_prob == 1
            assert verdict.acceptance_prob == pytest.approx(verdict.target_prob, rel=1e-4)
            accepted = verdict.uniform_draw < verdict.acceptance_prob
            assert accepted == (verdict.outcome is Outcome.ACCEPTED)
    rival = round_of(found, "rival")
    assert len(rival.tree.nodes) == len(record.tree.nodes) and found["rival_title"]


def test_the_same_position_has_the_same_draw_for_any_guess(begun: dict[str, Any]) -> None:
    one, other = (round_of(played(typed, begun["begun"])) for typed in (" x", " y"))
    assert one.verdicts[0].uniform_draw == other.verdicts[0].uniform_draw


def test_without_a_guess_the_target_writes_one_token(begun: dict[str, Any]) -> None:
    found = played("", begun["begun"])
    assert len(round_of(found).emitted_ids) == 1 and found["rival"] is None


def test_at_temperature_0_a_guess_equal_to_the_target_s_text_is_accepted_completely() -> None:
    begun = played("", [], temperature="0")["begun"]
    found = played("", begun, temperature="0")
    (next_id,) = round_of(found).emitted_ids
    kept = round_of(played(found["texts"][next_id], begun, temperature="0"))
    assert [verdict.outcome for verdict in kept.verdicts] == [Outcome.ACCEPTED]
    assert kept.emitted_ids[0] == next_id and len(kept.emitted_ids) == 2


@pytest.mark.parametrize(
    ("typed", "written", "words"),
    [
        (
            " a b c d e f g h i j k l m n",
            [1, 2],
            f"guess must have at most {MAX_TYPED} tokens, got",
        ),
        ("x" * 201, [1, 2], "guess must be text of at most 200 characters, got 201"),
        ("x", [10**7], "'written' must hold token ids from 0 to"),
        ("x", [1] * 401, "the text must have at most 400 tokens, got 401: start a new text"),
        ("x", [1] * 900, "the text must have at most 400 tokens, got 900: start a new text"),
        ("\ud800", [1], "guess must be Unicode text"),
        ("x", "12", "'written' must be a list of token ids"),
    ],
)
def test_a_guess_that_breaks_a_rule_is_refused_in_one_line(
    typed: str, written: Any, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        played(typed, written)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_every_pair_has_a_drafter_that_competes_with_a_person() -> None:
    assert rival_of(pair_named(BUNDLED)) == "draft-model"


def test_a_lesson_s_work_is_queued_and_unknown_work_is_refused() -> None:
    handlers = Handlers()
    course = handlers.course
    question = {"form": FORM, "written": [], "typed": "", "ticket": TICKET}
    assert course.drive({"what": "typed", **question}) == {"error": None}
    assert [each["kind"] for each in heard(handlers, TICKET)] == ["loading", "typed", "end"]
    names = "typed, forwards, sweep, rounding, batch, blocks, copies, forced, stops, head, race"
    assert f"'what' must be one of {names}" in course.drive({"what": "x", **question})["error"]


def test_forwards_are_measured_in_passes_until_they_are_stopped() -> None:
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


def test_a_lesson_sweeps_the_draft_lengths_of_the_bundled_pair() -> None:
    plan = lesson_sweep({"sweep": "lengths"}).plan
    assert [dict(place)["draft-length"] for place in plan.places] == [1, 2, 4, 8]
    assert plan.setting.pair == pair_named(BUNDLED) and plan.setting.config.max_new_tokens == 24


def test_trees_in_a_lesson_have_equally_many_nodes_in_any_shape() -> None:
    for name in ("shapes", "shapes-hard"):
        plan = lesson_sweep({"sweep": name}).plan
        counts = {plan.setting_at(place).config.node_count for place in plan.places}
        assert len(plan.places) > 2 and counts == {6}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_of_a_lesson_has_a_complete_recording(name: str) -> None:
    plan = lesson_sweep({"sweep": name}).plan
    lines = [each["line"] for each in recorded()[name]["messages"] if each["kind"] == "point"]
    settings = [json.loads(line)["setting"] for line in lines]
    assert settings == [dict(place) for place in plan.places]


def messages_of(order: LabOrder) -> list[dict[str, Any]]:
    sent = list(order.messages(threading.Event()))
    json.dumps(sent, allow_nan=False)
    return [each for each in sent if each["kind"] != "progress"]


def usual_in_slow(few: int, usual: int) -> pytest.MarkDecorator:
    """Run a test with `few` tokens, and in `make slow` also with `usual`, the number in lessons."""
    return pytest.mark.parametrize("count", [few, pytest.param(usual, marks=pytest.mark.slow)])


@usual_in_slow(8, batch_orders.TOKENS)
def test_the_rows_of_a_lesson_s_batch_have_their_own_rounds_and_write_all_tokens(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_orders, "TOKENS", count)
    batch, end = messages_of(batch_order({}))
    assert end == {"kind": "end", "reason": "done"} and len(batch["rows"]) == ROWS
    for row in batch["rows"]:
        assert sum(len(each["written"]) for each in row["rounds"]) == count - 1
        assert max(len(each["guesses"]) for each in row["rounds"]) == LENGTH
    assert len(batch["steps"]) == max(len(row["rounds"]) for row in batch["rows"])
    assert len(batch["plain"]) == count - 1
    assert batch["steps"][0]["tokens"] == ROWS * (LENGTH + 1)


def test_impossible_work_for_a_lesson_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="race must be one of pair, hundred, got 'x'"):
        race_order({"race": "x"})
    with pytest.raises(InputError, match="numbers must be one of float32, bfloat16, got 'x'"):
        rounding_order({"form": FORM, "numbers": "x"})
    assert head_order({"form": {"pair": "gpt2"}}).pair.name == BUNDLED, "that one has no head"


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        *((name, 16) for name in RACES),
        *(pytest.param(name, usual, marks=pytest.mark.slow) for name, (_, usual) in RACES.items()),
    ],
)
def test_an_exercise_s_race_sends_the_tokens_and_the_guesses_behind_them(
    name: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RACES, name, (RACES[name][0], tokens))
    race, _ = messages_of(race_order({"race": name}))
    assert race["plain"]["tokens"] == race["drafted"]["tokens"] == tokens
    assert len(race["speedups"]) >= RACE_REPEATS
    accepted = sum(outcome == "accepted" for each in race["rounds"] for outcome in each)
    assert accepted < tokens <= accepted + len(race["rounds"]) + 1


@usual_in_slow(4, PLACES)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_logits_of_the_bundled_pair_are_measured_in_float32_and_bfloat16(
    numbers: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_orders, "PLACES", count)
    found, _ = messages_of(rounding_order({"form": FORM, "numbers": numbers}))
    assert len(found["places"]) == count and found["numbers"] == numbers


@usual_in_slow(8, block_orders.TOKENS)
def test_a_block_gains_on_drawn_drafts_of_several_tokens_and_nothing_on_others(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [replace(each, max_new_tokens=count) for each in block_orders.CONFIGS]
    monkeypatch.setattr(block_orders, "CONFIGS", (configs[0], configs[3], configs[-1]))
    blocks, _ = messages_of(blocks_order({}, 2))
    assert blocks["prompts"] == 2 * len(TASKS) and len(blocks["rows"]) == 3
    one, several, copied = blocks["rows"]
    assert (one["K"], several["K"], copied["is_copied"]) == (1, 5, True)
    assert several["block"] > several["token"] > 0
    for row in (one, copied):
        assert row["block"] == pytest.approx(row["token"], rel=1e-6) and row["drafts"] > 0


def test_a_job_about_blocks_that_is_stopped_sends_only_complete_rows() -> None:
    stop = threading.Event()
    sent = []
    for each in blocks_order({}, 1).messages(stop):
        sent.append(each)
        stop.set()
    assert sent[-1] == {"kind": "end", "reason": "stopped"}
    assert "blocks" not in [each["kind"] for each in sent]


def test_drafters_that_copy_write_the_same_answer_to_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copy_orders, "TOKENS", 16)
    copies, _ = messages_of(CopiesOrder(pair_named(BUNDLED)))
    assert [(each["method"], each["K"]) for each in copies["rows"]] == [
        (method, length) for length in (10, 24) for method in ("prompt-lookup", "suffix")
    ]
    assert len({answer_of(row["rounds"]) for row in copies["rows"]}) == 1
    assert [turn["role"] for turn in copies["turns"]] == ["user", "assistant", "user"]


def test_forced_tokens_as_drafts_save_rounds_and_keep_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forced_orders, "TOKENS", 24)
    forced, _ = messages_of(ForcedOrder(pair_named(BUNDLED)))
    without, with_forced = forced["rows"]
    assert without["is_same"] and with_forced["is_same"]
    assert without["forced"] == 0 < with_forced["forced"]
    assert with_forced["rounds"] < without["rounds"]
    free = [each for each in forced["tokens"] if each["allowed"] == 1]
    assert len(free) >= with_forced["forced"]


def answer_of(rounds: list[dict[str, Any]]) -> str:
    parts = ["".join(each["draft"][: each["kept"]]) + (each["extra"] or "") for each in rounds]
    return "".join(parts)


def test_the_conversation_needs_the_chat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(pair_named(CHAT), is_here=False)
    monkeypatch.setattr(copy_orders, "pair_named", lambda _: gone)
    monkeypatch.setattr(forced_orders, "pair_named", lambda _: gone)
    for order in (copies_order, forced_order):
        with pytest.raises(InputError, match=f"must be on this machine: .* --get {CHAT}"):
            order({})


def test_every_way_to_end_a_draft_writes_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_orders, "TOKENS", 24)
    monkeypatch.setattr(stop_orders, "PASSES", 1)
    stops, _ = messages_of(stop_orders.stops_order({}))
    for task in stop_orders.TASKS:
        rows = [each for each in stops["rows"] if each["task"] == task]
        assert [(each["policy"], each["K"]) for each in rows] == list(stop_orders.RUNS)
        assert len({answer_of(row["rounds"]) for row in rows}) == 1
    (seconds,) = stops["seconds"]
    assert len(seconds) == 9 and min(seconds) > 0


def test_two_words_are_enumerated_for_every_rule() -> None:
    found = Handlers().course.two_words({"p": 1 / 3, "q": 2 / 3, "K": 2})
    json.dumps(found, allow_nan=False)
    accepted = {name: found[name]["accepted"] for name in ("token", "block")}
    assert accepted == pytest.approx({"token": 10 / 9, "block": 11 / 9})
    assert [len(found["block"][name]) for name in ("drafts", "texts")] == [4, 8]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p": 1.5}, "p must be a number from 0 to 1, got 1.5"),
        ({"q": None}, "q must be a number from 0 to 1, got None"),
        ({"K": 4}, "K must be a whole number from 1 to 3, got 4"),
    ],
)
def test_two_words_refuse_invalid_settings(change: dict[str, Any], words: str) -> None:
    question = {"p": 0.5, "q": 0.5, "K": 2} | change
    assert words in Handlers().course.two_words(question)["error"]


def test_a_recorded_lesson_shows_what_its_texts_say() -> None:
    messages = {name: each["messages"][0] for name, each in recorded().items()}
    fine, coarse = (messages[f"rounding-{numbers}"]["places"] for numbers in NUMBERS)
    assert not any(each["margin"] <= each["moved"] for each in fine)
    assert any(each["token"] != each["other"] for each in coarse)
    first, *_, last = messages["head"]["levels"]
    assert first["likeness"] > last["likeness"]
    assert messages["head"]["drafted"] < messages["head"]["vocabulary"]
    paces = [len(row["rounds"]) for row in messages["batch"]["rows"]]
    assert len(set(paces)) > 1, "no row is luckier than another"
    assert all(row["is_same"] for row in messages["forced"]["rows"])
    copies = messages["copies"]["rows"]
    assert len({answer_of(row["rounds"]) for row in copies}) == 1
    (lookup, suffix), (far_lookup, far_suffix) = (
        [len(each["rounds"]) for each in copies[at : at + 2]] for at in (0, 2)
    )
    assert suffix < lookup and far_lookup < far_suffix
    longest = [max(len(each["draft"]) for each in row["rounds"]) for row in copies]
    assert longest == [10, 10, 24, messages["copies"]["depth"] / 2]
    failed = [
        next(each for each in row["rounds"] if each["kept"] < len(each["draft"]))
        for row in copies[:2]
    ]
    in_match = ["web" in each["matched"] for each in failed]
    assert in_match == [False, True], "only the long match contains the name of the host"


def test_an_unknown_sweep_of_a_lesson_is_refused() -> None:
    with pytest.raises(InputError, match="sweep must be one of lengths, shapes, .*, got 'x'"):
        lesson_sweep({"sweep": "x"})


def test_a_recording_names_its_machine_and_ends_with_an_end_message() -> None:
    for name, each in recorded().items():
        assert re.search(r"\(\d threads?\), specviz 0\.1\.0 \([0-9a-f]{8}\)$", each["machine"]), (
            name
        )
        assert name == "typed" or each["messages"][-1] == {"kind": "end", "reason": "done"}
    forwards = recorded()["forwards"]["messages"][0]
    assert forwards["counts"] == list(COUNTS) and forwards["passes"] == REPEATS
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 60_000


def test_a_text_is_recorded_with_a_drafter_s_guess_at_each_position(
    begun: dict[str, Any],
) -> None:
    found = record_typed(pair_named(BUNDLED), "story", 1, 2)
    assert len(found["begun"]) == BEGINNING and len(found["places"]) == 2
    for place in found["places"]:
        assert place["token"] == place["likely"][0][0], "at temperature 0 the likeliest comes"
        assert len(place["rival"]) == GUESSED
    assert Handlers().course.ready({"form": FORM})["is_ready"], "its target is in memory now"


QUESTION = {"a": 0.8, "K": 5, "c": 0.1, "v": 0.0, "measured": [[1, 1.4], [4, 2.0]]}


def test_theory_answers_with_its_numbers_and_a_figure() -> None:
    found = Handlers().course.theory(QUESTION)
    assert round(found["speedup"], 2) == 2.46 and round(found["accepted"], 2) == 2.69
    assert (found["best"], found["naive"]) == (6, 4.0)
    curve, chosen, measured = found["figure"]["data"]
    assert curve["y"][4] == chosen["y"][0] == found["speedup"]
    assert measured["x"] == [1, 4]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": 1.5}, "a must be a number from 0 to 1, got 1.5"),
        ({"c": float("nan")}, "c must be a number from 0 to 1,000,000"),
        ({"K": 0}, "K must be a whole number from 1 to 32, got 0"),
        ({"measured": [[1]]}, "'measured' must be at most 32 pairs of K and speedup"),
        ({"measured": [[10**400, 1]]}, "measured K must be a whole number from 1 to"),
    ],
)
def test_theory_refuses_invalid_settings(change: dict[str, Any], words: str) -> None:
    assert words in Handlers().course.theory(QUESTION | change)["error"]


PLAN = {
    **{"parameters": 8, "draft_parameters": 0.5, "bytes_per_weight": 2, "bandwidth": 3350},
    **{"arithmetic": 989, "a": 0.8, "K": 5, "rows": 1, "prompt": 500, "answer": 300},
    **{"experts": 1, "active": 1, "cache": 0, "draft_cache": 0, "memory": 80},
}


def test_for_a_deployment_theory_gives_speedup_ridge_and_the_gain_of_a_whole_request() -> None:
    found = Handlers().course.deployment(PLAN)
    json.dumps(found, allow_nan=False)
    assert found["cost"] == pytest.approx(0.5 / 8) and found["overhead"] == pytest.approx(1)
    assert found["speedup"] == pytest.approx(theory.speedup(0.8, 5, 0.5 / 8))
    assert found["ridge"] == pytest.approx(989 / 3.35)
    assert 1 < found["request_speedup"] < found["speedup"]
    curve, _, chosen = found["figure"]["data"]
    assert curve["y"][0] == chosen["y"][0] == found["speedup"]


def test_a_large_batch_and_many_experts_remove_the_gain() -> None:
    course = Handlers().course
    assert course.deployment(PLAN | {"rows": 512})["speedup"] < 1
    experts = course.deployment(PLAN | {"experts": 8, "active": 2})
    assert experts["touched"] == pytest.approx(6.58, abs=0.01)
    assert experts["overhead"] == pytest.approx(6.58 / 2, abs=0.01)


def test_long_caches_in_a_batch_make_verification_cheap_again() -> None:
    ask = Handlers().course.deployment
    cache = 2 * MODELS["llama-3-1-8b"].cache_values_per_token / 1000
    found = ask(PLAN | {"rows": 165, "cache": cache})
    assert found["cache_weight"] == pytest.approx(165 * 650 * cache * 1000 / 16e9)
    assert found["cache_weight"] > 0.8, "a mean moment of such texts"
    weights, caches = 16e9 / 3350e9, 165 * 650 * cache * 1000 / 3350e9
    # A forward takes the longer of `weights` (seconds to read the weights) and `compute` (seconds
    # of arithmetic). The seconds to read the KV caches are added, because attention does not
    # overlap with the other arithmetic.
    compute = 165 * 6 * 2 * 8e9 / 989e12
    assert compute > weights
    assert found["token_seconds"] == pytest.approx(weights + caches)
    assert found["overhead"] == pytest.approx((compute + caches) / (weights + caches))
    assert found["ridge"] == pytest.approx(989 / 3.35)
    first, last = found["paying_rows"]
    assert first == 1 and last > ask(PLAN)["paying_rows"][1] > 100
    large = PLAN | {"prompt": 1700, "cache": cache}
    assert ask(large)["fitting_rows"] == int((80e9 - 17e9) / (2000 * cache * 1000)) < 512
    assert ask(large | {"memory": 16})["fitting_rows"] == 0


def test_experts_may_gain_only_from_some_number_of_rows_on_and_a_bad_draft_never() -> None:
    experts = {"experts": 8, "active": 2, "parameters": 47, "draft_parameters": 1}
    plan = PLAN | experts | {"a": 0.7, "K": 5, "cache": 131, "draft_cache": 33}
    first, last = Handlers().course.deployment(plan)["paying_rows"]
    assert 1 < first < 8 and last > 100
    gain = [Handlers().course.deployment(plan | {"rows": n})["speedup"] for n in (first - 1, first)]
    assert gain[0] <= 1 < gain[1]
    assert Handlers().course.deployment(PLAN | {"a": 0.0})["paying_rows"] is None


def test_speculation_loses_where_a_lesson_says_so() -> None:
    ask = Handlers().course.deployment
    usual = PLAN | {"a": 0.75, "K": 4, "cache": 131, "draft_cache": 12.3}
    assert ask(usual)["speedup"] > 2
    for worse in ({"a": 0.1}, {"draft_parameters": 6}, {"rows": 512, "prompt": 20, "answer": 20}):
        assert ask(usual | worse)["speedup"] < 0.995, worse
    assert ask(usual | {"rows": 512})["speedup"] > 1, "long texts leave room for guesses"


def test_the_cache_of_one_short_text_changes_almost_nothing() -> None:
    ask = Handlers().course.deployment
    bare, held = (ask(PLAN | {"cache": each})["speedup"] for each in (0, 131))
    assert held == pytest.approx(bare, rel=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": None}, "a must be a number from 0 to 1, got None"),
        ({"cache": -1}, "cache must be a number from 0 to 100,000, got -1"),
        ({"rows": 2.5}, "rows must be a whole number from 1 to 512, got 2.5"),
        ({"experts": 2, "active": 3}, "active must be at most experts = 2, got 3"),
        ({"bandwidth": float("inf")}, "bandwidth must be a number from 1 to 1,000,000"),
    ],
)
def test_a_deployment_that_breaks_a_rule_is_refused_in_one_line(
    change: dict[str, Any], words: str
) -> None:
    found = Handlers().course.deployment(PLAN | change)
    assert words in found["error"] and "figure" not in found


def test_a_line_is_fitted_to_measured_forwards_and_drawn_with_them() -> None:
    question = {"counts": [1, 2, 4, 8, 16], "seconds": [5e-3, 6e-3, 8e-3, 12e-3, 20e-3]}
    found = Handlers().course.forward_line(question | {"chosen": 8})
    assert found["ridge"] == pytest.approx(4) and found["chosen_seconds"] == pytest.approx(12e-3)
    line, _, dots, chosen = found["figure"]["data"]
    assert dots["x"] == question["counts"] and chosen["x"] == [8]
    assert line["x"][-1] == pytest.approx(16) and found["limit"] == 16
    json.dumps(found, allow_nan=False)
    wrong = Handlers().course.forward_line(question | {"counts": [0] * 5})
    assert "counts must be" in wrong["error"]


def test_the_line_goes_beyond_the_measured_forwards_only_if_reading_takes_longer_there() -> None:
    question = {"counts": [1, 2, 4], "seconds": [21e-3, 22e-3, 24e-3]}
    found = Handlers().course.forward_line(question)
    assert found["ridge"] == pytest.approx(20) and found["limit"] == 16
    _, beyond, _, _ = found["figure"]["data"]
    assert beyond["line"]["dash"] == "dash" and beyond["x"][0] == 4
    flat = Handlers().course.forward_line(question | {"seconds": [4e-3, 3.9e-3, 3.8e-3]})
    assert flat["ridge"] is None and "shapes" not in flat["figure"]["layout"]
    json.dumps(flat, allow_nan=False)
