from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from specviz.training import chat_answers
from specviz.training.answering_model import AnsweringModel
from specviz.training.chat_answers import (
    SampledAnswer,
    draft_vocabulary,
    read_answers,
    read_sampled,
    token_mass,
    write_sampled,
)
from tests.chat_folder import chat_folder

CONVERSATIONS = [
    SampledAnswer("code", 0.0, np.arange(40, 49, dtype=np.uint16), 3),
    SampledAnswer("chat", 0.7, np.arange(50, 63, dtype=np.uint16), 6),
    SampledAnswer("own", 1.0, np.arange(70, 75, dtype=np.uint16), 4),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> LlamaForCausalLM:
    folder = chat_folder(tmp_path_factory.mktemp("chat"))
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_conversations_can_be_saved_and_read(tmp_path: Path) -> None:
    path = tmp_path / "answers" / "answers-0-0000.npz"
    write_sampled(CONVERSATIONS, path)
    found = read_sampled(path)
    for one, other in zip(CONVERSATIONS, found, strict=True):
        assert (one.task, one.temperature, one.prompt_length) == (
            (other.task, other.temperature, other.prompt_length)
        )
        assert one.tokens.tolist() == other.tokens.tolist()


@torch.no_grad()
def test_answers_have_the_features_and_probabilities_of_transformers(
    library: LlamaForCausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_answers, "READ_TOKENS", 20)
    write_sampled(CONVERSATIONS, tmp_path / "answers-0-0000.npz")
    answers = read_answers(AnsweringModel(library, torch.float32), tmp_path)
    for given, answer in zip(CONVERSATIONS, answers, strict=True):
        tokens = torch.from_numpy(given.tokens.astype(np.int64))
        output = library(tokens[None, :-1], output_hidden_states=True)
        features = torch.from_numpy(answer.features.astype(np.float32))
        assert torch.allclose(features, output.hidden_states[-1][0], rtol=1e-2, atol=1e-2)
        probs = output.logits[0].softmax(-1)[given.prompt_length - 1 :]
        ids = torch.from_numpy(answer.top_ids.astype(np.int64))
        assert torch.equal(ids[:, 0], probs.argmax(-1))
        kept = torch.from_numpy(answer.top_probs.astype(np.float32))
        assert torch.allclose(kept, probs.gather(-1, ids), atol=1e-3)


def test_an_answer_that_occurs_twice_is_read_once(
    library: LlamaForCausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AnsweringModel(library, torch.float32)
    write_sampled(CONVERSATIONS[:2], tmp_path / "answers-0-0000.npz")
    write_sampled(CONVERSATIONS[1:], tmp_path / "answers-1-0000.npz")
    assert len(read_answers(model, tmp_path)) == 3
    # Reading the files again must not compute the probabilities again.
    monkeypatch.setattr(chat_answers, "judge", None)
    assert [answer.task for answer in read_answers(model, tmp_path)] == ["code", "chat", "own"]


def test_the_draft_vocabulary_has_the_most_frequent_tokens_and_then_the_first_ones(
    library: LlamaForCausalLM,
) -> None:
    answers = chat_answers.judge(AnsweringModel(library, torch.float32), CONVERSATIONS[:1])
    size = library.config.vocab_size
    mass = token_mass(answers, size)
    likeliest = {*answers[0].top_ids.flatten().tolist()}
    assert mass.sum().item() == pytest.approx(answers[0].top_probs.astype(np.float32).sum())
    assert {*draft_vocabulary(mass, len(likeliest)).tolist()} == likeliest
    more = draft_vocabulary(mass, len(likeliest) + 5).tolist()
    others = [token for token in range(size) if token not in likeliest]
    assert more == sorted([*likeliest, *others[:5]])
    assert {int(mass.argmax())} == {*draft_vocabulary(mass, 1).tolist()}
