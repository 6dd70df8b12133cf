"""Lets a chat model answer messages, many at once, and keeps its features and probabilities.

Made for throughput on a CPU: products in bfloat16, rows that have ended leave the batch, and both
answers to a message share the reading of it.

Letters: B rows, T new tokens per row, S slots of the cache, W width, V vocabulary, L layers whose
features are kept, G key-value heads, d head width, k top tokens.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.training.chat_answers import ChatAnswer, answers_path, write_answers
from specviz.training.chat_prompts import CHAT_TASKS, ChatPrompts
from specviz.training.network import rotate, rotation

# ---- the model, several rows of different lengths at once


class _Layer(NamedTuple):
    input_norm: Tensor  # [W]
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor  # [W]
    gate_up: Tensor
    down: Tensor


class AnsweringModel:
    """A Llama with a tied output; the residual stream is float32, products have `dtype`."""

    def __init__(self, model: LlamaForCausalLM, dtype: torch.dtype = torch.bfloat16) -> None:
        self.config = model.config
        self.dtype = dtype
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        self.table = weights["model.embed_tokens.weight"].to(dtype)  # [V, W]
        self.norm = weights["model.norm.weight"].float()
        self.layers = []
        for index in range(self.config.num_hidden_layers):
            layer = {
                name.removeprefix(f"model.layers.{index}."): weight
                for name, weight in weights.items()
                if name.startswith(f"model.layers.{index}.")
            }
            qkv = [layer[f"self_attn.{name}_proj.weight"] for name in "qkv"]
            gate_up = [layer[f"mlp.{name}_proj.weight"] for name in ("gate", "up")]
            self.layers.append(
                _Layer(
                    layer["input_layernorm.weight"].float(),
                    torch.cat(qkv).to(dtype),
                    layer["self_attn.o_proj.weight"].to(dtype),
                    layer["post_attention_layernorm.weight"].float(),
                    torch.cat(gate_up).to(dtype),
                    layer["mlp.down_proj.weight"].to(dtype),
                )
            )

    def normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm in float32."""
        return F.rms_norm(hidden, hidden.shape[-1:], weight, self.config.rms_norm_eps)


