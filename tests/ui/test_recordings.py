"""A page may open any recording; other files are refused in one sentence and block nothing."""

import base64
import gzip
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.decoding.rules.rule_table import RULES
from specviz.errors import InputError
from specviz.experiments.run.golden_runs import COMMON_ONLY
from specviz.figures.distribution_rows import distribution_rows
from specviz.figures.residual import residual_figure
from specviz.golden import (
    FOLDER,
    OPENING,
    SAMPLED,
    SUFFIX,
    golden_names,
    golden_parts,
    golden_trace,
)
from specviz.models.pair_catalog import CHAT, pair_named
from specviz.models.pair_check import needs_missing
from specviz.prompts import held_out_prompt, tasks
from specviz.records import Outcome
from specviz.trace_file import dumps, encode, measure
from specviz.ui import recordings
from specviz.ui.handlers import Handlers
from specviz.ui.recordings import requested_trace
from specviz.ui.setup import page_setup
from tests.random_traces import random_trace
from tests.ui.heard import heard

TICKET = "a-ticket-of-a-test"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_file_is_sent_back_round_by_round() -> None:
    trace, handlers = random_trace(3, rounds=4), Handlers()
    asked = {"ticket": TICKET, "data": encoded(dumps(trace))}
    assert handlers.open(asked) == {"error": None}
    messages = heard(handlers, TICKET)
    assert [messages[0]["kind"], messages[-1]["kind"]] == ["header", "end"]
    records = [each["record"] for each in messages if each.get("type") == "round"]
    assert records == [encode(each) for each in trace.rounds]


@pytest.mark.parametrize("name", golden_names())
def test_every_bundled_recording_opens(name: str) -> None:
    trace = requested_trace({"golden": name})
    assert trace == golden_trace(name)
    assert trace.config.method == name.partition(".")[0]
    assert trace.rounds and trace.lane("baseline").steps


def test_the_chat_model_s_recordings_share_one_prompt_and_each_method_has_a_suitable_run() -> None:
    """The same prompt makes methods comparable. At temperature 0, both lanes write one text."""
    chat = pair_named(CHAT)
    able = {each.name for each in DRAFTERS.values() if not needs_missing(chat, each.needs)}
    shared = {name for name in golden_names() if golden_parts(name)[1:] == ("chat", CHAT)}
    assert {golden_parts(name)[0] for name in shared} == able
    assert len({golden_trace(name).prompt for name in shared}) == 1
    suited = {name for name in golden_names() if golden_parts(name)[1] not in RULES} - shared
    assert sorted(golden_parts(name)[0] for name in suited) == sorted({*DRAFTERS} - {*COMMON_ONLY})
    for trace in map(golden_trace, suited):
        if trace.config.temperature == 0:
            assert trace.emitted_ids == trace.lane("baseline").emitted_ids


def test_the_recording_of_block_verification_is_named_after_its_rule() -> None:
    (named,) = (each for each in page_setup()["traces"] if each["name"] == "draft-model.block")
    assert named["title"] == "Draft model, chain · block verification"
    assert golden_trace("draft-model.block").config.rule == "block"


def test_the_first_recording_uses_the_chat_model_and_is_clearly_faster_than_the_baseline() -> None:
    first, *others = page_setup()["traces"]
    assert first["name"] == OPENING and "SmolLM2" in first["group"]
    groups = [each["group"] for each in (first, *others)]
    assert len(set(groups)) == 2 and groups == sorted(groups, key=groups.index)
    trace = golden_trace(OPENING)
    baseline, speculative = (
        len(lane.emitted_ids)
        / sum(event.seconds for event in lane.events if hasattr(event, "seconds"))
        for lane in (trace.lane("baseline"), trace.main)
    )
    assert speculative > 1.3 * baseline


def test_the_first_recording_has_the_settings_with_which_the_page_starts() -> None:
    """With other settings, the recording would contradict the form and the introduction."""
    trace, usual = golden_trace(OPENING), defaults_of_the_page()
    assert trace.prompt == held_out_prompt(tasks(is_chat=True)[0], 1, is_chat=True)
    assert trace.main.config.method == pair_named(CHAT).method
    for name in ("draft_length", "temperature", "seed", "max_new_tokens"):
        assert getattr(trace.main.config, name) == float(usual[name])


