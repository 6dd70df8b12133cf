from pathlib import Path

from specviz.training.chat_prompts import CHAT_TASKS, chat_prompts


def test_every_task_has_messages_and_none_that_is_measured_is_learnt_from(
    sources: tuple[Path, Path],
) -> None:
    prompts = chat_prompts(*sources)
    for task in CHAT_TASKS:
        training, held_out = prompts.training[task], prompts.held_out[task]
        assert training and len(set(training)) == len(training)
        assert not {*training} & {*held_out}
    assert prompts.held_out["chat"] and prompts.held_out["maths"]


def test_the_order_of_messages_is_fixed_by_the_seed(sources: tuple[Path, Path]) -> None:
    assert chat_prompts(*sources) == chat_prompts(*sources)
    assert (
        chat_prompts(*sources).training["chat"] != chat_prompts(*sources, seed=1).training["chat"]
    )
