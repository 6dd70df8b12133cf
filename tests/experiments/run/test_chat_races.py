"""Every task of the chat model can be raced, and both lanes of a race write the same text."""

from __future__ import annotations

import pytest

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import GET_CHAT_MODEL, pair_named
from specviz.prompts import CHAT_TASKS, held_out_prompt

CONFIG = method_named("prompt-lookup").usual(5, max_new_tokens=24)


@pytest.mark.parametrize("task", CHAT_TASKS)
def test_every_task_of_the_chat_model_can_be_raced(task: str) -> None:
    prompt = held_out_prompt(task, 1, is_chat=True)
    assert RaceRequest(pair_named("smollm2"), prompt, CONFIG, task).task == task


def test_the_chat_model_writes_the_same_text_with_and_without_speculation() -> None:
    pair = pair_named("smollm2")
    if not pair.is_here:
        pytest.skip(f"the chat model is not on this machine: {GET_CHAT_MODEL}")
    prompt = held_out_prompt("summarise", 1, is_chat=True)
    race = start_race(RaceRequest(pair, prompt, CONFIG, "summarise", "cpu"))
    for _ in race:
        pass
    trace = race.trace()
    assert trace.baseline is not None
    assert trace.emitted_ids == trace.baseline.emitted_ids
    assert len(trace.emitted_ids) == CONFIG.max_new_tokens
    assert trace.target.name == pair.title
