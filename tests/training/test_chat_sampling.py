from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.training import chat_sampling
from specviz.training.chat_answers import draft_vocabulary, read_answers, write_answers
from specviz.training.chat_sampling import (
    AnsweringModel,
    Conversations,
    Message,
    answer_messages,
    batches_of,
)

VOCABULARY, END = 64, 63
MESSAGES = [
    Message("code", [5, 6, 7, 8, 9]),
    Message("chat", [11, 12, 13]),
    Message("maths", [1, 2, 3, 4, 20, 21, 22]),
]


@pytest.fixture(scope="module")
def library() -> LlamaForCausalLM:
    """Three queries share a key; it says something different at every position."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


@pytest.fixture(scope="module")
def model(library: LlamaForCausalLM) -> AnsweringModel:
    return AnsweringModel(library, torch.float32)


@torch.no_grad()
def test_rows_of_different_lengths_get_the_library_s_logits_and_states(
    library: LlamaForCausalLM, model: AnsweringModel
) -> None:
    padding = torch.tensor([0, 3])
    tokens = torch.randint(VOCABULARY, (2, 9))
    rows = Conversations(model, padding, 9)
    _, read = rows.feed(tokens[:, :7], (0,))
    rows.feed(tokens[:, 7:8], (0,))
    logits, written = rows.feed(tokens[:, 8:], (0,))
    for row, empty in enumerate(padding.tolist()):
        output = library(tokens[row : row + 1, empty:], output_hidden_states=True)
        first, *_, last = output.hidden_states[1:]
        assert torch.allclose(logits[row], output.logits[0, -1], atol=1e-4)
        assert torch.allclose(read[row, empty:, 0], first[0, : 7 - empty], atol=1e-4)
        assert torch.allclose(written[row, 0, 0], first[0, -1], atol=1e-4)
        assert torch.allclose(written[row, 0, 1], last[0, -1], atol=1e-4)


@torch.no_grad()
def test_an_answer_at_temperature_zero_is_the_library_s_with_its_features_and_probabilities(
    library: LlamaForCausalLM, model: AnsweringModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_sampling, "FEWEST_ROWS", 1)
    answers = answer_messages(model, MESSAGES, END, longest=12)
    assert [answer.temperature for answer in answers[::2]] == [0, 0, 0]
    for message, answer in zip(MESSAGES, answers[::2], strict=True):
        tokens = torch.from_numpy(answer.tokens.astype(np.int64))
        assert answer.task == message.task and tokens[: answer.prompt_length].tolist() == (
            message.tokens
        )
        output = library(tokens[None, :-1], output_hidden_states=True)
        probs = output.logits[0].softmax(-1)[answer.prompt_length - 1 :]
        assert torch.equal(probs.argmax(-1), tokens[answer.prompt_length :])
        kept = probs.gather(-1, torch.from_numpy(answer.top_ids.astype(np.int64)))
        assert torch.allclose(kept, torch.from_numpy(answer.top_probs).float(), atol=1e-3)
        final = torch.from_numpy(answer.features[:, -1]).float()
        assert torch.allclose(final, output.hidden_states[-1][0], rtol=1e-2, atol=1e-2)


def test_rows_that_have_ended_leave_the_batch_and_the_others_do_not_notice(
    model: AnsweringModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_sampling, "FEWEST_ROWS", 1)
    whole = answer_messages(model, MESSAGES, VOCABULARY, longest=12)[::2]
    ended_at = int(whole[1].tokens[whole[1].prompt_length + 2])
    ended = answer_messages(model, MESSAGES, ended_at, longest=12)[::2]
    for one, other in zip(whole, ended, strict=True):
        assert one.tokens[: len(other.tokens)].tolist() == other.tokens.tolist()
        assert np.allclose(one.features[: len(other.features)], other.features, atol=1e-2)
        is_whole = len(one.tokens) == len(other.tokens)
        assert is_whole or other.tokens[-1] == ended_at
    assert len(ended[1].tokens) < len(whole[1].tokens)


def test_an_answer_that_loops_ends_before_its_last_turn(model: AnsweringModel) -> None:
    written = chat_sampling._Written(MESSAGES[0], 0.0, torch.zeros(5, 1, 96))
    turn = list(range(30, 38))
    empty = np.zeros(1, np.uint16), np.zeros(1, np.float16)
    for token in turn * 3:
        assert not written.is_looping
        written.add(token, *empty)
    assert written.is_looping
    assert written.finished().tokens.tolist() == MESSAGES[0].tokens + turn * 2


def test_draws_follow_the_temperature() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(20_000, 3)
    likeliest = torch.zeros(20_000, dtype=torch.int64)
    for temperature in (0.7, 1.0):
        temperatures = torch.full((20_000,), temperature)
        drawn = chat_sampling._drawn(logits, temperatures, likeliest)
        wanted = (logits[0] / temperature).softmax(-1)
        assert torch.allclose(drawn.bincount(minlength=3) / 20_000, wanted, atol=0.015)
    assert not chat_sampling._drawn(logits, torch.zeros(20_000), likeliest).any()


def test_a_batch_holds_messages_of_similar_length() -> None:
    chance = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 400, (1024,), generator=chance).tolist()
    batches = batches_of(Message("chat", [0] * length) for length in lengths)
    first = [len(message.tokens) for message in next(batches)]
    second = [len(message.tokens) for message in next(batches)]
    assert max(first) <= min(second) and len(first) == len(second) == chat_sampling.MESSAGES


def test_answers_survive_their_file(model: AnsweringModel, tmp_path: Path) -> None:
    answers = answer_messages(model, MESSAGES, END, longest=8)
    write_answers(answers, tmp_path / "answers" / "part-00000.npz")
    found = list(read_answers(tmp_path / "answers"))
    assert len(found) == len(answers)
    for one, other in zip(answers, found, strict=True):
        assert (one.task, one.temperature, one.prompt_length) == (
            (other.task, other.temperature, other.prompt_length)
        )
        for name in ("tokens", "features", "top_ids", "top_probs"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_the_draft_vocabulary_holds_the_likeliest_tokens_then_the_first_ones(
    model: AnsweringModel,
) -> None:
    (answer, *_) = answer_messages(model, MESSAGES, END, longest=1)
    answer.top_probs[:] = np.linspace(0.1, 0.01, answer.top_probs.shape[1])
    ids = draft_vocabulary([answer], 3, VOCABULARY).tolist()
    assert ids == sorted(answer.top_ids[0, :3].tolist())
    found = draft_vocabulary([answer], 40, VOCABULARY).tolist()
    others = [token for token in range(VOCABULARY) if token not in answer.top_ids]
    assert found == sorted([*answer.top_ids.flatten().tolist(), *others[:8]])
