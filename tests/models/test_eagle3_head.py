"""An EAGLE-3 head in its published format equals a plain forward pass of its weights.

The plain forward pass follows the published code (SafeAILab's `cnets.py`): one sequence, no cache,
float64. In shapes, N is the number of tokens, W the hidden size and R the size of the draft
vocabulary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.errors import InputError
from specviz.models.heads.eagle_files import open_eagle_head
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.language_model import LanguageModel
from tests.models.head_files import VOCAB, WIDTH, eagle3_parts, save_head
from tests.models.test_eagle_head import PlainEagle

IDS = torch.tensor([7, 3, 11, 42, 5, 19])
DRAFTED = [2, 3, 5, 19, 40, 60]
Parts = tuple[dict[str, Any], dict[str, Tensor]]


class PlainEagle3(PlainEagle):
    """An EAGLE-3 head written as plain code.

    Its tensors get the names of an EAGLE head's tensors, because it uses the attention of
    `PlainEagle`.
    """

    def __init__(self, config: dict[str, Any], tensors: dict[str, Tensor], target: Any) -> None:
        renamed = {name.replace("midlayer", "layers.0"): each for name, each in tensors.items()}
        super().__init__(config, renamed, target)

    def normed(self, name: str, x: Tensor) -> Tensor:
        scale = (x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]).rsqrt()
        return x * scale * self.weights[f"{name}.weight"]

    def reduced(self, states: Tensor) -> Tensor:  # [N, 3 W] -> [N, W]
        states = states.double()
        if "input_norm.weight" in self.weights:
            states = self.normed("input_norm", states)
        if "fc_norm.0.weight" in self.weights:
            parts = enumerate(states.chunk(3, dim=1))
            states = torch.cat([self.normed(f"fc_norm.{i}", part) for i, part in parts], 1)
        return self.times("fc", states)

    def __call__(self, token_ids: Tensor, features: Tensor) -> Tensor:  # [N], [N, W] -> [N, W]
        table = self.weights.get("embed_tokens.weight")
        embedded = self.target.embed(token_ids).double() if table is None else table[token_ids]
        hidden = self.normed("layers.0.hidden_norm", features.double())
        residual = hidden if self.config.get("norm_before_residual") else features.double()
        joined = torch.cat((self.normed("layers.0.input_layernorm", embedded), hidden), dim=1)
        hidden = residual + self.times("layers.0.self_attn.o_proj", self.attend(joined))
        normed = self.normed("layers.0.post_attention_layernorm", hidden)
        gate = F.silu(self.times("layers.0.mlp.gate_proj", normed))
        hidden = hidden + self.times(
            "layers.0.mlp.down_proj", gate * self.times("layers.0.mlp.up_proj", normed)
        )
        return self.normed("norm", hidden) if self.config.get("norm_output") else hidden

    def logits(self, hidden: Tensor) -> Tensor:  # [N, W] -> [N, R]
        if not self.config.get("norm_output"):
            hidden = self.normed("norm", hidden)
        return self.times("lm_head", hidden)


def opened(folder: Path, parts: Parts, target: LanguageModel) -> tuple[EagleHead, PlainEagle3]:
    return open_eagle_head(save_head(folder, *parts), target), PlainEagle3(*parts, target)


def with_norms(name: str, *widths: int) -> Parts:
    config, tensors = eagle3_parts()
    names = [name] if len(widths) == 1 else [f"{name}.{i}" for i in range(len(widths))]
    for each, width in zip(names, widths, strict=True):
        tensors[f"{each}.weight"] = 1 + 0.3 * torch.randn(width)
    return config, tensors


def with_config(**changes: Any) -> Parts:
    config, tensors = eagle3_parts()
    return config | changes, tensors


def with_own_embedding() -> Parts:
    config, tensors = eagle3_parts()
    return config, tensors | {"embed_tokens.weight": torch.randn(VOCAB, WIDTH)}


def as_speculators() -> Parts:
    """Return the head of `eagle3_parts` in the format of the library `speculators`.

    The sizes of the layer are in a nested part of the configuration, and its tensors are named
    `layers.0`.
    """
    config, tensors = eagle3_parts()
    size = config.pop("draft_vocab_size")
    nested = {"speculators_model_type": "eagle3", "draft_vocab_size": size}
    named = {name.replace("midlayer", "layers.0"): each for name, each in tensors.items()}
    return nested | {"transformer_layer_config": config}, named


LAYOUTS = {
    "published": lambda: eagle3_parts(),
    "head size of its own": lambda: eagle3_parts(head_dim=16),
    "own embedding": with_own_embedding,
    "norm of all states": lambda: with_norms("input_norm", 3 * WIDTH),
    "norm of each state": lambda: with_norms("fc_norm", WIDTH, WIDTH, WIDTH),
    "normed residual": lambda: with_config(norm_before_residual=True),
    "normed output fed back": lambda: with_config(norm_output=True),
}


def assert_same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_features_of_the_target_and_predicted_ones_equal_the_plain_forward(
    tmp_path: Path, target: LanguageModel, layout: Any
) -> None:
    """The head reads four features of the target, then two of its own predictions."""
    head, plain = opened(tmp_path, layout(), target)
    states = torch.randn(4, 3 * WIDTH)
    features = head.reduce(states)
    assert_same(features, plain.reduced(states))
    cache = head.new_cache(8)
    logits, foretold = head.forward(IDS[:4], features, torch.arange(4), cache)
    expected = plain(IDS[:4], features)
    assert_same(foretold, expected)
    assert_same(logits, plain.logits(expected))
    path = torch.cat((features, foretold[-1:]))
    for position in (4, 5):
        token, at = IDS[position, None], torch.tensor([position])
        last, foretold = head.forward(token, path[-1:], at, cache, last_only=True)
        expected = plain(IDS[: position + 1], path)[-1:]
        assert_same(foretold, expected)
        assert_same(last, plain.logits(expected))
        path = torch.cat((path, foretold))


def test_the_format_of_speculators_gives_the_same_head(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = as_speculators()
    head = open_eagle_head(save_head(tmp_path, config, tensors), target)
    plain = PlainEagle3(config["transformer_layer_config"], tensors, target)
    features = torch.randn(6, WIDTH)
    logits, _ = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert_same(logits, plain.logits(plain(IDS, features)))


@pytest.mark.parametrize("kind", ["peagle", "dflash", "mtp", 3, None])
def test_other_kinds_of_speculators_are_refused_by_name(
    tmp_path: Path, target: LanguageModel, kind: object
) -> None:
    """P-EAGLE has tensors with EAGLE-3's names, so it could be loaded, but would draft badly."""
    config, tensors = as_speculators()
    folder = save_head(tmp_path, config | {"speculators_model_type": kind}, tensors)
    rule = "must be eagle or eagle3 in speculators_model_type, got"
    with pytest.raises(InputError, match=f"{rule} {kind!r}$"):
        open_eagle_head(folder, target)


