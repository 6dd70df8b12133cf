"""A model in transformers works in several threads and processes, and gives no padding logits."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
import torch

from specviz.errors import InputError
from specviz.models.library_model import LibraryModel
from tests.models.test_tree_forward import PROMPT, VOCAB, plain_logits


def test_a_request_in_one_thread_does_not_change_another_thread_s_features(
    tiny_module: Any, tiny_info: Any
) -> None:
    """Sessions share a model. If one session needs only the last logits, others must get all."""
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


def test_a_model_sent_to_another_process_gives_the_same_logits(
    tiny_module: Any, tiny_info: Any
) -> None:
    module = tiny_module("gpt2")
    model = LibraryModel(module, tiny_info(module))
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(plain_logits(copy, PROMPT), plain_logits(model, PROMPT))
    ids = torch.tensor([PROMPT])
    last = copy.forward(
        ids, ids, copy.new_cache(16), last_only=True, feature_layers=(copy.info.layers,)
    )
    assert last.logits.shape == (1, 1, VOCAB) and last.features.shape == (1, len(PROMPT), 32)


def test_a_model_without_an_output_matrix_is_refused(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("gpt2")
    module.get_output_embeddings = lambda: None
    with pytest.raises(InputError, match="has no output matrix that specviz can find"):
        LibraryModel(module, tiny_info(module))


def test_logits_have_no_padding_tokens(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("llama")
    model = LibraryModel(module, tiny_info(module, vocab_size=50))
    assert plain_logits(model, PROMPT).shape == (len(PROMPT), 50)
