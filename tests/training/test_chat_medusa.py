from pathlib import Path

import numpy as np
import pytest
import torch

from specviz.training import chat_medusa
from specviz.training.candidates import Candidates
from specviz.training.chat_answers import ChatAnswer
from specviz.training.chat_medusa import (
    PlaceReader,
    chat_medusa_levels,
    chat_medusa_loss,
    fit_by_least_squares,
    train_chat_medusa,
)
from specviz.training.chat_scores import chat_scores, level_shares
from specviz.training.head_training import MedusaNetwork

VOCABULARY, WIDTH, HEADS = 48, 24, 2
DRAFTED = torch.arange(0, VOCABULARY, 2)  # the draft vocabulary: the even tokens


@pytest.fixture(scope="module")
def turn() -> torch.Tensor:
    """Return a matrix that rotates half of the dimensions; it turns a feature into the next one."""
    angles = torch.arange(1, WIDTH // 4 + 1) * 0.7
    turned = torch.eye(WIDTH)
    for index, angle in enumerate(angles):
        cos, sin, pair = angle.cos(), angle.sin(), slice(2 * index, 2 * index + 2)
        turned[pair, pair] = torch.tensor([[cos, -sin], [sin, cos]])
    return turned


@pytest.fixture(scope="module")
def table() -> torch.Tensor:
    return torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def answers(table: torch.Tensor, turn: torch.Tensor) -> list[ChatAnswer]:
    return [
        answer(table, turn, 20 + seed, 3 + seed % 5, (0.0, 0.7)[seed // 2 % 2], seed)
        for seed in range(24)
    ]


def answer(
    table: torch.Tensor,
    turn: torch.Tensor,
    length: int,
    prompt: int,
    temperature: float,
    seed: int,
) -> ChatAnswer:
    """Return an answer of a target whose feature rotates at each token and predicts even tokens."""
    feature = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed))
    states = [feature]
    while len(states) < length - 1:
        states.append(turn @ states[-1])
    features = torch.stack(states)
    logits = features @ table[DRAFTED].t()
    tokens = DRAFTED[logits.argmax(-1)]
    ids = torch.stack((tokens, tokens + 1), dim=1)[prompt - 1 :]
    return ChatAnswer(
        "code" if seed % 2 else "chat",
        temperature,
        torch.cat((tokens[:1], tokens)).numpy().astype(np.uint16),
        prompt,
        features.half().numpy(),
        ids.numpy().astype(np.uint16),
        np.tile(np.array([0.75, 0.25], dtype=np.float16), (length - prompt, 1)),
    )


@pytest.fixture
def reader(answers: list[ChatAnswer]) -> PlaceReader:
    return PlaceReader(answers, DRAFTED, VOCABULARY, HEADS, seed=0)


def test_a_lesson_has_the_following_features_and_none_after_the_answer_s_end(
    reader: PlaceReader, answers: list[ChatAnswer]
) -> None:
    first = answers[0]
    length = len(first.top_ids)
    lesson = reader.lesson_of(np.array([0, length - 2, length - 1, length]))
    given = torch.from_numpy(first.features[first.prompt_length - 1 :]).float()
    assert torch.equal(lesson.features[:3], given[[0, -2, -1]])
    written = first.tokens[first.prompt_length :].tolist()
    assert lesson.top_ids[0, :, 0].tolist() == written[1:3]
    assert lesson.top_ids[1, 0, 0] == written[-1]
    assert lesson.weights[:3].tolist() == [[0.75, 0.75], [0.75, 0], [0, 0]]
    assert torch.equal(lesson.top_probs[0], torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    begins = answers[1].features[answers[1].prompt_length - 1]
    assert torch.equal(lesson.features[3], torch.from_numpy(begins).float())


def test_every_position_is_in_exactly_one_batch_of_a_pass(
    reader: PlaceReader, answers: list[ChatAnswer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_medusa, "BATCH_PLACES", 100)
    reader = PlaceReader(answers, DRAFTED, VOCABULARY, HEADS, seed=0)
    sizes = [len(reader.lesson().features) for _ in range(reader.count)]
    assert sum(sizes) == sum(len(each.top_ids) for each in answers) == reader.tokens_read
    assert max(sizes) == 100


def test_least_squares_finds_a_linear_relation_and_the_scores_show_it(
    table: torch.Tensor, reader: PlaceReader, answers: list[ChatAnswer]
) -> None:
    torch.manual_seed(0)
    network = MedusaNetwork(WIDTH, WIDTH, HEADS, torch.float32)
    levels = chat_medusa_levels(network, table, DRAFTED)
    before = chat_scores(levels, DRAFTED, answers)["all"]
    fit_by_least_squares(network, reader)
    after = chat_scores(levels, DRAFTED, answers)["all"]
    assert before.greedy[0] < 0.8 and min(after.greedy) > 0.95
    assert after.tokens_per_round > 2.9 and len(after.sampled) == HEADS
    shares = level_shares(levels, DRAFTED, answers, 3)
    assert [row[0] for row in shares] == pytest.approx(after.greedy, abs=0.02)
    assert all(len(row) == 3 and sum(row) <= 1 for row in shares)


@pytest.mark.usefixtures("step_a_second")
def test_training_improves_the_heads_and_can_be_resumed(
    table: torch.Tensor, reader: PlaceReader, answers: list[ChatAnswer], tmp_path: Path
) -> None:
    def train(seconds: float) -> tuple[MedusaNetwork, int]:
        torch.manual_seed(0)
        network = MedusaNetwork(WIDTH, 8, HEADS, torch.float32)
        fresh = PlaceReader(answers, DRAFTED, VOCABULARY, HEADS, seed=0)
        path = tmp_path / "heads.pt"
        return network, train_chat_medusa(network, fresh, table, DRAFTED, path, seconds).step

    def loss(network: MedusaNetwork) -> float:
        lesson = reader.lesson_of(np.arange(200))
        candidates = Candidates.of(lesson, DRAFTED, VOCABULARY)
        return chat_medusa_loss(network, table, candidates, lesson).item()

    begun, first = train(1)
    before = loss(begun)
    network, second = train(20)
    again, third = train(20)
    assert (first, second, third) == (1, 20, 20)
    assert torch.equal(network.heads[0].up.weight, again.heads[0].up.weight)
    assert loss(network) < before
