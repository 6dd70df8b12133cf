"""What `watch` says of real engines, and of servers that are none."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.gguf_export import export_gguf
from specviz.models.pair_catalog import pair_named
from specviz.serving import engine_address, shared_readings
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import VLLM, EngineCounters, EngineMetrics
from specviz.serving.engine_probe import Speculation, probe, read_engine
from specviz.serving.engine_process import serving
from specviz.serving.engine_replicas import CountedInterval, EngineReading
from specviz.serving.shared_readings import SharedReadings
from tests.serving.odd_server import Odd, says, server

PAIR = pair_named("bundled")
KEY = "open-sesame"


def watched(capsys, url: str, *flags: str) -> tuple[int, str, str]:
    status = main(["watch", url, *flags, "--every", "0.1"])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and KEY not in captured.err + captured.out
    return status, captured.out, captured.err


def test_an_engine_that_speculates_is_active_and_its_drafts_are_counted(capsys) -> None:
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3) as engine:
        status, out, err = watched(capsys, engine.url, "--expected", "--count", "1", "--json")
    found = json.loads(out)
    assert status == 0 and found["engine"] == "llama.cpp" and found["speculation"] == "active"
    counted = found["since_start"]
    assert f"{counted['drafted']:.0f} tokens were drafted" in found["why"]
    assert found["request_tokens"] == counted["tokens"] and found["first_token_seconds"] > 0
    assert 0 < counted["acceptance"] == counted["accepted"] / counted["drafted"] < 1
    assert counted["accepted"] == sum(counted["per_position"])
    assert len(counted["per_position"]) == 3
    # every forward writes a token of the target's own; the prompt's has no draft, nor has the
    # last one where a single token is left to write
    forwards = counted["tokens"] - counted["accepted"]
    assert forwards - counted["drafts"] in (1, 2)
    assert found["readings"][0]["drafted"] == 0 and "0.0 tokens/s" in err


def test_an_engine_that_never_speculates_is_off(capsys) -> None:
    with engine_with(PAIR, EngineMethod.NONE, 3) as engine:
        status, out, err = watched(capsys, engine.url, "--count", "0")
        assert status == 0 and "speculation is off" in err and "nothing was drafted" in out
        status, _, err = watched(capsys, engine.url, "--count", "0", "--expected")
        assert status == 1 and "speculation is asked for but not active" in err


def test_a_draft_of_another_vocabulary_is_asked_for_but_not_active(capsys, tmp_path: Path) -> None:
    target = export_gguf(PAIR.target, tmp_path, "Q8_0")
    draft = export_gguf(PAIR.foreign_draft, tmp_path, "Q8_0", target=PAIR.target)
    deployment = ModelDeployment(
        target=str(target), method=EngineMethod.DRAFT_MODEL, draft=str(draft), draft_tokens=3
    )
    with serving(deployment) as engine:
        found = probe(EngineAddress.of(engine.url), is_expected=True)
    assert found.speculation is Speculation.IDLE and "another vocabulary" in found.why


def test_a_method_that_finds_nothing_to_draft_is_asked_for_but_not_active() -> None:
    with engine_with(PAIR, EngineMethod.PROMPT_LOOKUP, 512) as engine:  # never so much repeats
        found = probe(EngineAddress.of(engine.url))
    assert found.speculation is Speculation.IDLE and "n-grams draft where a text" in found.why


SECONDS_OF_DRIPS, PATIENT_SECONDS = 2.0, 60.0  # for all others, which a busy machine may slow


def drips(request: Odd) -> None:
    with_end = time.monotonic() + 20
    while time.monotonic() < with_end:
        request.wfile.write(b"H")
        time.sleep(0.05)


def floods(request: Odd) -> None:
    request.send_response(200)
    request.end_headers()
    line = b"vllm:generation_tokens_total 1.0\n" * 2000
    for _ in range(50_000_000 // len(line)):
        request.wfile.write(line)


def breaks_off(request: Odd) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"llamacpp:tokens_predicted_total 1\n")


@pytest.mark.parametrize(
    "way, said",
    [
        (says(200, "text/html", b"<!doctype html><p>hello"), "but gives a web page"),
        (says(500, "text/plain", b"oh"), "must answer /metrics, but does with status 500"),
        (says(302, "text/plain", b""), "must answer /metrics, but does with status 302"),
        (
            says(401, "text/plain", KEY.encode()),
            "wants another key than it is sent: it answers /metrics",
        ),
        (says(501, "text/plain", b""), "start llama.cpp with --metrics"),
        (says(404, "text/plain", b""), "no metrics at /metrics: SGLang needs --enable-metrics"),
        (says(200, "text/plain", b"{not: metrics"), "is not Prometheus's text"),
        (says(200, "text/plain", b"up 1\n"), "but gives others: 'up'"),
        (says(200, "text/plain", b""), "but gives none"),
        (
            says(200, "text/plain", b"\xff\x00\xfe" * 9),
            "must give metrics of llama.cpp, vLLM or SGLang",
        ),
        (
            says(200, "text/plain", b"llamacpp:tokens_predicted_total 1\n"),
            "must name its model at /v1/models",
        ),
        (drips, "must answer /metrics within 2 s, but does not"),
        (floods, "must answer in 4 MB, but sends more"),
        (breaks_off, "must answer /metrics, but ends in the middle of it"),
        (
            lambda request: request.wfile.write(b"220 mail\r\n"),
            "in HTTP, but what it sends is none",
        ),
        (lambda request: None, "in HTTP, but what it sends is none"),
    ],
)
def test_a_server_that_is_no_engine_is_told_in_one_sentence(way, said, monkeypatch, capsys) -> None:
    seconds = SECONDS_OF_DRIPS if way is drips else PATIENT_SECONDS
    monkeypatch.setattr(engine_address, "ANSWER_SECONDS", seconds)
    monkeypatch.setenv("SPECVIZ_ENGINE_KEY", KEY)
    with server(way) as (served, url):
        status, out, err = watched(capsys, url, "--count", "0")
        assert status == 2 and out == "" and err.count("\n") == 1
        assert said in err and url in err
        assert served.keys[0] == f"Bearer {KEY}"


def test_a_redirect_is_not_followed_and_no_other_host_learns_the_key(monkeypatch, capsys) -> None:
    monkeypatch.setenv("SPECVIZ_ENGINE_KEY", KEY)
    with server(says(200, "text/plain", b"vllm:generation_tokens_total 1\n")) as (other, elsewhere):

        def redirects(request: Odd) -> None:
            request.send_response(307)
            request.send_header("Location", f"{elsewhere}/metrics")
            request.end_headers()

        with server(redirects) as (_, url):
            status, _, err = watched(capsys, url, "--count", "0")
        assert status == 2 and "must answer /metrics, but does with status 307" in err
        assert other.keys == []


@pytest.mark.parametrize(
    "way, said",
    [
        (says(500, "text/html", b"<p>oh"), "must answer /v1/completions, but does with status 500"),
        (says(401, "text/plain", KEY.encode()), "wants another key than it is sent"),
        (says(200, "text/html", b"<!doctype html><p>hello"), "must write a text at /v1/compl"),
        (says(400, "text/plain", b'{"error": {"message": "no\\nsuch"}}'), "status 400: no such"),
        (drips, "must answer /v1/completions within 2 s, but does not"),
        (floods, "must answer in 4 MB, but sends more"),
    ],
)
def test_an_engine_that_counts_but_writes_no_text_is_told_in_one_sentence(way, said) -> None:
    def answers(request: Odd) -> None:
        if request.command == "POST":
            return way(request)
        model = json.dumps({"data": [{"id": "m"}]}).encode()
        metrics = b"llamacpp:tokens_predicted_total 1\n"
        says(200, "text/plain", model if request.path == "/v1/models" else metrics)(request)

    seconds = SECONDS_OF_DRIPS if way is drips else PATIENT_SECONDS
    with server(answers) as (_, url), pytest.raises(InputError) as caught:
        probe(EngineAddress.of(url, KEY), seconds=seconds)
    assert said in str(caught.value) and url in str(caught.value)
    assert "\n" not in str(caught.value) and KEY not in str(caught.value)


def test_an_address_where_nothing_listens_is_told(capsys) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        status, _, err = watched(capsys, url)
    assert (status, err) == (
        2,
        f"specviz: server at {url} must answer, but nothing listens there\n",
    )


@pytest.mark.parametrize(
    "url, said",
    [
        ("localhost:8000", "url must be the address of a server"),
        ("ftp://host", "url must be the address of a server"),
        ("http://", "url must be the address of a server"),
        ("http://host:99999", "url must be the address of a server"),
        ("http://ho st", "url must be the address of a server"),
        ("http://host\r\nX: y", "url must be the address of a server"),
        ("http://user:open-sesame@host", "url must hold no key: set SPECVIZ_ENGINE_KEY instead"),
        ("http://host?key=open-sesame", "url must end with its path"),
    ],
)
def test_an_address_that_is_none_is_refused(url, said, capsys) -> None:
    status, _, err = watched(capsys, url)
    assert status == 2 and err.startswith(f"specviz: {said}") and err.count("\n") == 1


def test_an_address_may_end_as_clients_of_openai_write_it() -> None:
    for typed in ("http://[::1]:80/v1", "http://[::1]/", " http://[::1]/v1/ "):
        assert str(EngineAddress.of(typed)) == "http://[::1]:80"


def test_a_key_is_in_no_text_and_a_bad_one_is_not_quoted() -> None:
    environment = Environment.read({"SPECVIZ_ENGINE_KEY": KEY})
    address = EngineAddress.of("http://host", environment.engine_key)
    assert address.key == KEY and KEY not in f"{environment} {address} {address!r}"
    with pytest.raises(InputError) as caught:
        Environment.read({"SPECVIZ_ENGINE_KEY": f"{KEY}\r\nX: y"})
    assert KEY not in str(caught.value)


def test_counters_are_subtracted_and_one_that_fell_means_a_new_start() -> None:
    before = EngineCounters(drafts=10, drafted=30, accepted=12, tokens=22, per_position=(8, 3, 1))
    now = EngineCounters(drafts=14, drafted=42, accepted=20, tokens=34, per_position=(12, 6, 2))
    grown = now.since(before)
    assert (grown.drafts, grown.drafted, grown.accepted, grown.tokens) == (4, 12, 8, 12)
    assert grown.acceptance_per_position == (1.0, 0.75, 0.25) and grown.accepted_length == 3
    assert not now.is_restarted(before) and before.is_restarted(now)
    assert before.since(now) == before
    assert EngineCounters().acceptance is None and EngineCounters().accepted_length is None
    first = replace(before, per_position=())
    assert before.since(first).per_position == before.per_position


def test_an_engine_that_was_started_again_is_read_on() -> None:
    """Over two real engines at one port, the second with fewer counts than the first."""
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0") as engine:
        address = EngineAddress.of(engine.url)
        before = probe(address).metrics.counters
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0", address.port):
        now = read_engine(address).counters
        assert now.is_restarted(before) and now.since(before) == now == EngineCounters()


def test_replicas_are_summed_and_apart_and_one_that_is_gone_is_named(capsys) -> None:
    with (
        engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0") as first,
        engine_with(PAIR, EngineMethod.DRAFT_MODEL, 5, "Q8_0") as second,
    ):
        gone = "http://127.0.0.1:9"
        status, out, err = watched(
            capsys, first.url, second.url, gone, "--count", "1", "--expected", "--json"
        )
    found = json.loads(out)
    assert status == 1 and "These servers are not alike: draft lengths 3 and 5" in err
    *each, third = found["replicas"]
    assert third["url"] == gone and "nothing listens there" in third["problem"]
    for name in ("drafted", "accepted", "tokens", "drafts"):
        assert found["since_start"][name] == sum(one["since_start"][name] for one in each) > 0
    [reading] = found["readings"]
    assert "nothing listens there" in reading["replicas"][2]["problem"]
    assert reading["running"] == sum(one["running"] for one in reading["replicas"][:2]) == 0
    assert f"\n  {first.url}: 0.0 tokens/s" in err and "\ntogether: 0.0 tokens/s" in err


def test_several_addresses_of_which_none_answers_are_told_in_one_line(capsys) -> None:
    status, _, err = watched(capsys, "http://127.0.0.1:9", "http://127.0.0.1:10")
    assert (status, err.count("\n")) == (2, 1)
    assert "none of 2 servers answers; the first: server at http://127.0.0.1:9" in err


def test_what_replicas_count_is_summed_from_their_own_growth_so_that_a_restart_hides_none() -> None:
    def metrics(tokens: float, drafts: float) -> EngineMetrics:
        counters = EngineCounters(
            drafts=drafts,
            drafted=3 * drafts,
            accepted=drafts,
            tokens=tokens,
            per_position=(drafts,),
        )
        return EngineMetrics(VLLM, counters, frozenset({"drafts"}), 1.0, 0.0, drafts / 100)

    first = CountedInterval.between(
        metrics(100, 40).counters, 10.0, EngineReading(12.0, metrics(120, 50))
    )
    again = CountedInterval.between(
        metrics(500, 90).counters, 8.0, EngineReading(12.0, metrics(8, 2))
    )
    both = CountedInterval.together([first, again])
    assert (both.counted.tokens, both.counted.drafted, both.restarts) == (28, 36, 1)
    assert both.tokens_per_second == 20 / 2 + 8 / 4 and both.acceptance == 12 / 36
    assert (both.running, both.waiting) == (2, 0) and both.cache == pytest.approx(0.26)


def test_forty_who_watch_one_server_cost_it_one_reading() -> None:
    shared, answer = (
        SharedReadings(60),
        says(200, "text/plain", b"vllm:generation_tokens_total 1\n"),
    )

    def slowly(request: Odd) -> None:
        time.sleep(0.1)
        answer(request)

    with server(slowly) as (served, url), ThreadPoolExecutor(40) as pool:
        address = EngineAddress.of(url, KEY)
        readings = list(pool.map(shared.read, [address] * 40))
        assert len(served.keys) == 1 and len({each.at for each in readings}) == 1
        assert KEY not in str([vars(each) for each in shared._kept.values()] + list(shared._kept))
        shared.read(replace(address, key="another"))  # has a reading of its own: it may be refused
        assert served.keys == [f"Bearer {KEY}", "Bearer another"]
        shared._seconds = 0.01
        time.sleep(0.02)
        assert shared.read(address).at > readings[0].at and len(served.keys) == 3


def test_what_is_wrong_with_a_server_is_shared_too_and_old_readings_are_dropped(
    monkeypatch,
) -> None:
    monkeypatch.setattr(shared_readings, "MOST_KEPT", 4)
    shared = SharedReadings(60.0)
    with server(says(500, "text/plain", b"")) as (served, url):
        for _ in range(3):
            with pytest.raises(InputError, match="must answer /metrics, but does with status 500"):
                shared.read(EngineAddress.of(url))
        assert len(served.keys) == 1
        for number in range(9):
            with pytest.raises(InputError):
                shared.read(EngineAddress.of(f"{url}/{number}"))
    assert len(shared._kept) == 4


@pytest.mark.parametrize("closing", ["close", "keep-alive"])
def test_a_body_that_drips_is_given_up_in_time_also_where_its_end_closes_the_connection(
    closing: str,
) -> None:
    def way(request: Odd) -> None:
        request.protocol_version = "HTTP/1.1"
        request.send_response(200)
        request.send_header("Connection", closing)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        for _ in range(600):
            request.wfile.write(b"#")
            time.sleep(0.1)

    with server(way) as (_, url):
        with pytest.raises(InputError, match=r"must answer /metrics within 0\.5 s"):
            EngineAddress.of(url).get("/metrics", 0.5)
