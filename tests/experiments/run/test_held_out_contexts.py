"""Exactness is tested after one context per task; a chat model's context is a whole prompt."""

from __future__ import annotations

from pathlib import Path

from specviz.experiments.run.losslessness import CONTEXT_TOKENS, held_out_contexts
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.text.text_codec import TextCodec
from specviz.prompts import TASKS, held_out_prompt
from tests.chat_folder import chat_folder


def texts(codec: TextCodec) -> list[str]:
    return [codec.decode(context) for context in held_out_contexts(codec)]


def test_a_chat_model_answers_the_beginning_of_each_task(tmp_path: Path) -> None:
    codec = load_pair(custom_pair(chat_folder(tmp_path), ""), "cpu", needs=frozenset()).codec
    for task, text in zip(TASKS, texts(codec), strict=True):
        begun = text.removeprefix("user\n").removesuffix("assistant\n")
        assert text == f"user\n{begun}assistant\n" and len(begun) > 30
        assert held_out_prompt(task, 1).startswith(begun)


def test_a_base_model_continues_the_beginning_of_each_task() -> None:
    codec = load_pair(pair_named("bundled"), "cpu").codec
    for task, text in zip(TASKS, texts(codec), strict=True):
        assert held_out_prompt(task, 1).startswith(text)
        assert CONTEXT_TOKENS - 3 <= len(codec.encode_part(text)) <= CONTEXT_TOKENS
