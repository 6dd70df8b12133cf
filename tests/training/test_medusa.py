from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from specviz.training.distillation import TeacherCache
from specviz.training.head_training import (
    HeadLesson,
    MedusaNetwork,
    features,
    load_medusa,
    make_features,
    medusa_levels,
    medusa_loss,
    ranks,
    save_medusa,
    train_medusa,
)
from specviz.training.network import Network, linear


class Clairvoyant(nn.Module):
    """A head that was told the features `places` further on."""

    def __init__(self, truth: torch.Tensor, places: int, table: torch.Tensor) -> None:
        super().__init__()
        self.truth, self.places, self.table = truth, places, table

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.truth[:, self.places : self.places + given.shape[1]] @ self.table.T


def clairvoyant(target: Network, truth: torch.Tensor, late: int = 0) -> MedusaNetwork:
    table = target.model.embed_tokens.weight.detach()
    network = MedusaNetwork(table, heads=3, dtype=torch.float32)
    heads = (Clairvoyant(truth, head + 1 - late, table) for head in range(3))
    network.heads = nn.ModuleList(heads)
    return network


def test_the_loss_of_perfect_heads_is_nothing(lesson: HeadLesson, target: Network) -> None:
    perfect = clairvoyant(target, lesson.features)
    assert medusa_loss(perfect, lesson).item() == pytest.approx(0, abs=1e-3)
    assert medusa_loss(clairvoyant(target, lesson.features, late=1), lesson).item() > 0.05


def test_perfect_heads_are_always_right_and_late_ones_are_not(
    lesson: HeadLesson, target: Network
) -> None:
    truth = features(target, lesson.tokens)
    found = ranks(target, medusa_levels(clairvoyant(target, truth)), lesson.tokens)
    assert found.shape == (4, lesson.tokens.shape[1] - 4, 3) and not found.any()
    late = medusa_levels(clairvoyant(target, truth, late=1))
    assert ranks(target, late, lesson.tokens).any()


def test_untrained_heads_say_what_the_target_says(lesson: HeadLesson, target: Network) -> None:
    table = target.model.embed_tokens.weight.detach()
    network = MedusaNetwork(table, heads=2, dtype=torch.float32)
    first, second = network(lesson.features)
    own = lesson.features @ table.T
    assert torch.allclose(first, own[:, :-1], atol=1e-4)
    assert torch.allclose(second, own[:, :-2], atol=1e-4)


def test_a_head_is_a_residual_block_and_an_output_matrix() -> None:
    torch.manual_seed(0)
    network = MedusaNetwork(torch.randn(50, 8), heads=1, dtype=torch.float32)
    for weight in network.parameters():
        nn.init.normal_(weight)
    (head,) = network.heads
    x = torch.randn(2, 8)
    residual = x @ head.residual.weight.T + head.residual.bias
    moved = x + residual * torch.sigmoid(residual)
    assert torch.allclose(head(x), linear(moved, head.output), atol=1e-5)


@pytest.mark.usefixtures("step_a_second")
def test_training_teaches_and_resumes_where_it_stopped(
    cache: TeacherCache, lesson: HeadLesson, target: Network, tmp_path: Path
) -> None:
    given = make_features(target, cache.tokens, tmp_path / "features.npy")
    table = target.model.embed_tokens.weight.detach()

    def train(seconds: float) -> tuple[MedusaNetwork, int]:
        checkpoint = tmp_path / "medusa.pt"
        network, progress = train_medusa(cache, given, table, checkpoint, seconds, compiled=False)
        return network, progress.step

    untrained = medusa_loss(MedusaNetwork(table), lesson)
    _, first = train(5)
    network, second = train(20)
    again, third = train(20)
    assert (first, second, third) == (5, 20, 20)
    assert torch.equal(network.heads[0].output.weight, again.heads[0].output.weight)
    assert medusa_loss(network, lesson) < untrained


def test_saved_heads_have_the_shapes_that_the_app_reads_and_survive(tmp_path: Path) -> None:
    network = MedusaNetwork(torch.randn(50, 8), heads=2)
    save_medusa(network, [[0.5, 0.2], [0.4, 0.1]], tmp_path / "medusa")
    shapes = {
        name: tuple(weight.shape)
        for name, weight in load_file(tmp_path / "medusa" / "model.safetensors").items()
    }
    parts = {"residual.weight": (8, 8), "residual.bias": (8,), "output.weight": (50, 8)}
    assert shapes == {f"heads.{i}.{name}": size for i in (0, 1) for name, size in parts.items()}
    saved = load_medusa(tmp_path / "medusa")
    assert len(saved.heads) == 2
    for name, weight in network.state_dict().items():
        assert torch.equal(saved.state_dict()[name], weight.bfloat16().float())
