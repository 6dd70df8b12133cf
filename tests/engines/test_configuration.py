"""Reading a written configuration gives the deployment from which it was written."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from specviz.engines.configuration import configure
from specviz.engines.engine_registry import engines, server_adapters, server_named
from specviz.engines.engine_rules import problems
from specviz.engines.local_pair import read_local_pair
from specviz.engines.model_deployment import (
    NO_TARGET,
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
)
from specviz.engines.served_pair import ServedPair
from specviz.engines.translation import Fate, translate
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from tests.engines.served_deployments import EACH, OF_ENGINES


@pytest.mark.parametrize(("engine", "name"), EACH)
def test_every_form_is_read_as_the_same_deployment(engine: str, name: str) -> None:
    deployment = OF_ENGINES[engine][name]
    for form, text in configure(deployment, engine).forms.items():
        found = translate(text)
        assert found.source == engine, form
        assert found.problems == (), form
        read = found.deployment
        assert read is not None
        if form == "YAML" and server_named(engine).in_file:
            # The file has no flags: the command in its first comment has them.
            assert read == _of_speculation(deployment)
            continue
        if form in ("Python", "docker compose", "Kubernetes"):
            # A container's configuration always has a port, and a Python program never has one.
            read = _with_port(read, deployment.port)
        assert read == deployment, form
        fates = {each.fate for each in found.changes}
        assert fates <= {Fate.SAME, Fate.KEPT}, (form, found.changes)


def _of_speculation(deployment: ModelDeployment) -> ModelDeployment:
    names = ("method", "draft", "draft_tokens", "lookup_max")
    return ModelDeployment(target=NO_TARGET, **{each: getattr(deployment, each) for each in names})


def _with_port(deployment: ModelDeployment, port: int | None) -> ModelDeployment:
    fields = {name: getattr(deployment, name) for name in ModelDeployment.__slots__}
    return ModelDeployment(**(fields | {"port": port}))


def test_a_command_is_quoted_for_a_shell() -> None:
    command = configure(OF_ENGINES["vllm"]["names with spaces"], "vllm").command
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["vllm", "serve", "/models/it's big"]
    assert '"/models/small $1"' in words[-1]


def test_a_manifest_requests_as_many_gpus_as_the_target_is_split_over() -> None:
    texts = configure(OF_ENGINES["vllm"]["eagle"], "vllm")
    manifest = next(yaml.safe_load_all(texts.kubernetes))
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert "4" in container["args"]
    (service,) = yaml.safe_load(texts.compose)["services"].values()
    devices = service["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["count"] == 4


def test_python_forms_can_be_parsed_as_python() -> None:
    for engine, name in EACH:
        compile(configure(OF_ENGINES[engine][name], engine).python, name, "exec")


def test_a_field_that_an_engine_lacks_is_reported() -> None:
    deployment = ModelDeployment(
        target="org/target",
        method=EngineMethod.DRAFT_MODEL,
        draft="org/draft",
        draft_tokens=4,
        min_probability=0.5,
        schedule=(BatchRange(1, 8, 4), BatchRange(9, 16, 0)),
    )
    for engine, field in (
        ("vllm", "min-probability"),
        ("sglang", "min-probability"),
        ("sglang", "schedule"),
        ("llama.cpp", "schedule"),
    ):
        told = configure(deployment, engine).remarks
        assert any(each.startswith(f"{field} has no equivalent") for each in told), (engine, told)


def test_the_engine_knows_every_setting_of_speculation_that_is_written() -> None:
    for engine, name in EACH:
        method = OF_ENGINES[engine][name].method
        facts = engines()[engine]
        if method is EngineMethod.NONE:
            continue
        allowed = facts.shared_fields | set(facts.methods[method].fields)
        told = server_adapters()[engine].options(OF_ENGINES[engine][name])
        marks = ("speculative_config.", "--speculative", "--spec-")
        keys = {key.removeprefix(marks[0]) for key in told if key.startswith(marks)}
        assert keys <= allowed, (engine, name, keys - allowed)


def test_llama_cpp_s_python_package_has_every_written_field() -> None:
    """The written code runs up to the server's start; an unknown field would raise an error."""
    pytest.importorskip("xllamacpp")
    for name, deployment in OF_ENGINES["llama.cpp"].items():
        code = configure(deployment, "llama.cpp").python
        exec(compile(code.replace("server = xllamacpp.Server(params)\n", ""), name, "exec"), {})


