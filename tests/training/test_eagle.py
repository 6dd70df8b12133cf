from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specviz.training.distillation import TeacherCache
from specviz.training.head_training import (
    EagleNetwork,
    HeadLesson,
    eagle_levels,
    eagle_loss,
    features,
    later,
    load_eagle,
    make_features,
    ranks,
    save_eagle,
    train_eagle,
)
from specviz.training.network import Network
from specviz.training.pretraining import llama_config


@pytest.fixture(scope="module")
def head() -> EagleNetwork:
    """Return a float32 EAGLE head without zero weights."""
    torch.manual_seed(0)
    head = EagleNetwork(llama_config(layers=1, width=128, inner=96), torch.float32)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    return head.eval()


@torch.no_grad()
def test_every_level_equals_decoding_step_by_step(head: EagleNetwork) -> None:
    embedded, given = torch.randn(2, 2, 12, 128)
    levels = list(head(embedded, given, depth=4))
    for root in range(8):
        fed = given[:, : root + 1]
        for level in range(4):
            width = root + level + 1
            guess = next(iter(head(embedded[:, :width], fed)))[:, -1:]
            assert torch.allclose(levels[level][:, width - 1 : width], guess, atol=1e-4)
            fed = torch.cat((fed, guess), dim=1)


def test_a_head_predicts_nothing_from_later_tokens(head: EagleNetwork) -> None:
    embedded, given = torch.randn(2, 1, 12, 128)
    before = [level.detach() for level in head(embedded, given, depth=3)]
    given[:, 8:], embedded[:, 8:] = 0, 0
    for one, other in zip(before, head(embedded, given, depth=3), strict=True):
        assert torch.allclose(one[:, :8], other[:, :8], atol=1e-5)


@torch.no_grad()
def test_pairs_of_the_message_are_seen_but_give_no_predictions(head: EagleNetwork) -> None:
    embedded, given = torch.randn(2, 2, 12, 128)
    whole = list(head(embedded, given, depth=3))
    message = torch.ones(2, 4, dtype=torch.bool)
    rest = list(head(embedded, given, 3, message, deeper_rows=torch.tensor([1])))
    # The two calls multiply different numbers of rows, which may round differently.
    assert torch.allclose(rest[0], whole[0][:, 4:], atol=2e-4)
    # At the first positions of each level, the head would need predictions for the message. This
    # call does not compute these, so the test leaves the positions out.
    for level in (1, 2):
        assert torch.allclose(rest[level][0, level:], whole[level][1, 4 + level :], atol=2e-4)

    message[0, :3] = False
    shorter = next(iter(head(embedded, given, 1, message)))
    alone = next(iter(head(embedded[:1, 3:], given[:1, 3:])))
    assert torch.allclose(shorter[:1], alone[:, 1:], atol=1e-4)
    assert torch.allclose(shorter[1], whole[0][1, 4:], atol=2e-4)


def test_an_untrained_head_repeats_its_feature() -> None:
    head = EagleNetwork(llama_config(layers=1, width=64, inner=64), torch.float32)
    with torch.no_grad():
        head.fc.weight[:, :64] = 0
        given = torch.randn(1, 5, 64)
        (level,) = head(torch.randn(1, 5, 64), given)
    assert torch.allclose(level, given, atol=1e-6)


def test_shifting_states_to_later_positions_fills_with_zeros() -> None:
    states = torch.tensor([[1.0, 2.0, 3.0]])
    assert later(states, 1, dim=1).tolist() == [[0.0, 1.0, 2.0]]
    assert torch.equal(later(states, 0, dim=1), states)


class Clairvoyant(EagleNetwork):
    """A head that predicts exactly the features that it was given."""

    def __init__(self, truth: torch.Tensor) -> None:
        super().__init__(llama_config(layers=1, width=64, inner=64), torch.float32)
        self.truth = truth

    def forward(
        self, embedded: torch.Tensor, features: torch.Tensor, depth: int = 1
    ) -> Iterator[torch.Tensor]:
        for _ in range(depth):
            yield self.truth[:, 1:]


def test_the_loss_of_a_perfect_head_is_0(lesson: HeadLesson, target: Network) -> None:
    table = target.model.embed_tokens.weight.detach()
    assert eagle_loss(Clairvoyant(lesson.features), table, lesson).item() == pytest.approx(
        0, abs=1e-3
    )
    wrong = Clairvoyant(lesson.features.flip(1))
    assert eagle_loss(wrong, table, lesson).item() > 0.1


def test_a_perfect_head_is_always_right_and_a_shifted_one_is_not(
    lesson: HeadLesson, target: Network
) -> None:
    table = target.model.embed_tokens.weight.detach()
    tokens = lesson.tokens
    perfect = eagle_levels(Clairvoyant(features(target, tokens)), table, levels=3)
    found = ranks(target, perfect, tokens)
    assert found.shape == (len(tokens), tokens.shape[1] - 4, 3) and not found.any()
    late = eagle_levels(Clairvoyant(features(target, tokens).roll(1, dims=1)), table, levels=3)
    assert ranks(target, late, tokens).any()


@pytest.mark.usefixtures("step_a_second")
def test_training_can_be_resumed_and_gives_the_same_weights(
    cache: TeacherCache, target: Network, tmp_path: Path
) -> None:
    given = make_features(target, cache.tokens, tmp_path / "features.npy")
    table = target.model.embed_tokens.weight.detach()

    def train(seconds: float) -> tuple[EagleNetwork, int]:
        config = llama_config(layers=1, width=64, inner=64)
        checkpoint = tmp_path / "eagle.pt"
        network, progress = train_eagle(
            config, cache, given, table, checkpoint, seconds, compiled=False
        )
        return network, progress.step

    _, first = train(3)
    network, second = train(5)
    again, third = train(5)
    assert (first, second, third) == (3, 5, 5)
    assert torch.equal(network.fc.weight, again.fc.weight)


def test_a_saved_head_has_the_shapes_that_the_app_reads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = EagleNetwork(llama_config(layers=1, width=128, inner=96))
    save_eagle(network, tmp_path / "eagle")
    shapes = {
        name: tuple(weight.shape)
        for name, weight in load_file(tmp_path / "eagle" / "model.safetensors").items()
    }
    assert shapes == {
        "fc.weight": (128, 256),
        **{f"layers.0.self_attn.{part}_proj.weight": (128, 128) for part in "qkvo"},
        "layers.0.post_attention_layernorm.weight": (128,),
        "layers.0.mlp.gate_proj.weight": (96, 128),
        "layers.0.mlp.up_proj.weight": (96, 128),
        "layers.0.mlp.down_proj.weight": (128, 96),
    }
    saved = load_eagle(tmp_path / "eagle")
    assert saved.config.intermediate_size == 96 and saved.config.head_dim == 64
    assert torch.equal(saved.fc.weight, network.fc.weight.bfloat16().float())