def defaults_of_the_page() -> dict[str, Any]:
    return {each["name"]: each["default"] for each in page_setup()["settings"]}


def test_the_recording_with_draws_has_the_same_prompt() -> None:
    trace = golden_trace(SAMPLED)
    assert trace.prompt == golden_trace(OPENING).prompt and trace.main.config.temperature > 0


@pytest.mark.parametrize("name", golden_names())
def test_the_bars_show_every_chosen_token_of_a_recording(name: str) -> None:
    """The bars contain every examined token and the token that the target adds.

    A block also examines guesses after rejected ones. The record has no distributions for them.
    """
    trace = golden_trace(name)
    is_raw = trace.main.config.temperature == 0
    for each in trace.rounds:
        stops = [i for i, v in enumerate(each.verdicts) if v.outcome is not Outcome.UNREACHED]
        places = [(i, each.tree.nodes[i].parent, each.tree.nodes[i].token_id) for i in stops]
        if each.extra:
            places.append((None, each.extra.parent, each.extra.token_id))
        for child, parent, token in places:
            position = next((p for p in each.positions if p.parent == parent), None)
            if position is None:
                assert each.rule == "block" and parent not in each.accepted
                continue
            rows = distribution_rows(position, each, child, is_raw)
            assert token in [row.token_id for row in rows]
            if child is None and position.residual_probs:
                after = residual_figure(position, {}, token)["layout"]["meta"]["drawn"]
                assert all(token in bars["customdata"] for bars in after["bars"])


def test_the_recordings_are_small_enough_to_ship_with_the_app() -> None:
    assert sum(file.stat().st_size for file in FOLDER.glob(f"*{SUFFIX}")) < 900_000


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"golden": "../../etc/passwd"}, "trace must be the name of a recording, such as"),
        ({"golden": ["x"]}, "trace must be the name of a recording, such as"),
        ({}, "trace must be a file in base64, got none"),
        ({"data": "%%%"}, "trace must be a file in base64, got other text"),
        (
            {"data": encoded(b"hello")},
            "trace must be the file of a run, as Save in Step through",
        ),
        ({"data": encoded(b"\x1f\x8bhello")}, "trace must be a whole gzip file"),
        ({"data": encoded(b"[]")}, "trace must be the file of a run"),
        ({"data": encoded(b"[" * 200_000)}, "trace must be JSON text"),
        ({"data": encoded(b'{"format": NaN}')}, "trace must hold finite numbers only, got NaN"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_in_one_sentence(
    question: dict[str, Any], sentence: str
) -> None:
    reply = Handlers().open(question | {"ticket": TICKET})
    assert reply["error"].startswith(sentence) and "\n" not in reply["error"]


def test_a_file_above_the_size_limit_is_refused_without_reading_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recordings, "MAX_UPLOAD_BYTES", 1_000_000)
    with pytest.raises(InputError, match="at most 1 MB, got 3 MB"):
        requested_trace({"data": "A" * 4_000_000})


def test_simultaneous_files_are_limited_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = dumps(golden_trace(golden_names()[0]))
    question = {"data": encoded(gzip.compress(data))}
    monkeypatch.setattr(recordings, "MAX_READING_BYTES", measure(data).memory + 1)
    monkeypatch.setattr(recordings, "READING_SECONDS", 0.01)
    with recordings._readings.room(2, "another"):
        with pytest.raises(InputError, match="other files are being read: try again"):
            requested_trace(question)
    for _ in range(2):
        requested_trace(question)
    monkeypatch.setattr(recordings, "READING_SECONDS", 60)
    monkeypatch.setattr(recordings, "MAX_WAITING", 0)
    with recordings._readings.room(2, "another"):
        with pytest.raises(InputError, match="other files are being read: try again"):
            requested_trace(question)


def test_large_files_of_one_address_do_not_exclude_files_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recordings, "READING_SECONDS", 0.01)
    large, readings = recordings.READING_OF_ADDRESS, recordings.Readings()
    with readings.room(large + 1, "one"):
        with pytest.raises(InputError, match="other files are being read"), readings.room(1, "one"):
            pass
        with readings.room(large, "another"), readings.room(1, "a third"):
            pass
    with readings.room(large - 1, "one"), readings.room(1, "one"):
        pass