@pytest.mark.parametrize(
    ("engine", "fields", "said"),
    [
        ("vllm", {"quantization": "Q4_K_M"}, "quantization has no equivalent in vLLM: Q4_K_M is a"),
        ("llama.cpp", {"quantization": "awq"}, "awq is a format of vLLM and SGLang"),
        ("llama.cpp", {"target": "./a.gguf", "quantization": "Q8_0"}, "a GGUF file has its"),
        (
            "llama.cpp",
            {"method": EngineMethod.DFLASH, "draft_device": "CUDA1"},
            "has no device setting",
        ),
        (
            "vllm",
            {"draft_device": "CUDA1"},
            "draft-device has no equivalent in vLLM: the draft runs on",
        ),
        (
            "sglang",
            {"quantization": "awq"},
            "draft in the target's format if draft-quantization",
        ),
    ],
)
def test_a_format_or_device_that_an_engine_lacks_is_left_out_and_reported(
    engine: str, fields: dict[str, Any], said: str
) -> None:
    found = configure(ModelDeployment(**({**_DRAFT, "draft_tokens": 3} | fields)), engine)
    assert any(said in each for each in found.remarks), found.remarks
    if engine != "sglang":
        assert not any(str(value) in found.command for value in fields.values() if value in UNSAID)


UNSAID = ("Q4_K_M", "awq", "Q8_0", "CUDA1")


def test_a_tag_after_a_repository_of_llama_cpp_is_the_format_of_its_weights() -> None:
    command = configure(OF_ENGINES["llama.cpp"]["weights"], "llama.cpp").command
    assert "--hf-repo org/target:Q4_K_M" in command and "org/draft:q8_0" in command
    found = translate("llama-server -hf org/target:Q4_K_M", to="vllm")
    assert found.deployment is not None and found.deployment.target == "org/target"
    assert found.configuration is not None and "Q4_K_M" not in found.configuration.command


