"""Fixtures that the tests of training share."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from specviz.training.corpus import Corpus, read_corpus
from specviz.training.distillation import TeacherCache, judge
from specviz.training.head_training import HeadLesson, LessonReader, features
from specviz.training.network import Network
from specviz.training.pretraining import llama_config
from tests.training.tiny_corpus import write_corpus, write_library


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, because such small networks are slower with two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def step_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each training step take one second on a fake clock, on any machine."""
    readings = count()
    for clock in ("monotonic", "process_time"):
        monkeypatch.setattr(time, clock, lambda: float(next(readings)))


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folder of the tiny corpus and the folder of the tiny library."""
    folder = tmp_path_factory.mktemp("sources")
    return write_corpus(folder / "corpus"), write_library(folder / "library")


@pytest.fixture(scope="session")
def corpus(sources: tuple[Path, Path]) -> Corpus:
    """Return the tiny corpus, read from the corpus folder and the library folder."""
    return read_corpus(*sources)


@pytest.fixture(scope="session")
def target() -> Network:
    """Return a small float32 target whose distributions differ at every position."""
    torch.manual_seed(0)
    network = Network(llama_config(layers=2, width=64, inner=64), torch.float32)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return network.eval()


@pytest.fixture(scope="session")
def cache(target: Network) -> TeacherCache:
    """Return the target's distributions on 16 random windows of 20 tokens."""
    return TeacherCache(*judge(target, torch.randint(4096, (16, 21))))


@pytest.fixture(scope="session")
def lesson(target: Network, cache: TeacherCache) -> HeadLesson:
    """Return four windows of `cache` with the target's features on them."""
    tokens = torch.from_numpy(cache.tokens[:, :-1].astype(np.int64))
    return LessonReader(cache, features(target, tokens).numpy(), seed=0).lesson(4)
