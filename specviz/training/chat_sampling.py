"""Sample the answers of a chat model, with many conversations in one batch.

Each row of the batch decodes one conversation. When a conversation ends, another one begins in its
row, so that no row is idle while longer conversations continue. In half of the rows the model
answers given messages, which come from the corpus. In the other rows it writes the user's questions
itself: one question per conversation, or several.

In shapes, B is the number of rows.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.prompts import all_held_out
from specviz.training.answering_model import AnsweringModel, ConversationRows
from specviz.training.chat_answers import SampledAnswer, write_sampled
from specviz.training.chat_prompts import CHAT_TASKS, ChatPrompts
from specviz.training.chat_questions import NewQuestions, beginning

DRAWN_AMONG = 32  # number of most probable tokens from which each token is drawn
LONGEST_ANSWER = 192  # largest number of tokens of an answer
# The largest number of tokens in a question that the model writes. With more, the conversation
# ends.
LONGEST_QUESTION = 160
# The number of tokens, chat template included, that a given message must stay below.
LONGEST_MESSAGE = 384
LONGEST_TALK = 420  # largest number of tokens of a conversation that gets a further question
MOST_TURNS = 4
# An answer ends when the same sequence of REPEATED tokens occurs for the TIMES-th time.
REPEATED, TIMES = 8, 3
# the values from which the temperature of a conversation is drawn
TEMPERATURES = (0.0, 0.0, 0.7, 0.7, 1.0)
BLOCK_ROWS = 32
READ_TOGETHER = 8  # largest number of prompts that one forward runs together
OWN = "own"  # task name of conversations in which the model itself writes the questions


@dataclass(frozen=True, slots=True)
class Template:
    """The tokens that the chat template puts around turns."""

    opening: tuple[int, ...]  # tokens before the user's first question
    answer: tuple[int, ...]  # tokens between the end of a user's turn and the answer
    question: tuple[int, ...]  # tokens between the end of an answer and the user's next question
    end: int  # the token that ends a turn

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Template:
        """Find the tokens around turns in the chat template of a tokenizer.

        The function applies the template to a conversation of two questions.
        """
        end = int(tokenizer.eos_token_id)
        turns = [("user", "A"), ("assistant", "B"), ("user", "C")]
        ids = _templated(tokenizer, turns)
        ends = [place for place, token in enumerate(ids) if token == end][-3:]
        asked, answered, last = ends
        (first,), (second,), (third,) = (
            tokenizer(text, add_special_tokens=False)["input_ids"] for _, text in turns
        )
        template = cls(
            tuple(ids[: asked - 1]),
            tuple(ids[asked + 1 : answered - 1]),
            tuple(ids[answered + 1 : last - 1]),
            end,
        )
        whole = [*template.opening, first, end, *template.answer, second, end]
        assert ids == [*whole, *template.question, third, end, *template.answer], ids
        return template


class Writing:
    """One conversation that the model is still writing, token by token."""

    def __init__(
        self, template: Template, tokens: Sequence[int], task: str, temperature: float
    ) -> None:
        """Begin with the answer to a prompt. `tokens` are the tokens of the prompt."""
        self.template = template
        self.tokens = list(tokens)
        self.task = task
        self.has_ended = False
        self._temperature = temperature
        # The next tokens, if they are not drawn: they belong to the chat template or to a given
        # beginning.
        self._forced: list[int] = []
        self._is_asking = False
        self._start = len(tokens)  # index of the current turn's first token
        self._turns_left = 1
        self._accept: Callable[[list[int]], bool] = lambda _: True
        self._runs: Counter[tuple[int, ...]] = Counter()

    @classmethod
    def asking(
        cls,
        template: Template,
        begun: Sequence[int],
        temperature: float,
        turns: int,
        accept: Callable[[list[int]], bool],
    ) -> Writing:
        """Begin with a question: the model continues the tokens `begun` as the user's question.

        The conversation ends without an answer if the question is too long, or if `accept` returns
        False for its tokens.
        """
        writing = cls(template, template.opening, OWN, temperature)
        writing._forced = list(begun)
        writing._is_asking = True
        writing._turns_left = turns
        writing._accept = accept
        return writing

    @property
    def temperature(self) -> float:
        """The temperature of the next draw. Questions are always drawn at temperature 1."""
        return 1.0 if self._is_asking else self._temperature

    def add(self, drawn: int) -> SampledAnswer | None:
        """Append the next token; return the answer if this token completes one, otherwise None.

        The token is `drawn`, unless the template or the given beginning determines it.
        """
        if self._forced:
            self.tokens.append(self._forced.pop(0))
            return None
        self.tokens.append(drawn)
        if self._is_asking:
            self._ask(drawn)
            return None
        run = tuple(self.tokens[max(self._start, len(self.tokens) - REPEATED) :])
        self._runs[run] += len(run) == REPEATED
        is_looping = self._runs[run] >= TIMES
        if drawn != self.template.end and not is_looping and self._length < LONGEST_ANSWER:
            return None
        answer = self._answer(self._length - (REPEATED if is_looping else 0))
        self._turns_left -= 1
        if drawn != self.template.end or not self._turns_left or len(self.tokens) > LONGEST_TALK:
            self.has_ended = True
        else:
            self._turn(self.template.question, is_asking=True)
        return answer

    @property
    def _length(self) -> int:
        return len(self.tokens) - self._start

    def _ask(self, drawn: int) -> None:
        if drawn == self.template.end:
            self.has_ended = not self._accept(self.tokens[self._start : -1])
            self._turn(self.template.answer, is_asking=False)
        elif self._length > LONGEST_QUESTION:
            self.has_ended = True

    def _turn(self, between: Sequence[int], is_asking: bool) -> None:
        self._forced = list(between)
        self._is_asking = is_asking
        self._start = len(self.tokens) + len(between)
        self._runs = Counter()

    def _answer(self, length: int) -> SampledAnswer:
        """Return the answer that consists of the first `length` tokens of the current turn."""
        tokens = np.array(self.tokens[: self._start + length], np.uint16)
        return SampledAnswer(self.task, self._temperature, tokens, self._start)


class Source(Protocol):
    """A source of new conversations for a block of rows of the batch."""

    fewest: int  # the smallest number of free rows with which new conversations begin

    def next(self, count: int) -> list[Writing]:
        """Return `count` new conversations of similar length, or fewer if no more are left."""
        ...


class OwnQuestions:
    """An endless source of conversations in which the model writes the user's questions."""

    fewest = 1

    def __init__(
        self,
        template: Template,
        tokenizer: PreTrainedTokenizerFast,
        questions: NewQuestions,
        chance: random.Random,
        most_turns: int = 1,
    ) -> None:
        self.template, self.tokenizer, self.questions = template, tokenizer, questions
        self.chance, self.most_turns = chance, most_turns

    def next(self, count: int) -> list[Writing]:
        return [self._writing() for _ in range(count)]

    def _writing(self) -> Writing:
        begun = beginning(self.chance)
        ids = self.tokenizer(begun, add_special_tokens=False)["input_ids"] if begun else []
        temperature = self.chance.choice(TEMPERATURES)
        return Writing.asking(self.template, ids, temperature, self.most_turns, self._accept)

    def _accept(self, question: list[int]) -> bool:
        return self.questions.accept(self.tokenizer.decode(question))


