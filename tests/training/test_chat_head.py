from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

from specviz.training import candidates as candidates_module
from specviz.training import chat_lessons
from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_head import (
    chat_eagle_levels,
    chat_eagle_loss,
    fit_by_least_squares,
    load_chat_eagle,
    save_chat_eagle,
    train_chat_eagle,
)
from specviz.training.chat_lessons import ChatReader
from specviz.training.chat_scores import chat_scores, choice_shares
from specviz.training.head_training import EagleNetwork

VOCABULARY, WIDTH = 48, 32
DRAFTED = torch.arange(0, VOCABULARY, 2)  # the draft vocabulary: the even tokens


@pytest.fixture(scope="module")
def config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=40,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="module")
def table() -> torch.Tensor:
    return torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0))


def answer(
    table: torch.Tensor, length: int, prompt: int, temperature: float, seed: int
) -> ChatAnswer:
    """Return an answer of a target that counts up by two and is certain of each next token.

    Each feature is the embedding row of the next token, so predicting the next feature needs both
    halves of the head's input.
    """
    start = 2 * int(np.random.default_rng(seed).integers(0, VOCABULARY // 2))
    tokens = (start + 2 * np.arange(length)) % VOCABULARY
    features = 4 * table[(tokens[:-1] + 2) % VOCABULARY]
    ids = np.stack([tokens[prompt:], (tokens[prompt:] + 1) % VOCABULARY], axis=1)
    probs = np.tile(np.array([0.75, 0.25]), (length - prompt, 1))
    return ChatAnswer(
        "code" if seed % 2 else "chat",
        temperature,
        tokens.astype(np.uint16),
        prompt,
        features.half().numpy(),
        ids.astype(np.uint16),
        probs.astype(np.float16),
    )


@pytest.fixture(scope="module")
def answers(table: torch.Tensor) -> list[ChatAnswer]:
    return [
        answer(table, 20 + seed, 4 + seed % 5, (0.0, 0.7)[seed // 2 % 2], seed)
        for seed in range(24)
    ]


@pytest.fixture
def reader(answers: list[ChatAnswer]) -> ChatReader:
    return ChatReader(answers, DRAFTED, VOCABULARY, seed=0)


def test_a_lesson_has_distributions_over_the_draft_vocabulary_at_answer_positions(
    reader: ChatReader, answers: list[ChatAnswer]
) -> None:
    lesson = reader.lesson_of(answers[:2])
    asked = lesson.message.shape[1]
    for row, given in enumerate(answers[:2]):
        length = len(given.top_ids)
        assert lesson.weights[row].nonzero()[:, 0].tolist() == list(range(length))
        assert torch.allclose(lesson.weights[row, :length], torch.tensor(0.75))
        assert torch.allclose(lesson.top_probs[row, :length], torch.tensor([1.0, 0.0]))
        written = given.tokens[given.prompt_length :].tolist()
        assert lesson.top_ids[row, :length, 0].tolist() == written
        pairs = slice(asked - given.prompt_length + 2, asked + length)
        assert lesson.tokens[row, pairs].tolist() == given.tokens[1:-1].tolist()
        assert lesson.message[row].sum() == given.prompt_length - 2
        features = torch.from_numpy(given.features).float()
        assert torch.equal(lesson.features[row, pairs], features[:-1])
        assert torch.equal(lesson.wanted[row, :length], features[-length:])


def test_a_long_message_loses_its_beginning(
    table: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_lessons, "LONGEST_ROW", 12)
    given = answer(table, 30, 20, 0.0, seed=1)
    lesson = ChatReader([given], DRAFTED, VOCABULARY, seed=0).lesson_of([given])
    assert lesson.tokens[0].tolist() == given.tokens[-13:-1].tolist()
    assert lesson.message.tolist() == [[True, True]] and lesson.weights.shape == (1, 10)


def test_every_answer_is_in_exactly_one_batch_of_a_pass(
    reader: ChatReader, answers: list[ChatAnswer]
) -> None:
    assert sum(len(batch) for batch in reader.batches) == len(answers)
    for _ in reader.batches:
        reader.lesson()
    assert reader.tokens_read == sum(len(given.top_ids) for given in answers)


def test_least_squares_finds_a_linear_relation_and_the_scores_show_it(
    config: LlamaConfig, table: torch.Tensor, reader: ChatReader, answers: list[ChatAnswer]
) -> None:
    torch.manual_seed(0)
    network = EagleNetwork(config, torch.float32)
    levels = chat_eagle_levels(network, table, DRAFTED)
    before = chat_scores(levels, DRAFTED, answers)["all"]
    fit_by_least_squares(network, reader, table)
    after = chat_scores(levels, DRAFTED, answers)
    assert {*after} == {"all", "chat", "code"}
    assert before.tokens_per_round < 1.5
    assert after["all"].greedy == [1.0] * 4 and after["all"].tokens_per_round == 5
    # The target gives 25 % to odd tokens, which the head's draft vocabulary lacks.
    assert after["all"].sampled[0] > 0.6

    shares = choice_shares(levels, DRAFTED, answers)
    assert shares["greedy"] == [1.0] + [0.0] * 7
    sharp = 0.75**1.25
    assert shares["sampled"][0] == pytest.approx(sharp / (sharp + 0.25**1.25), abs=1e-3)


def test_the_loss_counts_only_answers(
    config: LlamaConfig, table: torch.Tensor, reader: ChatReader, answers: list[ChatAnswer]
) -> None:
    torch.manual_seed(0)
    network = EagleNetwork(config, torch.float32)
    lesson = reader.lesson_of(answers[:3])
    candidates = Candidates.of(lesson, DRAFTED, VOCABULARY)
    rows = torch.arange(3)
    loss = chat_eagle_loss(network, table, candidates, lesson, 2, rows)
    elsewhere = lesson.weights == 0
    lesson.top_ids[elsewhere] = 3
    lesson.top_probs[elsewhere] = 0.5
    again = chat_eagle_loss(network, table, candidates, lesson, 2, rows)
    assert loss.item() == again.item() > 0


def test_a_few_candidates_replace_the_whole_draft_vocabulary(
    table: torch.Tensor,
    reader: ChatReader,
    answers: list[ChatAnswer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lesson = reader.lesson_of(answers[:1])
    written = {*answers[0].tokens[answers[0].prompt_length :].tolist()}
    whole = Candidates.of(lesson, DRAFTED, VOCABULARY)
    assert whole.ids.tolist() == DRAFTED.tolist() and not whole.raised.any()

    monkeypatch.setattr(candidates_module, "OTHERS", 3)
    logits = table @ torch.randn(WIDTH, generator=torch.Generator().manual_seed(1)) / 4
    sums = []
    for seed in range(400):
        torch.manual_seed(seed)
        few = Candidates.of(lesson, DRAFTED, VOCABULARY)
        assert len(few.ids) == len(written) + 3 and {*few.ids.tolist()} > written
        sums.append((logits[few.ids] + few.raised).exp().sum())
    mean = torch.stack(sums).mean()
    assert mean.item() == pytest.approx(logits[DRAFTED].exp().sum().item(), rel=0.05)

    places, probs = few.places(lesson)
    assert torch.equal(few.ids[places[..., 0]], lesson.top_ids[..., 0])
    assert torch.equal(probs[..., 0], lesson.top_probs[..., 0]) and not probs[..., 1].any()


@pytest.mark.usefixtures("step_a_second")
def test_training_can_be_resumed_and_gives_the_same_weights(
    config: LlamaConfig, table: torch.Tensor, answers: list[ChatAnswer], tmp_path: Path
) -> None:
    def train(seconds: float) -> tuple[EagleNetwork, int]:
        torch.manual_seed(0)
        network = EagleNetwork(config, torch.float32)
        reader = ChatReader(answers, DRAFTED, VOCABULARY, seed=0)
        path = tmp_path / "head.pt"
        progress = train_chat_eagle(network, reader, table, DRAFTED, path, seconds)
        return network, progress.step

    _, first = train(3)
    network, second = train(5)
    again, third = train(5)
    assert (first, second, third) == (3, 5, 5)
    assert torch.equal(network.fc.weight, again.fc.weight)


def test_a_saved_head_is_read_with_its_draft_vocabulary(
    config: LlamaConfig, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = EagleNetwork(config)
    shares = {"greedy": [0.5, 0.2], "sampled": [0.4, 0.1]}
    save_chat_eagle(network, DRAFTED, shares, tmp_path / "eagle")
    saved, drafted = load_chat_eagle(tmp_path / "eagle")
    assert torch.equal(drafted, DRAFTED)
    rounded = network.state_dict()
    for name, weight in saved.state_dict().items():
        assert torch.equal(weight, rounded[name].bfloat16().float())