class Conversations:
    """Keys and values of rows that end at the same slot; the first `padding` slots are empty."""

    def __init__(self, model: AnsweringModel, padding: Tensor, capacity: int) -> None:
        """`padding` [B]: empty slots before each row."""
        config = model.config
        self.model = model
        self.padding = padding
        self.length = 0
        shape = (len(padding), config.num_key_value_heads, capacity, config.head_dim)
        self.keys = [torch.zeros(shape, dtype=model.dtype) for _ in model.layers]
        self.values = [torch.zeros(shape, dtype=model.dtype) for _ in model.layers]
        self.cos, self.sin = rotation(capacity, config, padding.device, torch.float32)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows alone (a row may be named twice)."""
        for states in (self.keys, self.values):
            for index, kept in enumerate(states):
                states[index] = kept[rows]
        self.padding = self.padding[rows]

    @torch.inference_mode()
    def feed(self, tokens: Tensor, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """tokens [B, T] behind those fed before -> logits after the last one, and features.

        Logits [B, V]. Features [B, T, L + 1, W]: the residual stream after those layers (counted
        from 0), and the final one after the norm.
        """
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        places = (torch.arange(start, end) - self.padding[:, None]).clamp_min(0)  # [B, T]
        angles = self.cos[places][:, None], self.sin[places][:, None]  # [B, 1, T, d]
        visible = torch.arange(end) >= self.padding[:, None]  # [B, S]
        mask = torch.zeros(visible.shape, dtype=model.dtype).masked_fill(~visible, -1e30)
        causal = mask[:, None, None, :]
        if end - start > 1:
            past = torch.ones(end - start, end, dtype=torch.bool).tril(start)
            causal = causal.masked_fill(~past, -1e30)  # [B, 1, T, S]
        hidden = F.embedding(tokens, model.table).float()
        found = []
        for index, layer in enumerate(model.layers):
            normed = model.normed(hidden, layer.input_norm).to(model.dtype)
            mixed = self._attend(index, F.linear(normed, layer.qkv), angles, causal)
            hidden = hidden + F.linear(mixed, layer.out)
            normed = model.normed(hidden, layer.mlp_norm).to(model.dtype)
            gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
            if index in layers:
                found.append(hidden)
        self.length = end
        found.append(model.normed(hidden, model.norm))
        logits = F.linear(found[-1][:, -1].to(model.dtype), model.table)
        return logits.float(), torch.stack(found, dim=2)

    def _attend(
        self, index: int, packed: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor
    ) -> Tensor:
        """packed [B, T, (queries + 2 G) d] -> [B, T, queries d]."""
        config, (rows, width, _) = self.model.config, packed.shape
        queries, groups = config.num_attention_heads, config.num_key_value_heads
        heads = packed.view(rows, width, -1, config.head_dim).transpose(1, 2)
        query, key, value = torch.split(heads, [queries, groups, groups], dim=1)
        end = self.length + width
        self.keys[index][:, :, self.length : end] = rotate(key, *angles)
        self.values[index][:, :, self.length : end] = value
        keys, values = self.keys[index][:, :, :end], self.values[index][:, :, :end]
        query = rotate(query, *angles).to(packed.dtype)
        if width == 1:  # the queries that share a key stand where several positions would
            query = query.reshape(rows, groups, -1, config.head_dim)
            mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            return mixed.reshape(rows, 1, -1)
        shared = queries // groups
        mixed = F.scaled_dot_product_attention(
            query,
            keys.repeat_interleave(shared, dim=1),
            values.repeat_interleave(shared, dim=1),
            attn_mask=mask,
        )
        return mixed.transpose(1, 2).reshape(rows, width, -1)


# ---- answers to messages


KEPT_LAYERS = (3, 15, 27)  # of 30: near the beginning, in the middle, near the end
TOP = 32
LONGEST_ANSWER = 128  # tokens; with 256, more rows had ended before the last ones of a batch
MESSAGES = 64  # at once
READ_TOKENS = 4096  # tokens of messages that are read at once
FEWEST_ROWS = 6  # the last rows of a batch are cut off: they would keep a core busy alone
SMALLER = 0.75  # a batch is made smaller when no more than this share of its rows goes on
TEMPERATURES = ((0.0, 0.7), (0.0, 0.7), (0.0, 1.0))  # of the two answers to a message, in turn
REPEATED, TIMES = 8, 3  # an answer ends where so many tokens come for this time


@dataclass(frozen=True, slots=True)
class Message:
    """What is asked, in the chat template."""

    task: str
    tokens: list[int]


class _Written:
    """One answer while it is written."""

    def __init__(self, message: Message, temperature: float, read: Tensor) -> None:
        self.message, self.temperature = message, temperature
        self.features = [read.half().numpy()]  # each [T, L + 1, W]
        self.tokens: list[int] = []
        self.top_ids: list[NDArray[np.uint16]] = []
        self.top_probs: list[NDArray[np.float16]] = []
        self._runs: Counter[tuple[int, ...]] = Counter()

    def add(self, token: int, top_ids: NDArray[np.uint16], top_probs: NDArray[np.float16]) -> None:
        """The next token, and the distribution that it was drawn from at temperature 1."""
        self.tokens.append(token)
        self.top_ids.append(top_ids)
        self.top_probs.append(top_probs)
        if len(self.tokens) >= REPEATED:
            self._runs[self._last_run] += 1

    @property
    def is_looping(self) -> bool:
        """Whether its last REPEATED tokens came for the TIMES-th time."""
        return self._runs[self._last_run] >= TIMES

    @property
    def _last_run(self) -> tuple[int, ...]:
        return tuple(self.tokens[-REPEATED:])

    def finished(self) -> ChatAnswer:
        """Without the last turn of a loop."""
        written = len(self.tokens) - (REPEATED if self.is_looping else 0)
        tokens = np.array(self.message.tokens + self.tokens[:written], np.uint16)
        return ChatAnswer(
            self.message.task,
            self.temperature,
            tokens,
            len(self.message.tokens),
            np.concatenate(self.features)[: len(tokens) - 1],
            np.stack(self.top_ids[:written]),
            np.stack(self.top_probs[:written]),
        )


def answer_messages(
    model: AnsweringModel, messages: Sequence[Message], end_id: int, longest: int
) -> list[ChatAnswer]:
    """Two answers to every message, of at most `longest` tokens, the end of the turn among them."""
    rows, written, logits = _read(model, messages, longest)
    temperatures = torch.tensor([each.temperature for each in written])
    live = torch.arange(len(written))
    for _ in range(longest):
        probs, ids = _top(logits)
        drawn = _drawn(logits, temperatures[live], ids[:, 0])
        top_ids, top_probs = ids.numpy().astype(np.uint16), probs.half().numpy()
        for place, row in enumerate(live.tolist()):
            if row >= 0:
                written[row].add(int(drawn[place]), top_ids[place], top_probs[place])
                if drawn[place] == end_id or written[row].is_looping:
                    live[place] = -1
        going = (live >= 0).nonzero()[:, 0]
        if len(going) < min(FEWEST_ROWS, len(written)):
            break
        if len(going) <= SMALLER * len(live):
            rows.keep(going)
            live, drawn = live[going], drawn[going]
        logits, features = rows.feed(drawn[:, None], KEPT_LAYERS)
        kept = features.half().numpy()
        for place, row in enumerate(live.tolist()):
            if row >= 0:
                written[row].features.append(kept[place])
    return [each.finished() for each in written]


def _read(
    model: AnsweringModel, messages: Sequence[Message], longest: int
) -> tuple[Conversations, list[_Written], Tensor]:
    """All messages read, a row per answer; the logits [B, V] after each."""
    width = max(len(message.tokens) for message in messages)
    padding = torch.tensor([width - len(message.tokens) for message in messages])
    rows = Conversations(model, padding, width + longest)
    tokens = torch.zeros(len(messages), width, dtype=torch.int64)
    for row, message in enumerate(messages):
        tokens[row, padding[row] :] = torch.tensor(message.tokens)
    written, logits = [], []
    for part in torch.split(torch.arange(len(messages)), max(1, READ_TOKENS // width)):
        few = Conversations(model, padding[part], width)
        last, features = few.feed(tokens[part], KEPT_LAYERS)
        for index in range(len(model.layers)):
            rows.keys[index][part, :, :width] = few.keys[index]
            rows.values[index][part, :, :width] = few.values[index]
        logits.append(last)
        for place, row in enumerate(part.tolist()):
            for temperature in TEMPERATURES[row % len(TEMPERATURES)]:
                read = features[place, padding[row] :]
                written.append(_Written(messages[row], temperature, read))
    rows.length = width
    twice = torch.arange(len(messages)).repeat_interleave(len(TEMPERATURES[0]))
    rows.keep(twice)
    return rows, written, torch.cat(logits)[twice]


def _top(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and ids of the TOP likeliest tokens, each [B, k]."""
    best, ids = logits.topk(TOP)
    return (best - logits.logsumexp(-1, keepdim=True)).exp(), ids