def test_a_head_with_sliding_windows_is_refused(tmp_path: Path, target: LanguageModel) -> None:
    folder = save_head(tmp_path, *with_config(layer_types=["sliding_attention"]))
    with pytest.raises(InputError, match="must be a layer of the Llama family: .* full attention"):
        open_eagle_head(folder, target)


def test_a_head_s_own_output_covers_exactly_the_draft_vocabulary(
    tmp_path: Path, target: LanguageModel
) -> None:
    head, plain = opened(tmp_path, eagle3_parts(DRAFTED), target)
    features = torch.randn(6, WIDTH)
    logits, foretold = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert head.drafted is not None and head.drafted.ids.tolist() == list(DRAFTED)
    assert_same(logits, plain.logits(foretold.double()))


def test_a_head_without_an_output_uses_the_target_s(tmp_path: Path, target: LanguageModel) -> None:
    config, tensors = eagle3_parts(DRAFTED)
    del tensors["lm_head.weight"]
    head, plain = opened(tmp_path, (config, tensors), target)
    logits, foretold = head.forward(IDS, torch.randn(6, WIDTH), torch.arange(6), head.new_cache(8))
    normed = plain.normed("norm", foretold.double()).float()
    assert_same(logits, target.output(normed)[:, DRAFTED].double())


def test_a_pickled_file_is_read_for_its_tensors_and_never_executed(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = eagle3_parts()
    folder = save_head(tmp_path, config, tensors)
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    head, plain = open_eagle_head(folder, target), PlainEagle3(config, tensors, target)
    features = torch.randn(6, WIDTH)
    logits, _ = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert_same(logits, plain.logits(plain(IDS, features)))
    torch.save({"fc.weight": Path}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="such a file may run code; choose safetensors") as caught:
        open_eagle_head(folder, target)
    assert "weights_only" not in str(caught.value), "PyTorch's advice is to run it"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, (2, 1, 0)),  # the default layers for a target with three layers
        ({"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}, (0, 1, 2)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 1, 2]}}, (1, 1, 2)),
    ],
)
def test_the_features_come_from_the_layers_that_the_configuration_names(
    tmp_path: Path, target: LanguageModel, where: dict[str, Any], expected: tuple[int, ...]
) -> None:
    head, _ = opened(tmp_path, with_config(**where), target)
    assert head.feature_layers == expected


@pytest.mark.parametrize("layers", [[0, 1, 3], [-1, 0, 1], [], 2, ["1"]])
def test_layers_that_the_target_does_not_have_are_refused(
    tmp_path: Path, target: LanguageModel, layers: Any
) -> None:
    parts = with_config(eagle_aux_hidden_state_layer_ids=layers)
    with pytest.raises(InputError, match="must have eagle_aux_hidden_state_layer_ids from 0 to 2"):
        opened(tmp_path, parts, target)


def test_the_memory_is_that_of_the_weights(tmp_path: Path, target: LanguageModel) -> None:
    parts = eagle3_parts()
    head, _ = opened(tmp_path, parts, target)
    assert head.bytes == sum(4 * tensor.numel() for tensor in parts[1].values())
