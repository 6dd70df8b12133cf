"""The page Serve gets a plan with charts as an answer, or an error of one line."""

from __future__ import annotations

import json
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import huggingface_hub
import plotly.graph_objects as go
import pytest

from specviz.engines.model_deployment import ModelDeployment
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.shape_source import shape_of_source
from specviz.sizing.serving_plan import FIELDS, read_plan
from specviz.sizing.shape import MODELS, ModelShape
from specviz.sizing.sizing_answer import size as asked_size
from specviz.ui import engine_answers, own_models, serving
from specviz.ui.answers import UNEXPECTED
from specviz.ui.handlers import Handlers
from specviz.ui.own_models import COUNTS, FETCHES
from specviz.ui.serving import OWN, SIMULATIONS, WAITING, serving_offer
from specviz.ui.spending import spending
from tests.sizing.test_measured_times import LOAD

SMALL = {"target": "llama-3-1-8b", "gpus": "1", "output": "16"}
CONFIG = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
FILE = {"name": "load.json", "text": json.dumps(LOAD)}


def size(**fields: Any) -> dict[str, Any]:
    return Handlers().serving.size({"plan": fields})


def test_the_form_has_a_field_for_every_value_of_a_plan() -> None:
    offer = serving_offer()
    assert [field["name"] for field in offer["fields"]] == list(FIELDS)
    assert all(field["title"] and field["meaning"].endswith(".") for field in offer["fields"])
    assert size(**{each["name"]: each["default"] for each in offer["fields"]})["error"] is None
    json.dumps(offer, allow_nan=False)


@pytest.mark.parametrize(
    "fields",
    [
        SMALL,
        {"target": "llama-3-1-405b"},
        {"draft_gpus": "1", "batch": "1024", "output": "16"},
        {"load": "1000", "output": "16"},
    ],
)
def test_every_plan_has_its_charts_and_numbers(fields: dict[str, Any]) -> None:
    reply = size(**fields)
    load = Handlers().serving.arrivals({"plan": fields})
    assert reply["error"] is load["error"] is None
    for figure in (*reply["figures"].values(), *load["figures"].values()):
        go.Figure(figure)
    json.dumps((reply, load), allow_nan=False)
    assert bool(load["results"]) == (reply["size"]["largest_batch"] > 0)


def test_measured_times_change_only_the_simulation() -> None:
    given = {"plan": SMALL | {"target": "llama-3-1-405b"}, "measured": FILE}
    reply, load = (ask(given) for ask in (Handlers().serving.size, Handlers().serving.arrivals))
    assert reply["error"] is load["error"] is None
    assert reply == Handlers().serving.size({"plan": given["plan"]}) and not reply["size"]["fits"]
    assert load["results"] and "llama.cpp b1 at http://a, plain at http://b" in load["measured"][0]
    json.dumps((reply, load), allow_nan=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (FILE | {"text": "{}"}, "measured must be the JSON of load, of bench over batch sizes"),
        (
            {"name": "load.json"},
            "measured must be an object with a file's 'name' and 'text', got an object of 1",
        ),
        (
            [FILE],
            "measured must be an object with a file's 'name' and 'text', got an array of 1 item",
        ),
    ],
)
def test_a_file_with_other_content_is_refused(given: Any, said: str) -> None:
    for ask in (Handlers().serving.size, Handlers().serving.arrivals):
        assert said in ask({"plan": SMALL, "measured": given})["error"]


def test_the_line_is_dotted_where_the_memory_is_full() -> None:
    gains = [(1, 2.0), (4, 1.5), (16, 0.8)]
    whole, cut = batch_speedup_figure(gains, (4, 1.5)), batch_speedup_figure(gains, (4, 1.5), 4)
    assert whole["data"][0]["x"] == [1, 4, 16] and whole["data"][1]["x"] == []
    assert (cut["data"][0]["x"], cut["data"][1]["x"]) == ([1, 4], [4, 16])


