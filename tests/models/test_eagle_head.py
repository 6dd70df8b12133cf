"""An EAGLE head equals a plain forward pass of its weights.

This holds in chains, in trees, and after a part of the cache was removed. In shapes, N is the
number of tokens, W the hidden size, A the number of heads and D the head size.
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
from specviz.models.heads.eagle_head import ChoiceShares, EagleHead
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.choice import FIRST_ROWS, Choice
from tests.models.head_files import VOCAB, WIDTH, eagle_parts, save_head

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": 4, "rms_norm_eps": 1e-3},
    {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
)


class PlainEagle:
    """An EAGLE head written as plain code: one sequence of pairs, no cache, float64."""

    def __init__(
        self, config: dict[str, Any], tensors: dict[str, Tensor], target: LanguageModel
    ) -> None:
        self.config = config
        self.weights = {name: tensor.double() for name, tensor in tensors.items()}
        self.target = target

    def __call__(self, token_ids: Tensor, features: Tensor) -> Tensor:  # [N], [N, W] -> [N, W]
        embedded = self.target.embed(token_ids).double()
        hidden = self.times("fc", torch.cat((embedded, features.double()), dim=1))
        hidden = hidden + self.times("layers.0.self_attn.o_proj", self.attend(hidden))
        scale = (hidden.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]).rsqrt()
        normed = hidden * scale * self.weights["layers.0.post_attention_layernorm.weight"]
        gate = F.silu(self.times("layers.0.mlp.gate_proj", normed))
        up = self.times("layers.0.mlp.up_proj", normed)
        return hidden + self.times("layers.0.mlp.down_proj", gate * up)

    def times(self, name: str, x: Tensor) -> Tensor:
        product = x @ self.weights[f"{name}.weight"].t()
        return product + self.weights.get(f"{name}.bias", 0)

    def attend(self, hidden: Tensor) -> Tensor:
        size, count = self.config["head_dim"], len(hidden)
        heads = {
            name: self.times(f"layers.0.self_attn.{name}_proj", hidden).view(count, -1, size)
            for name in "qkv"
        }
        queries, keys = self.turned(heads["q"]), self.turned(heads["k"])
        group = queries.shape[1] // keys.shape[1]
        keys, values = (each.repeat_interleave(group, 1) for each in (keys, heads["v"]))
        scores = torch.einsum("nad,mad->anm", queries, keys) / size**0.5
        seen = torch.ones(count, count, dtype=torch.bool).tril()
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return torch.einsum("anm,mad->nad", weights, values).reshape(count, -1)

    def turned(self, heads: Tensor) -> Tensor:  # [N, A, D], with pair t at position t
        half = heads.shape[-1] // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        angles = torch.outer(
            torch.arange(len(heads)).double(), theta ** -(torch.arange(half).double() / half)
        )
        cosines, sines = angles.cos()[:, None], angles.sin()[:, None]
        first, second = heads.chunk(2, dim=-1)
        return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


@pytest.fixture(params=[LlamaModel, LibraryModel])
def target(request: pytest.FixtureRequest, tiny_module: Any, tiny_info: Any) -> LanguageModel:
    module = tiny_module("llama")
    model: LanguageModel = request.param(module, tiny_info(module))
    return model


@pytest.fixture(params=range(len(SHAPES)))
def both(
    request: pytest.FixtureRequest, tmp_path: Path, target: LanguageModel
) -> tuple[EagleHead, PlainEagle]:
    config, tensors = eagle_parts(**SHAPES[request.param])
    head = open_eagle_head(save_head(tmp_path, config, tensors), target)
    return head, PlainEagle(config, tensors, target)


IDS = torch.tensor([7, 3, 11, 42, 5, 19])


def assert_same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left.double(), right, rtol=1e-4, atol=1e-4)


def test_pairs_run_together_or_one_by_one_equal_the_plain_forward(
    both: tuple[EagleHead, PlainEagle], target: LanguageModel
) -> None:
    head, plain = both
    features = torch.randn(6, WIDTH)
    expected = plain(IDS, features)
    logits, foretold = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert_same(foretold, expected)
    assert torch.equal(logits, target.output(foretold))
    cache = head.new_cache(8)
    for t in range(6):
        _, foretold = head.forward(IDS[t, None], features[t, None], torch.tensor([t]), cache)
        assert_same(foretold, expected[t, None])


def test_last_only_gives_the_last_logits_and_all_features(
    both: tuple[EagleHead, PlainEagle], target: LanguageModel
) -> None:
    head, plain = both
    features = torch.randn(6, WIDTH)
    cache = head.new_cache(8)
    logits, foretold = head.forward(IDS, features, torch.arange(6), cache, last_only=True)
    assert_same(foretold, plain(IDS, features))
    assert torch.equal(logits, target.output(foretold[-1:]))


def test_every_node_of_a_tree_with_predicted_features_equals_its_path(
    both: tuple[EagleHead, PlainEagle],
) -> None:
    """The head drafts two levels after three pairs of the target.

    Then the drafted pairs are removed from its cache.
    """
    head, plain = both
    features = torch.randn(3, WIDTH)
    cache = head.new_cache(16)
    _, foretold = head.forward(IDS[:3], features, torch.arange(3), cache)
    level = torch.tensor([4, 9, 2])  # the first drafted level: three siblings after the last pair
    root = foretold[-1:].expand(3, -1)
    mask = torch.eye(3, dtype=torch.bool)
    _, first = head.forward(level, root, torch.tensor([3, 3, 3]), cache, mask)
    mask = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 1, 0, 1]], dtype=torch.bool)
    # The second level: children of the second and of the third sibling.
    deeper = torch.tensor([33, 50])
    _, second = head.forward(deeper, first[1:], torch.tensor([4, 4]), cache, mask)
    for node, parent in enumerate((1, 2)):
        ids = torch.cat((IDS[:3], level[parent, None], deeper[node, None]))
        path = torch.cat((features, foretold[-1:], first[parent, None]))
        expected = plain(ids, path)
        assert_same(first[parent], expected[3])
        assert_same(second[node], expected[4])
    cache.keep(3, [])
    more = torch.randn(2, WIDTH)
    _, after = head.forward(IDS[3:5], more, torch.tensor([3, 4]), cache)
    assert_same(after, plain(IDS[:5], torch.cat((features, more)))[3:])


def as_speculators(is_biased: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the head of `eagle_parts` with the configuration and tensor names of `speculators`.

    `is_biased` adds a bias to the layer that combines token and feature, as HASS does.
    """
    config, tensors = eagle_parts()
    own = {"speculators_model_type": "eagle", "layernorms": False, "fusion_bias": is_biased}
    named = {
        name.replace("layers.0", "transformer").replace("fc.", "fusion_fc."): tensor
        for name, tensor in tensors.items()
    }
    if is_biased:
        named["fusion_fc.bias"] = torch.randn(WIDTH)
    return own | {"transformer_layer_config": config}, named


