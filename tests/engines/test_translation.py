"""Old flags and snippets from articles are translated, and the report says what became of each."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
import yaml

from specviz.commands.translate_command import translated_text
from specviz.engines.draft_schedule import schedule_of_sweep
from specviz.engines.model_deployment import (
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
)
from specviz.engines.model_names import other_target
from specviz.engines.readers.found_flags import MAX_TEXT
from specviz.engines.served_pair import ServedPair
from specviz.engines.translation import Fate, Translation, translate
from specviz.engines.translation_answer import translation_answer
from specviz.errors import InputError


def fates(found: Translation) -> dict[str, Fate]:
    return {each.typed: each.fate for each in found.changes}


def command(found: Translation) -> str:
    """Return the translated command in one line."""
    assert found.configuration is not None, found.problems
    return found.configuration.command.replace(" \\\n   ", "").rstrip()


def speculative(found: Translation) -> dict[str, Any]:
    """Return the JSON value of --speculative-config in the translated vLLM command."""
    match = re.search(r"--speculative-config '(.*?)'", command(found))
    assert match is not None
    value: dict[str, Any] = json.loads(match[1])
    return value


@pytest.mark.parametrize(
    ("old", "key", "value"),
    [
        ("--speculative-model org/draft", "model", "org/draft"),
        ("--speculative_model=org/draft", "model", "org/draft"),
        ("--speculative-model [ngram]", "method", "ngram"),
        ("--ngram-prompt-lookup-max 4 --speculative-model '[ngram]'", "prompt_lookup_max", 4),
        ("--ngram-prompt-lookup-max 4 --speculative-model '[ngram]'", "prompt_lookup_min", 1),
        (
            "--ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 2 --speculative-model [ngram]",
            "prompt_lookup_min",
            2,
        ),
        ("--speculative-model d --speculative-max-model-len 512", "max_model_len", 512),
        (
            "-tp 2 --speculative-model d --speculative-draft-tensor-parallel-size 2",
            "draft_tensor_parallel_size",
            2,
        ),
        (
            "--speculative-model d --speculative-disable-by-batch-size 8",
            "num_speculative_tokens_per_batch_size",
            [[1, 7, 5], [8, 8, 0]],
        ),
        (
            "--speculative-model d --speculative-disable-by-batch-size 8 --max-num-seqs 32",
            "num_speculative_tokens_per_batch_size",
            [[1, 7, 5], [8, 32, 0]],
        ),
        ("--speculative-model d --speculative-model-quantization awq", "quantization", "awq"),
        ("--speculative-model yuhuili/EAGLE3-x", "method", "eagle3"),
        ("--speculative-model d", "num_speculative_tokens", 5),
        ("--speculative-model d --guided-decoding-backend auto", "method", "draft_model"),
    ],
)
def test_an_old_vllm_flag_is_replaced(old: str, key: str, value: Any) -> None:
    found = translate(f"vllm serve org/target --num-speculative-tokens 5 {old}")
    assert speculative(found)[key] == value
    assert Fate.UNKNOWN not in fates(found).values()


@pytest.mark.parametrize(
    "flag",
    [
        "--use-v2-block-manager",
        "--speculative-disable-mqa-scorer",
        "--spec-decoding-acceptance-method typical_acceptance_sampler",
        "--typical-acceptance-sampler-posterior-alpha 0.3",
        "--num-lookahead-slots 5",
        "--speculative-token-tree [(0,)]",
        "--swap-space 4",
        "--task generate",
        "--device cuda",
    ],
)
def test_a_removed_flag_is_left_out_and_explained(flag: str) -> None:
    text = f"vllm serve t --speculative-model d --num-speculative-tokens 5 {flag}"
    found = translate(text)
    (change,) = (each for each in found.changes if each.fate is Fate.GONE)
    assert change.typed == flag.split()[0] and change.why
    assert change.typed not in command(found)


def test_the_self_draft_that_vllm_never_had_is_refused() -> None:
    found = translate('vllm serve t --speculative-model "[self]" --num-speculative-tokens 5')
    assert fates(found)["--speculative-model"] is Fate.UNKNOWN
    assert found.configuration is None
    assert "first layers" in found.problems[0]


def test_a_draft_model_named_in_a_request_becomes_a_setting_of_the_engine() -> None:
    found = translate(
        "from vllm import LLM, SamplingParams\n"
        "options = SamplingParams(temperature=0.8, max_tokens=64, speculative_model='org/small',\n"
        "                         num_speculative_tokens=4)\n"
        "llm = LLM(model='org/big')\n"
        "print(llm.generate(['Why?'], options))\n"
    )
    assert speculative(found)["model"] == "org/small"
    assert any("never had it" in each.why for each in found.changes)
    assert set(fates(found)) == {"speculative_model", "num_speculative_tokens", "model"}


def test_removed_classes_are_named() -> None:
    found = translate(
        "from vllm import LLM\n"
        "from vllm.spec_decode.batch_expansion import BatchExpansionTop1Scorer\n"
        "from vllm.spec_decode.spec_decode_worker import SpecDecodeWorker\n"
        "llm = LLM('t', speculative_model='d', num_speculative_tokens=3)\n"
    )
    assert fates(found)["SpecDecodeWorker"] is Fate.GONE
    assert fates(found)["BatchExpansionTop1Scorer"] is Fate.GONE
    assert speculative(found)["method"] == "draft_model"


def test_shell_text_is_read_as_a_shell_reads_it() -> None:
    found = translate(
        "pip install vllm  # don't forget\n"
        "export HF_TOKEN=abc\n"
        "$ CUDA_VISIBLE_DEVICES=0,1 python3 -m vllm.entrypoints.openai.api_server \\\n"
        "    --model 'org/the big one' \\  \n"
        "    –-tensor-parallel-size 2 \\\n"
        "    --speculative-config '{\n"
        '        "method": "eagle3", "model": "org/head",\n'
        '        "num_speculative_tokens": 3}\' \\\n'
        "    --enable-prefix-caching --seed=7 && echo done\n"
    )
    assert found.deployment == ModelDeployment(
        target="org/the big one",
        method=EngineMethod.EAGLE3,
        draft="org/head",
        draft_tokens=3,
        tensor_parallel=2,
    )
    assert "--enable-prefix-caching --seed 7" in command(found)
    assert any("CUDA_VISIBLE_DEVICES" in note for note in found.notes)
    # The environment variable may be a secret, so no result repeats it.
    assert "abc" not in str(found)


def test_a_container_is_read_for_the_command_that_it_runs() -> None:
    found = translate(
        "docker run --gpus all -e HF_TOKEN=abc -p 8000:8000 --ipc=host vllm/vllm-openai:v0.6.3 \\\n"
        "  --model org/t --speculative-model org/d --num-speculative-tokens 3"
    )
    assert speculative(found)["num_speculative_tokens"] == 3
    assert any("options of its own" in note for note in found.notes)
    other = translate("docker run -e HF_TOKEN=abc own/image -sc.method mtp")
    assert "abc" not in str(found) + str(other)


@pytest.mark.parametrize(
    "text",
    [
        '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}',
        "speculative-config: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 3}\n",
        "from vllm import LLM\nsettings = dict(method='ngram', num_speculative_tokens=4,"
        " prompt_lookup_max=3)\nllm = LLM(model='MODEL', speculative_config=settings)",
        "--speculative-config.method ngram --speculative-config.num_speculative_tokens 4"
        " --speculative-config.prompt_lookup_max 3",
    ],
)
def test_json_yaml_and_python_give_the_same_result(text: str) -> None:
    found = translate(text)
    assert found.deployment == ModelDeployment(
        target="MODEL", method=EngineMethod.PROMPT_LOOKUP, draft_tokens=4, lookup_max=3
    )


def test_a_key_unknown_to_vllm_is_reported_and_other_known_keys_are_kept() -> None:
    found = translate(
        'vllm serve t --speculative-config \'{"model": "d", "num_speculative_tokens": 2, '
        '"rejection_sample_method": "block", "acceptance": 1}\''
    )
    assert fates(found)["acceptance"] is Fate.UNKNOWN
    assert fates(found)["rejection_sample_method"] is Fate.SAME
    assert speculative(found)["rejection_sample_method"] == "block"


def test_a_value_that_is_written_differently_is_reported() -> None:
    found = translate('{"method": "ngram_gpu", "num_speculative_tokens": 3}')
    assert "method ngram_gpu is read as ngram" in found.notes
    found = translate("other-server x --speculative-model d --num-speculative-tokens 3")
    assert found.notes[0].startswith("other-server: an unknown program")
    found = translate("llama-server -hf org/big-GGUF -hfd org/small-GGUF --draft 8")
    assert [each.now for each in found.changes[:2]] == ["--hf-repo", "--spec-draft-hf"]


_NGRAM = '{"method": "ngram", "num_speculative_tokens": 5}'
_FLAGS = ["--model", "org/a", "--speculative-config", _NGRAM]


@pytest.mark.parametrize(
    "file",
    [
        {"kind": "Deployment", "spec": {"containers": [{"name": "a", "args": _FLAGS}]}},
        {"apiVersion": "serving.kserve.io/v1beta1", "spec": {"model": {"args": _FLAGS}}},
        {"services": {"a": {"command": _FLAGS}}},
        {"services": {"a": {"build": ".", "command": shlex.join(_FLAGS)}}},
        {"services": [{"image": "vllm/vllm-openai", "command": _FLAGS}]},
    ],
)
def test_flags_of_a_container_without_an_image_are_read(file: Any) -> None:
    found = translate(yaml.safe_dump(file))
    assert found.deployment is not None and found.deployment.target == "org/a"
    assert found.deployment.method is EngineMethod.PROMPT_LOOKUP
    is_unnamed = "the file names no engine" in " ".join(found.notes)
    assert is_unnamed == ("vllm/vllm-openai" not in str(file))


@pytest.mark.parametrize(
    "text",
    [
        "services:\n",
        "services: hello\n",
        "services:\n  a:\n",
        "services:\n  a:\n    image: 3\n    command: x\n",
        "kind: Pod\nspec:\n  containers: null\n",
        "kind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai\n    args: 5\n",
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
    ],
)
def test_a_file_without_an_engine_s_container_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match="^the file must have a container whose image or command"):
        translate(text)


@pytest.mark.parametrize("model", ["-m", "--model"])
def test_a_path_next_to_a_repository_names_a_file_in_it(model: str) -> None:
    """llama.cpp looks for the file in the repository, whichever of the two flags comes first."""
    for text in (f"-hf org/a-GGUF {model} b.gguf", f"{model} b.gguf -hf org/a-GGUF"):
        found = translate(f"llama-server {text}")
        assert found.deployment is not None and found.configuration is not None
        assert found.deployment.target == "org/a-GGUF"
        assert found.configuration.command.split() == [
            *("llama-server", "\\", "--hf-repo", "org/a-GGUF", "\\", "--hf-file", "b.gguf")
        ]
        change = next(each for each in found.changes if each.value == "b.gguf")
        assert (change.fate, change.now) == (Fate.MOVED, "--hf-file")
        assert change.why == "it names a file in the repository of --hf-repo"
    other = translate(f"llama-server -hf org/a-GGUF {model} b.gguf", "vllm")
    assert other.deployment is not None and other.deployment.target == "org/a-GGUF"


def test_a_path_next_to_a_repository_and_its_file_is_left_out() -> None:
    found = translate("llama-server -hf org/a-GGUF -hff b.gguf -m saved.gguf")
    assert found.configuration is not None and "saved.gguf" not in found.configuration.command
    assert "-hff b.gguf" in found.configuration.command
    assert [each.fate for each in found.changes] == [Fate.MOVED, Fate.KEPT, Fate.DROPPED]


def test_a_draft_s_path_next_to_its_repository_is_kept() -> None:
    found = translate("llama-server -m a.gguf -md c.gguf -hfd org/b-GGUF")
    assert found.configuration is not None
    assert "--spec-draft-hf org/b-GGUF" in found.configuration.command
    assert "--spec-draft-model c.gguf" in found.configuration.command
    assert [each.now for each in found.changes] == [
        *("--model", "--spec-draft-model", "--spec-draft-hf")
    ]


def test_a_path_without_a_value_next_to_a_repository_is_a_problem() -> None:
    assert translate("llama-server -hf org/a-GGUF -m").problems == (
        "-m must have a value, got none",
    )


def test_removed_flags_of_llama_cpp_are_replaced() -> None:
    found = translate(
        "./build/bin/llama-server -m big.gguf -md small.gguf --draft-max 16 --draft-min 4 "
        "--draft-p-min 0.8 -c 8192 -np 2 -ngl 99 -cd 4096"
    )
    assert found.deployment == ModelDeployment(
        target="big.gguf",
        method=EngineMethod.DRAFT_MODEL,
        draft="small.gguf",
        draft_tokens=16,
        min_draft_tokens=4,
        min_probability=0.8,
        max_length=4096,
        max_batch=2,
    )
    assert "--spec-type draft-simple" in command(found)
    assert "--spec-draft-n-max 16" in command(found)
    assert fates(found)["--draft-max"] is Fate.MOVED and fates(found)["-cd"] is Fate.GONE


def test_a_tree_of_sglang_stays_a_tree_there_and_becomes_a_chain_elsewhere() -> None:
    text = (
        "sglang --model-path org/t --speculative-algo EAGLE3 "
        "--speculative-draft-model-path org/h --speculative-num-steps 5 "
        "--speculative-eagle-topk 8 --speculative-num-draft-tokens 32 --tp 2"
    )
    found = translate(text)
    assert found.deployment.tree_tokens == 32
    moved = translate(text, "vllm")
    assert speculative(moved)["num_speculative_tokens"] == 5
    assert fates(moved)["--speculative-eagle-topk"] is Fate.DROPPED
    n_grams = f"{SGLANG}--speculative-algorithm NGRAM"
    for nodes, K in (("", 11), (" --speculative-num-draft-tokens 16", 15)):
        chain = translate(n_grams + nodes, "vllm")
        assert speculative(chain)["num_speculative_tokens"] == K
        assert f"{K + 1} n-gram nodes, a chain of {K} is drafted" in chain.notes[-1]
        assert "--speculative-num-steps" not in str(translate(n_grams + nodes).configuration)


def test_a_renamed_algorithm_and_its_window_settings_are_recognised() -> None:
    found = translate(
        "sglang --model t --speculative-algorithm LOOKAHEAD "
        "--speculative-num-draft-tokens 8 --speculative-lookahead-max-bfs-breadth 1 "
        "--speculative-ngram-max-match-window-size 12"
    )
    assert found.deployment.method is EngineMethod.PROMPT_LOOKUP
    assert found.deployment.draft_tokens == 7
    assert fates(found)["--speculative-ngram-max-match-window-size"] is Fate.GONE


def test_arguments_of_transformers_become_a_server() -> None:
    found = translate(
        "from transformers import AutoModelForCausalLM\n"
        "big = AutoModelForCausalLM.from_pretrained('org/big', device_map='auto').to('cuda')\n"
        "small = AutoModelForCausalLM.from_pretrained('org/small')\n"
        "out = big.generate(**inputs, assistant_model=small, num_assistant_tokens=5,\n"
        "                   max_new_tokens=64)\n"
    )
    assert (found.source, found.target) == ("transformers", "vllm")
    assert speculative(found) == {
        "method": "draft_model",
        "model": "org/small",
        "num_speculative_tokens": 5,
    }
    looked_up = translate("model.generate(**inputs, prompt_lookup_num_tokens=10)", "llama.cpp")
    assert looked_up.deployment.lookup_max == 2 and looked_up.deployment.draft_tokens == 10
    early = translate("model.generate(**inputs, assistant_early_exit=4)")
    assert early.configuration is None and "first layers" in early.problems[0]


LOADED = """
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained(
    "org/big", quantization_config=bits, torch_dtype=torch.bfloat16).to("cuda")