_DRAFT: dict[str, Any] = {"target": "t", "method": EngineMethod.DRAFT_MODEL, "draft": "d"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": ""}, "target must be the name or path of a model, got ''"),
        ({"target": "-x"}, "target must be the name or path"),
        ({"target": "t", "method": EngineMethod.EAGLE}, "draft must be given for method eagle"),
        ({"target": "t", "draft": "d"}, "draft must not be given for method none"),
        ({"target": "t", "draft_tokens": 3}, "method must be given together with draft-tokens"),
        (
            _DRAFT | {"draft_tokens": 0},
            "draft-tokens must be a whole number from 1 to 1,024, got 0",
        ),
        (_DRAFT | {"draft_tokens": True}, "draft-tokens must be a whole number"),
        (_DRAFT | {"quantization": "4 bits"}, "quantization must be a name without spaces, got"),
        (
            {"target": "t", "method": EngineMethod.PROMPT_LOOKUP, "draft_quantization": "fp8"},
            "draft-quantization must be given only for a method with a draft or head",
        ),
        (_DRAFT | {"lookup_max": 3}, "lookup-max must be given only for method prompt-lookup"),
        (_DRAFT | {"memory_fraction": 0.0}, "memory-fraction must be above 0"),
        (_DRAFT | {"memory_fraction": float("nan")}, "memory-fraction must be a number from 0"),
        (_DRAFT | {"max_length": 8, "draft_max_length": 9}, "draft-max-length must be at most"),
        (_DRAFT | {"schedule": (BatchRange(2, 4, 1),)}, "schedule must begin at batch size 1"),
        (
            _DRAFT | {"schedule": (BatchRange(1, 4, 1), BatchRange(4, 8, 0))},
            "schedule must have ranges of batch sizes in order",
        ),
        (
            {
                "target": "t",
                "method": EngineMethod.PROMPT_LOOKUP,
                "lookup_min": 4,
                "lookup_max": 2,
            },
            "lookup-min must be at most lookup-max, which is 2, got 4",
        ),
        (
            {
                "target": "t",
                "method": EngineMethod.PROMPT_LOOKUP,
                "draft_sampling": DraftSampling.GREEDY,
            },
            "draft-sampling must not be given for method prompt-lookup",
        ),
    ],
)
def test_the_error_names_the_rule_that_a_deployment_breaks(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        ModelDeployment(**fields)


@pytest.mark.parametrize(
    ("engine", "fields", "message"),
    [
        ("vllm", {}, "draft-tokens must be given for method draft-model in vLLM"),
        (
            "vllm",
            {"draft_tokens": 3, "tensor_parallel": 4, "draft_tensor_parallel": 2},
            "draft-tensor-parallel must be 1 or the target's 4 in vLLM, got 2",
        ),
        (
            "vllm",
            {"draft_tokens": 3, "tensor_parallel": 4, "draft_tensor_parallel": 1},
            "draft-tensor-parallel must be the target's 4 for a draft model in vLLM",
        ),
        (
            "vllm",
            {
                "draft_tokens": 3,
                "mixed_vocabularies": True,
                "draft_sampling": DraftSampling.PROBABILISTIC,
            },
            "must be used with draft-sampling greedy",
        ),
        (
            "vllm",
            {"method": EngineMethod.EAGLE, "draft_tokens": 3, "mixed_vocabularies": True},
            "must be used with method draft-model",
        ),
        (
            "sglang",
            {"draft_quantization": "fp9"},
            "draft-quantization must be one of awq, .* in SGLang, got 'fp9'",
        ),
        ("sglang", {"method": EngineMethod.MEDUSA}, "SGLang 0.5.23 has no method medusa"),
        ("sglang", {"draft_tokens": 3, "branching": 2}, "tree-tokens must be given"),
        ("sglang", {"branching": 2, "tree_tokens": 8}, "draft-tokens must be given"),
        ("sglang", {"draft_tokens": 3, "tree_tokens": 9}, "tree-tokens must be draft-tokens"),
        ("sglang", {"draft_tokens": 3, "mixed_vocabularies": True}, "must be off in SGLang"),
        ("llama.cpp", {"method": EngineMethod.EAGLE}, "has no method eagle"),
        ("llama.cpp", {"draft_tokens": 3, "mixed_vocabularies": True}, "off in llama.cpp"),
        ("tensorrt-llm", {}, "draft-tokens must be given for method draft-model in TensorRT-LLM"),
        ("tensorrt-llm", {"method": EngineMethod.MEDUSA}, "has no method medusa"),
        ("tensorrt-llm", {"draft_tokens": 3, "mixed_vocabularies": True}, "off in TensorRT-LLM"),
        (
            "tgi",
            {"draft_tokens": 3},
            "engine must be one of vllm, sglang, llama.cpp, tensorrt-llm, got 'tgi'",
        ),
    ],
)
def test_a_configuration_that_the_engine_would_refuse_is_refused_before_the_start(
    engine: str, fields: dict[str, Any], message: str
) -> None:
    deployment = ModelDeployment(**(_DRAFT | fields))
    with pytest.raises(InputError, match=message):
        configure(deployment, engine)


@pytest.mark.parametrize(
    ("engine", "method", "pair", "message"),
    [
        ("vllm", "draft-model", ServedPair(64, 32), "vocabularies of one size in vLLM, got 64"),
        (
            "vllm",
            "draft-model",
            ServedPair(64, 64, "token 3 is 'a' and 'b'"),
            "same tokenizer, got two: token 3 .* vLLM compares only the sizes",
        ),
        ("sglang", "draft-model", ServedPair(64, 64, "token 3"), "same tokenizer, got two"),
        ("llama.cpp", "draft-model", ServedPair(64, 64, "token 3"), "same tokenizer, got two"),
        ("vllm", "medusa", ServedPair(heads=3), "at most 3, the number of Medusa heads, got 5"),
        ("vllm", "medusa", ServedPair(inner_size=9), "with one matrix, .* two with inner_size 9"),
        ("vllm", "eagle", ServedPair(64, 32), "all 64 tokens .* got draft_vocab_size 32"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    engine: str, method: str, pair: ServedPair, message: str
) -> None:
    deployment = ModelDeployment(target="t", method=EngineMethod(method), draft="d", draft_tokens=5)
    with pytest.raises(InputError, match=message):
        configure(deployment, engine, pair=pair)


@pytest.mark.parametrize(
    ("method", "name", "fits"),
    [("eagle", "eagle", True), ("eagle", "smollm2-135m/eagle", False), ("medusa", "medusa", False)],
)
def test_vllm_gets_only_those_bundled_heads_that_it_can_load(
    method: str, name: str, fits: bool
) -> None:
    """tests/serving/test_vllm.py has vLLM's own answers about these heads."""
    head = Path(pair_named("bundled").target).parent / name
    served = ModelDeployment(
        target="t", method=EngineMethod(method), draft=str(head), draft_tokens=3
    )
    assert fits != bool(problems(served, server_named("vllm"), read_local_pair(served)))
