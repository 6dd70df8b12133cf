"""Metrics of engines are read from text with the names and labels in the engines' source code.

The text for vLLM (0.32.0) has the form that a server with two ranks writes. The text for SGLang
(0.5.23) has that of a server with two ranks of data parallelism. Both texts follow the source code;
no such server has run for these tests. tests/serving/test_vllm.py reads the metrics of a real vLLM
server.
"""

import json
import re

import pytest

from specviz.cli import main
from specviz.engines.server_api import Speculation
from specviz.errors import InputError
from specviz.experiments.run.engine_lane import EngineQuestion, RacedServer, ask_engine
from specviz.records import DecodingConfig
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters, read_metrics
from specviz.serving.engine_probe import probe
from specviz.serving.engine_replicas import CountedInterval, EngineReading
from specviz.ui.handlers import Handlers
from tests.serving.odd_server import Odd, says, server

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="o/m"} 3.0
vllm:num_requests_running{engine="1",model_name="o/m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="o/m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="o/m"} 0.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="o/m",reason="capacity"} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="o/m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="o/m"} 0.25
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="o/m"} 400.0
vllm:prompt_tokens_total{engine="1",model_name="o/m"} 300.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="o/m"} 1.79e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="o/m"} 90.0
vllm:generation_tokens_total{engine="1",model_name="o/m"} 60.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="o/m"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="o/m"} 6.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="o/m"} 6.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="o/m"} 0.9
vllm:time_to_first_token_seconds_count{engine="1",model_name="o/m"} 4.0
vllm:time_to_first_token_seconds_sum{engine="1",model_name="o/m"} 0.1
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="o/m"} 40.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="o/m"} 20.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="o/m"} 80.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="o/m"} 40.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="o/m"} 50.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="o/m"} 10.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="o/m",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="o/m",position="1"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="o/m",position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="o/m",position="1"} 1.0
"""
_OF = 'engine_type="unified",model_name="o/m"'


def sglang(requests: int = 0, *, length: float = 2.5, extra: str = "") -> str:
    """Return the metrics of an SGLang server after `requests` requests.

    Each request has 64 tokens and 25 verifications.
    """
    ranks = [
        f'dp_rank="{rank}",{_OF},moe_ep_rank="{tp}",pp_rank="0",priority="",tp_rank="{tp}"'
        # Each of the two ranks has two processes, which report the same numbers.
        for rank, tp in ((0, 0), (0, 1), (1, 2), (1, 3))
    ]
    gauges = {
        "num_running_reqs": (2, 2, 1, 1),
        "num_queue_reqs": (0, 0, 3, 3),
        "token_usage": (0.1, 0.1, 0.3, 0.3),
        "gen_throughput": (90.0, 90.0, 40.0, 40.0),
        "spec_accept_length": (length, length, 0, 0),  # rank 1 has not drafted anything yet
        "spec_accept_rate": (max(0, length - 1) / 3,) * 2 + (0, 0),
        "spec_num_steps": (3, 3, 0, 0) if length else (0,) * 4,
        "spec_num_draft_tokens": (4, 4, 0, 0) if length else (0,) * 4,
    }
    lines = []
    for name, values in gauges.items():
        lines.append(f"# TYPE sglang:{name} gauge")
        lines += [f"sglang:{name}{{{of}}} {v}" for of, v in zip(ranks, values, strict=True)]
    lines.append(f"sglang:num_running_reqs{{{ranks[0]}}} 2".replace('priority=""', 'priority="5"'))
    if requests:
        told = f'{{{_OF},is_streaming="true"}}'
        lines += [
            f"sglang:prompt_tokens_total{told} {36 * requests}",
            f"sglang:generation_tokens_total{told} {64 * requests}",
            f'sglang:generation_tokens_total{{{_OF},is_streaming="false"}} 0',
            f'sglang:time_to_first_token_seconds_bucket{{le="+Inf",{_OF}}} {requests}',
            f"sglang:time_to_first_token_seconds_sum{told} {0.2 * requests}",
            f"sglang:time_to_first_token_seconds_count{told} {requests}",
        ]
        if length:
            lines.append(f"sglang:spec_verify_calls_total{{{_OF}}} {25 * requests}")
    return "\n".join(lines) + "\n"


def test_the_ranks_of_one_vllm_server_are_summed_and_its_cache_is_their_mean() -> None:
    found = read_metrics(VLLM, "x")
    assert found.counters == EngineCounters(
        drafts=60,
        drafted=120,
        accepted=60,
        tokens=150,
        first_token_seconds=1.0,
        first_tokens=10,
        prompt_tokens=700,
        per_position=(39, 21),
    )
    assert (found.running, found.waiting, found.cache) == (5, 1, 0.375)
    assert found.draft_length == 2 and found.counters.accepted == sum(found.counters.per_position)


def test_counts_of_several_ranks_are_added_and_invalid_numbers_are_left_out() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [
        f'{name}{{engine="{rank}",position="{at}"}} {5 - at}' for rank in "01" for at in (0, 1)
    ]
    lines += [
        'vllm:generation_tokens_total{engine="0"} 7',
        'vllm:generation_tokens_total{engine="1"} NaN',
    ]
    counters = read_metrics("\n".join(lines) + "\n", "x").counters
    assert counters.per_position == (10, 8) and counters.tokens == 7
    with pytest.raises(InputError, match="impossible positions of a draft"):
        read_metrics(f'{name}{{position="100000000"}} 1\n', "x")


def test_sglang_reports_only_its_latest_values_and_other_counts_are_unknown() -> None:
    before, now = read_metrics(sglang(), "x"), read_metrics(sglang(4), "x")
    assert now.engine == "SGLang" and not now.has_drafts and now.draft_length == 3
    assert (now.running, now.waiting, now.cache) == (3, 3, pytest.approx(0.2))
    assert (now.latest_length, now.latest_utilization) == (2.5, 0.5)
    counted = CountedInterval.between(before.counters, 10.0, EngineReading(12.0, now))
    assert counted.counted.tokens == 256 and counted.tokens_per_second == 128
    assert counted.first_token == pytest.approx(0.2) and counted.counted.prompt_tokens == 144
    assert (counted.draft_utilization, counted.block_efficiency) == (0.5, 2.5)
    assert (
        counted.counted.draft_utilization is None and counted.counted.acceptance_per_position == ()
    )
    assert counted.counted.verifications == 100 and counted.counted.drafts == 0
    plain = read_metrics(sglang(4, length=0), "x")
    assert plain.latest_utilization is plain.latest_length is plain.draft_length is None


class _SGLang:
    """A server that imitates SGLang as its source code describes it.

    The counters of the server grow with each request.
    """

    def __init__(self, *, length: float = 2.5, details: bool = True, algorithm: str = "") -> None:
        self.requests, self.length, self.details, self.algorithm = 0, length, details, algorithm

    def __call__(self, request: Odd) -> None:
        if request.command == "POST":
            self.requests += 1
            asked = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
            return says(200, "text/event-stream", self.text(asked))(request)
        answers = {
            "/metrics": sglang(self.requests, length=self.length),
            "/v1/models": json.dumps({"data": [{"id": "o/m", "owned_by": "sglang"}]}),
            "/server_info": json.dumps(
                {"version": "0.5.23", "speculative_algorithm": self.algorithm or None}
            ),
        }
        says(200, "text/plain", answers[request.path].encode())(request)

    def text(self, asked: dict) -> bytes:
        spec = {"spec_num_proposed_drafts": 75, "spec_num_correct_drafts": 38, "spec_verify_ct": 25}
        events = [
            {"choices": [{"text": "return", "finish_reason": None}]},
            {"choices": [{"text": " a", "finish_reason": "length"}]},
            {"choices": [], "sglext": {"spec_tokens_details": spec}},
            {"choices": [], "usage": {"prompt_tokens": 36, "completion_tokens": 64}},
        ]
        if not (self.details and asked["return_spec_tokens_details"]):
            del events[2]
        lines = [f"data: {json.dumps(each)}\n\n" for each in events]
        return "".join([*lines, "data: [DONE]\n\n"]).encode()


@pytest.mark.parametrize(
    "way, is_expected, state, why",
    [
        (_SGLang(), False, "active", "75 tokens were drafted for the 64 of one request, and 38 of"),
        (_SGLang(details=False), False, "active", "it verified drafts in 25 forwards"),
        (_SGLang(length=0, details=False), False, "off", "started without --speculative-algorithm"),
        (
            _SGLang(length=0, details=False),
            True,
            "asked for but not active",
            "it verified no draft",
        ),
        (
            _SGLang(length=0, details=False, algorithm="EAGLE"),
            False,
            "asked for but not active",
            "it is set up to speculate by EAGLE, but verified no draft for this request",
        ),
    ],
)
def test_one_request_shows_whether_sglang_speculates(way, is_expected, state, why) -> None:
    with server(way) as (_, url):
        address = EngineAddress.of(url)
        found = probe(address, is_expected)
    assert found.speculation is Speculation(state) and why in found.why
    assert (found.engine, found.version, found.model) == ("SGLang", "0.5.23", "o/m")
    assert "only from the source code" in found.sentence(address)


def test_the_page_names_what_sglang_does_not_report(capsys) -> None:
    with server(_SGLang()) as (_, url):
        serving = Handlers().serving
        reply = serving.attach({"url": url, "key": ""})
        written = serving.written({"url": url, "key": "", "prompt": "def add(a, b):"})
        assert main(["watch", url, "--readings", "1", "--every", "0.1"]) == 0
    assert "SGLang 0.5.23 at" in reply["sentences"][0] and "only from the source code" in str(reply)
    facts = dict(reply["facts"])
    assert facts["draft utilization"] == "50%" and facts["tokens per forward"] == "2.50"
    assert facts["drafted tokens"] == "not reported" and facts["first token"] == "200 ms"
    assert set(reply["figures"]) == {
        *("draft_utilization", "length", "rate", "first", "requests", "cache")
    }
    assert reply["absent"] == ["No chart of accepted by guess: SGLang does not count that."]
    assert (written["drafted"], written["accepted"]) == (75, 38)
    out = capsys.readouterr()
    assert "from the source code" in out.err and re.search(r"drafted since start +-\n", out.out)


def test_sglang_cannot_be_compared_or_raced_token_by_token(capsys) -> None:
    said = "must be llama.cpp or vLLM to be followed token by token, but is SGLang"
    question = EngineQuestion((1,), (1,), 2, DecodingConfig(method="draft-model"))
    with server(_SGLang()) as (_, url):
        assert main(["compare", "--pair", "bundled", "--url", url, "--prompt-count", "1"]) == 2
        told, end = ask_engine(RacedServer("server", EngineAddress.of(url)), question)
    assert said in capsys.readouterr().err and said in told.remark and end.value == "stopped"


def test_the_three_rates_of_acceptance_are_distinguished() -> None:
    """Of 10 drafts of 3 tokens, 8 have an accepted first token, 5 a second and 2 a third.

    So 10 + 8 + 5 tokens were examined.
    """
    counted = EngineCounters(drafts=10, drafted=30, accepted=15, per_position=(8, 5, 2))
    assert counted.acceptance_rate == pytest.approx(15 / 23)
    assert counted.draft_utilization == 0.5 and counted.block_efficiency == 2.5
    described = counted.described()
    assert {"acceptance_rate", "draft_utilization", "block_efficiency"} <= set(described)
    unknown = EngineCounters(drafts=10, drafted=20, accepted=15, per_position=(8, 5, 2))
    assert unknown.acceptance_rate is None, "some drafts were short: nobody counts the examined"


def test_a_collector_may_replace_the_colon_of_the_names() -> None:
    assert read_metrics(VLLM.replace("vllm:", "vllm_"), "here") == read_metrics(VLLM, "here")


def test_counts_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="server at here must give .* but reports a count below 0"):
        read_metrics("vllm:spec_decode_num_drafts_total -5\n", "here")


@pytest.mark.parametrize(
    "counts",
    [
        EngineCounters(drafts=10, drafted=20, accepted=30, per_position=(20, 10)),
        EngineCounters(drafts=10),
    ],
)
def test_counts_that_disagree_give_no_rate(counts: EngineCounters) -> None:
    rates = counts.acceptance_rate, counts.draft_utilization, counts.block_efficiency
    assert rates == (None, None, None)
    assert all(each <= 1 for each in counts.acceptance_per_position)


def test_an_older_server_that_counts_drafted_tokens_alone_counts_drafts() -> None:
    older = "vllm:spec_decode_num_draft_tokens_total 0\nvllm:generation_tokens_total 8\n"
    assert read_metrics(older, "here").has_drafts


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("prompt_tokens_total", "1e308", "1,000,000,000,000,000"),
        ("spec_decode_num_accepted_tokens_total", "2e18", "1,000,000,000,000,000"),
        ('spec_decode_num_accepted_tokens_per_pos_total{position="0"}', "1e16", "1,000,000,000,0"),
        ("num_requests_running", "-1", "1,000,000,000"),
        ("num_requests_waiting", "1e308", "1,000,000,000"),
        ("kv_cache_usage_perc", "7", "1"),
        ("kv_cache_usage_perc", "-0.5", "1"),
    ],
)
def test_an_impossible_value_is_refused_with_its_name(name: str, value: str, most: str) -> None:
    text = f"vllm:generation_tokens_total 1\nvllm:{name} {value}\n"
    with pytest.raises(InputError) as caught:
        read_metrics(text, "http://a")
    bare = name.partition("{")[0]
    assert str(caught.value).startswith(f"server at http://a must report {bare} from 0 to {most}")
    assert f", but reports {float(value):g}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("spec_accept_rate", "3"), ("spec_accept_length", "1e9"), ("spec_num_steps", "1e300")],
)
def test_an_impossible_average_of_sglang_is_refused(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"must report {name} from 0 to "):
        read_metrics(f"sglang:generation_tokens_total 1\nsglang:{name} {value}\n", "http://a")
