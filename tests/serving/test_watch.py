"""`watch` reports what real engines count, and names servers that are no engines."""

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
from specviz.engines.server_api import Speculation
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.gguf_export import export_gguf
from specviz.models.pair_catalog import pair_named
from specviz.serving import engine_address, shared_readings
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters, EngineMetrics
from specviz.serving.engine_probe import WrittenText, _judged, probe, read_engine
from specviz.serving.engine_replicas import CountedInterval, EngineReading, read_now
from specviz.serving.llama_cpp.llama_cpp_process import serving
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
        status, out, err = watched(capsys, engine.url, "--expected", "--readings", "1", "--json")
    found = json.loads(out)
    assert status == 0 and found["engine"] == "llama.cpp" and found["speculation"] == "active"
    counted = found["since_start"]
    assert f"{counted['drafted']:.0f} tokens were drafted" in found["why"]
    assert found["request_tokens"] == counted["tokens"] and found["first_token_seconds"] > 0
    assert 0 < counted["draft_utilization"] == counted["accepted"] / counted["drafted"] < 1
    assert counted["accepted"] == sum(counted["per_position"])
    assert len(counted["per_position"]) == 3
    # Every forward adds one token of the target itself. The prompt's forward has no draft. The last
    # forward has none either if only one token is left to write.
    forwards = counted["tokens"] - counted["accepted"]
    assert forwards - counted["drafts"] in (1, 2)
    assert found["readings"][0]["drafted"] == 0 and "0.0 tokens/s" in err


def test_an_engine_that_never_speculates_is_called_off(capsys) -> None:
    with engine_with(PAIR, EngineMethod.NONE, 3) as engine:
        status, out, err = watched(capsys, engine.url, "--readings", "0")
        assert status == 0 and "speculation is off" in err and "nothing was drafted" in out
        status, _, err = watched(capsys, engine.url, "--readings", "0", "--expected")
        assert status == 1 and "speculation is asked for but not active" in err


def test_a_draft_with_another_vocabulary_is_requested_but_not_active(
    capsys, tmp_path: Path
) -> None:
    target = export_gguf(PAIR.target, tmp_path, "Q8_0")
    draft = export_gguf(PAIR.foreign_draft, tmp_path, "Q8_0", target=PAIR.target)
    deployment = ModelDeployment(
        target=str(target), method=EngineMethod.DRAFT_MODEL, draft=str(draft), draft_tokens=3
    )
    with serving(deployment) as engine:
        found = probe(EngineAddress.of(engine.url), is_expected=True)
    assert found.speculation is Speculation.IDLE and "vocabularies differ" in found.why


def test_a_method_that_finds_nothing_to_draft_is_requested_but_not_active() -> None:
    # No text repeats 512 tokens, so prompt lookup finds no draft.
    with engine_with(PAIR, EngineMethod.PROMPT_LOOKUP, 512) as engine:
        found = probe(EngineAddress.of(engine.url))
    assert found.speculation is Speculation.IDLE and "n-grams draft where a text" in found.why


QUIET = WrittenText("text", 8, 0.1, 0.01, drafted=0, accepted=0)


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        (
            EngineMetrics("vLLM", EngineCounters(drafts=3, drafted=9), frozenset({"drafts"})),
            "9 tok",
        ),
        (EngineMetrics("llama.cpp", EngineCounters(drafts=3, drafted=1500), frozenset()), "1,500"),
        (EngineMetrics("SGLang", EngineCounters(verifications=7), frozenset()), "7 forwards"),
        (
            EngineMetrics("SGLang", EngineCounters(), frozenset(), latest_length=2.5),
            "2.50 tokens each",
        ),
    ],
)
def test_the_sentence_never_contradicts_the_counters(metrics: EngineMetrics, shown: str) -> None:
    """A short request may draft nothing although the engine drafted for earlier requests."""
    address = EngineAddress.of("http://127.0.0.1:9")
    for is_expected in (True, False):
        state, why = _judged(address, metrics, metrics, EngineCounters(), QUIET, is_expected)
        assert state is Speculation.ACTIVE and shown in why and "none for this request" in why


