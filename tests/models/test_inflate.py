"""A model enlarged with `inflate` writes what the small model writes.

Its logits, tokens, drafts from its own weights, and batches are the same.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specviz.cli import main
from specviz.errors import InputError
from specviz.experiments.run.blocks import run_lanes
from specviz.experiments.run.racing import RaceRequest
from specviz.inflation.inflate import inflate, read_shape
from specviz.models.files.hub import local_folder
from specviz.models.files.loading import LoadedModel, load_model
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.prompts import held_out_prompt
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig

PAIR = pair_named("bundled")
TARGET, DRAFT = (local_folder(source) for source in (PAIR.target, PAIR.draft))
TOKENS = 12
SHAPES = {  # the draft has hidden size 192, 3 heads of 64, an MLP of 512 and 2 layers
    "wider by 4: exact in bfloat16": {"hidden_size": 768},
    "wider by 3": {"hidden_size": 576},
    "deeper": {"num_hidden_layers": 5},
    "larger heads": {"head_dim": 128},
    "larger heads, exact": {"head_dim": 256},
    "groups of query heads": {"num_attention_heads": 12},
    "spare key-value heads": {"num_attention_heads": 24, "num_key_value_heads": 6},
    "larger MLP": {"intermediate_size": 1000},
    "all at once": {
        "hidden_size": 480,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 20,
        "num_key_value_heads": 5,
        "head_dim": 128,
    },
}


@pytest.fixture(scope="module")
def bundled() -> LoadedModel:
    return load_model(PAIR.draft, "cpu")


def logits(loaded: LoadedModel, ids: list[int]) -> torch.Tensor:
    model = loaded.model
    tokens = torch.tensor([ids])
    cache = model.new_cache(len(ids))
    return model.forward(tokens, torch.arange(len(ids))[None], cache).logits


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES.keys())
def test_the_logits_equal_those_of_the_small_model(
    sizes: dict[str, int], bundled: LoadedModel, tmp_path: Path
) -> None:
    assert DRAFT is not None
    shape = read_shape(DRAFT).with_sizes(sizes)
    size = inflate(DRAFT, tmp_path / "large", shape)
    large = load_model(str(tmp_path / "large"), "cpu")
    assert read_shape(tmp_path / "large") == shape
    config = json.loads((tmp_path / "large" / "config.json").read_text())
    per_weight = {"bfloat16": 2, "float32": 4}[config["dtype"]]
    assert large.info.parameters * per_weight == size
    ids = list(bundled.codec.encode(held_out_prompt("code", 1), "code"))[:60]
    ours, theirs = logits(bundled, ids), logits(large, ids)
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=2e-4 * float(ours.abs().max()))
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize(
    "method", ["draft-model", pytest.param("layer-skip", marks=pytest.mark.slow)]
)
def test_every_token_and_every_acceptance_rate_stays_the_same(method: str, tmp_path: Path) -> None:
    assert TARGET is not None and DRAFT is not None
    wide = read_shape(TARGET).with_sizes({"hidden_size": 512, "num_hidden_layers": 14})
    inflate(TARGET, tmp_path / "target", wide)
    inflate(DRAFT, tmp_path / "draft", read_shape(DRAFT).with_sizes({"hidden_size": 384}))
    large = custom_pair(str(tmp_path / "target"), str(tmp_path / "draft"))
    config = DecodingConfig(method=method, max_new_tokens=TOKENS)
    small_run, large_run = (
        run_lanes(
            RaceRequest(pair, held_out_prompt("story", 2), config, "story", "cpu"),
            [BASELINE, SPECULATIVE],
        ).trace()
        for pair in (PAIR, large)
    )
    assert large_run.emitted_ids == small_run.emitted_ids
    assert large_run.lane(BASELINE).emitted_ids == small_run.lane(BASELINE).emitted_ids
    assert [each.accepted for each in large_run.rounds] == [
        each.accepted for each in small_run.rounds
    ]


def test_weights_that_do_not_matter_are_not_zero(tmp_path: Path) -> None:
    """Multiplying zeros needs less power on a GPU, so timings would look too good."""
    assert TARGET is not None
    shape = read_shape(TARGET).with_sizes({"hidden_size": 512, "num_hidden_layers": 13})
    inflate(TARGET, tmp_path / "large", shape)
    for layer in (0, 12):
        weights = load_file(tmp_path / "large" / f"layer-{layer:03}.safetensors")
        for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
            weight = weights[f"model.layers.{layer}.{name}.weight"]
            assert (weight == 0).float().mean() < 0.01


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden_size": 128}, "hidden_size must be at least 256, got 128"),
        ({"num_hidden_layers": 6}, "num_hidden_layers must be at least 12, got 6"),
        ({"head_dim": 96}, "head_dim must be a multiple of 64, got 96"),
        ({"hidden_size": 1000}, "hidden_size must be a multiple of num_attention_heads"),
        ({"num_attention_heads": 6}, "num_attention_heads must be a multiple of"),
        ({"head_dim": 0}, "head_dim must be a whole number from 1"),
        # A model of this size would have petabytes of weights, more than the folder's disk can
        # hold.
        ({"hidden_size": 1 << 14, "num_hidden_layers": 1 << 20}, "folder "),
        ({"width": 5}, "shape must name sizes among hidden_size"),
    ],
)
def test_an_impossible_shape_is_refused_and_leaves_no_files(
    sizes: dict[str, int], message: str, tmp_path: Path
) -> None:
    assert TARGET is not None
    with pytest.raises(InputError) as error:
        inflate(TARGET, tmp_path / "large", read_shape(TARGET).with_sizes(sizes))
    assert str(error.value).startswith(message)
    assert not (tmp_path / "large").exists()


def test_the_command_writes_a_folder_that_decodes_or_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "large"
    command = ["models", "--inflate", str(folder), "--shape", "num_hidden_layers=13", "--json"]
    assert main(command) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["num_hidden_layers"] == 13 and made["bytes"] > 23e6
    assert main(command) == 2
    assert "must be new or empty" in capsys.readouterr().err
    sweep = ["sweep", "--target", str(folder), "--draft", PAIR.draft, "--axis", "draft-length=2"]
    short = ["--max-new-tokens", "4", "--prompt-count", "1", "--repeat", "1", "--device", "cpu"]
    assert main([*sweep, *short]) == 0
    assert main(["models", "--shape", "head_dim=128"]) == 2
    assert main(["models", "--inflate", str(tmp_path / "x"), "--shape", "head_dim"]) == 2
    assert main(["models", "--inflate", str(tmp_path / "x"), "--model", "no/model"]) == 2
    for line in capsys.readouterr().err.splitlines()[-3:]:
        assert line.startswith("specviz: ")


def test_only_a_plain_llama_model_is_accepted(tmp_path: Path) -> None:
    assert TARGET is not None
    shutil.copytree(TARGET, tmp_path / "odd")
    file = tmp_path / "odd" / "config.json"
    for change in ({"tie_word_embeddings": False}, {"model_type": "qwen2"}, {"mlp_bias": True}):
        config = json.loads((TARGET / "config.json").read_text())
        file.write_text(json.dumps({**config, **change}))
        with pytest.raises(InputError, match="must be a Llama model without biases"):
            read_shape(tmp_path / "odd")