assistant = AutoModelForCausalLM.from_pretrained("org/small", load_in_4bit=True)
assistant.generation_config.num_assistant_tokens = 8
out = model.generate(**inputs, assistant_model=assistant, temperature=0.7, max_new_tokens=256)
"""


def test_the_way_transformers_loads_its_models_is_passed_to_a_server() -> None:
    found = translate(LOADED, "sglang")
    assert found.deployment.draft_tokens == 8
    assert not any("no draft length is given" in note for note in found.notes)
    assert found.deployment.quantization == found.deployment.draft_quantization == "bitsandbytes"
    assert "--dtype bfloat16" in command(found)
    assert "--quantization bitsandbytes" in command(found)
    assert fates(found)["temperature"] is fates(found)["max_new_tokens"] is Fate.GONE
    assert any("each request to a server contains it" in each.why for each in found.changes)


def test_weight_formats_of_transformers_that_a_server_lacks_are_reported() -> None:
    found = translate(LOADED)
    assert "bitsandbytes is a format of SGLang" in {each.why for each in found.changes}
    assert "bitsandbytes" not in command(found)
    files = translate(LOADED, "llama.cpp")
    assert fates(files)["torch_dtype"] is Fate.DROPPED
    eight = translate(LOADED.replace("load_in_4bit", "load_in_8bit"))
    assert fates(eight)["load_in_8bit"] is Fate.GONE
    plain = "model.generate(**inputs, temperature=0.7, max_new_tokens=9)"
    with pytest.raises(InputError, match="text must be a command"):
        translate(plain)


def test_python_code_is_read_and_never_run(tmp_path) -> None:
    mark = tmp_path / "ran"
    text = f"from vllm import LLM\nopen({str(mark)!r}, 'w')\nLLM(model='t')"
    assert translate(text).deployment == ModelDeployment(target="t")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "text must be a command, Python code or a configuration of vLLM"),
        ("", "text must be a command"),
        ("import os; os.getcwd()", "text must be a command"),
        ("x" * (MAX_TEXT + 1), "text must have at most"),
        ("a: &x [1]\nb: [*x]", "text must not have YAML aliases"),
        ("a: " + "[" * 15_000, "text must not have brackets nested deeper than 100"),
        ("f(" * 10_000, "text must not have brackets nested deeper than 100"),
        ("a: 1\nb:\n  " + "- " * 5_000, "text must"),
        ("-" * 19_000, "text must"),
        ("vllm serve t " + "--seed 1 " * 600, "text must have at most 500 flags"),
        ("vllm serve t --speculative-config '{broken'", "must be one JSON object"),
        (
            "HF_TOKEN=hf_S vllm serve 'unclosed",
            "text must close every quote that it opens, got .HF_TOKEN=… ",
        ),
        ("export HF_TOKEN=hf_S", "got 'export HF_TOKEN=…'"),
        ("vllm serve t --speculative-config 5", "must be one JSON object"),
        ("vllm bench serve --model t", "the command that starts the server, such as vllm serve …"),
        (
            "python benchmarks/benchmark_serving.py --backend vllm --model t",
            "sends requests to a running server",
        ),
        ("import vllm\nd = [d, d, d, d, d, d]\nvllm.LLM(d)", "must have at most 20000 characters"),
        (f"vllm serve t --max-model-len {'9' * 310}k", "numbers of more than 200 digits"),
        (f"model: t\nseed: 0x{'f' * 5_000}", "numbers of more than 200 digits"),
        (f"model: t\nseed: 1{':1' * 4_000}", "numbers of more than 200 digits"),
        (f"vllm serve t -cc{'.a' * 990} 1", "must have at most 100 names after it"),
    ],
)
def test_text_without_a_deployment_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        translate(text)


JOINED = "9''" * 400
NODES = "sglang --model t --speculative-algorithm NGRAM --speculative-num-draft-tokens"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "vllm serve t --speculative-model d --num-speculative-tokens five",
            "must be a whole number",
        ),
        ("vllm serve t --num-speculative-tokens 5", "method in --speculative-config must be given"),
        (
            "vllm serve t --speculative-model d",
            "num_speculative_tokens in --speculative-config must",
        ),
        ('vllm serve t --speculative-config \'{"method": "magic"}\'', "method must be one of"),
        ("vllm serve t --gpu-memory-utilization lots", "--gpu-memory-utilization must be a number"),
        (
            "vllm serve t -tp 4 --speculative-model d --num-speculative-tokens 5 "
            "--speculative-draft-tensor-parallel-size 2",
            "--speculative-draft-tensor-parallel-size must be 1 or the target's 4",
        ),
        (
            'vllm serve t --speculative-config \'{"method": "ngram", "num_speculative_tokens"'
            ': 3, "prompt_lookup_min": 5, "prompt_lookup_max": 2}\'',
            "prompt_lookup_min must be at most prompt_lookup_max, which",
        ),
        ("sglang --speculative-algorithm X", "algorithm must be one of"),
        ("llama-server -m t --spec-type x", "type must be one of"),
        ("llama-server -m t --spec-type ngram-mod --draft-max abc", "must be a whole number"),
        ("llama-server -m t --spec-type ngram-mod -md d", "not be given for method ngram-mod"),
        (f"vllm serve t --max-model-len {JOINED}k", "must be a whole number"),
        (f"{NODES} 2000", "draft-tokens must be a whole number"),
        (f"{NODES} 1", "draft-tokens must be at least 2"),
        ('{"method": 5, "num_speculative_tokens": 3}', "method must be one name, got 5"),
        ("--spec-type draft-simple -hf a -hfd b c:d", "must be the name or path of a model, got"),
        ('{"speculative-algorithm": "NGRAM", "speculative-ngram-max-bfs-breadth": 0}', "got 0"),
    ],
)
def test_a_deployment_that_cannot_work_gets_a_problem_and_no_configuration(
    text: str, problem: str
) -> None:
    found = translate(text)
    assert found.configuration is None
    assert problem in found.problems[0] and len(found.problems) == 1


def test_models_on_this_machine_are_compared() -> None:
    text = "vllm serve t --speculative-model d --num-speculative-tokens 5"
    pair = ServedPair(64, 64, "token 3 is 'a' and 'b'")
    assert "same tokenizer" in translate(text, read_pair=lambda _: pair).problems[0]
    assert translate(text, read_pair=lambda _: ServedPair(64, 64)).problems == ()


def test_a_schedule_from_a_sweep_is_written_for_engines_that_support_one() -> None:
    header = {"axes": [["batch-size", [1, 4, 16]], ["draft-length", [2, 5]]], "config": {}}
    speedups = {(1, 2): 1.5, (1, 5): 2.0, (4, 2): 1.3, (4, 5): 1.2, (16, 2): 0.8, (16, 5): 0.6}
    points = [
        {"setting": {"batch-size": size, "draft-length": length}, "speedup": speedup}
        for (size, length), speedup in speedups.items()
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in (header, *points))
    schedule = schedule_of_sweep(text)
    assert schedule == (BatchRange(1, 3, 5), BatchRange(4, 15, 2), BatchRange(16, 16, 0))
    command = "vllm serve t --speculative-model d --num-speculative-tokens 5"
    found = translate(command, schedule=schedule)
    assert speculative(found)["num_speculative_tokens_per_batch_size"][-1] == [16, 16, 0]
    medusa = f"{command.replace(' d ', ' d-medusa ')} --tensor-parallel-size 2"
    heads = translate(medusa, schedule=schedule).configuration
    assert heads is not None and "uses piecewise CUDA graphs" in "".join(heads.remarks)
    copies = translate(f"{command} --data-parallel-size 2", schedule=schedule).configuration
    assert copies is not None and "ignores a schedule if" in "".join(copies.remarks)
    with pytest.raises(InputError, match="must vary batch-size"):
        schedule_of_sweep('{"axes": [["draft-length", [1]]]}\n')


CHAIN = (
    "sglang serve --model-path t --speculative-algorithm EAGLE3 --speculative-draft-model-path h "
    "--speculative-num-steps 3 --speculative-eagle-topk 1"
)


def vllm_with(method: str, **fields: Any) -> str:
    """Return a command of vLLM with these fields of speculation."""
    config = {"method": method, "num_speculative_tokens": 3, **fields}
    return f"vllm serve org/t --speculative-config '{json.dumps(config)}'"


def test_block_verification_is_translated_in_both_directions() -> None:
    there = translate(vllm_with("eagle3", model="h", rejection_sample_method="block"), "sglang")
    assert there.configuration is not None
    assert there.configuration.options["--speculative-use-block-verification"] is True
    block = f"{CHAIN} --speculative-num-draft-tokens 4 --speculative-use-block-verification"
    back = translate(block, "vllm")
    assert speculative(back)["rejection_sample_method"] == "block"
    assert speculative(back)["draft_sample_method"] == "probabilistic"
    again = translate(block)
    assert again.configuration is not None
    assert "--speculative-use-rejection-sampling" not in again.configuration.options


@pytest.mark.parametrize(
    ("engine", "method", "why"),
    [
        ("sglang", "draft_model", "block verification is only for chains of EAGLE"),
        ("llama.cpp", "draft_model", "a drafted token passes if it is the same"),
    ],
)
def test_an_engine_without_block_verification_says_how_it_verifies(
    engine: str, method: str, why: str
) -> None:
    found = translate(vllm_with(method, model="d", rejection_sample_method="block"), engine)
    assert fates(found)["rejection_sample_method"] is Fate.DROPPED
    assert why in next(e.why for e in found.changes if e.typed == "rejection_sample_method")


def test_the_usual_rule_needs_no_setting_in_other_engines() -> None:
    text = vllm_with("draft_model", model="d", rejection_sample_method="standard")
    assert speculative(translate(text))["rejection_sample_method"] == "standard"
    for engine in ("sglang", "llama.cpp"):
        found = translate(text, engine)
        assert not found.problems
        why = next(e.why for e in found.changes if e.typed == "rejection_sample_method")
        assert why.endswith("does this without a setting")


def test_synthetic_acceptance_stays_in_vllm_with_a_warning() -> None:
    fields = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}
    text = vllm_with("draft_model", model="d", **fields)
    found = translate(text)
    assert speculative(found)["rejection_sample_method"] == "synthetic"
    assert any("the text is not the target's" in each for each in found.notes)
    there = translate(text, "sglang")
    assert fates(there)["rejection_sample_method"] is Fate.DROPPED


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"rejection_sample_method": "blocks"},
            "rejection_sample_method must be one of standard, block, synthetic in vLLM, "
            "got 'blocks'",
        ),
        (
            {"suffix_decoding_max_tree_depth": 0},
            "suffix_decoding_max_tree_depth must be a whole number of at least 1 in vLLM, got '0'",
        ),
        (
            {"suffix_decoding_max_cached_requests": -1},
            "suffix_decoding_max_cached_requests must be a whole number of at least 0 (0: no tree "
            "of earlier outputs) in vLLM, got '-1'",
        ),
        (
            {"suffix_decoding_max_spec_factor": -0.5},
            "suffix_decoding_max_spec_factor must be a number of at least 0 in vLLM, got '-0.5'",
        ),
        (
            {"suffix_decoding_min_token_prob": 2},
            "suffix_decoding_min_token_prob must be a number from 0 to 1 in vLLM, got '2'",
        ),
    ],
)
def test_a_value_that_vllm_refuses_is_one_sentence(fields: dict[str, Any], problem: str) -> None:
    found = translate(vllm_with("suffix", **fields))
    assert found.problems == (problem,) and found.configuration is None


@pytest.mark.parametrize("share", [0, 1, 0.0, 1.0, 0.1, 0.25, 1e-05])
def test_every_share_from_0_to_1_is_valid_for_suffix_decoding(share: float) -> None:
    found = translate(vllm_with("suffix", suffix_decoding_min_token_prob=share))
    assert speculative(found)["suffix_decoding_min_token_prob"] == share


def test_suffix_decoding_and_block_verification_are_given_in_flags_of_specviz() -> None:
    fields = {"suffix_decoding_max_spec_factor": 4.0, "suffix_decoding_min_token_prob": 0.05}
    found = translate(vllm_with("suffix", **fields))
    told = "the same method and rule in specviz:"
    assert found.notes[-1] == (
        f"{told} --method suffix --draft-length 3 --option match_factor=400 --option least_share=5"
    )
    found = translate(vllm_with("draft_model", model="d", rejection_sample_method="block"))
    assert found.notes[-1] == f"{told} --method draft-model --draft-length 3 --rule block"


@pytest.mark.parametrize(
    ("method", "fields", "remark"),
    [
        ("suffix", {}, "older model runner"),
        ("ngram", {"prompt_lookup_max": 3}, "gains nothing for copied tokens"),
        ("draft_model", {"model": "d"}, "set draft_sample_method probabilistic"),
    ],
)
def test_a_block_that_gains_nothing_is_remarked(
    method: str, fields: dict[str, Any], remark: str
) -> None:
    found = translate(vllm_with(method, rejection_sample_method="block", **fields))
    assert any(remark in each for each in found.notes)


def test_traversal_verification_is_said_to_be_in_no_engine() -> None:
    text = vllm_with("draft_model", model="d", rejection_sample_method="traversal")
    assert any("have no traversal verification" in each for each in translate(text).problems)


def test_a_block_of_drawn_tokens_has_no_remark() -> None:
    rule = {"rejection_sample_method": "block", "draft_sample_method": "probabilistic"}
    found = translate(vllm_with("draft_model", model="d", **rule))
    assert not any("gains nothing" in each for each in found.notes)


def test_sampled_drafts_stay_sampled_in_other_engines() -> None:
    text = f"{CHAIN} --speculative-num-draft-tokens 4 --speculative-use-rejection-sampling"
    for engine in ("sglang", "vllm", "llama.cpp"):
        found = translate(text, engine).deployment
        assert found is not None and found.draft_sampling is DraftSampling.PROBABILISTIC


@pytest.mark.parametrize(("nodes", "is_told"), [(4, False), (64, True)])
def test_a_chain_of_sglang_always_verifies_its_steps_and_the_root(
    nodes: int, is_told: bool
) -> None:
    found = translate(f"{CHAIN} --speculative-num-draft-tokens {nodes}")
    assert "--speculative-num-draft-tokens 4" in command(found)
    told = f"--speculative-num-draft-tokens {nodes} is read as 4"
    assert any(told in each for each in found.notes) == is_told


LLAMA = "llama-server -m a.gguf -md b.gguf --spec-draft-n-max 8 "


def test_a_flash_attention_flag_of_llama_cpp_without_a_value_gets_one() -> None:
    found = translate(f"{LLAMA}-fa -ngl 99 -ngld all -ts 3,1 -sm row --device CUDA0,CUDA1")
    assert fates(found)["-fa"] is Fate.MOVED
    kept = ("-ngl", "-ngld", "-ts", "-sm", "--device")
    assert {fates(found)[name] for name in kept} == {Fate.SAME}
    assert command(found).endswith("-fa on -ngl 99 -ngld all -ts 3,1 -sm row --device CUDA0,CUDA1")


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("-ngl many", "-ngl must be a number of layers, auto or all in llama.cpp, got 'many'"),
        ("-ngld", "-ngld must be a number of layers, auto or all in llama.cpp, got none"),
        ("-ts a,b", "-ts must be proportions such as 3,1 in llama.cpp, got 'a,b'"),
        ("-sm rows", "-sm must be none, layer, row or tensor in llama.cpp, got 'rows'"),
        ("-fa yes", "-fa must be on, off or auto in llama.cpp, got 'yes'"),
        ("--device", "--device must be names of devices such as CUDA0,CUDA1, or none in"),
    ],
)
def test_a_value_that_llama_cpp_refuses_is_reported(flag: str, problem: str) -> None:
    found = translate(LLAMA + flag)
    assert found.configuration is None and found.problems[0].startswith(problem)


@pytest.mark.parametrize("program", ["llama-cli", "./build/bin/llama-speculative"])
def test_llama_cpp_s_terminal_program_becomes_the_server(program: str) -> None:
    found = translate(f"{program} -m a.gguf -md b.gguf --draft 8 -p 'Once upon' -cnv -n 64 -e")
    name = program.rsplit("/", 1)[-1]
    assert f"a server replaces {name}: send it prompts as requests" in found.notes
    assert fates(found)["-p"] is Fate.GONE and fates(found)["-cnv"] is Fate.GONE
    assert "come with requests" in next(each.why for each in found.changes if each.typed == "-p")
    assert Fate.UNKNOWN not in fates(found).values()


SGLANG = "python -m sglang.launch_server --model Qwen/Qwen3-8B "


def test_shortened_flags_are_read_as_the_engine_s_parser_reads_them() -> None:
    """In SGLang 0.5.23, several flags begin with --speculative-draft."""
    found = translate(
        f"{SGLANG}--speculative-algo EAGLE3 --speculative-draft Tengyunw/qwen3_8b_eagle3 "
        "--speculative-num-steps 6 --speculative-eagle-topk 10 --speculative-num-draft 32 "
        "--mem-fraction 0.9 --cuda-graph-max-bs 2 --trust-remote"
    )
    assert found.deployment.method is EngineMethod.EAGLE3
    assert found.deployment.draft == "Tengyunw/qwen3_8b_eagle3"
    assert found.deployment.tree_tokens == 32
    assert "--mem-fraction-static 0.9" in command(found)
    assert command(found).endswith("--cuda-graph-max-bs-decode 2 --trust-remote-code")
    old = ("--speculative-draft", "--cuda-graph-max-bs")
    assert [each.typed for each in found.changes if each.fate is Fate.MOVED and each.why] == [*old]
    short = translate("vllm serve org/t --tensor-par 2 --enable-p")
    assert short.deployment.tensor_parallel == 2
    assert short.changes[-1].fate is Fate.UNKNOWN
    assert "--enable-prefix-caching, --enable-prompt-embeds" in short.changes[-1].why


def test_a_flag_may_have_several_values_and_keys_in_a_file_may_be_short() -> None:
    start = "sglang --model-path org/m"
    found = translate(
        f"{start} --cuda-graph-bs-decode 1 2 4 --lora-paths a=x b=y --tp 2"
    ).configuration
    assert found is not None
    assert "--cuda-graph-bs-decode 1 2 4 \\\n" in found.command
    assert "--lora-paths a=x b=y" in found.command
    assert "    cuda_graph_bs_decode=[1, 2, 4],\n" in found.python.replace("        ", "    ")
    assert yaml.safe_load(found.yaml)["cuda-graph-bs-decode"] == [1, 2, 4]
    told = translate(f"{start} --cuda-graph-bs 1 2 4").changes[-1]
    assert (told.value, told.now) == ("1 2 4", "--cuda-graph-bs-decode")
    behind = translate("vllm serve --max-num-seqs 4 org/m").deployment
    assert behind is not None and (behind.target, behind.max_batch) == ("org/m", 4)
    file = "model-path: org/m\nmem-fraction: 0.8\ntp: 2\n"
    shortened = translate(file).deployment
    assert shortened is not None and shortened.memory_fraction == 0.8


def test_a_named_method_is_kept_or_its_change_is_reported() -> None:
    lost = translate(f"{SGLANG}--speculative-algorithm EAGLE3 --speculative-num-steps 3")
    assert lost.configuration is None
    assert lost.problems == (
        "--speculative-draft-model-path must be given for method EAGLE3, got none",
    )
    own = translate(f"{SGLANG}--speculative-algorithm EAGLE --speculative-num-steps 3")
    assert own.notes[0].startswith("algorithm EAGLE is read as NEXTN, because no draft is named")
    renamed = translate(f"{SGLANG}--speculative-algorithm LOOKAHEAD")
    assert renamed.notes[0] == "algorithm LOOKAHEAD is read as NGRAM, its name today"


MISTRAL = "mistralai/Mistral-7B-v0.1"
BIG, SMALL = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"


def with_draft(target: str, draft: str, method: str = "draft_model", more: str = "") -> Translation:
    config = {"method": method, "model": draft, "num_speculative_tokens": 3}
    return translate(f"vllm serve {target} {more} --speculative-config '{json.dumps(config)}'")


@pytest.mark.parametrize(
    ("target", "draft", "method", "more", "problem"),
    [
        (BIG, SMALL, "eagle3", "", "a complete language model: use it with method draft_model"),
        (BIG, "Qwen/Qwen2.5-0.5B-Instruct", "draft_model", "", "got 128256 and 151936"),
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-0.5B", "draft_model", "", "got 152064 and 151936"),
        (BIG, SMALL, "draft_model", "-tp 3", "-tp must divide the target's 32"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen2.5-0.5B", "draft_model", "-tp 4", "the draft's 14"),
        ("meta-llama/Llama-2-13b-hf", MISTRAL, "draft_model", "", "Llama 2’s and Mistral’s, of"),
        ("org/t", "ibm-fms/llama3-70b-accelerator", "draft_model", "", "not be an MLP speculator"),
    ],
)
def test_conflicts_that_the_names_show_are_reported_before_a_start(
    target: str, draft: str, method: str, more: str, problem: str
) -> None:
    found = with_draft(target, draft, method, more)
    assert found.configuration is None
    assert any(problem in each for each in found.problems), found.problems


def test_sglang_and_llama_cpp_refuse_other_vocabularies_but_allow_padding() -> None:
    """llama.cpp allows vocabulary sizes to differ by 128, and models of Qwen2.5 differ by less."""
    for engine in ("sglang", "llama.cpp"):
        text = "llama-server -hf {}-GGUF -hfd Qwen/Qwen2.5-0.5B-GGUF --draft-max 4"
        assert translate(text.format("Qwen/Qwen2.5-7B"), engine).problems == ()
        (problem,) = translate(text.format("org/Llama-3.1-8B"), engine).problems
        assert "one of 128,256 tokens and one of 151,936" in problem


@pytest.mark.parametrize(
    ("target", "head", "told"),
    [
        (BIG, "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", "a size of 70b, the target's 8b"),
        ("Qwen/Qwen3-8B", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "the family llama"),
        ("meta-llama/Llama-3.3-70B-Instruct", "org/EAGLE3-LLaMA3.1-70B", "the version 3.1"),
        (BIG, "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", ""),
        ("Qwen/Qwen3-8B", "Tengyunw/qwen3_8b_eagle3", ""),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "org/EAGLE3-R1-Distill-LLaMA-8B", ""),
        ("org/own", "org/own-eagle3", ""),
    ],
)
def test_a_head_whose_name_contains_another_target_only_gets_a_note(
    target: str, head: str, told: str
) -> None:
    found = with_draft(target, head, "eagle3")
    assert found.problems == ()
    notes = [note for note in found.notes if note.startswith("the name of the head")]
    assert bool(notes) is bool(told) and (not told or told in notes[0])


def test_quantised_weights_without_a_named_repository_and_gguf_get_a_note() -> None:
    assert any(
        "name a repository of AWQ weights" in n for n in with_draft(BIG, SMALL, more="-q awq").notes
    )
    named = with_draft("org/Llama-3.1-8B-AWQ", SMALL, more="-q awq")
    assert not any("AWQ weights" in note for note in named.notes)
    files = translate("llama-server -hf org/Llama-3.1-8B-GGUF:Q4_K_M", "vllm")
    assert any("mostly bf16, because vLLM cannot make Q4_K_M" in note for note in files.notes)
    assert any("does not read GGUF: name the repository" in note for note in files.notes)


def test_the_note_on_an_old_flag_fits_its_value_and_the_target_engine() -> None:
    text = "vllm serve t -q AWQ --speculative-model d --num-speculative-tokens 4"
    found = translate(text)
    assert found.deployment.quantization == "awq"
    assert "ngram" not in str(found.changes)
    assert (
        "[ngram] is not a model: it is read as the method ngram"
        in translate("vllm serve t --speculative-model [ngram] --num-speculative-tokens 4").notes
    )
    assert "JSON" in str(found.changes)
    assert "JSON" not in str(translate(text, "sglang").changes)
    n_grams = "vllm serve t --speculative-model [ngram] --num-speculative-tokens 4 "
    lost = translate(f"{n_grams}--ngram-prompt-lookup-max 3", "sglang").changes[-1]
    assert lost.fate is Fate.DROPPED and "paths of a tree" in lost.why


def test_containers_pass_a_hub_token_and_name_what_they_expect() -> None:
    found = translate("vllm serve org/t").configuration
    assert found is not None
    assert "HF_TOKEN: ${HF_TOKEN:-}" in found.compose and "name: hf-token" in found.kubernetes
    assert "expects a PersistentVolumeClaim called models" in found.kubernetes.splitlines()[0]


NGRAM = "--speculative-model [ngram] --num-speculative-tokens 4"
ENGINE = "vllm serve org/t --speculative-model org/d --num-speculative-tokens 4"
MANIFEST = {"image": "vllm/vllm-openai:v0.6.3", "command": ["/bin/sh", "-c"], "args": [ENGINE]}


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump({"apiVersion": "v1", "spec": {"containers": [MANIFEST]}}),
        f'docker run vllm/vllm-openai:v0.6.3 bash -lc "pip install x && {ENGINE}"',
        f"docker run --entrypoint bash vllm/vllm-openai:v0.6.3 -c '{ENGINE}'",
        f"python -m pip install vllm --pre\nnvidia-smi -L\nuv run {ENGINE}".replace(
            "--num", "\n--num"
        ),
        f"docker run -v /a/benchmark_serving:/x vllm/vllm-openai {ENGINE[11:]}",
        f"{ENGINE} --served-model-name 'vllm chat' --log-config-file /a/bench_serving.json",
        f"vllm bench startup {ENGINE[11:]}",
        f"vllm bench mm-processor {ENGINE[11:]}",
        f"vllm bench sweep serve --serve-cmd '{ENGINE}' --bench-cmd 'vllm bench serve'",
        f"set -e\nset -euo pipefail\nexport -n HF_TOKEN=hf_S\n{ENGINE}",
    ],
)
def test_a_command_is_found_in_shell_scripts_and_among_other_programs(text: str) -> None:
    found = translate(text)
    assert found.deployment == translate(ENGINE).deployment
    assert Fate.UNKNOWN not in fates(found).values() and "hf_S" not in str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ENGINE}\nllama-server -m a.gguf", "got 2 (vLLM, llama.cpp): keep one"),
        ("from vllm import LLM\nLLM('a')\nLLM(model='b')", "got 2 (vLLM, vLLM)"),
        ("vllm serve t --speculative-config", "got no value"),
        ('{"method": "ngram",}', "double quotes and no comma"),
    ],
)
def test_several_commands_and_invalid_json_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        translate(text)


@pytest.mark.parametrize(
    ("flags", "to", "written", "told"),
    [
        ("--api-key k l --dtype half stray", "", "--api-key k l", "stray: left out, because it"),
        ("-tp 4 --speculative-draft-tensor-parallel-size 1", "", "", "left out: a draft model"),
        ("--max-model-len 8k", "", "--max-model-len 8000", "changed -> --max-model-len 8000"),
        ("--max-model-len 32K", "llama.cpp", "--ctx-size 32768", "changed -> --ctx-size 32768"),
        ("--max-model-len auto", "", "--max-model-len auto", "auto  the same"),
        ("--max-model-len -1", "sglang", "", "left out: with this value vLLM chooses"),
        ("-O3 --lora-modules a=b", "", "--optimization-level 3", "-O 3  kept"),
        ("--host ::1 --seed 3", "sglang", "--host ::1 \\\n    --random-seed 3", "changed"),
        ("--served-model-name me", "llama.cpp", "--alias me", "changed -> --alias"),
        ("--speculative-disable-by-batch-size 8", "sglang", "", "8  left out: K does not follow"),
        ("--port 1 --port 2", "", "--port 2", "--port 1  left out: it is given again"),
        (
            "--api-key \"${KEY}\" --seed '$T'",
            "",
            "\"${KEY}\" \\\n    --seed '$T'",
            "${KEY} stays a shell variable",
        ),
        ("-tp $N", "", "", "problem: -tp is $N, a shell variable: write its value"),
    ],
)
def test_each_flag_is_reported_with_its_translation(
    flags: str, to: str, written: str, told: str
) -> None:
    found = translate(f"{ENGINE} {flags}", to or None)
    text = translated_text({**translation_answer(found), "form": "command"})
    assert written in text and told in text.replace("\n      ", " ")


def test_parts_of_one_object_are_written_as_one_object() -> None:
    text = "vllm serve m -cc.mode 3 --compilation-config.pass_config.fuse_norm_quant true -dp 2"
    found = translate(f"{text} --hf-overrides.architectures '[\"A\"]' --port.x 1")
    assert found.configuration is not None
    forms = found.configuration
    whole = """--compilation-config '{"mode": 3, "pass_config": {"fuse_norm_quant": true}}'"""
    assert whole in forms.command
    assert """--hf-overrides '{"architectures": ["A"]}'""" in forms.command
    assert (
        "compilation_config={'mode': 3, 'pass_config': {'fuse_norm_quant': True}}" in forms.python
    )
    assert fates(found)["-cc.mode"] is Fate.KEPT
    assert fates(found)["--port.x"] is Fate.UNKNOWN
    found = translate("vllm serve m -cc.a 1 -cc.a.b 2 -cc '{\"c\": 3}'")
    assert '--compilation-config \'{"c": 3, "a": {"b": 2}}\'' in command(found)


def test_files_and_python_use_the_long_names_of_short_flags() -> None:
    for text in ("vllm serve m -dp 2 -ep", "-dp 2 -ep --spec-tokens 3 --spec-method ngram"):
        forms = translate(text).configuration
        assert forms is not None
        assert "data-parallel-size: 2\nenable-expert-parallel: true\n" in forms.yaml
        assert "data_parallel_size=2,\n    enable_expert_parallel=True,\n" in forms.python


K_OF_VLLM = "num_speculative_tokens in --speculative-config"


@pytest.mark.parametrize(
    ("text", "to", "now"),
    [
        (NGRAM, "sglang", ["--speculative-algorithm NGRAM", "--speculative-num-draft-tokens 5"]),
        ("-sc.method deepseek_mtp", "vllm", ["method mtp in --speculative-config"]),
        ("llama-server --spec-type ngram-mod --spec-ngram-mod-n-max 64", "vllm", [K_OF_VLLM]),
        (f"{NODES} 9 --speculative-num-steps 3 --speculative-eagle-topk 4", "sglang", ["", ""]),
        ("llama-lookup --draft 5", "llama.cpp", ["--spec-type", "--spec-ngram-simple-size-m"]),
        ("-sc.method eagle3 -sc.prompt_lookup_max 3 -sc.model h --spec-tokens 1", "vllm", [""]),
    ],
)
def test_the_report_names_the_written_flags(text: str, to: str, now: list[str]) -> None:
    told = [each.now for each in translate(text, to).changes]
    assert [each for each in told if each in now] == now


def test_lists_and_repeated_keys_of_a_file_are_read_as_the_engine_reads_them() -> None:
    found = translate("model: org/t\nserved-model-name: [a, b]\nport: 1\nport: 2\n")
    assert "--served-model-name a b" in command(found)
    assert "port is given again, and the last one counts" in found.notes


KINDS = "llama-server --spec-type ngram-"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("vllm serve t --middleware a.b --middleware c.d", "--middleware a.b --middleware c.d"),
        ("model: t\nmiddleware: [a.b, c.d]", "--middleware a.b --middleware c.d"),
        (f"{LLAMA}--lora a -ot x=CPU --lora b -ot y=CPU", "--lora a --lora b -ot x=CPU -ot y=CPU"),
        (f"{LLAMA}-cb -kvu -tb 4 -fit on", "-cb -kvu -tb 4 -fit on"),
        ("vllm serve t --enable-chunked-prefill=False", "--no-enable-chunked-prefill"),
        ("vllm serve t --enable-prefix-caching true", "--enable-prefix-caching"),
        ("vllm serve t --enforce-eager --no-enforce-eager", "--no-enforce-eager"),
        ("model: t\nenforce-eager: false\ngrpc: false\nseed: null", "--no-enforce-eager"),
        (f"{SGLANG}--trust-remote-code false", ""),
        ("llama-server --fim-qwen-7b-spec", "llama-server --fim-qwen-7b-spec"),
        (f"{KINDS}mod --draft-max 8", "mod --spec-ngram-mod-n-max 8"),
        (f"{KINDS}mod --spec-draft-n-max 5 --spec-ngram-mod-n-max 9", "5 --spec-ngram-mod-n-max 9"),
        (
            f"{KINDS}map-k --spec-ngram-size-m 4 --draft-max 5",
            "map-k-size-m 4 --spec-draft-n-max 5",
        ),
        (f"{KINDS}map-k --spec-ngram-min-hits 2", "--spec-ngram-map-k-min-hits 2"),
        (f"{KINDS}mod --spec-ngram-simple-size-n 9", "mod --spec-ngram-simple-size-n 9"),
        (f"{KINDS}cache --draft-max 8", "cache --spec-draft-n-max 8"),
        (
            "vllm serve t --guided-decoding-backend a:no-b",
            """'{"backend": "a", "disable_b": true}'""",
        ),
        (
            f"{LLAMA}--spec-type ngram-mod,draft-simple",
            "ngram-mod,draft-simple --spec-draft-model b.gguf --spec-draft-n-max 8",
        ),
    ],
)
def test_repeated_flags_and_switches_are_written_as_the_engine_accepts_them(
    text: str, written: str
) -> None:
    found = translate(text)
    assert Fate.UNKNOWN not in fates(found).values()
    assert command(found).endswith(written) and "false" not in command(found).lower()


def test_flags_that_a_file_or_python_cannot_express_are_written_outside_it() -> None:
    twice = "--middleware a.b --middleware c.d"
    text = f"""vllm serve t {twice} --enforce-eager=false --hf-overrides '{{"a": 1}}'"""
    found = translate(text).configuration
    assert found is not None
    assert found.yaml.startswith(f"# vllm serve --config config.yaml {twice}\nmodel: t\nenforce-")
    assert found.python.endswith("'t',\n    enforce_eager=False,\n    hf_overrides={'a': 1},\n)\n")
    assert found.kubernetes.count("- --middleware\n") == 2


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{ENGINE}",
        '{"model": "org/d", "num_speculative_tokens": 4, "method": null}',
        f"docker run -v ~/.cache/vllm:/root/.cache/vllm vllm/vllm-openai {ENGINE[11:]}",
        *(
            yaml.safe_dump({"services": {"a": {"image": image, "command": ENGINE[11:]}}})
            for image in ("vllm/vllm-openai", "vllm/vllm-openai:${TAG:-latest}")
        ),
    ],
)
def test_byte_order_marks_nulls_and_images_without_a_tag_are_understood(text: str) -> None:
    found = translate(text.replace("org/t", "MODEL")).deployment
    assert found == translate(ENGINE.replace("org/t", "MODEL")).deployment


DRAFTED = {"LLAMA_ARG_MODEL": "a.gguf", "LLAMA_ARG_MODEL_DRAFT": "b.gguf", "LLAMA_ARG_DRAFT_MAX": 8}
SERVED = {"image": "ghcr.io/ggml-org/llama.cpp:server", "environment": DRAFTED, "ports": []}
IN_WORDS = [f"{name}={value}" for name, value in DRAFTED.items()]


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump({"services": {"llama": SERVED}}),
        yaml.safe_dump({"services": {"llama": SERVED | {"environment": IN_WORDS}}}),
        f"{' '.join(IN_WORDS)} LLAMA_ARG_CONT_BATCHING=1 llama-server",
        f"export {IN_WORDS[0]}\n{' '.join(IN_WORDS[1:])}\nllama-server",
        f"LLAMA_ARG_PORT=1; {'; '.join(IN_WORDS)}\nunset LLAMA_ARG_PORT\nllama-server",
        f"docker run -e {' -e '.join(IN_WORDS)} {SERVED['image']}",
    ],
)
def test_environment_variables_of_llama_cpp_are_read_as_flags(text: str) -> None:
    found = translate(text)
    assert found.deployment == ModelDeployment(
        target="a.gguf", method=EngineMethod.DRAFT_MODEL, draft="b.gguf", draft_tokens=8
    )
    assert not any("other commands" in note for note in found.notes)


CONFIG = '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\''
POD = {"nodeSelector": {"a": "b"}, "containers": [MANIFEST | {"env": [{"name": "A"}]}]}
WORKLOAD = {"metadata": {"name": "n"}, "spec": {"replicas": 2, "template": {"spec": POD}}}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            f"{ENGINE}\nvllm bench serve --model t",
            "vllm bench serve sends requests to a running server",
        ),
        ("vllm bench latency --model t", "a server replaces vllm bench latency"),
        (f"export A=1\n{ENGINE}", "A: a variable of the environment, left out"),
        (f"export A=1\n./start.sh {ENGINE[11:]}", "A: a variable of the environment, left out"),
        (f"hf_token=hf_S prog {ENGINE[11:]}", "hf_token: a variable of the environment, left out"),
        (f"{ENGINE} | tee x; curl y", "tee, curl: other commands on the line, left out"),
        (f"{ENGINE} > a.log 2>&1 &", "2>&1: left out, because it belongs to no flag"),
        (f"vllm serve t {CONFIG} {CONFIG}", "--speculative-config is given again, and the last"),
        (f"vllm serve t {CONFIG} -sc.model d -sc.num_speculative_tokens 2", "as a whole is left"),
        (yaml.safe_dump(WORKLOAD), "left out: metadata.name, replicas, nodeSelector"),
        (yaml.safe_dump(WORKLOAD), "A: a variable of the environment, left out"),
    ],
)
def test_omitted_parts_of_a_text_are_reported(text: str, note: str) -> None:
    assert any(note in each for each in translate(text).notes)


def test_each_wrong_value_is_reported() -> None:
    found = translate("vllm serve t --port 99999 --gpu-memory-utilization 90 --max-num-seqs x")
    told = {each.split()[0] for each in found.problems}
    assert told == {"--gpu-memory-utilization", "--max-num-seqs", "--port"}
    (bare,) = translate("vllm serve t --speculative-model").problems
    assert bare == "--speculative-model must have a value, got none"


def test_changed_names_and_methods_are_reported() -> None:
    text = "llama-server --model a -md b --draft-p-min 0.5"
    told = fates(translate(text))
    assert told == {"--model": Fate.SAME, "-md": Fate.MOVED, "--draft-p-min": Fate.MOVED}
    assert fates(translate(text, "vllm"))["-md"] is Fate.MOVED
    assert Fate.UNKNOWN not in fates(translate(f"docker run lmsysorg/sglang:v1 {SGLANG}")).values()
    assert translate("llama-server -m a.gguf --spec-default").notes == ()
    several = translate(f"{LLAMA}--spec-type draft-simple,ngram-mod", "vllm")
    assert "vLLM can use only one of draft-simple,ngram-mod" in several.notes
    both = translate("m.generate(**i, assistant_model=a, prompt_lookup_num_tokens=3)")
    assert fates(both)["assistant_model"] is Fate.DROPPED
    assert speculative(both)["num_speculative_tokens"] == 3


@pytest.mark.parametrize(
    ("flag", "advice"),
    [
        ("--enable-dp-attention", "--attn-dp-size <dp-size>"),
        ("--disable-cuda-graph", "--cuda-graph-backend-{decode,prefill}=disabled"),
        ("--monokernel-backend amd", "--enable-amd-monokernel"),
    ],
)
def test_a_deprecated_flag_is_kept_with_the_engine_s_advice(flag: str, advice: str) -> None:
    found = translate(f"sglang serve --model-path org/m {flag}")
    (change,) = (each for each in found.changes if flag.startswith(each.typed))
    assert (change.fate, change.now) == (Fate.KEPT, change.typed)
    assert advice in change.why and flag in command(found)


@pytest.mark.parametrize(
    "flag",
    ["--load-format auto", "--reasoning-parser qwen3", "--tool-call-parser x", "--enable-lora"],
)
def test_flags_that_sglang_registers_by_hand_are_known(flag: str) -> None:
    found = translate(f"sglang serve --model-path org/m {flag}")
    assert Fate.UNKNOWN not in fates(found).values() and flag in command(found)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("llama-server -m ~/models/a.gguf", "--model ~/models/a.gguf"),
        ("llama-server -m '~/my models/a.gguf'", "--model ~/'my models/a.gguf'"),
        ("vllm serve ~ada/models/x", "vllm serve ~ada/models/x"),
        (r"llama-server -m C:\models\a.gguf", r'--model "C:\models\a.gguf"'),
        (r'llama-server -m "D:\My Models\a.gguf"', r'--model "D:\My Models\a.gguf"'),
        (r"vllm serve D:\models\qwen", r'vllm serve "D:\models\qwen"'),
    ],
)
def test_a_path_names_the_same_file_in_the_written_command(text: str, written: str) -> None:
    assert written in command(translate(text))


def test_a_path_in_the_home_folder_is_said_to_work_only_in_a_shell() -> None:
    notes = translate("vllm serve ~/models/x").notes
    assert any("~ means your home folder" in each for each in notes)
    assert not any("home folder" in each for each in translate("vllm serve org/x").notes)


@pytest.mark.parametrize("flag", ["--model-impl", "--max-model-len", "--seed"])
def test_a_flag_that_needs_a_value_is_not_written_without_one(flag: str) -> None:
    found = translate(f"vllm serve org/m {flag}")
    assert found.configuration is None
    assert any(each.startswith(flag) for each in found.problems), found.problems


def test_a_short_form_without_its_value_is_read_as_an_unknown_flag() -> None:
    found = translate("vllm bench throughput --model=org/m --profile")
    assert fates(found)["--profile"] is Fate.UNKNOWN and "--profile" not in command(found)
    assert "--profiler-config" in translate("vllm serve org/m --profiler {}").changes[1].now


@pytest.mark.parametrize("name", ["[gram]", "[n-gram]", "[medusa]"])
def test_an_unknown_name_in_brackets_is_not_taken_as_a_model(name: str) -> None:
    found = translate(f"vllm serve org/m --speculative-model {name} --num-speculative-tokens 5")
    assert found.configuration is None
    assert found.problems == (f"--speculative-model must name a model or be [ngram], got '{name}'",)


@pytest.mark.parametrize(
    "text",
    [
        "pytest -m slow tests/",
        "accelerate launch -m train --model x",
        "python -m http.server -m x",
        "numactl -m 0 ./server --port 80",
    ],
)
def test_flags_that_every_program_has_do_not_identify_an_engine(text: str) -> None:
    with pytest.raises(InputError, match="must be a command"):
        translate(text)


@pytest.mark.parametrize("image", ["vllm-openai", "vllm-openai:v0.30.0", "sglang:latest"])
def test_an_image_without_a_registry_identifies_its_engine(image: str) -> None:
    text = f"docker run --gpus all {image} --model org/m --port 80"
    found = translate(text.replace("--model", "--model-path") if "sglang" in image else text)
    assert found.source == image.split("-")[0].split(":")[0]
    assert not any("an unknown program" in each for each in found.notes)


def test_a_speculators_repository_served_alone_is_said_to_speculate() -> None:
    name = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"
    (note,) = translate(f"vllm serve {name}").notes
    assert note.startswith(f"{name} is a speculator by its name") and "speculates" in note


def test_a_target_that_is_its_own_draft_is_reported_to_gain_nothing() -> None:
    told = "the draft is the target itself"
    text = (
        'vllm serve org/m --speculative-config \'{{"model": "{}", "num_speculative_tokens": 3}}\''
    )
    assert any(told in each for each in translate(text.format("org/m")).notes)
    assert not any(told in each for each in translate(text.format("org/n")).notes)


@pytest.mark.parametrize(
    ("head", "target", "differs"),
    [
        ("nm-testing/SpeculatorLlama3-1-8B-Eagle3", "RedHatAI/Meta-Llama-3.1-8B-Instruct", False),
        ("org/EAGLE-Llama-3-2-1B", "meta-llama/Llama-3.2-1B", False),
        ("org/EAGLE3-Phi-3-5-mini", "microsoft/Phi-3.5-mini-instruct", False),
        ("org/EAGLE3-Qwen2-5-7B", "Qwen/Qwen2.5-7B-Instruct", False),
        ("org/EAGLE-llama-2-7b", "meta-llama/Llama-2-7b-hf", False),
        ("org/EAGLE3-Qwen3-4B-2507", "Qwen/Qwen3-4B-Instruct-2507", False),
        ("org/EAGLE-Llama-3-8B", "meta-llama/Llama-3.1-8B", True),
        ("org/EAGLE3-Qwen2-5-7B", "Qwen/Qwen3-7B", True),
    ],
)
def test_version_numbers_in_names_may_use_dots_or_hyphens(
    head: str, target: str, differs: bool
) -> None:
    assert (other_target(head, target) is not None) == differs


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("text-generation-launcher --model-id org/m --speculate 2", "TGI"),
        ("MODEL_ID=org/m SPECULATE=2 text-generation-launcher", "TGI"),
        (
            "docker run --gpus all -p 80:80 -v $PWD:/data "
            "ghcr.io/huggingface/text-generation-inference:3.0.0 --model-id org/m --speculate 3",
            "TGI",
        ),
        ("trtllm-bench --model org/m throughput --tp 8", "TensorRT-LLM"),
        ("python3 -m mlc_llm serve dist/m --speculative-mode small_draft", "MLC LLM"),
        ("ollama run llama3 --port 80", "Ollama"),
        ("C:\\tools\\koboldcpp.exe --model a.gguf --draftmodel b.gguf", "KoboldCpp"),
        ("python -m llama_cpp.server --model a.gguf --port 80", "llama-cpp-python"),
    ],
)
def test_a_program_that_is_not_read_is_refused_by_its_name(text: str, program: str) -> None:
    with pytest.raises(InputError, match=rf"must be for one of vLLM, .*, but it uses .*{program}"):
        translate(text)


def test_a_program_that_is_not_read_does_not_hide_an_engine_next_to_it() -> None:
    found = translate(
        "services:\n  a:\n    image: ollama/ollama\n  b:\n    image: vllm/vllm-openai\n"
        "    command: --model org/m --speculative-model org/d --num-speculative-tokens 3\n"
    )
    assert command(found).startswith("vllm serve org/m ")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("vllm serve org/m\n  --tensor-parallel 2", "vllm serve org/m --tensor-parallel-size 2"),
        ('vllm serve "C:\\models\\Llama-3.1"', 'vllm serve "C:\\models\\Llama-3.1"'),
        ("vllm serve Llama-3.1-8B", "vllm serve Llama-3.1-8B"),
        ("ExecStart=/opt/bin/vllm serve /m --port 80", "vllm serve /m --port 80"),
        ('M=org/m\nvllm serve "$M"', "vllm serve org/m"),
        ("export M='org/m'\nvllm serve ${M} --port 80", "vllm serve org/m --port 80"),
        ("$M = 'org/m'\nvllm serve $M", "vllm serve org/m"),
        ("set M=D:\\a.gguf\nllama-server -m %M%", 'llama-server --model "D:\\a.gguf"'),
        (".\\llama-server.exe -m a.gguf", "llama-server --model a.gguf"),
        ("conda run -n x vllm serve org/m --port 80", "vllm serve org/m --port 80"),
        ('CMD ["vllm", "serve", "org/m", "--port", "80"]', "vllm serve org/m --port 80"),
        (
            'FROM vllm/vllm-openai:v0.10.0\nCMD ["--model", "org/m", \\\n "--port", "80"]',
            "vllm serve org/m --port 80",
        ),
        ("models:\n  a:\n    cmd: llama-server -m a.gguf", "llama-server --model a.gguf"),
        ("python -m other.vllm --model org/m -sc '{}' --max-num-seqs 2 --max-model-len 9", ""),
    ],
)
def test_the_command_is_found_however_a_system_writes_it(text: str, written: str) -> None:
    found = translate(text)
    if written:
        assert command(found) == written
    assert not any("-m" == each.typed and each.fate is Fate.UNKNOWN for each in found.changes)
    assert not any("no flag takes it" in each for each in found.notes)


@pytest.mark.parametrize("mark", ["<<EOF", "<< 'EOF'", '<<-"EOF"'])
def test_a_file_that_a_script_writes_is_read_where_a_flag_names_it(mark: str) -> None:
    script = f"cat > c.yaml {mark}\nmodel: org/t\nmax-num-seqs: 4\nEOF\nvllm serve --config c.yaml"
    found = translate(script)
    assert command(found) == "vllm serve org/t --max-num-seqs 4"
    assert translate("vllm serve org/t --config c.yaml").changes[1].fate is Fate.KEPT


def test_an_expression_in_code_is_written_in_every_form_with_a_note() -> None:
    found = translate("from vllm import LLM\nLLM(model='m', dtype=chosen(), tokenizer=[x, 'b'])")
    assert found.configuration is not None
    assert "dtype: chosen()\n" in found.configuration.yaml
    assert "dtype is 'chosen()' in the code: write its value instead" in found.notes


def test_a_file_that_names_itself_is_read_once() -> None:
    file = "services:\n  a:\n    command: vllm serve org/t --config c.yaml\n"
    found = translate(f"cat > c.yaml <<EOF\n{file}EOF\nvllm serve --config c.yaml --config c.yaml")
    assert [each.value for each in found.changes] == ["org/t"]


@pytest.mark.parametrize("text", ["M='org/m'\nvllm serve '$M'", "M=a\nM=b\nvllm serve $M"])
def test_a_variable_stays_where_its_value_is_not_certain(text: str) -> None:
    assert "$M" in command(translate(text))


def test_a_secret_is_not_put_in() -> None:
    found = translate("HF_TOKEN=hf_S\nvllm serve org/m --api-key $HF_TOKEN")
    assert "hf_S" not in command(found) and "$HF_TOKEN" in command(found)


def test_a_head_that_is_served_alone_may_speculate() -> None:
    found = translate("vllm serve org/eagle-llama3.1-8b")
    assert any("speculators_config" in each for each in found.notes)