def test_a_pasted_configuration_can_be_used_as_a_model() -> None:
    plan = {"plan": SMALL | {"target": OWN}, "target_config": json.dumps(CONFIG)}
    own = Handlers().serving.size(plan)["size"]
    assert own["speedup"] == size(**SMALL)["size"]["speedup"]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty Hub cache; the Hub's address is a port without a server."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    closed = "http://127.0.0.1:9/{repo_id}/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", closed)
    return tmp_path / "hub"


def keep(cache: Path, repository: str) -> None:
    """Write a downloaded model as the Hub's client stores it."""
    place = cache / f"models--{repository.replace('/', '--')}"
    snapshot = place / "snapshots" / ("1" * 40)
    for folder in (place / "refs", snapshot):
        folder.mkdir(parents=True)
    (place / "refs" / "main").write_text(snapshot.name)
    (snapshot / "config.json").write_text(json.dumps(CONFIG))


def own(name: str, **fields: Any) -> dict[str, Any]:
    return {"plan": SMALL | fields | {"target": OWN}, "target_config": name}


def test_a_repository_of_the_hub_can_be_used_as_a_model(nowhere: Path) -> None:
    keep(nowhere, "owner/model")
    reply = Handlers().serving.size(own(" owner/model "))
    assert reply["size"]["speedup"] == size(**SMALL)["size"]["speedup"]
    assert reply["size"]["target"] == reply["configuration"]["target"] == "owner/model"
    as_draft = {"plan": {"draft": OWN}, "draft_config": "owner/model"}
    assert Handlers().serving.size(as_draft)["configuration"]["draft"] == "owner/model"


def test_if_the_hub_cannot_be_reached_the_field_gets_one_error_line(nowhere: Path) -> None:
    assert Handlers().serving.size(own("owner/model"))["error"] == (
        "target model 'owner/model' is not on this machine and the Hub cannot be reached "
        "(ConnectError); choose a preset, or give its config.json"
    )


@pytest.mark.parametrize(
    "path", ["/etc", "~/models/a", "./owner/model", "a/b/c", "model", "x.gguf"]
)
def test_a_path_on_the_server_cannot_be_used_as_a_model(path: str) -> None:
    error = Handlers().serving.size(own(path))["error"]
    assert error.startswith("target must be a repository of the Hub, such as owner/model, or a")


