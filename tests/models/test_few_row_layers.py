"""The layers as one compiled program give exactly the bits of the operations called one by one."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config, Qwen3Config

from specviz.models.language_model import ForwardOutput
from specviz.models.llama import few_row_layers
from specviz.models.llama.few_row_layers import FewRowLayers
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import quantised
from specviz.models.matrix_kernels import kernel
from specviz.models.matrix_kernels.choice import MOST_ALIKE, Choice
from specviz.models.matrix_kernels.kernel_candidates import KernelCandidate
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need

SIZES: dict[str, Any] = dict(
    vocab_size=61,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=256,
)
CONTEXT = 40

pytestmark = pytest.mark.skipif(kernel.registers() is None, reason="no kernel on this machine")


@pytest.fixture
def model(tiny_module: Any, tiny_info: Any) -> LlamaModel:
    return made(tiny_module, tiny_info, LlamaConfig(**SIZES))


def made(
    tiny_module: Any, tiny_info: Any, config: Any, dtype: torch.dtype = torch.float32
) -> LlamaModel:
    module = tiny_module("", config).to(dtype)
    model = LlamaModel(module, tiny_info(module))
    compile_all(model)
    return model


def compile_all(model: LlamaModel) -> None:
    for projection in model.projections:
        projection.adopt(Choice(("compiled",) * 5, {}))


def forward(
    model: LlamaModel, count: int, mask: torch.Tensor | None = None, taps: tuple[int, ...] = ()
) -> ForwardOutput:
    cache = model.new_cache(CONTEXT + count)
    chance = torch.Generator().manual_seed(count)
    ids = torch.randint(61, (1, CONTEXT + count), generator=chance)
    places = torch.arange(CONTEXT + count)[None]
    model.forward(ids[:, :CONTEXT], places[:, :CONTEXT], cache)
    return model.forward(ids[:, CONTEXT:], places[:, CONTEXT:], cache, mask, feature_layers=taps)


def one_by_one(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> ForwardOutput:
    with monkeypatch.context() as patched:
        patched.setattr(FewRowLayers, "program", lambda *_: None)
        return forward(*arguments)


def has_program(model: LlamaModel, rows: int = 1) -> bool:
    like = torch.zeros(rows, model.info.hidden_size, dtype=model.dtype)
    return model._few_rows.program(model.layers, like) is not None


@pytest.mark.parametrize("rows", [1, 2, 7, MOST_ALIKE])
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_logits_and_features_have_the_bits_of_separate_operations(
    model: LlamaModel,
    rows: int,
    has_mask: bool,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mask = torch.rand(rows, rows) > 0.5 if has_mask else None
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        expected = one_by_one(monkeypatch, model, rows, mask, (0, 2, 3))
        found = forward(model, rows, mask, (0, 2, 3))
    finally:
        torch.set_num_threads(before)
    assert has_program(model, rows)
    assert torch.equal(found.logits, expected.logits)
    assert found.features is not None and expected.features is not None
    assert torch.equal(found.features, expected.features)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_rounded_copy_runs_as_a_program_with_the_bits_of_separate_operations(
    model: LlamaModel, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = quantised(model, bits)
    compile_all(copy)
    expected = one_by_one(monkeypatch, copy, 3)
    assert has_program(copy, 3)
    assert torch.equal(forward(copy, 3).logits, expected.logits)


@pytest.fixture
def half(tiny_module: Any, tiny_info: Any) -> LlamaModel:
    return made(tiny_module, tiny_info, LlamaConfig(**SIZES), torch.bfloat16)


@pytest.mark.parametrize("has_mask", [False, True])
def test_a_model_in_bfloat16_is_nearer_to_float32_than_separate_operations(
    half: LlamaModel,
    has_mask: bool,
    tiny_module: Any,
    tiny_info: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mask = torch.rand(5, 5) > 0.5 if has_mask else None
    module = tiny_module("", LlamaConfig(**SIZES)).bfloat16().float()
    exact = forward(LlamaModel(module, tiny_info(module)), 5, mask, (2, 4))
    found = forward(half, 5, mask, (2, 4))
    apart = one_by_one(monkeypatch, half, 5, mask, (2, 4))
    assert has_program(half) and found.features is not None
    assert found.features.dtype is torch.bfloat16
    assert distance(found.logits, exact.logits) < distance(apart.logits, exact.logits)
    assert distance(found.features, exact.features) < distance(apart.features, exact.features)


def distance(found: torch.Tensor | None, exact: torch.Tensor | None) -> float:
    assert found is not None and exact is not None
    return float((found.float() - exact).norm())


def test_a_token_in_bfloat16_has_the_same_bits_alone_and_among_others(half: LlamaModel) -> None:
    ids, places = torch.arange(30)[None], torch.arange(30)[None]
    cache = half.new_cache(40)
    half.forward(ids[:, :20], places[:, :20], cache)
    together = half.forward(ids[:, 20:], places[:, 20:], cache).logits
    cache.keep(20, [])
    alone = []
    for i in range(20, 30):
        alone.append(half.forward(ids[:, i, None], places[:, i, None], cache).logits)
    assert torch.equal(torch.cat(alone, 1), together)


def test_a_forward_in_bfloat16_that_stops_between_layers_has_the_same_bits(
    half: LlamaModel,
) -> None:
    """Early exit drafts with the first layers, and verification goes on with the others."""
    ids, places = torch.arange(3), torch.arange(3)
    whole = half.forward(ids[None], places[None], half.new_cache(4), feature_layers=(4,)).features
    cache, hidden = half.new_cache(4), half.embed(ids)
    for part in (range(2), range(2, 4)):
        hidden = half.run_layers(hidden, places, cache, part, 0)
    assert whole is not None and torch.equal(half.norm(hidden), whole[0])


def test_biases_of_queries_keys_and_values_are_added(
    tiny_module: Any, tiny_info: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(tiny_module, tiny_info, Qwen2Config(**SIZES))
    bias = model.layers[0].qkv.bias
    assert bias is not None and has_program(model)
    torch.nn.init.normal_(bias)
    assert torch.equal(forward(model, 2).logits, one_by_one(monkeypatch, model, 2).logits)


def test_a_layer_that_the_program_does_not_know_runs_one_operation_at_a_time(
    tiny_module: Any, tiny_info: Any, model: LlamaModel
) -> None:
    normed_heads = made(tiny_module, tiny_info, Qwen3Config(**SIZES))
    biased = made(tiny_module, tiny_info, LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True))
    assert not has_program(normed_heads) and not has_program(biased)
    model.layers[2].down.adopt(Choice(("mm",) * 5, {}))
    assert not has_program(model) and not has_program(model, MOST_ALIKE + 1)


def test_a_program_follows_a_change_of_kernels(model: LlamaModel) -> None:
    expected = forward(model, 2).logits
    for projection in model.projections:
        projection.adopt(Choice(("mm",) * 5, {}))
    torch.testing.assert_close(forward(model, 2).logits, expected, rtol=1e-3, atol=1e-3)
    compile_all(model)
    assert torch.equal(forward(model, 2).logits, expected)


def test_a_kernel_that_changes_while_a_program_is_built_leaves_no_old_program(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection, build = model.projections[0], few_row_layers._program

    def interrupted(*arguments: Any) -> Any:
        program = build(*arguments)
        projection.adopt(Choice(("mm",) * 5, {}))
        return program

    with monkeypatch.context() as patched:
        patched.setattr(few_row_layers, "_program", interrupted)
        assert has_program(model, 3)
    assert not has_program(model, 3)


def test_a_program_that_is_built_while_a_kernel_changes_is_built_again(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = KernelCandidate.hold

    def slow(*arguments: Any) -> Any:
        # This program still uses the kernel that the matrix had before `adopt`.
        assert has_program(model, 3)
        return hold(*arguments)

    monkeypatch.setattr(KernelCandidate, "hold", slow)
    model.projections[0].adopt(Choice(("mm",) * 5, {}))
    assert not has_program(model, 3)


def test_a_model_with_fewer_layers_has_a_program_of_its_own(model: LlamaModel) -> None:
    forward(model, 2)
    short = model.with_layers(model.layers[:2], model.info)
    assert short._few_rows is not model._few_rows


def test_a_model_with_a_program_can_be_pickled(model: LlamaModel) -> None:
    expected = forward(model, 2).logits
    again = pickle.loads(pickle.dumps(model))
    torch.testing.assert_close(forward(again, 2).logits, expected, rtol=1e-3, atol=1e-3)


def test_two_threads_that_run_one_program_get_their_own_results(model: LlamaModel) -> None:
    masks = (None, torch.eye(4, dtype=torch.bool))
    expected = [forward(model, 4, mask).logits for mask in masks]
    wrong: list[int] = []

    def work(which: int) -> None:
        for _ in range(50):
            if not torch.equal(forward(model, 4, masks[which]).logits, expected[which]):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_layer_without_a_norm_before_attention_runs_as_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first layer of an EAGLE head has no such norm."""
    loaded = load_pair(pair_named("bundled"), "cpu", "float32", frozenset({Need.EAGLE}))
    head, width = loaded.parts.eagle, loaded.target.info.hidden_size
    assert head is not None
    for projection in head._layers[0].projections:
        projection.adopt(Choice(("compiled",) * 5, {}))
    assert head._few_rows.program(head._layers, torch.zeros(3, width)) is not None
    features = torch.randn(3, width, generator=torch.Generator().manual_seed(0))

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        return head.forward(torch.arange(3), features, torch.arange(3), head.new_cache(8))

    found = run()
    monkeypatch.setattr(FewRowLayers, "program", lambda *_: None)
    assert all(torch.equal(one, other) for one, other in zip(found, run(), strict=True))