HEAD = b'{"format": "specviz-trace", "version": 1, "x": '
EXPANDING = {
    "nested objects": HEAD + b"[" + (b'{"":' * 300 + b"0" + b"}" * 300 + b",") * 200 + b"0]}",
    "objects": HEAD + b"[" + b'{"a":0},' * 50_000 + b"0]}",
    "nested arrays": HEAD + b"[" + (b"[" * 300 + b"]" * 300 + b",") * 200 + b"0]}",
    "arrays": HEAD + b"[" + b"[]," * 100_000 + b"0]}",
    "numbers": HEAD + b"[" + b"1.5," * 200_000 + b"0]}",
    "one wide character": HEAD + b'"' + b"a" * 2_000_000 + "\U0001f600".encode() + b'"}',
    "one, written as an escape": HEAD + b'"' + b"a" * 2_000_000 + b'\\ud83d\\ude00"}',
    "spaces": HEAD + b" " * 2_000_000 + b"0}",
}


@pytest.mark.parametrize("text", EXPANDING.values(), ids=EXPANDING)
def test_reading_simultaneous_files_stays_within_the_memory_limit(
    monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    """A kilobyte of gzip may unpack to megabytes of text.

    Parsing a megabyte of text takes forty megabytes of memory.
    """
    data = encoded(gzip.compress(text))
    most = 20_000_000
    monkeypatch.setattr(recordings, "MAX_READING_BYTES", most)
    reached, told = threading.Barrier(6), []

    def read(number: int) -> None:
        reached.wait(10)
        try:
            requested_trace({"data": data}, f"address {number}")
        except InputError as error:
            told.append(str(error))

    tracemalloc.start()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(read, range(6)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(told) == {"trace.device is missing"} and len(told) == 6
    # Each file is searched piece by piece, so at most one piece per file is in memory.
    assert peak < most + 6 * 2_000_000


def test_a_file_that_unpacks_to_more_than_it_claims_is_refused() -> None:
    packed = gzip.compress(b" " * 1000) + gzip.compress(b" " * 100)
    with pytest.raises(InputError, match="got more than the 100 bytes that it announces"):
        requested_trace({"data": encoded(packed)})


def test_a_refused_recording_releases_its_share_of_the_limit() -> None:
    handlers = Handlers()
    for _ in range(4):
        assert handlers.open({"ticket": TICKET, "data": "%"})["error"]
    for number in range(4):
        ticket = f"{TICKET}-{number}"
        data = encoded(dumps(random_trace(number, rounds=1)))
        assert handlers.open({"ticket": ticket, "data": data}) == {"error": None}
        heard(handlers, ticket)


def test_a_class_that_opens_a_recording_at_once_gets_it_one_by_one() -> None:
    handlers = Handlers()
    data = encoded(dumps(random_trace(5, rounds=2)))
    tickets = [f"{TICKET}-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(tickets)) as pool:
        asked = [{"ticket": ticket, "data": data} for ticket in tickets]
        assert list(pool.map(handlers.open, asked)) == [{"error": None}] * len(tickets)
    for ticket in tickets:
        assert heard(handlers, ticket)[-1]["kind"] == "end"


def test_two_runs_are_compared_in_one_sentence() -> None:
    same = {"a": {"golden": "draft-model.code"}, "b": {"golden": "draft-model.code"}}
    assert Handlers().diff(same) == {
        "error": None,
        "sentence": "Both texts are the same.",
        "index": None,
    }
    other = Handlers().diff({"a": same["a"], "b": {"golden": "draft-tree.story"}})
    assert other["index"] == 0 and "prompt" in other["sentence"]


@pytest.mark.parametrize("b", [None, [], {"data": "%"}])
def test_a_file_that_is_no_run_cannot_be_compared(b: object) -> None:
    reply = Handlers().diff({"a": {"golden": "draft-model.code"}, "b": b})
    assert "must" in reply["error"] and "\n" not in reply["error"]
