"""Each reader of a format (shell, Python, JSON, YAML) adds the flags that it finds to a record."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.engines.readers.found_flags import FoundFlags, SourceText
from specviz.engines.readers.json_reader import read_json
from specviz.engines.readers.mapping_reader import read_mapping
from specviz.engines.readers.python_reader import read_python
from specviz.engines.readers.shell_reader import dockerfile_command, read_shell
from specviz.engines.readers.yaml_reader import read_yaml
from specviz.errors import InputError


def flags(found: FoundFlags) -> dict[str, Any]:
    return {flag.name: flag.value for flag in found.flags}


def test_a_shell_command_gives_its_words_in_their_order() -> None:
    found = FoundFlags()
    read_shell("sglang serve --model-path org/m --tp 2 --random-seed -1 --enable-lora\n", found)
    assert found.engine == "sglang" and found.is_shell
    assert [(flag.typed, flag.value) for flag in found.flags] == [
        *(("--model-path", "org/m"), ("--tp", "2")),
        *(("--random-seed", "-1"), ("--enable-lora", True)),
    ]


def test_a_shell_script_s_other_commands_and_variables_are_noted() -> None:
    found = FoundFlags()
    read_shell("export A=1\nvllm serve org/m --port $PORT | tee log", found)
    assert flags(found) == {"--model": "org/m", "--port": "$PORT"}
    assert found.variables == {"$PORT"} and found.commands == ["vllm"]
    assert [note.partition(":")[0] for note in found.passed_over] == ["A", "tee"]


def test_a_dockerfile_gives_the_command_that_its_image_starts() -> None:
    text = 'FROM own/vllm-image:1\nENTRYPOINT ["vllm", "serve"]\nCMD ["org/m"]\n'
    assert dockerfile_command(text) == "vllm serve org/m"
    assert dockerfile_command("vllm serve org/m") == ""


def test_python_code_gives_values_where_it_assigns_them() -> None:
    found = FoundFlags()
    text = (
        "from vllm import LLM\nname = 'org/m'\nmore = dict(seed=3, dtype=torch.float16)\n"
        "llm = LLM(name, max_model_len=limit(), **more)\n"
    )
    assert read_python(text, found)
    assert found.engine == "vllm" and found.commands == ["vllm"]
    assert flags(found) == {
        "--model": "org/m",
        "--max-model-len": SourceText("limit()"),
        "--seed": 3,
        "--dtype": "float16",
    }
    assert isinstance(flags(found)["--max-model-len"], SourceText)


def test_python_code_sets_fields_and_constants_of_a_library() -> None:
    found = FoundFlags()
    text = (
        "import xllamacpp\nparams = xllamacpp.CommonParams()\nparams.n_ctx = 1024\n"
        "params.speculative.types = [xllamacpp.kind.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]\n"
    )
    assert read_python(text, found)
    assert flags(found) == {"--ctx-size": 1024, "--spec-type": ("draft-simple",)}


@pytest.mark.parametrize("text", ["vllm serve org/m", "x = 3", "model: org/m\n"])
def test_text_without_calls_and_imports_is_not_read_as_python(text: str) -> None:
    found = FoundFlags()
    assert not read_python(text, found) and found.flags == []


def test_yaml_gives_the_keys_of_its_documents() -> None:
    found = FoundFlags()
    assert read_yaml("model-path: org/m\ntp: 2\ntp: 4\nmem-fraction: 0.8\n", found)
    assert flags(found) == {"--model-path": "org/m", "--tp": 4, "--mem-fraction-static": 0.8}
    assert found.passed_over == ["tp is given again, and the last one counts"]
    assert not read_yaml("a sentence without a key", found)
    with pytest.raises(InputError, match="must not have YAML aliases"):
        read_yaml("a: &x 1\nb: *x\n", found)


def test_json_gives_an_object_for_speculation_in_parts() -> None:
    found = FoundFlags()
    assert read_json('{"method": "ngram", "num_speculative_tokens": 3}', found) is None
    assert found.engine == "vllm"
    assert flags(found) == {
        "speculative_config.method": "ngram",
        "speculative_config.num_speculative_tokens": 3,
    }
    reason = read_json('{"method": "ngram",}', FoundFlags())
    assert isinstance(reason, InputError)


def test_data_of_a_manifest_gives_the_commands_of_its_containers() -> None:
    found = FoundFlags()
    container = {"image": "vllm/vllm-openai", "args": ["--model", "org/m"], "ports": []}
    read_mapping({"kind": "Pod", "spec": {"containers": [container], "restartPolicy": "a"}}, found)
    assert found.is_manifest and found.engine == "vllm"
    assert flags(found) == {"--model": "org/m"}
    assert found.passed_over[-1].endswith("left out: ports, restartPolicy")