# the task of a prompt, its token ids, and the temperature of its answer
Prompt = tuple[str, list[int], float]


class GivenMessages:
    """A source of conversations that begin with given prompts.

    Prompts of similar length begin together, so that their common forward has little padding.
    """

    fewest = READ_TOGETHER
    pool = 64  # number of waiting prompts from which prompts of similar length are chosen

    def __init__(
        self, template: Template, prompts: Iterator[Prompt], chance: random.Random
    ) -> None:
        self.template, self.prompts, self.chance = template, prompts, chance
        self._waiting: list[Prompt] = []

    def next(self, count: int) -> list[Writing]:
        while len(self._waiting) < self.pool + count:
            prompt = next(self.prompts, None)
            if prompt is None:
                break
            self._waiting.append(prompt)
        self._waiting.sort(key=lambda prompt: len(prompt[1]))
        start = self.chance.randint(0, max(0, len(self._waiting) - count))
        picked = self._waiting[start : start + count]
        del self._waiting[start : start + count]
        return [Writing(self.template, ids, task, heat) for task, ids, heat in picked]


# The number of consecutive messages of unwanted length after which `prompts_of` stops.
MOST_MISSES = 500
TASK_SHARES = {"code": 5, "story": 4, "maths": 5, "translate": 3, "summarise": 4, "chat": 5}


def prompts_of(
    texts: dict[str, tuple[str, ...]],
    tokenizer: PreTrainedTokenizerFast,
    chance: random.Random,
    lengths: range,
) -> Iterator[Prompt]:
    """Yield prompts from the messages in `texts`, in random order and with repetitions.

    `lengths` is the range of allowed numbers of tokens of a prompt. The iterator ends if hardly any
    message has such a length.
    """
    tasks = [task for task in CHAT_TASKS for _ in range(TASK_SHARES[task])]
    misses = 0
    while misses < MOST_MISSES:
        task = chance.choice(tasks)
        ids = _templated(tokenizer, [("user", chance.choice(texts[task]))])
        if len(ids) in lengths:
            yield task, ids, chance.choice(TEMPERATURES)
        misses = 0 if len(ids) in lengths else misses + 1


def _templated(tokenizer: PreTrainedTokenizerFast, turns: Sequence[tuple[str, str]]) -> list[int]:
    messages = [{"role": role, "content": text} for role, text in turns]
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    )


