from itertools import combinations

import pytest
import torch

from specviz.training.layer_skipping import distributions, layers_to_skip, modelled_speedup
from specviz.training.network import Network
from specviz.training.pretraining import llama_config


@pytest.fixture(scope="module")
def network() -> Network:
    """Return a network of six layers, of which the layers 1, 3 and 4 change nothing."""
    torch.manual_seed(0)
    network = Network(llama_config(layers=6, width=64, inner=64), torch.float32)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    for layer in (1, 3, 4):
        torch.nn.init.zeros_(network.model.layers[layer].self_attn.o_proj.weight)
        torch.nn.init.zeros_(network.model.layers[layer].mlp.down_proj.weight)
    return network.eval()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.randint(4096, (2, 12), generator=torch.Generator().manual_seed(0))


def test_layers_that_change_nothing_are_left_out_first(
    network: Network, tokens: torch.Tensor
) -> None:
    assert {1, 3, 4} <= set(layers_to_skip(network, tokens))
    assert layers_to_skip(network, tokens) == tuple(sorted(layers_to_skip(network, tokens)))


def test_with_no_layer_left_out_the_result_is_the_whole_network_s(
    network: Network, tokens: torch.Tensor
) -> None:
    with torch.no_grad():
        whole = network(tokens).softmax(-1)
    assert torch.allclose(distributions(network, tokens, ()), whole, atol=1e-6)
    assert torch.allclose(distributions(network, tokens, (1, 3, 4)), whole, atol=1e-6)
    for pair in combinations((0, 2, 5), 2):
        assert not torch.allclose(distributions(network, tokens, pair), whole, atol=1e-3)


@pytest.mark.parametrize(
    ("overlap", "skipped", "speedup"),
    [(0.5, 0, 0.75), (0.0, 11, 1 / (1 + 2 / 13)), (1.0, 11, 6 / (1 + 5 * 2 / 13))],
)
def test_the_modelled_speedup_follows_the_formula(
    overlap: float, skipped: int, speedup: float
) -> None:
    assert modelled_speedup(overlap, skipped, layers=12) == pytest.approx(speedup)
