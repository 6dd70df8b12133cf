"""What the tests of training share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specviz.training.corpus import Corpus, read_corpus
from tests.training.tiny_corpus import write_corpus, write_library


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are faster without a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(corpus folder, library folder)."""
    folder = tmp_path_factory.mktemp("sources")
    return write_corpus(folder / "corpus"), write_library(folder / "library")


@pytest.fixture(scope="session")
def corpus(sources: tuple[Path, Path]) -> Corpus:
    """The tiny corpus, read."""
    return read_corpus(*sources)
