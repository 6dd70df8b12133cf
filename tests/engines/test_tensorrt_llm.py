"""TensorRT-LLM's flags, file and classes are read in the forms that its documentation shows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.engines.translation import Fate, Translation, translate

SCRIPT = """\
cat >/tmp/extra.yml <<EOF
speculative_config:
    decoding_type: MTP
    num_nextn_predict_layers: 3
kv_cache_config:
    free_gpu_memory_fraction: 0.85
    dtype: fp8
EOF
trtllm-serve org/m --tp_size 4 --ep_size 2 --extra_llm_api_options /tmp/extra.yml
"""


def fates(found: Translation) -> dict[str, Fate]:
    return {each.typed: each.fate for each in found.changes}


def file_of(found: Translation) -> Any:
    assert found.configuration is not None, found.problems
    return yaml.safe_load(found.configuration.yaml)


def test_a_script_with_a_file_of_options_is_one_deployment() -> None:
    found = translate(SCRIPT)
    assert found.deployment == ModelDeployment(
        target="org/m",
        method=EngineMethod.MTP,
        draft_tokens=3,
        tensor_parallel=4,
        memory_fraction=0.85,
    )
    assert file_of(found) == {
        "kv_cache_config": {"dtype": "fp8"},
        "speculative_config": {"decoding_type": "MTP", "max_draft_len": 3},
    }
    assert found.configuration is not None
    script = found.configuration.command
    assert script.startswith("cat > config.yaml <<'EOF'\nkv_cache_config:\n")
    assert "--moe_expert_parallel_size 2 \\\n    --config config.yaml\n" in script
    assert translate(script).deployment == found.deployment


@pytest.mark.parametrize(
    ("settings", "method", "longest"),
    [
        ("decoding_type: DraftTarget\n  speculative_model_dir: d", "Draft_Target", None),
        ("decoding_type: Eagle\n  speculative_model: d", "Eagle3", None),
        ("decoding_type: NGram\n  max_matching_ngram_size: 4", "NGram", 4),
        ("decoding_type: MTP", "MTP", None),
    ],
)
def test_names_of_earlier_versions_are_read_and_today_s_are_written(
    settings: str, method: str, longest: int | None
) -> None:
    found = translate(f"speculative_config:\n  {settings}\n  max_draft_len: 3\n")
    assert found.source == "tensorrt-llm" and found.problems == ()
    assert file_of(found)["speculative_config"]["decoding_type"] == method
    assert found.deployment is not None
    assert (found.deployment.draft_tokens, found.deployment.lookup_max) == (3, longest)


def test_classes_in_python_are_the_same_as_the_file() -> None:
    code = (
        "from tensorrt_llm import LLM\nfrom tensorrt_llm.llmapi import *\n"
        "config = Eagle3DecodingConfig(max_draft_len=3, speculative_model='org/h')\n"
        "llm = LLM('org/m', speculative_config=config, max_batch_size=8,\n"
        "          kv_cache_config=KvCacheConfig(free_gpu_memory_fraction=0.8))\n"
    )
    found = translate(code)
    assert found.deployment == ModelDeployment(
        target="org/m",
        method=EngineMethod.EAGLE3,
        draft="org/h",
        draft_tokens=3,
        max_batch=8,
        memory_fraction=0.8,
    )
    assert found.configuration is not None
    assert translate(found.configuration.python).deployment == found.deployment


def test_an_expression_for_an_object_is_passed_on_with_a_note() -> None:
    found = translate("from tensorrt_llm import LLM\nLLM('org/m', kv_cache_config=cache())")
    assert "kv_cache_config is 'cache()' in the code: write its value instead" in found.notes
    assert file_of(found) == {"kv_cache_config": "cache()"}


def test_settings_of_speculation_without_a_method_are_passed_on() -> None:
    file = "speculative_config:\n  is_keep_all: true\n"
    found = translate(f"cat > a.yaml <<EOF\n{file}EOF\ntrtllm-serve org/m --config a.yaml")
    assert file_of(found) == {"speculative_config": {"is_keep_all": True}}
    assert "nothing in the text speculates" in found.notes


def test_a_format_of_weights_gets_one_remark() -> None:
    found = translate("vllm serve org/t --quantization fp8", "tensorrt-llm").configuration
    assert found is not None
    (remark,) = (each for each in found.remarks if "fp8" in each or "quantization" in each)
    assert "reads the format from the model's repository" in remark


def test_removed_and_unknown_settings_are_reported() -> None:
    found = translate(
        "speculative_config:\n  decoding_type: Eagle3\n  speculative_model: d\n  max_draft_len: 3\n"
        "  eagle3_one_model: true\n  use_dynamic_tree: true\n  depth: 2\ndisable_overlap: true\n"
    )
    told = fates(found)
    assert told["eagle3_one_model"] is Fate.GONE and told["use_dynamic_tree"] is Fate.KEPT
    assert told["depth"] is told["disable_overlap"] is Fate.UNKNOWN


def test_a_deployment_of_another_engine_becomes_a_file_and_flags() -> None:
    config = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'
    found = translate(
        f"vllm serve org/t -tp 2 --served-model-name me --speculative-config '{config}'",
        "tensorrt-llm",
    )
    assert file_of(found)["speculative_config"] == {
        "decoding_type": "NGram",
        "max_draft_len": 3,
        "max_matching_ngram_size": 4,
    }
    assert found.configuration is not None
    assert "--tensor_parallel_size 2" in found.configuration.command
    assert "--served_model_name me" in found.configuration.command


def test_a_file_that_is_not_in_the_text_is_asked_for() -> None:
    found = translate("trtllm-serve org/m --config speculation.yaml", "vllm")
    assert found.notes[0].startswith("--config names a file: paste its contents as well")