def test_a_folder_with_the_name_of_a_repository_is_not_read(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "owner" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    assert "the Hub cannot be reached" in Handlers().serving.size(own("owner/model"))["error"]


def test_on_a_public_server_only_offered_repositories_are_requested(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repository in ("owner/model", "owner/other"):
        keep(nowhere, repository)
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setenv("SPECVIZ_MODELS_ALLOWED", "owner/model")
    ask = Handlers().serving.size
    assert ask(own("owner/model"))["error"] is None
    assert ask(own("owner/other"))["error"].startswith("target must be a model of the menu or one")
    assert ask(own(json.dumps(CONFIG)))["error"] is None


def test_downloads_of_configurations_block_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def slow(repository: str, _: object) -> Path:
        may_end.wait(20)
        return Path(repository)

    monkeypatch.setattr(own_models, "fetch_configuration", slow)
    ask = Handlers().serving.size
    with ThreadPoolExecutor(FETCHES + 1) as pool:
        answers = [pool.submit(ask, own(f"owner/{each}")) for each in range(FETCHES + 1)]
        (refused,) = wait(answers, return_when=FIRST_COMPLETED).done
        assert ask({"plan": SMALL})["error"] is None
        may_end.set()
    assert "must wait while other models are fetched" in refused.result()["error"]


# The fields of this configuration alone do not give the number of parameters, because OPT's
# feed-forward block has two matrices and biases.
OPT = {
    **{"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 512, "ffn_dim": 2048},
    **{"num_attention_heads": 8, "vocab_size": 50272, "word_embed_proj_dim": 512},
}


def test_the_page_counts_parameters_as_the_command_does(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(OPT))
    plan = read_plan(SMALL, shape_of_source(str(file)))
    reply = Handlers().serving.size(own(json.dumps(OPT)))
    assert reply["error"] is None
    assert reply["size"]["memory"] == asked_size(plan)["memory"]


def test_a_configuration_that_many_request_is_counted_once_and_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end, counted = threading.Event(), list[str]()

    def slow(content: dict[str, Any], title: str) -> ModelShape:
        counted.append(content["model_type"])
        may_end.wait(20)
        return MODELS["llama-3-1-8b"]

    monkeypatch.setattr(own_models, "shape_of_content", slow)
    ask = Handlers().serving.size
    with ThreadPoolExecutor(COUNTS + 1) as pool:
        answers = [pool.submit(ask, own(json.dumps(OPT))) for _ in range(COUNTS + 1)]
        (refused,) = wait(answers, return_when=FIRST_COMPLETED).done
        assert ask({"plan": SMALL})["error"] is None
        may_end.set()
    assert refused.result()["error"] == (
        "target must wait while other models are counted: try again in a moment"
    )
    assert [each.result()["error"] for each in answers if each is not refused] == [None] * COUNTS
    assert ask(own(json.dumps(OPT)))["error"] is None and counted == ["opt"]


def test_counting_a_configuration_uses_the_visitor_s_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((1.0, 8.0))
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(own_models, "children_seconds", lambda: next(times))
    monkeypatch.setattr(own_models, "shape_of_content", lambda *_: MODELS["llama-3-1-8b"])
    ask = Handlers().serving.size
    assert ask(own(json.dumps(OPT)) | {"address": "counts"})["error"] is None
    assert spending.is_over("counts") and not spending.is_over("others")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_a_plan_becomes_a_configuration_of_every_engine(engine: str) -> None:
    """Each engine's command is read again and contains only current flags."""
    asked = Handlers().serving
    planned = asked.size({"plan": {}})["configuration"]
    reply = asked.configuration({"engine": engine, "fields": planned})
    assert reply["error"] is None
    command = reply["forms"]["command"]
    assert planned["target"] in command and planned["draft"] in command
    # Only vLLM accepts a K for each batch size. The answers for the other engines say that they
    # have no such option.
    assert ("1, 25, 5" in command) == (engine == "vllm")
    assert any(each.startswith("schedule has no equivalent") for each in reply["remarks"]) == (
        engine != "vllm"
    )
    read_back = asked.translation({"text": command, "to": ""})
    assert read_back["to"] == engine and read_back["problems"] == []
    assert {each["fate"] for each in read_back["changes"]} == {"the same"}


def test_a_plan_fills_in_the_batch_the_method_and_a_known_head() -> None:
    asked = Handlers().serving
    reply = asked.size({"plan": {"token_limit": "20"}})
    kept = reply["size"]["speculative"]["batch_within_limits"]
    assert 0 < kept < reply["size"]["speculative"]["seats"]
    assert reply["configuration"]["max_batch"] == str(kept)
    loss = {"target": "gpt2", "draft": "distilgpt2", "acceptance": "0.3"}
    assert asked.size({"plan": loss})["configuration"]["method"] == "none"
    n_grams = asked.size({"plan": {"draft": "n-gram"}})["configuration"]
    assert (n_grams["lookup_min"], n_grams["lookup_max"]) == ("1", "3")
    head = asked.size({"plan": {"target": "llama-3-1-8b", "draft": "eagle"}})["configuration"]
    assert head["draft"] == "yuhuili/EAGLE-LLaMA3.1-Instruct-8B"
    assert head["target"] == "meta-llama/Llama-3.1-8B-Instruct", "it was made for that one"
    assert n_grams["target"] == "meta-llama/Llama-3.3-70B-Instruct", "those that chat are served"
    assert asked.size({"plan": {"gpus": "1"}})["configuration"] is None, "it does not fit"
    one = asked.size({"plan": {"batch": "30"}})
    assert one["configuration"]["draft_tokens"] == str(one["size"]["draft_length"]) == "4"
    assert "1-" in one["configuration"]["schedule"] and ":5 " in one["configuration"]["schedule"]
    fields = one["configuration"]
    commands = [
        asked.configuration({"engine": each, "fields": fields})["forms"]["command"]
        for each in ("sglang", "vllm")
    ]
    assert "--speculative-num-steps 4" in commands[0], "it takes no schedule"
    assert '"num_speculative_tokens": 5' in commands[1], "the most of its schedule"


def test_a_batch_job_gets_the_configuration_that_finishes_first() -> None:
    asked = Handlers().serving
    prompts = {"target": "llama-3-1-8b", "gpus": "1", "prompt": "2000", "output": "5"}
    reply = asked.size({"plan": prompts | {"job": "500000"}})
    assert reply["configuration"]["method"] == "none"
    assert reply["configuration"]["max_batch"] == str(reply["size"]["plain"]["job_batch"])
    gains = asked.size({"plan": {"job": "20", "output": "1000", "prompt": "100"}})
    assert gains["configuration"]["method"] == "draft-model"
    assert gains["configuration"]["max_batch"] == str(gains["size"]["speculative"]["job_batch"])


def test_a_planned_head_and_its_weights_are_fields_of_the_form() -> None:
    asked = Handlers().serving
    plan = {"draft": "eagle", "precision": "fp8", "draft_precision": "bf16", "draft_gpus": "0"}
    planned = asked.size({"plan": plan})["configuration"]
    assert (planned["quantization"], planned["draft_quantization"]) == ("fp8", "")
    question = {"engine": "vllm", "fields": planned}
    assert "draft must be given for method eagle" in asked.configuration(question)["error"]
    question["fields"] = planned | {"draft": "org/head", "draft_quantization": "fp8_per_block"}
    command = asked.configuration(question)["forms"]["command"]
    assert "--quantization fp8" in command and '"quantization": "fp8_per_block"' in command
    own = asked.size({"plan": {"draft_gpus": "1"}})["configuration"]
    assert own["draft_tensor_parallel"] == "1"
    refused = asked.configuration({"engine": "vllm", "fields": own})["error"]
    assert "draft-tensor-parallel must be the target's 4 for a draft model in vLLM" in refused


def test_each_pasted_flag_is_listed_with_its_translation() -> None:
    text = "--model a/b --speculative-model [ngram] --num-speculative-tokens 5"
    reply = Handlers().serving.translation({"text": text, "to": "vllm"})
    assert [each["typed"] for each in reply["changes"]] == [
        *("--model", "--speculative-model", "--num-speculative-tokens")
    ]
    assert all(each["why"] for each in reply["changes"][1:])
    assert '"method": "ngram"' in reply["forms"]["command"]


@pytest.mark.parametrize(
    ("asked", "question", "said"),
    [
        ("configuration", {"engine": "vllm", "fields": 3}, "fields must be an object"),
        ("configuration", {"engine": "vllm", "fields": {}}, "target must be the name or path"),
        ("configuration", {"engine": "tgi", "fields": {"target": "a"}}, "engine must be one of"),
        ("configuration", {"engine": "vllm", "fields": {"target": 3}}, "target must be a text"),
        (
            "configuration",
            {"engine": "vllm", "fields": {"target": "a", "method": "x"}},
            "method must be one of none,",
        ),
        (
            "configuration",
            {"engine": "vllm", "fields": {"target": "a", "max_batch": "many"}},
            "max-batch must be a whole number, got 'many'",
        ),
        (
            "configuration",
            {"engine": "vllm", "fields": {"target": "a", "schedule": "1-2"}},
            "schedule must be ranges such as 1-16:5",
        ),
        ("configuration", {"engine": "vllm", "fields": {"colour": "1"}}, "field must be one of"),
        ("translation", {"text": "  "}, "text must be a command, code, JSON or YAML"),
        ("translation", {"text": "x" * 20_001}, "text must have at most 20000 characters"),
        ("translation", {"text": "vllm serve a", "to": "tgi"}, "engine must be one of"),
    ],
)
def test_an_invalid_request_about_engines_is_one_line(
    asked: str, question: dict[str, Any], said: str
) -> None:
    error = getattr(Handlers().serving, asked)(question)["error"]
    assert said in error and len(error) < 400


def test_on_a_public_server_no_model_named_by_a_visitor_is_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def looked(deployment: ModelDeployment) -> None:
        raise AssertionError(deployment)

    monkeypatch.setattr(engine_answers, "read_local_pair", looked)
    handlers = Handlers().serving
    fields = {"target": "/etc", "draft": "/tmp", "method": "draft-model", "draft_tokens": "3"}
    asked = {"engine": "vllm", "fields": fields}
    text = "vllm serve /etc --speculative-model /tmp --num-speculative-tokens 3"
    # The test makes reading a local model an error. A server that is not public reads the folders
    # that the user names, so it reports the error; a public server does not read them.
    assert handlers.configuration(asked)["error"] == UNEXPECTED
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    assert handlers.configuration(asked)["error"] is None
    assert handlers.translation({"text": text, "to": ""})["error"] is None


@pytest.mark.parametrize(
    "question, said",
    [
        ({}, "'plan' must be given in the request"),
        ({"plan": 3}, "plan must be an object, got 3"),
        ({"plan": {"gpus": "x"}}, "gpus must be a whole number from 1 to 64, got 'x'"),
        ({"plan": {"target": OWN}}, "target must be a preset, a name on the Hub or a config.json"),
        ({"plan": {"draft": OWN}, "draft_config": '{"a":' * 9_000}, "it is not a JSON object"),
        ({"plan": {"draft": OWN}, "draft_config": "[]"}, "or a config.json, got '[]'"),
        ({"plan": {"draft": OWN}, "draft_config": " " * 100_001 + "1"}, "of at most 100,000"),
        (
            {"plan": {"target": OWN}, "target_config": '{"num_hidden_layers": 1e12}'},
            "num_hidden_layers of at most 512",
        ),
        (
            {"plan": {"target": OWN}, "target_config": '{"num_hidden_layers": 2}'},
            "must have hidden_size in its configuration",
        ),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(question: dict[str, Any], said: str) -> None:
    for ask in (Handlers().serving.size, Handlers().serving.arrivals):
        error = ask(question)["error"]
        assert said in error and len(error) < 500


def test_waiting_load_simulations_use_few_of_the_answering_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end, asked = threading.Event(), SIMULATIONS + WAITING
    monkeypatch.setattr(serving, "by_load", lambda _: may_end.wait(20) and [])
    ask = Handlers().serving.arrivals
    with ThreadPoolExecutor(asked + 1) as pool:
        answers = [pool.submit(ask, {"plan": {}}) for _ in range(asked + 1)]
        (refused,) = wait(answers, return_when=FIRST_COMPLETED).done
        may_end.set()
    assert refused.result()["error"].startswith("other loads are being simulated")
    assert [each.result()["error"] for each in answers if each is not refused] == [None] * asked


def test_the_format_of_a_plan_s_weights_is_written_as_the_engine_needs_it() -> None:
    asked = Handlers().serving
    planned = asked.size({"plan": {"precision": "fp8", "draft_precision": "bf16"}})
    fields = planned["configuration"]
    reply = asked.configuration({"engine": "sglang", "fields": fields})
    assert "--speculative-draft-model-quantization unquant" in reply["forms"]["command"]
    base = {"target": "meta-llama/Llama-3.1-70B"}
    reply = asked.configuration({"engine": "sglang", "fields": base})
    assert any("base model" in each and "-Instruct" in each for each in reply["remarks"])
    fields = asked.size({"plan": {"precision": "q4_k_m"}})["configuration"]
    reply = asked.configuration({"engine": "llama.cpp", "fields": fields})
    assert f"--hf-repo {fields['target']}:Q4_K_M" in reply["forms"]["command"]
    assert any("must be a GGUF repository" in each for each in reply["remarks"])