def sample(
    model: AnsweringModel, template: Template, sources: Sequence[Source]
) -> Iterator[SampledAnswer]:
    """Decode the conversations of all sources in one batch, and yield each complete answer.

    Each source has a block of BLOCK_ROWS rows. The iterator ends when all conversations have ended
    and no source has another conversation.
    """
    slots = max(LONGEST_MESSAGE, LONGEST_TALK + LONGEST_QUESTION) + LONGEST_ANSWER + 8
    rows = ConversationRows(model, template.opening, len(sources), BLOCK_ROWS, slots)
    writings: list[Writing | None] = [None] * (len(sources) * BLOCK_ROWS)
    while _refill(rows, writings, sources):
        tokens = torch.tensor([writing.tokens[-1] if writing else 0 for writing in writings])
        heat = torch.tensor([writing.temperature if writing else 0.0 for writing in writings])
        drawn = draw(model.logits(rows.step(tokens)), heat).tolist()
        for row, writing in enumerate(writings):
            if writing:
                answer = writing.add(drawn[row])
                if answer:
                    yield answer
                if writing.has_ended:
                    writings[row] = None


def _refill(
    rows: ConversationRows, writings: list[Writing | None], sources: Sequence[Source]
) -> bool:
    """Begin new conversations in free rows.

    Return False if no row has a conversation after that.
    """
    for block, source in enumerate(sources):
        block_rows = range(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS)
        free = [row for row in block_rows if not writings[row]]
        while free and len(free) >= min(source.fewest, BLOCK_ROWS):
            begun = source.next(min(len(free), READ_TOGETHER))
            if not begun:
                break
            rows.begin(free[: len(begun)], [writing.tokens for writing in begun])
            for writing in begun:
                writings[free.pop(0)] = writing
        rows.empty(free)
    return any(writings)


def draw(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Draw one token id per row, [B], from the DRAWN_AMONG most probable tokens.

    At temperature 0, the row gets its most probable token. Otherwise Gumbel noise, multiplied by
    the temperature, is added to the logits. The token with the largest sum is then a draw from the
    softmax at that temperature.
    """
    best, ids = logits.topk(min(DRAWN_AMONG, logits.shape[-1]))
    noise = -torch.empty_like(best).exponential_().log()
    place = (best + noise * temperatures[:, None]).argmax(1, keepdim=True)
    return ids.gather(1, place)[:, 0]


FILE_TOKENS = 50_000  # number of tokens of answers per file
HELD_OUT = 300  # number of held-out messages that the model answers
MEASURED = (0.0, 0.7)  # the temperatures at which the model answers each held-out message


def sample_answers(
    model: AnsweringModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: ChatPrompts,
    folder: Path,
    seconds: float,
    seed: int,
    clock: Callable[[], float] = time.process_time,
) -> None:
    """Sample answers until `clock` has advanced by `seconds`, and add them to `folder` as files.

    The default clock counts processor time.

    If the answers to held-out messages do not exist yet, they are sampled first and written to
    `folder`/held-out. A later run with the same seed adds files and keeps the old files. It draws
    other messages and questions than the run before.
    """
    began = clock()
    template = Template.of(tokenizer)
    held_out = folder / "held-out" / "answers-000.npz"
    if not held_out.exists():
        write_sampled(list(_held_out_answers(model, template, tokenizer, prompts)), held_out)
    number = len(list(folder.glob(f"answers-{seed}-*.npz")))
    chance = random.Random(f"{seed} {number}")
    torch.manual_seed(chance.getrandbits(32))
    held_out_texts = (*prompts.held_out.values(), *all_held_out(is_chat=True).values())
    asked = NewQuestions(text for texts in held_out_texts for text in texts)
    short = len(template.opening) + 80
    sources: list[Source] = [
        OwnQuestions(template, tokenizer, asked, chance),
        OwnQuestions(template, tokenizer, asked, chance, MOST_TURNS),
        *(
            GivenMessages(
                template, prompts_of(prompts.training, tokenizer, chance, lengths), chance
            )
            for lengths in (range(short), range(short, LONGEST_MESSAGE))
        ),
    ]
    waiting: list[SampledAnswer] = []
    tokens, reported = 0, clock()
    for answer in sample(model, template, sources):
        waiting.append(answer)
        tokens += answer.answer_length
        now = clock()
        if tokens >= FILE_TOKENS or now - began > seconds:
            write_sampled(waiting, folder / f"answers-{seed}-{number:04d}.npz")
            speed = tokens / (now - reported)
            line = f"answers: file {number}, {tokens} tokens, {speed:.0f} per CPU second"
            print(line, file=sys.stderr, flush=True)
            number, waiting, tokens, reported = number + 1, [], 0, now
        if now - began > seconds:
            return


def _held_out_answers(
    model: AnsweringModel,
    template: Template,
    tokenizer: PreTrainedTokenizerFast,
    prompts: ChatPrompts,
) -> Iterator[SampledAnswer]:
    chance = random.Random("held out")
    texts = [
        (task, text)
        for task in CHAT_TASKS
        for text in prompts.held_out[task][: HELD_OUT // len(CHAT_TASKS)]
    ]
    asked = ((task, _templated(tokenizer, [("user", text)])) for task, text in texts)
    long_enough = [(task, ids) for task, ids in asked if len(ids) < LONGEST_MESSAGE]
    found = iter([(task, ids, heat) for task, ids in long_enough for heat in MEASURED])
    torch.manual_seed(0)
    return sample(model, template, [GivenMessages(template, found, chance) for _ in range(2)])
