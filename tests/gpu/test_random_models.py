"""Random models of published shapes have the published size and the requested acceptance rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz.models.llama.llama_model import LlamaModel
from tests.gpu.random_models import acceptance_at, deviation_for, llama_config, random_model
from tests.gpu.scale import DRAFT, GPU, SMALL, TARGET

CPU = torch.device("cpu")
VOCABULARY = 128_256


def overlap(p: torch.Tensor, q: torch.Tensor) -> float:
    """Return the acceptance rate of two sets of logits, averaged over their rows (positions)."""
    return float(torch.minimum(p.softmax(-1), q.softmax(-1)).sum(-1).mean())


def test_normal_logits_of_deviation_0_355_give_an_acceptance_rate_of_0_80() -> None:
    generator = torch.Generator().manual_seed(0)
    p, q = 0.355 * torch.randn(2, 16, VOCABULARY, generator=generator)
    assert overlap(p, q) == pytest.approx(acceptance_at(0.355), abs=0.002)
    assert acceptance_at(0.355) == pytest.approx(0.80, abs=0.005)


@pytest.mark.parametrize("acceptance, is_tied", [(0.5, False), (0.8, True), (0.95, True)])
def test_two_random_models_have_the_requested_acceptance_rate(
    acceptance: float, is_tied: bool
) -> None:
    small = replace(GPU.shapes[DRAFT], layers=2, hidden_size=128, heads=4, kv_heads=2)
    small = replace(small, intermediate_size=256, vocabulary=8192)
    shapes = (replace(small, tied=False), replace(small, tied=is_tied))
    ids, positions = torch.randint(8192, (1, 64)), torch.arange(64)[None]
    p, q = (
        random_model(shape, CPU, torch.bfloat16, acceptance, seed, LlamaModel)
        for seed, shape in enumerate(shapes)
    )
    logits = [
        model.forward(ids, positions, model.new_cache(64)).logits[0].float() for model in (p, q)
    ]
    assert overlap(*logits) == pytest.approx(acceptance, abs=0.02)


def test_the_inverse_function_gives_the_acceptance_back() -> None:
    assert acceptance_at(deviation_for(0.8)) == pytest.approx(0.8)


@pytest.mark.parametrize("name, billions", [(TARGET, 8.03), (DRAFT, 1.24), (SMALL, 0.135)])
def test_the_shapes_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        module = LlamaForCausalLM(llama_config(GPU.shapes[name]))
    count = sum(weight.numel() for weight in module.parameters())
    assert count == pytest.approx(1e9 * billions, rel=0.01)