def _drawn(logits: Tensor, temperatures: Tensor, likeliest: Tensor) -> Tensor:
    """Token ids [B]; at temperature 0 the likeliest."""
    drawn, hot = likeliest.clone(), temperatures.nonzero()[:, 0]
    if len(hot):
        heated = (logits[hot] / temperatures[hot, None]).softmax(-1).cumsum(-1)
        places = torch.rand(len(hot), 1) * heated[:, -1:]
        drawn[hot] = torch.searchsorted(heated, places).clamp_max(logits.shape[1] - 1)[:, 0]
    return drawn


# ---- files of answers, one after the other for as long as there is time


TASK_SHARES = {"code": 5, "story": 4, "maths": 5, "translate": 3, "summarise": 4, "chat": 5}
POOL = 4 * MESSAGES  # messages that are sorted by length, so that rows need little padding


def messages_of(
    texts: dict[str, tuple[str, ...]], tokenizer: PreTrainedTokenizerFast, seed: int
) -> Iterator[Message]:
    """Messages of all tasks without end, each task in its order and from the start again."""
    chance = random.Random(seed)
    position = dict.fromkeys(CHAT_TASKS, 0)
    tasks = [task for task in CHAT_TASKS for _ in range(TASK_SHARES[task])]
    while True:
        task = chance.choice(tasks)
        text = texts[task][position[task] % len(texts[task])]
        position[task] += 1
        turn = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
        yield Message(task, list(ids))


def batches_of(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """MESSAGES of similar length at a time."""
    while True:
        pool = sorted(islice(messages, POOL), key=lambda message: len(message.tokens))
        yield from (pool[start : start + MESSAGES] for start in range(0, POOL, MESSAGES))


def sample_answers(
    model: AnsweringModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: ChatPrompts,
    folder: Path,
    seconds: float,
) -> None:
    """Files of answers to training messages in `folder`; those there already stay.

    It goes on for `seconds` of processor time.

    The first file is beside them in `folder`/held-out: answers to messages nothing is trained on.
    """
    began = time.process_time()
    end_id = tokenizer.eos_token_id
    held_out = folder / "held-out"
    if not answers_path(held_out, 0).exists():
        _answer_held_out(model, tokenizer, prompts, held_out, end_id)
    for number, batch in enumerate(batches_of(messages_of(prompts.training, tokenizer, seed=0))):
        if time.process_time() - began > seconds:
            return
        if answers_path(folder, number).exists():
            continue
        torch.manual_seed(number)
        worked = time.process_time()
        answers = answer_messages(model, batch, end_id, LONGEST_ANSWER)
        write_answers(answers, answers_path(folder, number))
        made = sum(len(answer.top_ids) for answer in answers)
        speed = made / (time.process_time() - worked)
        line = f"answers: file {number}, {made} tokens, {speed:.0f} per CPU second"
        print(line, file=sys.stderr, flush=True)


def _answer_held_out(
    model: AnsweringModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: ChatPrompts,
    folder: Path,
    end_id: int,
) -> None:
    batch = list(islice(messages_of(prompts.held_out, tokenizer, seed=1), MESSAGES))
    torch.manual_seed(0)
    write_answers(answer_messages(model, batch, end_id, LONGEST_ANSWER), answers_path(folder, 0))