@pytest.mark.parametrize("is_biased", [False, True])
def test_the_format_of_speculators_gives_the_same_head(
    tmp_path: Path, target: LanguageModel, is_biased: bool
) -> None:
    config, tensors = as_speculators(is_biased)
    head = open_eagle_head(save_head(tmp_path, config, tensors), target)
    published = {
        name.replace("transformer", "layers.0").replace("fusion_fc.", "fc."): tensor
        for name, tensor in tensors.items()
    }
    plain = PlainEagle(config["transformer_layer_config"], published, target)
    features = torch.randn(6, WIDTH)
    _, foretold = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert_same(foretold, plain(IDS, features))


def test_a_head_with_norms_around_its_input_layer_is_refused_in_one_line(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = as_speculators(False)
    folder = save_head(tmp_path, config | {"layernorms": True}, tensors)
    with pytest.raises(InputError, match="must have layernorms false in its config.json"):
        open_eagle_head(folder, target)


def test_the_size_counts_second_layouts(
    tmp_path: Path, target: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, tensors = eagle_parts()
    folder = save_head(tmp_path, config, tensors)
    once = open_eagle_head(folder, target).bytes
    two = Choice(("mm-transposed", *["linear"] * (len(FIRST_ROWS) - 1)), {})
    monkeypatch.setattr("specviz.models.matrix_kernels.settling.by_rule", lambda *_: two)
    norm = 4 * WIDTH  # bytes of the norm, which is no matrix and therefore has no second layout
    assert open_eagle_head(folder, target).bytes == 2 * once - norm


def test_the_memory_is_that_of_the_weights_and_a_full_cache_is_refused(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = eagle_parts()
    head = open_eagle_head(save_head(tmp_path, config, tensors), target)
    assert head.bytes == sum(4 * tensor.numel() for tensor in tensors.values())
    with pytest.raises(InputError, match="cache has 2 slots, 0 of them in use: no room for 3"):
        head.forward(IDS[:3], torch.randn(3, WIDTH), torch.arange(3), head.new_cache(2))


DRAFTED = torch.tensor([2, 3, 5, 19, 40, 60])


def with_draft_vocabulary(ids: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config, tensors = eagle_parts()
    offsets = ids - torch.arange(len(ids))
    return config | {"draft_vocab_size": len(ids)}, tensors | {"d2t": offsets}


def test_a_draft_vocabulary_keeps_only_the_logits_of_its_tokens(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = with_draft_vocabulary(DRAFTED)
    head = open_eagle_head(save_head(tmp_path, config, tensors), target)
    logits, foretold = head.forward(IDS, torch.randn(6, WIDTH), torch.arange(6), head.new_cache(8))
    expected = target.output(foretold)
    assert head.drafted is not None and torch.equal(head.drafted.ids, DRAFTED)
    torch.testing.assert_close(logits, expected[:, DRAFTED], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ids", [[2, 2, 5], [1, 5, VOCAB], [-1, 5, 7]])
def test_a_draft_vocabulary_must_name_different_tokens_of_the_target(
    tmp_path: Path, target: LanguageModel, ids: list[int]
) -> None:
    config, tensors = with_draft_vocabulary(torch.tensor(ids))
    with pytest.raises(InputError, match=f"must have 3 different token ids below {VOCAB} in d2t"):
        open_eagle_head(save_head(tmp_path, config, tensors), target)


SHARES = {"greedy": [0.5, 0.25], "sampled": [0.4, 0.1]}


def test_a_head_says_how_often_its_choices_are_right_if_it_was_measured(
    tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = eagle_parts()
    assert open_eagle_head(save_head(tmp_path / "a", config, tensors), target).shares is None
    measured = config | {"choice_shares": SHARES}
    head = open_eagle_head(save_head(tmp_path / "b", measured, tensors), target)
    assert head.shares == ChoiceShares((0.5, 0.25), (0.4, 0.1))


@pytest.mark.parametrize(
    "shares", [3, {}, {"greedy": [0.5]}, SHARES | {"sampled": []}, SHARES | {"greedy": [0.9, 0.2]}]
)
def test_invalid_accuracies_are_refused(
    tmp_path: Path, target: LanguageModel, shares: object
) -> None:
    config, tensors = eagle_parts()
    folder = save_head(tmp_path, config | {"choice_shares": shares}, tensors)
    with pytest.raises(InputError, match="must have choice_shares in its config.json: for greedy"):
        open_eagle_head(folder, target)


def test_the_published_format_is_read_with_its_bias_embedding_and_pickled_file(
    tmp_path: Path, target: LanguageModel
) -> None:
    """SafeAILab publishes *.bin files with a bias in the first layer and the target's embedding."""
    config, tensors = eagle_parts()
    bias = torch.randn(WIDTH)
    table = target.embed(torch.arange(VOCAB))
    folder = save_head(tmp_path, config, tensors)
    (folder / "model.safetensors").unlink()
    published = tensors | {"fc.bias": bias, "embed_tokens.weight": table}
    torch.save(published, folder / "pytorch_model.bin")
    head, plain = open_eagle_head(folder, target), PlainEagle(config, tensors, target)
    times = plain.times
    plain.times = lambda name, x: (  # type: ignore[method-assign]
        times(name, x) + (bias.double() if name == "fc" else 0)
    )
    features = torch.randn(6, WIDTH)
    _, foretold = head.forward(IDS, features, torch.arange(6), head.new_cache(8))
    assert_same(foretold, plain(IDS, features))
    copied = sum(4 * tensor.numel() for tensor in tensors.values())
    # The head shares the target's embedding, so its bytes do not count.
    assert head.bytes == copied + 4 * WIDTH
