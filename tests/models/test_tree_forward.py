"""Every kind of forward pass gives each node of a tree the logits of its own path."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from specviz.errors import InputError
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from tests.devices import DEVICES

VOCAB = 61
ROTARY_FAMILIES = ("llama", "llama-grouped", "llama-biased", "mistral", "qwen2", "qwen3")
OTHER_FAMILIES = ("gpt2", "opt", "gpt-neox")
SLIDING_FAMILIES = ("mistral-sliding", "qwen3-sliding", "gemma3", "gpt-oss")


@dataclass(frozen=True)
class RandomTree:
    """A random tree; node 0 is the root, and `parents[0]` is -1."""

    token_ids: list[int]
    parents: list[int]

    def path(self, node: int) -> list[int]:
        above = []
        while node >= 0:
            above.append(node)
            node = self.parents[node]
        return above[::-1]

    @property
    def depths(self) -> list[int]:
        return [len(self.path(node)) - 1 for node in range(len(self.parents))]

    @property
    def mask(self) -> Tensor:
        mask = torch.zeros(len(self.parents), len(self.parents), dtype=torch.bool)
        for node in range(len(self.parents)):
            mask[node, self.path(node)] = True
        return mask


def random_tree(seed: int, size: int = 12) -> RandomTree:
    draw = random.Random(seed)
    parents = [-1] + [draw.randrange(node) for node in range(1, size)]
    return RandomTree([draw.randrange(VOCAB) for _ in parents], parents)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PATHS = (
    *((LibraryModel, family) for family in (*ROTARY_FAMILIES, *OTHER_FAMILIES, *SLIDING_FAMILIES)),
    *((LlamaModel, family) for family in ROTARY_FAMILIES),
    *((CapturedModel, family) for family in ROTARY_FAMILIES),
)


@pytest.fixture(params=PATHS, ids=lambda path: f"{path[0].__name__}-{path[1]}")
def model(
    request: pytest.FixtureRequest, device: str, tiny_module: Callable[..., Any], tiny_info: Any
) -> LanguageModel:
    path, family = request.param
    module = tiny_module(family).to(device)
    loaded: LanguageModel = path(module, tiny_info(module))
    return loaded


def plain_logits(model: LanguageModel, token_ids: list[int]) -> Tensor:
    """Return the logits after each token of a text, from one plain forward."""
    ids = torch.tensor([token_ids], device=model.device)
    positions = torch.arange(len(token_ids), device=model.device)[None]
    return model.forward(ids, positions, model.new_cache(len(token_ids))).logits[0]


def run(model: LanguageModel, cache: Any, ids: list[int], depths: list[int], **options: Any) -> Any:
    tokens = torch.tensor([ids], device=model.device)
    positions = torch.tensor([depths], device=model.device)
    return model.forward(tokens, positions, cache, **options).logits[0]


def assert_same(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)


PROMPT = [7, 3, 11, 42, 5, 19, 28]


@pytest.mark.parametrize("seed", range(3))
def test_every_node_of_a_tree_gets_the_logits_of_its_path(model: LanguageModel, seed: int) -> None:
    tree = random_tree(seed)
    cache = model.new_cache(64)
    run(model, cache, PROMPT, list(range(len(PROMPT))))
    positions = [len(PROMPT) + depth for depth in tree.depths]
    mask = tree.mask.to(model.device)
    logits = run(model, cache, tree.token_ids, positions, tree_mask=mask)
    for node in range(len(tree.parents)):
        path = [tree.token_ids[i] for i in tree.path(node)]
        assert_same(logits[node], plain_logits(model, PROMPT + path)[-1])


def test_a_tree_grown_level_by_level_equals_the_whole_tree(model: LanguageModel) -> None:
    tree = RandomTree([4, 9, 2, 33, 50, 8, 21], [-1, 0, 0, 1, 1, 2, 3])
    levels = [[node for node, depth in enumerate(tree.depths) if depth == d] for d in range(4)]
    cache = model.new_cache(64)
    run(model, cache, PROMPT, list(range(len(PROMPT))))
    for level in levels:
        seen = level[-1] + 1
        ids = [tree.token_ids[node] for node in level]
        positions = [len(PROMPT) + tree.depths[node] for node in level]
        mask = tree.mask[level, :seen].to(model.device)
        logits = run(model, cache, ids, positions, tree_mask=mask)
        for row, node in enumerate(level):
            path = [tree.token_ids[i] for i in tree.path(node)]
            assert_same(logits[row], plain_logits(model, PROMPT + path)[-1])


def test_tokens_after_accepted_slots_get_the_same_logits_as_a_new_run(model: LanguageModel) -> None:
    tree = RandomTree([4, 9, 2, 33, 50, 8], [-1, 0, 0, 2, 2, 4])
    accepted = [0, 2, 4, 5]
    cache = model.new_cache(64)
    run(model, cache, PROMPT, list(range(len(PROMPT))))
    start = cache.length
    positions = [start + depth for depth in tree.depths]
    run(model, cache, tree.token_ids, positions, tree_mask=tree.mask.to(model.device))
    cache.keep(start, [start + node for node in accepted])
    assert cache.length == start + len(accepted)
    text = PROMPT + [tree.token_ids[node] for node in accepted]
    more = [13, 14, 15]
    logits = run(model, cache, more, [len(text) + i for i in range(3)])
    assert_same(logits, plain_logits(model, text + more)[-3:])


def test_last_only_gives_only_the_last_row(model: LanguageModel) -> None:
    cache = model.new_cache(16)
    logits = run(model, cache, PROMPT, list(range(len(PROMPT))), last_only=True)
    assert logits.shape == (1, VOCAB)
    assert_same(logits[0], plain_logits(model, PROMPT)[-1])


def test_the_output_matrix_turns_features_into_logits(model: LanguageModel) -> None:
    ids = torch.tensor([PROMPT], device=model.device)
    positions = torch.arange(len(PROMPT), device=model.device)[None]
    plain = model.forward(ids, positions, model.new_cache(16))
    full = model.forward(ids, positions, model.new_cache(16), feature_layers=(model.info.layers,))
    last = model.forward(
        ids, positions, model.new_cache(16), last_only=True, feature_layers=(model.info.layers,)
    )
    assert plain.features is None and full.features is not None and last.features is not None
    assert full.features.shape == (1, len(PROMPT), model.info.hidden_size)
    assert last.logits.shape == (1, 1, VOCAB)
    assert_same(full.logits, plain.logits)
    assert_same(last.logits[0, 0], plain.logits[0, -1])
    assert_same(last.features, full.features)
    assert_same(model.output(full.features[0]), plain.logits[0])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path[0].__name__}-{path[1]}")
def test_features_of_several_layers_equal_the_hidden_states_of_transformers(
    path: Any, device: str, tiny_module: Any, tiny_info: Any
) -> None:
    """The features are compared in a prompt and in a step after it.

    They come in the requested order of layers.
    """
    kind, family = path
    reference, module = (tiny_module(family).to(device) for _ in range(2))
    model, layers = kind(module, tiny_info(module)), (2, 0, 3, 1)
    ids = torch.tensor([[*PROMPT, 1, 2, 3]], device=model.device)
    states = reference(ids, output_hidden_states=True, use_cache=False).hidden_states
    expected = torch.cat([states[layer] for layer in layers], dim=-1)
    cache, positions = model.new_cache(16), torch.arange(10, device=model.device)[None]
    for start, end in ((0, len(PROMPT)), (len(PROMPT), 10)):
        found = model.forward(
            ids[:, start:end],
            positions[:, start:end],
            cache,
            last_only=True,
            feature_layers=layers,
        )
        assert found.logits.shape == (1, 1, VOCAB)
        assert_same(found.features, expected[:, start:end])


def test_rows_of_a_batch_do_not_see_each_other(model: LanguageModel) -> None:
    rows = [PROMPT, PROMPT[::-1]]
    ids = torch.tensor(rows, device=model.device)
    positions = torch.arange(len(PROMPT), device=model.device).expand(2, -1)
    logits = model.forward(ids, positions, model.new_cache(16)).logits
    for row, text in enumerate(rows):
        assert_same(logits[row], plain_logits(model, text))


def test_a_full_cache_is_refused_and_stays_unchanged(model: LanguageModel) -> None:
    cache = model.new_cache(8)
    run(model, cache, PROMPT, list(range(len(PROMPT))))
    with pytest.raises(InputError, match="cache has 8 slots, 7 of them in use: no room for 2"):
        run(model, cache, [1, 2], [7, 8])
    assert cache.length == 7


def test_a_position_outside_the_context_is_refused(model: LanguageModel) -> None:
    cache = model.new_cache(200)
    run(model, cache, [1] * 128, list(range(128)))
    outside = "context length of tiny is 128 tokens, got position 128"
    with pytest.raises(InputError, match=outside):
        run(model, cache, [1], [128])
    root = torch.ones(1, 1, dtype=torch.bool, device=model.device)
    with pytest.raises(InputError, match=outside):
        run(model, cache, [1], [128], tree_mask=root)
    cache.keep(127, [])
    with pytest.raises(InputError, match=outside):
        run(model, cache, [1, 2], [127, 128])
    assert cache.length == 127


def test_a_tree_may_have_more_slots_than_the_context_has_positions(model: LanguageModel) -> None:
    tree = RandomTree([4, 9, 2, 33, 50], [-1, 0, 0, 0, 0])
    text = [each % VOCAB for each in range(126)]
    cache = model.new_cache(200)
    run(model, cache, text, list(range(126)))
    positions = [126 + depth for depth in tree.depths]
    logits = run(model, cache, tree.token_ids, positions, tree_mask=tree.mask.to(model.device))
    assert_same(logits[-1], plain_logits(model, [*text, 4, 50])[-1])


READS = (torch.ops.aten._local_scalar_dense, torch.ops.aten.item, torch.ops.aten.is_nonzero)


class NoReading(TorchDispatchMode):
    """A mode that refuses to read a tensor's value on the host, which would wait for a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket not in READS, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


def test_no_forward_reads_a_number_from_the_device(model: LanguageModel) -> None:
    star = RandomTree([4, 9, 2, 33, 50], [-1, 0, 0, 0, 0]).mask.to(model.device)
    cache = model.new_cache(200)
    with NoReading():
        run(model, cache, [1] * 125, list(range(125)))
        run(model, cache, [5, 6], [125, 126])
        cache.keep(126, [])
        run(model, cache, [4, 9, 2, 33, 50], [126, 127, 127, 127, 127], tree_mask=star)