# In seconds: how long the slow server sends its answer, and the limit of all other waits.
SECONDS_OF_DRIPS, PATIENT_SECONDS = 2.0, 60.0


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
        (says(200, "text/html", b"<!doctype html><p>hello"), "but sends a web page"),
        (
            says(500, "text/plain", b"oh"),
            "must answer /metrics with status 200, but answered with status 500",
        ),
        (
            says(302, "text/plain", b""),
            "must answer /metrics with status 200, but answered with status 302",
        ),
        (
            says(401, "text/plain", KEY.encode()),
            "needs another key: it answers /metrics",
        ),
        (says(501, "text/plain", b""), "start llama.cpp with --metrics"),
        (
            says(404, "text/plain", b""),
            "no metrics at /metrics: start SGLang with --enable-metrics",
        ),
        (says(200, "text/plain", b"{not: metrics"), "sends no text in Prometheus's format"),
        (says(200, "text/plain", b"up 1\n"), "but sends other metrics, such as 'up'"),
        (says(200, "text/plain", b""), "but sends no metrics"),
        (
            says(200, "text/plain", b"\xff\x00\xfe" * 9),
            "must give metrics of llama.cpp, vLLM or SGLang",
        ),
        (
            says(200, "text/plain", b"llamacpp:tokens_predicted_total 1\n"),
            "must name its model at /v1/models",
        ),
        (drips, "must answer /metrics within 2 s, but does not"),
        (floods, "must answer with at most 4 MB, but sends more"),
        (breaks_off, "must answer /metrics, but its answer stops in the middle"),
        (
            lambda request: request.wfile.write(b"220 mail\r\n"),
            "in HTTP, but sends something else",
        ),
        (lambda request: None, "in HTTP, but sends something else"),
    ],
)
def test_a_server_that_is_no_engine_is_reported_in_one_sentence(
    way, said, monkeypatch, capsys
) -> None:
    seconds = SECONDS_OF_DRIPS if way is drips else PATIENT_SECONDS
    monkeypatch.setattr(engine_address, "ANSWER_SECONDS", seconds)
    monkeypatch.setenv("SPECVIZ_ENGINE_KEY", KEY)
    with server(way) as (served, url):
        status, out, err = watched(capsys, url, "--readings", "0")
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
            status, _, err = watched(capsys, url, "--readings", "0")
        assert (
            status == 2
            and "must answer /metrics with status 200, but answered with status 307" in err
        )
        assert other.keys == []


@pytest.mark.parametrize(
    "way, said",
    [
        (
            says(500, "text/html", b"<p>oh"),
            "must answer /v1/completions with status 200, but answered with status 500",
        ),
        (says(401, "text/plain", KEY.encode()), "needs another key"),
        (says(200, "text/html", b"<!doctype html><p>hello"), "must write a text at /v1/compl"),
        (says(400, "text/plain", b'{"error": {"message": "no\\nsuch"}}'), "status 400: no such"),
        (drips, "must answer /v1/completions within 2 s, but does not"),
        (floods, "must answer with at most 4 MB, but sends more"),
    ],
)
def test_an_engine_that_counts_but_writes_no_text_is_reported_in_one_sentence(way, said) -> None:
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


def test_an_address_without_a_server_is_reported(capsys) -> None:
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
        (
            "http://user:open-sesame@host",
            "url must contain no user and no key: set SPECVIZ_ENGINE_KEY instead",
        ),
        ("http://host?key=open-sesame", "url must have no query"),
    ],
)
def test_an_invalid_address_is_refused(url, said, capsys) -> None:
    status, _, err = watched(capsys, url)
    assert status == 2 and err.startswith(f"specviz: {said}") and err.count("\n") == 1


def test_an_address_may_end_with_v1_as_openai_clients_write_it() -> None:
    for typed in ("http://[::1]:80/v1", "http://[::1]/", " http://[::1]/v1/ "):
        assert str(EngineAddress.of(typed)) == "http://[::1]:80"


def test_a_key_never_appears_in_a_text_and_a_bad_key_is_not_quoted() -> None:
    environment = Environment.read({"SPECVIZ_ENGINE_KEY": KEY})
    address = EngineAddress.of("http://host", environment.engine_key)
    assert address.key == KEY and KEY not in f"{environment} {address} {address!r}"
    with pytest.raises(InputError) as caught:
        Environment.read({"SPECVIZ_ENGINE_KEY": f"{KEY}\r\nX: y"})
    assert KEY not in str(caught.value)


def test_counters_are_subtracted_and_a_smaller_one_means_a_restart() -> None:
    before = EngineCounters(drafts=10, drafted=30, accepted=12, tokens=22, per_position=(8, 3, 1))
    now = EngineCounters(drafts=14, drafted=42, accepted=20, tokens=34, per_position=(12, 6, 2))
    grown = now.since(before)
    assert (grown.drafts, grown.drafted, grown.accepted, grown.tokens) == (4, 12, 8, 12)
    assert grown.acceptance_per_position == (1.0, 0.75, 0.25) and grown.block_efficiency == 3
    assert not now.is_restarted(before) and before.is_restarted(now)
    assert before.since(now) == before
    assert EngineCounters().draft_utilization is None and EngineCounters().block_efficiency is None
    first = replace(before, per_position=())
    assert before.since(first).per_position == before.per_position


