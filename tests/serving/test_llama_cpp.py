"""A real llama.cpp server writes our text with the bundled pair.

The server's process ends when the process that started it ends.
"""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch

from specviz.cli import main
from specviz.commands.engine_serving import engine_with
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest, load_request
from specviz.models.files.gguf_export import KINDS, export_gguf
from specviz.models.files.loading import load_model
from specviz.models.pair_catalog import pair_named
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig
from specviz.serving.llama_cpp.llama_cpp_process import serving

PAIR = pair_named("bundled")
TEXTS = (
    "def total(items, 12 345):\n    \tit's  we'll\r\n\n\n  x+=1.5e10 ;",
    "Zürich, 東京 🌿 and <b>naïve</b>   ",
    "  leading",
)
TOKENS = 40


def ask(url: str, path: str, **body):
    method = "POST" if body else "GET"
    return httpx.request(method, f"{url}{path}", json=body or None, timeout=60).json()


def is_up(url: str) -> bool:
    try:
        return ask(url, "/health") == {"status": "ok"}
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def engine():
    with engine_with(PAIR, EngineMethod.DRAFT_MODEL, 4) as running:
        yield running


@pytest.fixture(scope="module")
def loaded():
    return load_request(RaceRequest(PAIR, "x", DecodingConfig(method="draft-model")))


@pytest.mark.parametrize("task", ["code", "story", "maths", "translate", "summarise"])
def test_the_engine_writes_the_same_text_as_our_baseline(engine, loaded, task) -> None:
    ids = loaded.codec.encode(held_out_prompt(task, 1), task)
    cache = loaded.target.new_cache(len(ids) + TOKENS)
    fed, start, ours = ids, 0, []
    while len(ours) < TOKENS and not set(ours) & loaded.codec.eos_ids:
        positions = torch.arange(start, start + len(fed))[None]
        out = loaded.target.forward(torch.tensor([fed]), positions, cache)
        start += len(fed)
        fed = [int(out.logits[0, -1].argmax())]
        ours += fed
    answer = ask(
        engine.url, "/completion",
        prompt=ids, n_predict=len(ours), temperature=0, return_tokens=True, ignore_eos=False,
    )  # fmt: skip
    assert answer["timings"]["draft_n"] > 0
    assert [*answer["tokens"], *loaded.codec.eos_ids][: len(ours)] == ours


@pytest.mark.parametrize("text", TEXTS)
def test_the_engine_tokenizes_a_text_as_we_do(engine, loaded, text) -> None:
    assert ask(engine.url, "/tokenize", content=text)["tokens"] == loaded.codec.encode_part(text)


def test_exported_weights_of_every_kind_can_be_read_and_small_ones_are_less_exact(tmp_path) -> None:
    ids, positions = torch.arange(20, 52)[None], torch.arange(32)[None]

    def logits(source: str):
        model = load_model(source, "cpu").model
        return model.forward(ids, positions, model.new_cache(32)).logits

    exact, sizes, errors = logits(PAIR.target), [], []
    for kind in KINDS:
        file = export_gguf(PAIR.target, tmp_path, kind)
        sizes.append(file.stat().st_size)
        errors.append(float((logits(str(file)) - exact).abs().max()))
    assert sizes == sorted(sizes, reverse=True) and errors == sorted(errors)
    assert errors[0] < 1e-3 and errors[1] < 0.1 and errors[-1] > 10 * errors[1]


def test_a_draft_with_another_vocabulary_is_reported_even_if_the_engine_is_healthy(
    tmp_path: Path,
) -> None:
    target = export_gguf(PAIR.target, tmp_path)
    draft = export_gguf(PAIR.foreign_draft, tmp_path, target=PAIR.target)
    deployment = ModelDeployment(
        target=str(target), method=EngineMethod.DRAFT_MODEL, draft=str(draft), draft_tokens=4
    )
    with serving(deployment) as engine:
        assert is_up(engine.url)
        assert "another vocabulary than the target" in engine.refusal()
        answer = ask(engine.url, "/completion", prompt="A", n_predict=4)
        assert "draft_n" not in answer["timings"]


@contextmanager
def program(*words: str):
    """Start a process that prints its address; yield the process and the address."""
    process = subprocess.Popen(
        [sys.executable, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stderr.readline()
        assert " is at http://127.0.0.1:" in line, line
        yield process, line.split(" is at ")[1].split()[0]
    finally:
        process.kill()
        process.communicate()


def test_the_command_serves_until_it_is_interrupted_and_stops_only_its_own_child(engine) -> None:
    flags = ("--pair", "bundled", "--method", "prompt-lookup", "--weights", "Q8_0", "--json")
    words = ("-m", "specviz", "serve", "--engine", "llama.cpp", *flags)
    with program(*words) as (process, url):
        text = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n"
        asked = {"prompt": text, "n_predict": 96, "temperature": 0}
        assert ask(url, "/completion", **asked)["timings"]["draft_n"] > 0
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert json.loads(out) == {"url": url} and "Traceback" not in err
        assert not is_up(url) and is_up(engine.url)


OWNER = """
import sys
from specviz.engines.model_deployment import ModelDeployment
from specviz.serving.llama_cpp.llama_cpp_process import serving
with serving(ModelDeployment(target=sys.argv[1])) as engine:
    print("it is at", engine.url, file=sys.stderr, flush=True)
    engine.wait()
"""


def test_the_engine_ends_with_its_owner_even_if_the_owner_is_killed(tmp_path: Path) -> None:
    file = export_gguf(PAIR.target, tmp_path, "Q4_0")
    with program("-c", OWNER, str(file)) as (process, url):
        assert is_up(url)
        process.kill()
        process.wait()
        until = time.monotonic() + 60
        while is_up(url):
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--pair", "bundled"], "pair must be given together with 'engine', got it alone"),
        (
            ["--engine", "vllm"],
            "engine must be llama.cpp, the only engine that specviz can start, got 'vllm'",
        ),
        (["--engine", "llama.cpp", "--host", "0.0.0.0"], "host must not be given with 'engine'"),
        (["--engine", "llama.cpp", "--mcp"], "mcp must not be given with 'engine'"),
        (["--engine", "llama.cpp", "--method", "eagle"], "method must be one of draft-model, "),
        (["--engine", "llama.cpp", "--weights", "Q4_K_M"], "weights must be one of F32, F16, "),
        (
            ["--engine", "llama.cpp", "--draft-length", "0"],
            "draft-tokens must be a whole number from",
        ),
    ],
)
def test_a_pair_that_the_engine_cannot_serve_is_refused_in_one_line(flags, said, capsys) -> None:
    assert main(["serve", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"specviz: {said}") and error.count("\n") == 1


def test_the_engine_s_error_for_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(InputError, match="engine llama.cpp must start, but it says: "):
        with serving(ModelDeployment(target=str(broken))):
            pass
