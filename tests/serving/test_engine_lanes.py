"""A serving engine races as a lane: a real llama.cpp, and servers that fail in every way."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from specviz import trace_file
from specviz.cli import main
from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod
from specviz.engines.server_api import whole_number
from specviz.errors import InputError
from specviz.experiments.run import engine_lane as engine_lane_module
from specviz.experiments.run.engine_lane import (
    WARM_UP_TOKENS,
    RacedServer,
    _is_path,
    _public,
    engine_lane,
    token_origins,
)
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.golden import golden_trace
from specviz.metrics import RunMeter
from specviz.models.pair_catalog import Pair, pair_named
from specviz.prompts import held_out_prompt
from specviz.records import (
    PLAIN_SERVER,
    SERVER,
    DecodingConfig,
    Drawing,
    EngineToken,
    FinishReason,
    LaneKind,
    ToldOrigins,
    Trace,
)
from specviz.serving import engine_address
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_stream import stream_tokens
from specviz.ui.handlers import Handlers
from specviz.ui.race_messages import RaceMessages
from specviz.ui.settings_form import raced_servers
from specviz.ui.setup import page_setup
from tests.serving.odd_server import END, Odd, like_vllm, says, server, tokens
from tests.ui.heard import heard

PAIR = pair_named("bundled")
KEY = "open-sesame"
SHORT = DecodingConfig(method="draft-model", draft_length=3, max_new_tokens=24, temperature=0.0)


@pytest.fixture(scope="module")
def engine():
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3) as running:
        yield running


def raced(
    url: str, config: DecodingConfig = SHORT, task: str = "code", pair: Pair = PAIR
) -> tuple[Trace, list]:
    """Run a whole race with that server; return its trace and the messages for the page."""
    servers = (RacedServer(SERVER, EngineAddress.of(url, KEY)),)
    request = RaceRequest(pair, held_out_prompt(task, 1), config, task, servers=servers)
    with closing(start_race(request)) as race:
        messages = list(RaceMessages(race).messages(threading.Event()))
        return race.trace(), messages


# The text of `maths` ends with an end token, the text of `code` with the limit of new tokens.
@pytest.mark.parametrize("task, tokens", [("code", 48), ("maths", 120)])
def test_the_engine_s_lane_has_our_text_token_by_token_and_is_saved(engine, task, tokens) -> None:
    config = DecodingConfig(method="draft-model", max_new_tokens=tokens, temperature=0.0)
    trace, messages = raced(engine.url, config, task)
    lane, plain = trace.lane(SERVER), trace.baseline
    assert lane.kind is LaneKind.ENGINE and trace.main.kind is LaneKind.SPECULATIVE
    assert lane.emitted_ids == plain.emitted_ids == trace.emitted_ids
    assert lane.finish is plain.finish and messages[-1]["reason"] == plain.finish.value
    assert lane.engine.engine == "llama.cpp" and lane.engine.remark == ""
    assert 0 < lane.engine.accepted <= lane.engine.drafted
    assert {each.origin for each in lane.arrivals} == {None}, "it tells totals alone"
    assert lane.arrivals[0].seconds > 0 and lane.seconds > lane.arrivals[0].seconds
    kept = trace_file.loads(trace_file.dumps(trace)).lane(SERVER)
    assert kept.emitted_ids == lane.emitted_ids and kept.engine == lane.engine
    assert kept.seconds == pytest.approx(lane.seconds)
    assert KEY not in json.dumps([trace_file.encode_trace(trace), messages])


def test_the_engine_is_asked_only_after_our_own_lanes_have_ended(engine) -> None:
    _, messages = raced(engine.url)
    lanes = [each.get("lane") for each in messages if each["kind"] == "event"]
    asked = [each["kind"] for each in messages].index("asking")
    own = messages[:asked]
    assert SERVER not in [each.get("lane") for each in own]
    assert [each["type"] for each in own if each["kind"] == "event"].count("finish") == 2
    assert lanes[-1] == SERVER and messages[-1]["engines"][SERVER]["engine"] == "llama.cpp"


def test_settings_that_the_engine_does_not_support_are_named(engine) -> None:
    drawn = DecodingConfig(method="draft-model", max_new_tokens=8, temperature=0.8, top_k=40)
    lane = raced(engine.url, drawn)[0].lane(SERVER)
    assert len(lane.emitted_ids) == 8
    assert lane.engine.remark == "it draws random numbers of its own, so its text differs"


def test_a_server_with_another_tokenizer_is_reported_and_not_raced(engine) -> None:
    pair = Pair("own", "of its own", PAIR.foreign_draft, draft="")
    trace, _ = raced(
        engine.url,
        replace(SHORT, method="prompt-lookup", drawing=Drawing.CHOSEN),
        pair=pair,
    )
    assert "its model has another tokenizer" in trace.lane(SERVER).engine.remark
    assert trace.lane(SERVER).emitted_ids == () and len(trace.emitted_ids) == 24


COUNTS = {"num_draft_tokens": 6, "num_accepted_draft_tokens": 4}
STEPS = {"per_step_drafted": [3, 3], "per_step_accepted": [1, 3]}


def metrics(**counts: object) -> dict:
    return {"choices": [], "metrics": {"speculative_decoding": counts}}


@pytest.fixture(scope="module")
def sample():
    with closing(start_race(RaceRequest(PAIR, "x", SHORT))) as race:
        return list(race._question.sample_ids)


def test_the_origin_of_each_token_is_shown_if_the_engine_reports_it(sample) -> None:
    stream = [tokens(5), tokens(6, 7), tokens(8, 9, 10, 11), END]
    with server(like_vllm(sample, *stream, metrics(**COUNTS, **STEPS))) as (_, url):
        trace, _ = raced(url)
    lane = trace_file.loads(trace_file.dumps(trace)).lane(SERVER)
    assert lane.emitted_ids == (5, 6, 7, 8, 9, 10, 11) and lane.engine.version == "0.32.0"
    words = "first accepted recovered accepted accepted accepted bonus".split()
    assert [each.origin.value for each in lane.arrivals] == words
    with server(like_vllm(sample, *stream, metrics(**COUNTS))) as (_, url):
        lane = raced(url)[0].lane(SERVER)
    assert {each.origin for each in lane.arrivals} == {None} and lane.engine.accepted == 4


@pytest.mark.parametrize(
    "count, steps, told",
    [
        # The step accepted 3 tokens, but the text has space for only 2 of them after the first
        # token.
        (3, [(3, 3)], "first accepted accepted"),
        (3, [(0, 0), (2, 0)], "first plain recovered"),
        (1, [], "first"),
        # A step that accepts 0 tokens writes 1, and the first token belongs to no step. So 2 of the
        # 4 tokens have no origin.
        (4, [(3, 0)], None),
        # Each step writes a token, and the first token belongs to no step. So the text must have
        # at least three tokens, but it has two.
        (2, [(3, 0), (3, 0)], None),
        (2, None, None),
    ],
)
def test_either_every_token_has_an_origin_or_none(count, steps, told) -> None:
    found = token_origins(count, steps)
    assert (found and " ".join(each.value for each in found)) == told


def drips(request: Odd) -> None:
    request.send_response(200)
    request.end_headers()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        request.wfile.write(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize(
    "way, said",
    [
        (says(200, "text/html", b"<!doctype html><p>hello"), "but sends a web page"),
        (says(401, "text/plain", KEY.encode()), "needs another key"),
        (
            says(500, "text/plain", b"oh"),
            "must answer /metrics with status 200, but answered with status 500",
        ),
        ("breaks off", "must answer /v1/completions, but its answer stops in the middle"),
        ("no ids", "must answer with token ids, but does not"),
        ("large ids", "must answer with tokens of the target's vocabulary of 4096, got 999999"),
    ],
)
def test_a_server_that_fails_is_one_sentence_and_our_lanes_stay_complete(way, said, sample) -> None:
    streams = {
        "breaks off": (tokens(5), tokens(6)),
        "no ids": (tokens(5), {"choices": [{"token_ids": ["a"]}]}),
        "large ids": (tokens(5), tokens(999_999)),
    }
    odd = like_vllm(sample, *streams[way]) if isinstance(way, str) else way
    with server(odd) as (_, url):
        trace, messages = raced(url)
    remark = trace.lane(SERVER).engine.remark
    assert said in remark and "\n" not in remark and KEY not in remark and url not in remark
    assert trace.main.finish is trace.baseline.finish and len(trace.emitted_ids) == 24
    assert messages[-1]["reason"] == "length" and trace.lane(SERVER).finish.value == "stopped"
    assert trace.lane(SERVER).emitted_ids[:1] == ((5,) if isinstance(way, str) else ())
    assert trace_file.loads(trace_file.dumps(trace)).lane(SERVER).engine.remark == remark


def test_an_engine_that_is_killed_during_its_answer_keeps_the_written_tokens() -> None:
    long, written = replace(SHORT, max_new_tokens=900), 900
    # Repeat the race if the server had finished its answer before it was killed.
    while written == 900:
        with engine_with(PAIR, EngineMethod.NONE, 0) as mortal:
            servers = (RacedServer(SERVER, EngineAddress.of(mortal.url)),)
            request = RaceRequest(PAIR, "def add(a, b):", long, servers=servers)
            with closing(start_race(request)) as race:
                for event in race.ask(servers[0]):
                    race.take(SERVER, event)
                    if isinstance(event, EngineToken):
                        mortal.process.kill()
                lane = race.trace().lane(SERVER)
        written = len(lane.emitted_ids)
    assert written > 0 and lane.finish is FinishReason.STOPPED
    assert lane.engine.remark.startswith("server must answer /completion, but")
    assert lane.engine.engine == "llama.cpp" and "\n" not in lane.engine.remark


def refuses_this_prompt(request: Odd, sample: list[int]) -> None:
    """Answer the warm-up, but refuse the prompt with an error message that the server chose."""
    size = int(request.headers.get("Content-Length") or 0)
    body = request.rfile.read(size)
    request.rfile = io.BytesIO(body)
    if request.path == "/v1/completions" and json.loads(body)["max_tokens"] != WARM_UP_TOKENS:
        says(400, "application/json", b'{"error": {"message": "too long for /srv/m"}}')(request)
    else:
        like_vllm(sample)(request)


def test_an_error_for_one_prompt_is_reported_without_the_server_s_words(sample) -> None:
    with server(partial(refuses_this_prompt, sample=sample)) as (_, url):
        lane = raced(url)[0].lane(SERVER)
    told = "server must answer /v1/completions with status 200, but answered with status 400"
    assert (lane.engine.engine, lane.engine.remark, lane.emitted_ids) == ("vLLM", told, ())


def test_a_slow_answer_is_cut_and_keeps_the_tokens_so_far(sample, monkeypatch) -> None:
    soon = partial(engine_lane_module.stream_tokens, seconds=0.5)
    monkeypatch.setattr(engine_lane_module, "stream_tokens", soon)
    ends = []

    class ByHand(threading.Timer):
        def start(self) -> None:
            ends.append(self.function)

    patched = SimpleNamespace(Timer=ByHand, Event=threading.Event)
    monkeypatch.setattr(engine_address, "threading", patched)
    with server(like_vllm(sample, tokens(5), tokens(6), lambda: ends[-1]())) as (_, url):
        trace, messages = raced(url)
    lane = trace.lane(SERVER)
    assert lane.emitted_ids == (5, 6)
    told = "server must answer /v1/completions within 0.5 s, but does not"
    assert lane.engine.remark == told and messages[-1]["reason"] == "length"


FORM = {
    "pair": "bundled",
    "prompt": "def add(a, b):\n",
    "method": "draft-model",
    "max_new_tokens": "8",
}


def asked(url: str) -> dict[str, str]:
    return {"server": url, "plain_server": "", "key": ""}


@pytest.mark.parametrize(("plain", "drafting", "tokens_of_both"), [(3, 3, 3), (3, 2, 2), (0, 3, 0)])
def test_the_server_s_speedup_compares_times_for_the_same_number_of_tokens(
    plain, drafting, tokens_of_both
) -> None:
    lanes = [replace(engine_lane(RacedServer(x, None), SHORT)) for x in (SERVER, PLAIN_SERVER)]
    meter = RunMeter(replace(golden_trace("draft-tree.story").unstarted, lanes=tuple(lanes)))
    for lane, count, seconds in ((SERVER, drafting, 0.5), (PLAIN_SERVER, plain, 1.0)):
        for token_id in range(count):
            meter.add(lane, EngineToken(token_id, seconds, None))
        meter.add(lane, ToldOrigins(()))
    found = meter.summary()
    assert found.server_speedup_tokens == tokens_of_both
    assert found.server_speedup == (2.0 if tokens_of_both else None)


def until_seen(handlers: Handlers, ticket: str, arrivals: int) -> list[dict]:
    """Return the messages of a race as soon as a server has sent `arrivals` tokens."""
    found: list[dict] = []
    for _ in range(2000):
        found += map(json.loads, handlers.look({"ticket": ticket, "after": len(found)})["messages"])
        if sum(each.get("type") == "arrival" for each in found) == arrivals:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{arrivals} tokens have not come")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_tokens_arrive_while_a_server_writes_and_a_stop_keeps_them(is_stopped, sample) -> None:
    handlers, goes_on = Handlers(), threading.Event()
    own = {"ticket": f"a-race-of-a-slow-server-{is_stopped}"}
    stream = [tokens(5), tokens(6), lambda: goes_on.wait(30), tokens(7), END]
    with server(like_vllm(sample, *stream, metrics(**COUNTS))) as (_, url):
        handlers.join(own | {"form": FORM, "servers": asked(url)})
        seen = until_seen(handlers, own["ticket"], 2)
        assert seen[-1]["lane"] == SERVER and not goes_on.is_set()
        last = next(each for each in reversed(seen) if each["kind"] == "summary")
        assert last["engines"][SERVER]["engine"] == "vLLM", "who writes is known meanwhile"
        if is_stopped:
            handlers.stop(own)
        else:
            goes_on.set()
        messages = heard(handlers, own["ticket"])
        goes_on.set()
    events = [each["record"] for each in messages if each.get("lane") == SERVER and "type" in each]
    told = [each["id"] for each in events[:-1]]
    assert (told, events[-1]) == (([5, 6], "stopped") if is_stopped else ([5, 6, 7], "length"))
    assert messages[-1]["engines"][SERVER]["accepted"] == (None if is_stopped else 4)


def test_a_server_that_delays_one_race_blocks_no_other_race_and_no_stop(
    monkeypatch,
) -> None:
    monkeypatch.setattr(engine_address, "ANSWER_SECONDS", 60)
    handlers, waits = Handlers(), {"ticket": "a-race-that-waits-for-a-server"}
    with server(drips) as (served, url):
        assert handlers.join(waits | {"form": FORM, "servers": asked(url)})["error"] is None
        while not served.keys:
            handlers.look(waits | {"after": 0})
            time.sleep(0.02)
        handlers.join({"ticket": "a-race-of-somebody-else", "form": FORM | {"seed": "1"}})
        assert heard(handlers, "a-race-of-somebody-else")[-1]["reason"] == "length"
        handlers.stop(waits)
        last = heard(handlers, waits["ticket"])[-1]
    assert (last["kind"], last["reason"], last["engines"]) == ("end", "length", {})


def test_on_a_public_server_only_the_owner_s_engines_are_raced(monkeypatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    assert page_setup()["servers"] is None
    with pytest.raises(InputError, match="^server on this public page must be empty"):
        raced_servers(asked("http://127.0.0.1:9"))
    monkeypatch.setenv("SPECVIZ_ENGINES_ALLOWED", "http://owned:8000/v1")
    monkeypatch.setenv("SPECVIZ_ENGINE_KEY", KEY)
    assert page_setup()["servers"] == ["http://owned:8000"]
    both = {"server": "http://owned:8000", "plain_server": "http://other", "key": ""}
    with pytest.raises(InputError, match="^plain_server on this public page must be one of "):
        raced_servers(both)
    (found,) = raced_servers(asked("http://owned:8000"))
    assert found.address.key == KEY and KEY not in repr(found)


@pytest.mark.parametrize(
    "given, said",
    [
        (asked("nonsense"), "server must be the address of a server, such as http://"),
        (
            asked("http://me:secret@host"),
            "server must contain no user and no key: set SPECVIZ_ENGINE_KEY",
        ),
        (asked("http://host") | {"key": "a b"}, "key must be printable ASCII without spaces"),
        (
            {"server": "http://host"},
            "servers must be an object with 'server', 'plain_server' and 'key', got",
        ),
        ("http://host", "servers must be an object with 'server', 'plain_server' and 'key', got"),
    ],
)
def test_a_wrong_address_is_refused_before_the_race(given, said) -> None:
    reply = Handlers().join({"ticket": "a-ticket-of-a-test", "form": FORM, "servers": given})
    assert reply["error"].startswith(said) and "secret" not in reply["error"]


def test_the_command_races_two_servers_and_keeps_their_lanes(engine, tmp_path, capsys) -> None:
    file = tmp_path / "race.json.gz"
    flags = ["--pair", "bundled", "--task", "code", "--temperature", "0", "--repeat", "1"]
    flags += ["--max-new-tokens", "16", "--trace", str(file)]
    flags += ["--server", engine.url, "--plain-server", "http://127.0.0.1:9", "--json"]
    assert main(["race", *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    found, missing = result["servers"]
    assert result["server_speedup"] is None, "one answer is compared with no other"
    assert (found["lane"], found["tokens"], found["same_text"]) == (SERVER, 16, True)
    assert found["target_forwards"] is None and found["tokens_per_second"] > 0
    assert missing["tokens"] == 0 and "nothing listens there" in missing["remark"]
    trace = trace_file.load(file)
    assert trace.lane(SERVER).emitted_ids == trace.emitted_ids
    assert trace.lane(PLAIN_SERVER).engine.remark == missing["remark"]
    assert main(["race", *(each for each in flags if each != "--json")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\nserver +16 +unknown ", shown) and "\nplain-server: " in shown
    assert main(["race", *flags, "--batch-size", "2"]) == 2
    assert "server must not be given with batch-size" in capsys.readouterr().err


def test_impossible_counts_give_no_origins_and_use_no_memory() -> None:
    assert token_origins(5, [(3, 10**12)]) is None
    assert token_origins(5, [(10**12, 10**12)]) is not None
    assert whole_number(True) == whole_number(10**400) == whole_number(-1) == 0


def test_an_answer_with_more_tokens_than_requested_is_refused() -> None:
    event = json.dumps({"tokens": [1] * 100, "stop_type": "limit"})
    body = f"data: {event}\n\n".encode()
    with server(says(200, "text/event-stream", body)) as (_, url):
        address = EngineAddress.of(url)
        with pytest.raises(InputError, match="at most 4 tokens, but sends more"):
            list(stream_tokens(address, "llama.cpp", [1, 2], 4))


def test_a_trace_contains_no_server_name_no_key_and_no_half_character() -> None:
    address = EngineAddress.of("http://secret-host.internal:8000", KEY)
    said = _public(f"no host has the name 'secret-host.internal', Bearer {KEY} \ud800", address)
    assert "secret-host" not in said and KEY not in said and said.encode()
    assert _is_path("/models/a") and _is_path("C:\\models\\a") and not _is_path("org/name")
