import itertools
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.training import chat_sampling
from specviz.training.answering_model import AnsweringModel
from specviz.training.chat_answers import SampledAnswer, read_sampled
from specviz.training.chat_prompts import CHAT_TASKS, ChatPrompts
from specviz.training.chat_questions import NewQuestions
from specviz.training.chat_sampling import (
    GivenMessages,
    OwnQuestions,
    Template,
    Writing,
    draw,
    sample,
    sample_answers,
)
from tests.chat_folder import chat_folder

TEMPLATE = Template((1, 2, 3), (4, 5), (6, 7), end=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return chat_folder(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="module")
def library(folder: str) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def model(library: LlamaForCausalLM) -> AnsweringModel:
    return AnsweringModel(library, torch.float32)


@pytest.fixture(scope="module")
def tokenizer(folder: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BLOCK_ROWS", 4), ("LONGEST_ANSWER", 12), ("LONGEST_QUESTION", 6)):
        monkeypatch.setattr(chat_sampling, name, value)


def test_a_message_is_answered_until_the_turn_ends() -> None:
    writing = Writing(TEMPLATE, [1, 2, 3, 20, 4, 5], "code", 0.7)
    assert writing.add(30) is None and not writing.has_ended and writing.temperature == 0.7
    answer = writing.add(9)
    assert answer is not None and writing.has_ended
    assert answer.tokens.tolist() == [1, 2, 3, 20, 4, 5, 30, 9] and answer.prompt_length == 6
    assert (answer.task, answer.temperature, answer.answer_length) == ("code", 0.7, 2)


def test_a_question_is_followed_by_its_answer_and_then_by_another_question() -> None:
    asked: list[list[int]] = []

    def accept(question: list[int]) -> bool:
        asked.append(question)
        return True

    writing = Writing.asking(TEMPLATE, [20], 0.0, 2, accept)
    answers: list[SampledAnswer] = []
    for step, drawn in enumerate([0, 21, 9, 0, 0, 30, 9, 0, 0, 22, 9, 0, 0, 31, 9]):
        assert not writing.has_ended
        assert writing.temperature == (1.0 if step < 3 or 7 <= step < 11 else 0.0)
        answers += filter(None, [writing.add(drawn)])
    assert writing.has_ended and asked == [[20, 21], [22]]
    whole = [1, 2, 3, 20, 21, 9, 4, 5, 30, 9, 6, 7, 22, 9, 4, 5, 31, 9]
    assert [answer.tokens.tolist() for answer in answers] == [whole[:10], whole]
    assert [answer.prompt_length for answer in answers] == [8, 16]


def test_a_question_that_is_refused_or_too_long_gets_no_answer() -> None:
    refused = Writing.asking(TEMPLATE, [], 0.0, 1, lambda question: False)
    assert refused.add(20) is None and refused.add(9) is None and refused.has_ended
    long = Writing.asking(TEMPLATE, [], 0.0, 1, lambda question: True)
    assert [long.add(20) for _ in range(7)] == [None] * 7 and long.has_ended


def test_an_answer_that_repeats_itself_loses_its_last_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_sampling, "LONGEST_ANSWER", 100)
    writing = Writing(TEMPLATE, [1, 2, 3], "chat", 0.0)
    turn = list(range(30, 38))
    found = [writing.add(token) for token in turn * 3]
    assert found[:-1] == [None] * 23 and writing.has_ended
    assert found[-1] is not None and found[-1].tokens.tolist() == [1, 2, 3, *turn * 2]


@torch.no_grad()
def test_greedy_answers_equal_those_of_transformers_whatever_other_rows_do(
    library: LlamaForCausalLM, model: AnsweringModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    template = Template.of(tokenizer)
    chance = random.Random(0)
    prompts = [
        (task, [*template.opening, *range(40, 42 + place), *template.answer], 0.0)
        for place, task in enumerate(CHAT_TASKS * 2)
    ]
    own = OwnQuestions(template, tokenizer, NewQuestions([]), chance, most_turns=2)
    found = []
    for answer in sample(model, template, [GivenMessages(template, iter(prompts), chance), own]):
        if answer.task != "own":
            found.append(answer)
            if len(found) == len(prompts):
                break
    assert sorted(answer.task for answer in found) == sorted(CHAT_TASKS * 2)
    for answer in found:
        tokens = torch.from_numpy(answer.tokens.astype(np.int64))
        likeliest = library(tokens[None, :-1]).logits[0].argmax(-1)
        assert torch.equal(likeliest[answer.prompt_length - 1 :], tokens[answer.prompt_length :])


def test_draws_follow_the_temperature() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(20_000, 3)
    for temperature in (0.7, 1.0):
        drawn = draw(logits, torch.full((20_000,), temperature))
        wanted = (logits[0] / temperature).softmax(-1)
        assert torch.allclose(drawn.bincount(minlength=3) / 20_000, wanted, atol=0.015)
    assert (draw(logits, torch.zeros(20_000)) == 1).all()


def test_messages_of_similar_length_share_a_batch() -> None:
    chance = random.Random(0)
    lengths = [chance.randint(1, 400) for _ in range(400)]
    messages = GivenMessages(TEMPLATE, (("chat", [0] * each, 0.0) for each in lengths), chance)
    found = []
    while begun := messages.next(8):
        found.append([len(writing.tokens) for writing in begun])
    spread = [max(each) - min(each) for each in found]
    assert sorted(sum(found, [])) == sorted(lengths)
    assert sorted(spread)[len(spread) // 2] < 80


def test_a_second_run_adds_files_and_replaces_none(
    model: AnsweringModel,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_sampling, "FILE_TOKENS", 40)
    texts: dict[str, tuple[str, ...]] = {task: (f"{task} a", f"{task} b") for task in CHAT_TASKS}
    prompts = ChatPrompts(texts, {task: (f"{task} c",) for task in CHAT_TASKS})

    def run() -> set[str]:
        # The function reads the clock twice, and then once per answer.
        ticks = itertools.count()
        clock = partial(next, ticks)
        sample_answers(model, tokenizer, prompts, tmp_path, seconds=12, seed=5, clock=clock)
        return {path.name for path in tmp_path.glob("*.npz")}

    first = run()
    held_out = (tmp_path / "held-out" / "answers-000.npz").stat().st_mtime_ns
    second = run()
    assert "answers-5-0000.npz" in first and first < second
    assert (tmp_path / "held-out" / "answers-000.npz").stat().st_mtime_ns == held_out
    tokens = [
        [each.tokens.tolist() for each in read_sampled(tmp_path / name)] for name in sorted(second)
    ]
    assert tokens[0] != tokens[-1]
    measured = read_sampled(tmp_path / "held-out" / "answers-000.npz")
    assert sorted({each.temperature for each in measured}) == [0.0, 0.7]
