"""The server answers the lab's cards about costs, claims, peers and advice, and can be stopped."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from specviz.claims.all_claims import CLAIMS
from specviz.claims.claim import Distributions
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError
from specviz.experiments.benchmark.benchmark import Benchmark
from specviz.serving_cost import Load, Machine, daily_cost
from specviz.slices import Tell, progress_lines
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_advice import advice_order
from specviz.ui.lab.lab_claims import LabClaims
from specviz.ui.lab.lab_costs import daily_costs
from specviz.ui.lab.lab_peers import PeersOrder, peers_order

LOAD = {"tokens_per_day": "30,000,000", "peak_factor": "2", "price_per_hour": "3"}
FORM = {"pair": "bundled", "task": "code", "temperature": "0", "max_new_tokens": "16"}
DISTRIBUTIONS = next(
    n for n, claim in CLAIMS.items() if claim.settings and type(claim.settings[0]) is Distributions
)


def test_costs_equal_those_of_the_library_function() -> None:
    reply = daily_costs(LOAD | {"baseline_rate": "50", "speculative_rate": "100"})
    expected = daily_cost(Load(30e6, 2), Machine(50, 3))
    assert reply["costs"]["baseline"]["machines"] == expected.machines == 14
    assert reply["costs"]["baseline"]["money"] == expected.money
    assert reply["sentence"] == "Speculation saves 7 of 14 machines, which is 504.00 a day."


@pytest.mark.parametrize(
    ("rate", "sentence"),
    [
        ("50", "Both need 14 machines: the gain, or the load, is too small to save a whole one."),
        ("25", "Speculation needs 14 more machines, which is 1,008.00 more a day."),
        ("", ""),
    ],
)
def test_the_sentence_says_what_speculation_changes(rate: str, sentence: str) -> None:
    reply = daily_costs(LOAD | {"baseline_rate": "50", "speculative_rate": rate})
    assert reply["sentence"] == sentence


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokens_per_day", "0"),
        ("tokens_per_day", "many"),
        ("peak_factor", "0.5"),
        ("price_per_hour", "-1"),
        ("price_per_hour", "nan"),
        ("price_per_hour", "2,5,0"),
        ("tokens_per_day", "1,00,000"),
        ("baseline_rate", "0"),
        ("speculative_rate", "1e99"),
        ("tokens_per_day", "1e14"),
        ("peak_factor", "101"),
        ("price_per_hour", "2e6"),
    ],
)
def test_an_impossible_number_is_named_in_the_error(name: str, text: str) -> None:
    form = LOAD | {"baseline_rate": "50", "speculative_rate": "60"} | {name: text}
    assert Handlers().lab.costs(form)["error"].startswith(f"{name} must be")


@pytest.mark.parametrize(("text", "plain"), [("1,000,000", "1e6"), ("1,000.5", "1000.5")])
def test_commas_separate_thousands(text: str, plain: str) -> None:
    form = LOAD | {"baseline_rate": "50", "speculative_rate": "60"}
    one, other = (Handlers().lab.costs(form | {"tokens_per_day": t}) for t in (text, plain))
    assert one == other and one["error"] is None


def test_progress_lines_are_yielded_and_the_result_is_returned() -> None:
    def work(tell: Tell) -> int:
        for line in "ab":
            tell(line)
        return 3

    lines, end = [], progress_lines(work, threading.Event())
    while True:
        try:
            lines.append(next(end))
        except StopIteration as stopped:
            assert stopped.value == 3
            break
    assert [line for line in lines if line] == ["a", "b"]


def test_stopped_work_ends_at_its_next_progress_line_and_closing_waits_for_it() -> None:
    done = []
    ended = threading.Event()

    def work(tell: Tell) -> None:
        try:
            for number in range(1000):
                done.append(number)
                tell(str(number))
                time.sleep(0.02)
        finally:
            ended.set()

    lines = progress_lines(work, threading.Event())
    next(lines)
    lines.close()
    assert ended.is_set() and len(done) < 1000


def test_an_error_of_the_work_is_raised_to_the_reader_of_its_progress() -> None:
    def work(tell: Tell) -> None:
        raise InputError("prompt must fit")

    with pytest.raises(InputError, match="prompt must fit"):
        list(progress_lines(work, threading.Event()))


def test_all_claims_are_listed_with_theory_before_any_measurement() -> None:
    reply = Handlers().lab.claims({})
    assert [claim["number"] for claim in reply["claims"]] == list(range(1, 33))
    assert all(claim["theory"]["sentence"] for claim in reply["claims"])
    assert not any(claim["measured"] for claim in reply["claims"])


def test_a_measured_claim_shows_its_measurement_to_everybody() -> None:
    claims = LabClaims()
    messages = list(claims.order(DISTRIBUTIONS).messages(threading.Event()))
    assert messages[-1] == {"kind": "end", "reason": "done"}
    (found,) = (each for each in messages if each["kind"] == "claim")
    assert found["claim"]["measured"]["figures"] and found["place"]["dtype"] == "float32"
    listed = {claim["number"]: claim for claim in claims.reports()["claims"]}
    assert listed[DISTRIBUTIONS] == found["claim"]


@pytest.mark.parametrize("number", [0, 33, "many", None, 32, "9" * 5000])
def test_an_unknown_claim_and_one_without_a_measurement_are_refused(number: object) -> None:
    with pytest.raises(InputError):
        LabClaims().order(number)


def test_a_claim_can_be_tried_with_a_user_s_own_numbers() -> None:
    ask = Handlers().lab.try_claim
    typed = {"a": "0.5", "K": "3", "c": "0"}
    theory = ask({"number": 1, "numbers": typed})["theory"]
    assert "0.88 of 3 are accepted" in theory["sentence"] and theory["verdict"] == "wrong"
    reply = ask({"number": 1, "numbers": typed | {"a": "1.5"}})
    assert reply["error"] == "Acceptance rate must be a number from 0 to 1, got '1.5'"
    for question in ({"number": 99, "numbers": {}}, {"number": 1, "numbers": 3}, {"number": 1}):
        assert ask(question)["error"]


SIDES = ("ours", "theirs")


def peers(**question: Any) -> PeersOrder:
    form = FORM | {"max_new_tokens": "8"}
    usual = {"form": form, "prompts": {"count": "1"}, "draft_length": "3"}
    return replace(peers_order(usual | question), repeats=1)


def peers_of(order: PeersOrder) -> list[dict[str, Any]]:
    return [each for each in order.messages(threading.Event()) if each["kind"] == "peers"]


def test_peers_use_the_same_weights_and_their_results_come_in_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A pass that other work disturbs would be measured again, which would change the counts.
    monkeypatch.setattr(Benchmark, "_is_disturbed", lambda self, task: False)
    messages = list(peers().messages(threading.Event()))
    shown = [each["pairs"] for each in messages if each["kind"] == "peers"]
    measured = [sum(bool(p["ours"]) + bool(p["theirs"]) for p in pairs) for pairs in shown]
    assert [each for each in measured if each] == list(range(1, 9))
    for pair in shown[-1]:
        ours, theirs = pair["ours"], pair["theirs"]
        assert pair["ratio"] == ours["tokens_per_second"] / theirs["tokens_per_second"]
        assert ours["draft_length"] == theirs["draft_length"]
    assert [(pair["title"], pair["call"]) for pair in shown[-1]] == [
        ("Plain decoding", "generate()"),
        ("A draft model", "generate(assistant_model)"),
        ("Prompt lookup", "generate(prompt_lookup_num_tokens)"),
        ("Early exit", "generate(assistant_early_exit)"),
    ]
    doing = [each["doing"] for each in messages if each["kind"] == "progress"]
    assert doing[:4] == [f"{pair['title']}, this app" for pair in shown[-1]]
    assert doing[4:8] == [pair["call"] for pair in shown[-1]]
    lefts = [each["seconds_left"] for each in messages if each["kind"] == "progress"]
    assert lefts[0] is None and lefts[-1] == 0
    assert messages[-1] == {"kind": "end", "reason": "done"}


def test_stopped_peers_keep_their_measurements() -> None:
    stop = threading.Event()
    shown: list[dict[str, Any]] = []
    for message in replace(peers(), repeats=9).messages(stop):
        shown.append(message)
        if message["kind"] == "peers" and len(message["pairs"]) == 2:
            stop.set()
    assert shown[-1] == {"kind": "end", "reason": "stopped"}
    assert [pair["theirs"] for pair in shown[-2]["pairs"]] == [None, None]
    assert all(pair["ours"] and pair["ratio"] is None for pair in shown[-2]["pairs"])


@pytest.mark.slow
def test_stopped_peers_are_compared_over_the_passes_that_both_have() -> None:
    stop = threading.Event()
    shown: list[dict[str, Any]] = []
    for message in replace(peers(), repeats=9).messages(stop):
        if message["kind"] == "peers":
            shown = message["pairs"]
            counts = [[len(pair[side]["rates"]) for side in SIDES if pair[side]] for pair in shown]
            # The second pass runs in reverse order, so it begins with Transformers. After its first
            # run, Transformers has been measured twice and this app once.
            if [1, 2] in counts:
                stop.set()
    pair = shown[counts.index([1, 2])]
    ours, theirs = (pair[side]["rates"] for side in SIDES)
    assert pair["ratio"] == ours[0] / theirs[0] != ours[0] / median(theirs)


def test_peers_that_are_stopped_while_they_wait_measure_nothing() -> None:
    stop = threading.Event()
    stop.set()
    assert [each["kind"] for each in peers().messages(stop)] == ["end"]


@pytest.mark.slow
def test_peers_can_decode_custom_prompts() -> None:
    own = peers_of(peers(prompts={"text": "Once upon a time"}))[-1]
    said = own["setting"].split(" · ")
    assert said[:3] == ["Bundled pair", "1 prompt of your own", "K 3"] and len(own["pairs"]) == 4
    assert said[3].startswith("temperature 0") and said[4:] == ["8 new tokens", "1 pass"]


@pytest.mark.parametrize("length", ["0", "33", "five", "", "5.5"])
def test_peers_refuse_an_impossible_draft_length(length: str) -> None:
    with pytest.raises(InputError, match="draft_length must be a whole number from 1 to 32"):
        peers(draft_length=length)


def asked(**question: Any) -> dict[str, Any]:
    usual = {"form": FORM, "prompts": {"count": "4"}, "batch_size": "1", "seconds": "10"}
    return usual | question


def test_advice_ends_with_a_verdict_its_reasons_and_a_ranking() -> None:
    usual = advice_order(asked())
    messages = list(replace(usual, seconds=1).messages(threading.Event()))
    (advice,) = (each for each in messages if each["kind"] == "advice")
    assert advice["setting"].startswith("Bundled pair · code: prompts 1 to 4 · temperature 0 · 16")
    said = " ".join([advice["verdict"], *(each["sentence"] for each in advice["reasons"])])
    assert "×" in said and not re.search(r"\d x|\dx", said)
    assert not any(re.search(rf"\b{name}\b", said) for name in DRAFTERS if "-" in name)
    assert advice["verdict"] and advice["reasons"] and advice["ranking"][0]["title"]
    refused = {each["method"]: each for each in advice["refusals"]}
    assert {each["candidate"]["method"] for each in advice["ranking"]} | set(refused) == set(
        DRAFTERS
    )
    assert all(each["title"] and each["why"] for each in refused.values())
    assert {each["stage"] for each in messages if each["kind"] == "progress"} >= {"probe"}
    assert messages[-1] == {"kind": "end", "reason": "done"}


def test_advice_can_be_requested_for_some_methods_only() -> None:
    assert advice_order(asked()).request.methods == tuple(DRAFTERS)
    some = advice_order(asked(methods=" eagle, prompt-lookup,eagle"))
    assert some.request.methods == ("eagle", "prompt-lookup")


def test_stopped_advice_uses_the_measurements_so_far() -> None:
    stop = threading.Event()
    kinds = []
    for message in advice_order(asked()).messages(stop):
        kinds.append(message["kind"])
        if kinds.count("progress") == 3:
            stop.set()
    assert kinds[-2:] == ["advice", "end"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (asked(batch_size="0"), "batch_size must be"),
        (asked(batch_size="two"), "batch_size must be a whole number"),
        (asked(methods="magic"), "methods must be among"),
        (asked(methods=","), "methods must name at least one"),
        (asked(methods=["eagle"]), "methods must be names separated by commas"),
        (asked(seconds="1"), "seconds must be from 10 to 600"),
        (asked(seconds="long"), "seconds must be a number"),
        (asked(form=FORM | {"pair": "custom"}), "target must be a model folder"),
        (asked(form=FORM | {"task": ""}), "task must be one of"),
        (asked(form=FORM | {"temperature": "-1"}), "temperature must be"),
    ],
)
def test_advice_refuses_invalid_requests_before_the_queue(
    question: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        advice_order(question)
    assert str(error.value).startswith(sentence)
