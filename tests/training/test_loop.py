from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from specviz.training.network import Network
from specviz.training.pretraining import (
    Rates,
    TrainingLoop,
    llama_config,
    rate_factor,
    target_loss,
)
from specviz.training.token_files import TokenMixture, write_token_file


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Return two token files, which contain 1, 2, 3, ... and 2001, 2002, 2003, ..."""
    paths = {}
    for task, start in (("a", 1), ("b", 2001)):
        paths[task] = tmp_path / f"{task}.bin"
        write_token_file(paths[task], [list(range(start, start + 1000)) + [0]])
    return paths


def make_loop(files: dict[str, Path], checkpoint: Path, seconds: float = 1e6) -> TrainingLoop:
    torch.manual_seed(0)
    network = Network(llama_config(layers=2, width=64, inner=64), torch.float32)
    mixture = TokenMixture(files, {"a": 0.75, "b": 0.25}, seed=0)
    return TrainingLoop(network, mixture, checkpoint, seconds, Rates())


def train(loop: TrainingLoop, most_steps: int) -> None:
    def losses(fraction: float) -> Iterator[torch.Tensor]:
        assert isinstance(loop.network, Network) and isinstance(loop.data, TokenMixture)
        yield target_loss(loop.network, loop.data.batch(4, 32))

    loop.run(losses, most_steps)


def test_a_resumed_run_continues_at_its_step_and_ends_in_the_same_weights(
    files: dict[str, Path], tmp_path: Path
) -> None:
    through = make_loop(files, tmp_path / "through.pt")
    train(through, 6)
    train(make_loop(files, tmp_path / "parts.pt"), 3)
    resumed = make_loop(files, tmp_path / "parts.pt")
    assert resumed.progress.step == 3 and resumed.progress.tokens == 3 * 4 * 32
    train(resumed, 6)
    assert resumed.progress.step == 6
    for one, other in zip(through.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_used_up_budget_stops_the_training(files: dict[str, Path], tmp_path: Path) -> None:
    train(make_loop(files, tmp_path / "run.pt"), 2)
    loop = make_loop(files, tmp_path / "run.pt", seconds=1e-9)
    train(loop, 10)
    assert loop.progress.step == 2 and loop.fraction == 1


@pytest.mark.usefixtures("step_a_second")
def test_training_lowers_the_loss(files: dict[str, Path], tmp_path: Path) -> None:
    loop = make_loop(files, tmp_path / "run.pt", seconds=40)
    train(loop, 1)
    before = loop.progress.smooth_loss
    train(loop, 40)
    assert loop.progress.smooth_loss < before - 0.2


@pytest.mark.parametrize(
    ("fraction", "factor"), [(0.0, 0.0), (0.005, 0.5), (0.2, 1.0), (0.675, 0.515), (1.0, 0.03)]
)
def test_the_learning_rate_rises_stays_and_falls(fraction: float, factor: float) -> None:
    assert rate_factor(fraction) == pytest.approx(factor)


def test_tasks_occur_by_their_shares(files: dict[str, Path]) -> None:
    mixture = TokenMixture(files, {"a": 0.75, "b": 0.25}, seed=0)
    batch = mixture.batch(40, 10)
    assert batch.shape == (40, 11)
    assert (batch[:, 0] > 1500).sum() == 10
    assert mixture.tokens_read == 400


def test_no_window_repeats_before_all_were_used(files: dict[str, Path]) -> None:
    mixture = TokenMixture({"a": files["a"]}, {"a": 1.0}, seed=0)
    starts = mixture.batch(90, 10)[:, 0]
    assert len(set(starts.tolist())) == 90


def test_beginnings_are_the_first_tokens_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_token_file(path, [[1, 10, 11, 12, 0], [1, 20, 21, 22, 0]])
    assert np.fromfile(path, dtype=np.uint16).tolist() == [1, 10, 11, 12, 0, 1, 20, 21, 22, 0]
    rows = TokenMixture({"a": path}, {"a": 1.0}, seed=0).beginnings(20, 3).tolist()
    assert {tuple(row) for row in rows} == {(1, 10, 11), (1, 20, 21)}
