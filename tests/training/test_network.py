from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from specviz.training.corpus import Corpus
from specviz.training.network import CachedNetwork, Network, draw, load_network, sample, save_model
from specviz.training.pretraining import llama_config, target_loss
from specviz.training.token_files import train_tokenizer


@pytest.fixture(scope="module")
def network() -> Network:
    """Return a small float32 network without zero weights."""
    torch.manual_seed(0)
    network = Network(llama_config(layers=4, width=128, inner=192), torch.float32)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    return network.eval()


@pytest.fixture(scope="module")
def token_ids() -> torch.Tensor:
    return torch.randint(4096, (3, 40), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_the_training_forward_equals_that_of_transformers(
    network: Network, token_ids: torch.Tensor
) -> None:
    library = LlamaForCausalLM(network.config).eval()
    library.load_state_dict(network.state_dict(), strict=False)
    library.tie_weights()
    assert torch.allclose(network(token_ids), library(token_ids).logits, atol=1e-4)


@torch.no_grad()
def test_the_early_exit_equals_the_state_that_transformers_has_after_that_layer(
    network: Network, token_ids: torch.Tensor
) -> None:
    library = LlamaForCausalLM(network.config).eval()
    library.load_state_dict(network.state_dict(), strict=False)
    states = library(token_ids, output_hidden_states=True).hidden_states
    assert torch.allclose(list(network.states(token_ids))[2], states[3], atol=1e-4)


@torch.no_grad()
def test_an_exported_model_gives_the_logits_of_the_network(
    network: Network, token_ids: torch.Tensor, corpus: Corpus, tmp_path: Path
) -> None:
    save_model(network, train_tokenizer(corpus), tmp_path)
    rounded = Network(network.config, torch.float32)
    rounded.load_state_dict({k: v.bfloat16().float() for k, v in network.state_dict().items()})
    library = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.allclose(rounded(token_ids), library(token_ids).logits, atol=1e-4)
    assert torch.equal(rounded(token_ids), load_network(tmp_path)(token_ids))
    assert AutoTokenizer.from_pretrained(tmp_path)("<|endoftext|>")["input_ids"] == [0]


def test_the_cached_forward_equals_the_whole_forward(
    network: Network, token_ids: torch.Tensor
) -> None:
    cache = CachedNetwork(network, rows=3, length=40)
    cache.feed(token_ids[:, :30])
    for end in range(31, 41):
        logits = cache.feed(token_ids[:, end - 1 : end])
    with torch.no_grad():
        assert torch.allclose(logits, network(token_ids)[:, -1], atol=1e-4)


def test_sampling_keeps_the_prefix_and_is_repeatable_at_temperature_0(
    network: Network, token_ids: torch.Tensor
) -> None:
    first, second = (sample(network, token_ids[:, :5], 12, torch.zeros(3)) for _ in range(2))
    assert first.shape == (3, 12)
    assert torch.equal(first[:, :5], token_ids[:, :5]) and torch.equal(first, second)


def test_draws_follow_the_probabilities() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(20_000, 3)
    shares = torch.bincount(draw(logits, torch.ones(20_000))) / 20_000
    assert torch.allclose(shares, torch.tensor([0.5, 0.3, 0.2]), atol=0.02)
    assert not draw(logits, torch.zeros(20_000)).any()


def test_the_target_loss_adds_a_fifth_of_the_early_exit_s_loss(
    network: Network, token_ids: torch.Tensor
) -> None:
    with torch.no_grad():
        states = list(network.states(token_ids[:, :-1]))
        last, early = (network.logits(states[index]).log_softmax(-1) for index in (3, 2))
        wanted = token_ids[:, 1:, None]
        expected = -last.gather(2, wanted).mean() - 0.2 * early.gather(2, wanted)[:, ::4].mean()
        assert torch.allclose(target_loss(network, token_ids), expected, atol=1e-4)
