"""What the library's forward owes beside the tests of every model: threads, processes, refusals."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
import torch

from specviz.errors import InputError
from specviz.models.library_model import LibraryModel
from tests.models.test_tree_forward import PROMPT, VOCAB, plain_logits


def test_features_belong_to_the_thread_that_asked(tiny_module: Any, tiny_info: Any) -> None:
    """Sessions share a model: one that wants the last token must not cut another's logits."""
    module = tiny_module("gpt2")
    model = LibraryModel(module, tiny_info(module))
    inside, go_on = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            go_on.wait(10)

    module.transformer.register_forward_hook(wait)
    shapes = []

    def prefill() -> None:
        ids = torch.tensor([PROMPT])
        shapes.append(model.forward(ids, ids, model.new_cache(16), last_only=True).logits.shape)

    other = threading.Thread(target=prefill)
    other.start()
    assert inside.wait(10)
    assert plain_logits(model, PROMPT).shape == (len(PROMPT), VOCAB)
    go_on.set()
    other.join(10)
    assert shapes == [(1, 1, VOCAB)]


def test_a_model_sent_to_another_process_gives_the_same(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("gpt2")
    model = LibraryModel(module, tiny_info(module))
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(plain_logits(copy, PROMPT), plain_logits(model, PROMPT))
    ids = torch.tensor([PROMPT])
    last = copy.forward(
        ids, ids, copy.new_cache(16), last_only=True, feature_layers=(copy.info.layers,)
    )
    assert last.logits.shape == (1, 1, VOCAB) and last.features.shape == (1, len(PROMPT), 32)


def test_a_module_without_an_output_matrix_is_refused(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("gpt2")
    module.get_output_embeddings = lambda: None
    with pytest.raises(InputError, match="has no output matrix that can be reached"):
        LibraryModel(module, tiny_info(module))


def test_logits_end_with_the_real_vocabulary(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("llama")
    model = LibraryModel(module, tiny_info(module, vocab_size=50))
    assert plain_logits(model, PROMPT).shape == (len(PROMPT), 50)
