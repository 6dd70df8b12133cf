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
from specviz.training.network import Network


class Clairvoyant(nn.Module):
    """A head that knows the text: it returns the true features `places` positions further on."""

    def __init__(self, truth: torch.Tensor, places: int) -> None:
        super().__init__()
        self.truth, self.places = truth, places

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.truth[:, self.places : self.places + given.shape[1]]


@pytest.fixture
def table(target: Network) -> torch.Tensor:
    return target.model.embed_tokens.weight.detach()


def clairvoyant(truth: torch.Tensor, late: int = 0) -> MedusaNetwork:
    network = MedusaNetwork(64, 64, heads=3, dtype=torch.float32)
    heads = (Clairvoyant(truth, head + 1 - late) for head in range(3))
    network.heads = nn.ModuleList(heads)
    return network


def test_the_loss_of_perfect_heads_is_0(lesson: HeadLesson, table: torch.Tensor) -> None:
    perfect = clairvoyant(lesson.features)
    assert medusa_loss(perfect, table, lesson).item() == pytest.approx(0, abs=1e-3)
    assert medusa_loss(clairvoyant(lesson.features, late=1), table, lesson).item() > 0.05


def test_perfect_heads_are_always_right_and_shifted_ones_are_not(
    lesson: HeadLesson, target: Network, table: torch.Tensor
) -> None:
    truth = features(target, lesson.tokens)
    found = ranks(target, medusa_levels(clairvoyant(truth), table), lesson.tokens)
    assert found.shape == (4, lesson.tokens.shape[1] - 4, 3) and not found.any()
    late = medusa_levels(clairvoyant(truth, late=1), table)
    assert ranks(target, late, lesson.tokens).any()


def test_untrained_heads_predict_the_feature_that_they_are_given(lesson: HeadLesson) -> None:
    network = MedusaNetwork(64, 20, heads=2, dtype=torch.float32)
    first, second = network(lesson.features)
    assert torch.equal(first, lesson.features[:, :-1])
    assert torch.equal(second, lesson.features[:, :-2])


def test_a_head_adds_the_result_of_its_two_matrices_to_its_input() -> None:
    torch.manual_seed(0)
    (head,) = MedusaNetwork(8, 6, heads=1, dtype=torch.float32).heads
    for weight in head.parameters():
        nn.init.normal_(weight)
    x = torch.randn(2, 8)
    inner = x @ head.down.weight.T + head.down.bias
    assert torch.allclose(head(x), x + inner * torch.sigmoid(inner) @ head.up.weight.T, atol=1e-5)


@pytest.mark.usefixtures("step_a_second")
def test_training_improves_the_heads_and_can_be_resumed(
    cache: TeacherCache, lesson: HeadLesson, target: Network, table: torch.Tensor, tmp_path: Path
) -> None:
    given = make_features(target, cache.tokens, tmp_path / "features.npy")

    def train(seconds: float) -> tuple[MedusaNetwork, int]:
        checkpoint = tmp_path / "medusa.pt"
        network, progress = train_medusa(cache, given, table, checkpoint, seconds, compiled=False)
        return network, progress.step

    untrained = medusa_loss(MedusaNetwork(64, 64), table, lesson)
    _, first = train(5)
    network, second = train(20)
    again, third = train(20)
    assert (first, second, third) == (5, 20, 20)
    assert torch.equal(network.heads[0].up.weight, again.heads[0].up.weight)
    assert medusa_loss(network, table, lesson) < untrained


@pytest.mark.parametrize("drafted", [None, torch.tensor([3, 7, 20])], ids=["whole", "drafted"])
def test_saved_heads_have_the_shapes_that_the_app_reads(
    drafted: torch.Tensor | None, tmp_path: Path
) -> None:
    network = MedusaNetwork(8, 6, heads=2)
    save_medusa(network, 50, [[0.5, 0.2], [0.4, 0.1]], tmp_path / "medusa", drafted)
    weights = load_file(tmp_path / "medusa" / "model.safetensors")
    offsets = weights.pop("d2t", None)
    assert (offsets is None) == (drafted is None)
    assert drafted is None or offsets.tolist() == [3, 6, 18]
    parts = {"down.weight": (6, 8), "down.bias": (6,), "up.weight": (8, 6)}
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == {
        f"heads.{i}.{name}": size for i in (0, 1) for name, size in parts.items()
    }
    saved = load_medusa(tmp_path / "medusa")
    assert len(saved.heads) == 2
    for name, weight in network.state_dict().items():
        assert torch.equal(saved.state_dict()[name], weight.bfloat16().float())