def test_an_engine_that_was_restarted_is_watched_further() -> None:
    """Two real engines use the same port one after the other, so the counters restart at 0."""
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0") as engine:
        address = EngineAddress.of(engine.url)
        before = probe(address).metrics.counters
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0", address.port):
        now = read_engine(address).counters
        assert now.is_restarted(before) and now.since(before) == now == EngineCounters()


def test_replicas_are_shown_in_sum_and_one_by_one_and_a_missing_one_is_named(capsys) -> None:
    with (
        engine_with(PAIR, EngineMethod.DRAFT_MODEL, 3, "Q8_0") as first,
        engine_with(PAIR, EngineMethod.DRAFT_MODEL, 5, "Q8_0") as second,
    ):
        gone = "http://127.0.0.1:9"
        status, out, err = watched(
            capsys, first.url, second.url, gone, "--readings", "1", "--expected", "--json"
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


def test_several_addresses_without_any_answer_are_reported_in_one_line(capsys) -> None:
    status, _, err = watched(capsys, "http://127.0.0.1:9", "http://127.0.0.1:10")
    assert (status, err.count("\n")) == (2, 1)
    assert (
        "none of the 2 servers answers; the error of the first one: server at http://127.0.0.1:9"
        in err
    )


def test_the_growth_of_each_replica_is_summed_even_after_a_restart() -> None:
    def metrics(tokens: float, drafts: float) -> EngineMetrics:
        counters = EngineCounters(
            drafts=drafts,
            drafted=3 * drafts,
            accepted=drafts,
            tokens=tokens,
            per_position=(drafts,),
        )
        return EngineMetrics("vLLM", counters, frozenset({"drafts"}), 1.0, 0.0, drafts / 100)

    first = CountedInterval.between(
        metrics(100, 40).counters, 10.0, EngineReading(12.0, metrics(120, 50))
    )
    again = CountedInterval.between(
        metrics(500, 90).counters, 8.0, EngineReading(12.0, metrics(8, 2))
    )
    both = CountedInterval.together([first, again])
    assert (both.counted.tokens, both.counted.drafted, both.restarts) == (28, 36, 1)
    assert both.tokens_per_second == 20 / 2 + 8 / 4 and both.draft_utilization == 12 / 36
    assert (both.running, both.waiting) == (2, 0) and both.cache == pytest.approx(0.26)


def test_forty_people_watching_one_server_cause_one_request_to_it() -> None:
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
        # Two keys may have different rights. So the numbers that were read with one key are not
        # shown to a user with the other key.
        shared.read(replace(address, key="another"))
        assert served.keys == [f"Bearer {KEY}", "Bearer another"]
        shared._seconds = 0.01
        time.sleep(0.02)
        assert shared.read(address).at > readings[0].at and len(served.keys) == 3


def test_a_server_s_error_is_shared_as_well_and_old_results_are_dropped(
    monkeypatch,
) -> None:
    monkeypatch.setattr(shared_readings, "MOST_KEPT", 4)
    shared = SharedReadings(60.0)
    with server(says(500, "text/plain", b"")) as (served, url):
        for _ in range(3):
            with pytest.raises(
                InputError,
                match="must answer /metrics with status 200, but answered with status 500",
            ):
                shared.read(EngineAddress.of(url))
        assert len(served.keys) == 1
        for number in range(9):
            with pytest.raises(InputError):
                shared.read(EngineAddress.of(f"{url}/{number}"))
    assert len(shared._kept) == 4


@pytest.mark.parametrize("closing", ["close", "keep-alive"])
def test_a_slow_body_is_given_up_in_time_even_if_its_end_closes_the_connection(
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


def test_a_machine_s_clock_that_is_set_back_changes_no_interval(monkeypatch) -> None:
    """With the machine's clock, the interval would be wrong or negative, and so would the rate."""
    with server(says(200, "text/plain", b"vllm:generation_tokens_total 1\n")) as (_, url):
        address = EngineAddress.of(url)
        before = read_now(address)
        monkeypatch.setattr(time, "time", lambda: 0.0)
        after = read_now(address)
    assert 0 < after.at - before.at < 60
