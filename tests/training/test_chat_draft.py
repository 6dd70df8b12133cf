from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.training import chat_draft
from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_draft import (
    DraftReader,
    DraftRows,
    begin_as_the_target_s,
    chat_draft_levels,
    chat_draft_loss,
    load_chat_draft,
    save_chat_draft,
    train_chat_draft,
)
from specviz.training.chat_scores import chat_scores
from specviz.training.network import Network
from specviz.training.token_files import TokenMixture, write_token_file

VOCABULARY = 48
DRAFTED = torch.arange(0, VOCABULARY, 2)  # the draft vocabulary: the even tokens


@pytest.fixture
def config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(DRAFTED) + 1,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
    )


def answer(length: int, prompt: int, temperature: float, start: int) -> ChatAnswer:
    """Return an answer of a target whose tokens always count up by two, even in its prompt."""
    tokens = (2 * start + 2 * np.arange(length)) % VOCABULARY
    ids = np.stack([tokens[prompt:], tokens[prompt:] + 1], axis=1)
    return ChatAnswer(
        "code" if start % 2 else "chat",
        temperature,
        tokens.astype(np.uint16),
        prompt,
        np.zeros((length - 1, 1), dtype=np.float16),
        ids.astype(np.uint16),
        np.tile(np.array([0.75, 0.25], dtype=np.float16), (length - prompt, 1)),
    )


@pytest.fixture
def answers() -> list[ChatAnswer]:
    return [answer(16 + i % 7, 3 + i % 4, (0.0, 0.7)[i // 2 % 2], i) for i in range(24)]


@pytest.fixture
def reader(
    answers: list[ChatAnswer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DraftReader:
    for name, value in (("TEXT_ROWS", 3), ("TEXT_LENGTH", 10)):
        monkeypatch.setattr(chat_draft, name, value)
    write_token_file(tmp_path / "story.bin", [list(range(1, VOCABULARY)), [0]] * 4)
    text = TokenMixture({"story": tmp_path / "story.bin"}, {"story": 1.0}, seed=0)
    return DraftReader(answers, DRAFTED, VOCABULARY, text, seed=0)


def test_a_lesson_counts_only_positions_before_an_answer_token(
    reader: DraftReader, answers: list[ChatAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = answers[:2]
    lesson = reader.lesson_of(pair)
    follows = []
    for row, given in enumerate(pair):
        read = len(given.tokens) - 1
        assert lesson.tokens[row, :read].tolist() == given.tokens[:-1].tolist()
        places = lesson.counted[row].nonzero()[:, 0].tolist()
        assert places == list(range(given.prompt_length - 1, read))
        follows += given.tokens[given.prompt_length :].tolist()
    assert lesson.top_ids[:, 0].tolist() == follows
    assert lesson.top_probs.tolist() == [[1.0, 0.0]] * len(follows)
    assert lesson.weights.tolist() == [0.75] * len(follows)

    monkeypatch.setattr(chat_draft, "LONGEST_ROW", 8)
    short = reader.lesson_of(pair)
    assert short.tokens[0].tolist() == pair[0].tokens[-9:-1].tolist() and short.counted.all()
    assert short.top_ids[:8, 0].tolist() == pair[0].tokens[-8:].tolist()


def test_in_plain_text_only_next_tokens_of_the_draft_vocabulary_count(reader: DraftReader) -> None:
    lesson = reader.text_lesson()
    assert lesson.tokens.shape == lesson.counted.shape == (3, 10)
    assert (lesson.top_ids % 2 == 0).all() and lesson.top_probs.eq(1).all()
    ahead = lesson.tokens[:, 1:][lesson.counted[:, :-1]]
    assert (ahead % 2 == 0).all() and len(lesson.top_ids) == lesson.counted.sum()


@pytest.mark.usefixtures("step_a_second")
def test_training_improves_the_draft_and_can_be_resumed(
    config: LlamaConfig, reader: DraftReader, answers: list[ChatAnswer], tmp_path: Path
) -> None:
    table = torch.randn(VOCABULARY, 32, generator=torch.Generator().manual_seed(0))

    def train(seconds: float) -> tuple[Network, int]:
        torch.manual_seed(0)
        network = Network(config, torch.float32)
        begin_as_the_target_s(network, table, DRAFTED)
        fresh = DraftReader(answers, DRAFTED, VOCABULARY, reader.text, seed=0)
        path = tmp_path / "draft.pt"
        return network, train_chat_draft(network, fresh, DRAFTED, path, seconds).step

    def loss(network: Network) -> float:
        lesson = reader.lesson_of(answers[:6])
        candidates = Candidates.of(lesson, DRAFTED, VOCABULARY)
        rows = DraftRows(DRAFTED, VOCABULARY)
        return chat_draft_loss(network, rows, candidates, lesson).item()

    begun, first = train(1)
    before = loss(begun)
    network, second = train(40)
    again, third = train(40)
    assert (first, second, third) == (1, 40, 40)
    assert torch.equal(network.model.norm.weight, again.model.norm.weight)
    assert loss(network) < before / 2
    scores = chat_scores(chat_draft_levels(network, DRAFTED, VOCABULARY), DRAFTED, answers)
    assert scores["all"].greedy[0] > 0.5 and len(scores["all"].greedy) == 4


def test_embeddings_start_as_the_target_s_main_dimensions(config: LlamaConfig) -> None:
    base = torch.randn(VOCABULARY, 24, generator=torch.Generator().manual_seed(0))
    # The target's embedding table has 32 dimensions but only rank 24.
    table = base @ torch.linalg.qr(torch.randn(32, 24))[0].t()
    network = Network(config, torch.float32)
    begin_as_the_target_s(network, table, DRAFTED)
    rows = network.model.embed_tokens.weight[: len(DRAFTED)]
    between, wanted = rows @ rows.t(), base[DRAFTED] @ base[DRAFTED].t()
    torch.testing.assert_close(between / between.norm(), wanted / wanted.norm())


def test_a_saved_draft_is_read_unchanged_and_transformers_computes_the_same(
    config: LlamaConfig, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = Network(config)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    save_chat_draft(network, DRAFTED, "abc", tmp_path / "draft")
    saved, drafted = load_chat_draft(tmp_path / "draft")
    assert torch.equal(drafted, DRAFTED)
    for name, weight in network.state_dict().items():
        assert torch.equal(saved.state_dict()[name], weight.bfloat16().float())
    library = LlamaForCausalLM.from_pretrained(tmp_path / "draft", dtype=torch.float32)
    assert library.config.draft_vocab_size == len(DRAFTED)
    assert library.config.tokenizer_fingerprint == "abc"
    ids = torch.arange(12)[None]
    torch.testing.assert_close(library(ids).logits, saved(ids), rtol=1e-4, atol=1e-4)
