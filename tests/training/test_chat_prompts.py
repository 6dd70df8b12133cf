from pathlib import Path

from specviz.training.chat_prompts import CHAT_TASKS, chat_prompts


def test_every_task_has_messages_and_none_of_the_test_messages_is_used_for_training(
    sources: tuple[Path, Path],
) -> None:
    prompts = chat_prompts(*sources)
    for task in CHAT_TASKS:
        training, held_out = prompts.training[task], prompts.held_out[task]
        assert training and len(set(training)) == len(training)
        assert not {*training} & {*held_out}
    assert prompts.held_out["chat"] and prompts.held_out["maths"]


def test_the_seed_fixes_the_order_of_messages(sources: tuple[Path, Path]) -> None:
    assert chat_prompts(*sources) == chat_prompts(*sources)
    assert (
        chat_prompts(*sources).training["chat"] != chat_prompts(*sources, seed=1).training["chat"]
    )
