import time
from pathlib import Path

import numpy as np
import pytest
import torch

from specviz.training.distillation import (
    TOP,
    CacheReader,
    TeacherCache,
    draft_config,
    draft_loss,
    judge,
    make_cache,
)
from specviz.training.evaluation import Evaluation, TaskScores, task_scores
from specviz.training.network import Network
from specviz.training.pretraining import llama_config
from specviz.training.token_files import TokenMixture, write_token_file


def small_network(seed: int) -> Network:
    torch.manual_seed(seed)
    network = Network(llama_config(layers=2, width=64, inner=64), torch.float32)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return network


def test_the_divergence_from_itself_is_0_and_from_another_model_is_positive() -> None:
    teacher, other = small_network(0), small_network(1)
    tokens = torch.randint(4096, (2, 20))
    _, ids, probs = judge(teacher, torch.cat((tokens, tokens[:, :1]), dim=1))
    wanted = torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(probs.astype(np.float32))
    assert draft_loss(teacher, tokens, *wanted).item() == pytest.approx(0, abs=1e-3)
    assert draft_loss(other, tokens, *wanted).item() > 0.05


def test_stored_distributions_have_the_most_probable_tokens_in_order() -> None:
    _, ids, probs = judge(small_network(0), torch.randint(4096, (3, 8)))
    assert ids.shape == probs.shape == (3, 7, TOP)
    assert (np.diff(probs.astype(np.float32)) <= 0).all() and (probs.sum(-1) <= 1.01).all()


def test_half_of_the_cache_is_corpus_text_and_half_is_written_by_the_target(tmp_path: Path) -> None:
    write_token_file(tmp_path / "a.bin", [[1, *range(100, 400), 0]] * 4)
    mixture = TokenMixture({"a": tmp_path / "a.bin"}, {"a": 1.0}, seed=0)
    deadline_passed = 0.0
    make_cache(small_network(0), mixture, tmp_path / "teacher", deadline_passed, 3, window=70)
    cache = TeacherCache.open(tmp_path / "teacher")
    assert cache.tokens.shape == (6, 71) and cache.top_ids.shape == (6, 70, TOP)
    assert (cache.tokens[3:, 0] == 1).all(), "written text begins like a document"


def test_the_reader_returns_every_window_once_per_pass() -> None:
    tokens = np.arange(8, dtype=np.uint16).repeat(5).reshape(8, 5)
    cache = TeacherCache(tokens, np.zeros((8, 4, 2), np.uint16), np.zeros((8, 4, 2), np.float16))
    reader = CacheReader(cache, seed=0)
    seen = [int(row) for _ in range(4) for row in reader.batch(2)[0][:, 0]]
    assert sorted(seen) == list(range(8)) and reader.tokens_read == 32


def test_a_model_fully_agrees_with_itself() -> None:
    network = small_network(0)
    scores = task_scores(network, network, [[1, 50, 60, 70, 0], [1, 80, 0]])
    assert scores.greedy_agreement == scores.exit_agreement == 1
    assert scores.overlap == pytest.approx(1, abs=1e-3)
    assert scores.target_loss == scores.draft_loss == scores.exit_loss > 0
    assert scores.tokens == 6


def test_an_evaluation_survives_json() -> None:
    scores = TaskScores(2.0, 3.0, 2.5, 0.7, 0.6, 0.8, 100)
    value = Evaluation({"code": scores}, {"code": ("a", "b")}, {"code": ("a", "c")})
    assert Evaluation.from_dict(value.to_dict()) == value


def test_a_forward_of_the_draft_takes_less_than_half_of_the_target_s_time() -> None:
    draft, target = Network(draft_config()), Network(llama_config())
    tokens = torch.zeros(1, 1, dtype=torch.long)
    assert _seconds(draft, tokens) < 0.5 * _seconds(target, tokens)


@torch.no_grad()
def _seconds(network: Network, tokens: torch.Tensor) -> float:
    def once() -> float:
        begun = time.thread_time()
        network(tokens)
        return time.thread_time() - begun

    return min(once() for _ in range(5))
