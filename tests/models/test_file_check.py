"""Files that would crash, fill or block this process are refused with a sentence."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.folders import ASSETS
from specviz.models.files import file_check
from specviz.models.files.file_check import check_files
from specviz.models.files.survey import survey_model
from specviz.models.limited_process import NoAnswer

DRAFT = ASSETS / "models" / "draft"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the bundled draft, whose files are accepted."""
    return Path(shutil.copytree(DRAFT, tmp_path / "model"))


def changed(folder: Path, name: str, change: Change) -> None:
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))


def replacing(*contents: str) -> dict[str, Any]:
    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": each} for each in contents]
    return {"type": "Sequence", "normalizers": steps}


def test_a_good_model_is_accepted_after_one_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_files("x", folder)
    monkeypatch.setattr(file_check, "ask_limited", None)
    check_files("x", folder)
    check_files("bundled", DRAFT)


def test_a_model_that_many_people_request_at_once_starts_at_most_two_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    both = threading.Barrier(2)

    def check(model: Path) -> None:
        started.append(model)
        both.wait(timeout=60)

    monkeypatch.setattr(file_check, "_problem_in_process", check)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: check_files("x", folder), range(6)))
    assert len(started) == 2


@pytest.mark.parametrize("content", ["5", "null", "true", '"a word"', "[]"])
def test_a_file_with_a_single_json_value_does_not_refuse_a_model(
    folder: Path, content: str
) -> None:
    (folder / "version.json").write_text(content)
    check_files("x", folder)


def test_a_rewritten_file_is_checked_again(folder: Path) -> None:
    check_files("x", folder)
    changed(folder, "tokenizer.json", lambda each: each.update(normalizer=replacing("a" * 999)))
    with pytest.raises(InputError, match="more than 64 times as long, got 999 times"):
        check_files("x", folder)


@pytest.mark.parametrize(
    "normalizer",
    [
        replacing("a" * 100),
        replacing(*["aa" * 4] * 10),
        {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 10**6},
        {"type": "Prepend", "prepend": "x" * 10**6},
        {"type": "Sequence", "normalizers": [replacing(*["aaa"] * 8)]},
    ],
)
def test_a_normalizer_that_makes_text_much_longer_is_refused(
    folder: Path, normalizer: dict[str, Any]
) -> None:
    changed(folder, "tokenizer.json", lambda each: each.update(normalizer=normalizer))
    with pytest.raises(InputError, match="makes no text more than 64 times as long"):
        survey_model(str(folder), Environment())


def test_a_regular_expression_that_makes_the_library_fail_is_refused(folder: Path) -> None:
    bad = {"Regex": "(a|a)*(a|a)*(a|aa)+$"}
    split = {"type": "Split", "pattern": bad, "behavior": "Isolated", "invert": False}
    changed(folder, "tokenizer.json", lambda each: each.update(pre_tokenizer=split))
    with pytest.raises(InputError, match=r"has files that make a library fail \(PanicException"):
        survey_model(str(folder), Environment())


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
@pytest.mark.parametrize("depth", [100, 100_000])
def test_deeply_nested_json_is_refused(folder: Path, name: str, depth: int) -> None:
    (folder / name).write_text('{"a":' * depth + "1" + "}" * depth)
    told = f"(JSON of at most 64 levels, but {name} has more|has a broken config.json)"
    with pytest.raises(InputError, match=told):
        survey_model(str(folder), Environment())


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "generation_config.json", "model.safetensors"]
)
def test_a_pipe_or_a_device_is_refused_without_waiting(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"must consist of regular files, but {name} is not one"):
        survey_model(str(folder), Environment())
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f"must consist of regular files, but {name} is not one"):
        survey_model(str(folder), Environment())


def test_the_weights_of_a_head_are_checked_before_their_size_is_read(tmp_path: Path) -> None:
    """Opening a pipe would wait while it holds Python's global lock.

    No other thread could then answer any request.
    """
    heads = Path(shutil.copytree(ASSETS / "models" / "medusa", tmp_path / "heads"))
    (heads / "model.safetensors").unlink()
    os.mkfifo(heads / "model.safetensors")
    code = (
        "import sys, torch\n"
        "from specviz.models.pair_catalog import Pair\n"
        "from specviz.models.pair_check import draft_bytes, head_bytes\n"
        "from specviz.models.parts import Need\n"
        "heads = Pair('own', 'own', 'target', draft=sys.argv[1], medusa=sys.argv[1])\n"
        "print(head_bytes(heads, frozenset({Need.MEDUSA}), torch.float32))\n"
        "print(draft_bytes(heads, torch.float32))"
    )
    command = [sys.executable, "-c", code, str(heads)]
    assert subprocess.check_output(command, text=True, timeout=120).split() == ["None", "None"]


@pytest.mark.parametrize(
    "processor",
    [
        {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "Z", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": {"Z": {"id": "Z", "ids": [10**9], "tokens": ["Z"]}},
        },
        {"type": "BertProcessing", "sep": ["Z", 10**9], "cls": ["Z", 10**9]},
    ],
)
def test_a_tokenizer_that_adds_an_unknown_token_is_refused(
    folder: Path, processor: dict[str, Any]
) -> None:
    """The embedding has no row for this token.

    On a GPU, looking it up would break the whole process.
    """
    changed(folder, "tokenizer.json", lambda each: each.update(post_processor=processor))
    with pytest.raises(InputError, match="returns only ids of its vocabulary, got 10000"):
        survey_model(str(folder), Environment())


def test_headers_with_many_tensors_are_refused_quickly(folder: Path) -> None:
    names = {
        f"t{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        for number in range(70_000)
    }
    header = json.dumps(names).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(
        InputError, match="at most 65536 tensors in a file, but model.safetensors has 7"
    ):
        survey_model(str(folder), Environment())
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", 26_000_002) + b"{" + b" " * 26_000_000 + b"}"
    )
    with pytest.raises(InputError, match="headers of at most 25000000 bytes"):
        survey_model(str(folder), Environment())


@pytest.mark.parametrize(
    ("tensors", "fields", "sentence"),
    [(10**6, 1, "65536 tensors"), (1, 200_000, "4096 fields"), (1, 2**60, "4096 fields")],
)
def test_gguf_headers_with_many_fields_are_refused_quickly(
    tmp_path: Path, tensors: int, fields: int, sentence: str
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, fields) + b"\0" * 100)
    with pytest.raises(InputError, match=f"must have at most {sentence}"):
        survey_model(str(file), Environment())


def test_a_configuration_with_many_values_is_refused(folder: Path) -> None:
    changed(folder, "config.json", lambda each: each.update({f"k{n}": 1 for n in range(200_000)}))
    with pytest.raises(InputError, match="a config.json of at most 20000 values, got 2000"):
        survey_model(str(folder), Environment())


def test_files_that_need_too_much_time_or_memory_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any) -> None:
        raise NoAnswer

    monkeypatch.setattr(file_check, "ask_limited", silent)
    with pytest.raises(InputError, match="cannot be opened within 20 s and 2000 MB"):
        check_files("x", folder)


def test_the_check_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from specviz.models.files.file_check import problem_of\n"
        "assert problem_of(sys.argv[1]) is None\n"
        "print([each for each in ('torch', 'transformers') if each in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(DRAFT)]
    assert subprocess.check_output(command, text=True).strip() == "[]"
