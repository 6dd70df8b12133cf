"""With the bundled models, each prompt of a batch gets the same text as when it runs alone.

The prompts are held out: training did not use them.
"""

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.models.library_model import SpreadModel, as_batched
from specviz.prompts import TASKS
from specviz.records import DecodingConfig
from tests.decoding.batch_runs import baseline_steps, batch_steps, events_of
from tests.decoding.events import tokens_of
from tests.decoding.table_model import TableModel
from tests.test_bundled_pair import LENGTH, baseline, loaded, prompt_ids

ROWS = 4


def texts(steps):
    return [tokens_of(events_of(steps, row)) for row in range(ROWS)]


NUMBERS = range(1, ROWS + 1)


@pytest.mark.parametrize("task", TASKS[:2])
def test_each_row_of_a_plain_batch_writes_what_the_baseline_writes_alone(task):
    prompts = [prompt_ids(task, number) for number in NUMBERS]
    expected = [baseline(task, number) for number in NUMBERS]
    config = DecodingConfig(max_new_tokens=LENGTH)
    ends = loaded().codec.eos_ids
    assert texts(baseline_steps(loaded().target, config, prompts, ends)) == expected


# tests/decoding/test_batch.py proves this for every method on small models. On the bundled models,
# `make slow` also runs the methods that are not in this list.
QUICK = ("draft-model", "prompt-lookup", "medusa", "eagle", "early-exit", "lookahead")


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=() if method.name in QUICK else pytest.mark.slow)
        for method in DRAFTERS.values()
        if method.host_copies == 1
    ],
)
def test_each_row_of_a_batch_writes_what_the_baseline_writes_alone(method):
    """The draft-model method runs on two tasks, every other method on one."""
    ends, able = loaded().codec.eos_ids, loaded(method.needs)
    config = DecodingConfig(
        method=method.name,
        branching=method.default_branching,
        drawing=method.drawings[0],
        max_new_tokens=LENGTH,
    )
    for task in TASKS[: 2 if method.name == DecodingConfig().method else 1]:
        prompts = [prompt_ids(task, number) for number in NUMBERS]
        expected = [baseline(task, number) for number in NUMBERS]
        assert texts(batch_steps(able.target, able.parts, config, prompts, ends)) == expected


def test_models_that_cannot_run_rows_together_are_recognised():
    assert as_batched(loaded().target) is loaded().target
    assert as_batched(TableModel(1)) is None
    assert as_batched(SpreadModel.__new__(SpreadModel)) is None
