"""A batch of short prompts, and the single runs that its rows must equal."""

from dataclasses import replace
from functools import cache

from specviz.decoding import batch, speculative
from specviz.decoding.batch_options import BatchOptions, row_seed
from specviz.decoding.batch_target import batch_target
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import (
    make_drafter,
    make_row_drafters,
    method_named,
)
from specviz.decoding.target import cache_capacity
from specviz.records import BatchRound, DecodingConfig, Round
from tests.decoding.events import tokens_of

PROMPTS = ((3, 5, 1, 3, 5, 2, 7, 3, 5), (4,), (1, 1, 2, 1, 1, 2, 1, 1), (7, 3))


def row_configs(config, rows):
    """Return the configuration of every row; each row has its own seed."""
    return [replace(config, seed=row_seed(config.seed, row)) for row in range(rows)]


def setups_of(target, parts, config, prompts=PROMPTS):
    """Return one drafter setup per row; each row has its own seed."""
    configs = row_configs(config, len(prompts))
    return [
        Setup(target, parts, each, cache_capacity(prompt, each))
        for prompt, each in zip(prompts, configs, strict=True)
    ]


def batch_parts(target, parts, config, prompts=PROMPTS):
    """Return the arguments of `batch.decode`: target, drafter, prompts, configurations."""
    setups = setups_of(target, parts, config, prompts)
    drafter = make_row_drafters(setups)
    shares_cache = method_named(config.method).shares_cache
    rows = batch_target(target, prompts, config, drafter.feature_layers, shares_cache)
    return rows, drafter, prompts, [setup.config for setup in setups]


def batch_steps(target, parts, config, prompts=PROMPTS, end_ids=(), options=None):
    return list(batch.decode(*batch_parts(target, parts, config, prompts), end_ids, options))


def limited_steps(target, parts, config, prompts, limits):
    """Return the steps of a batch.

    `limits[i]` is the largest draft of a row in round i, as a number of nodes.
    """
    rows, drafter, *settings = batch_parts(target, parts, config, prompts)
    run = batch.BatchRun(rows, drafter, batch.new_rows(*settings, ()), BatchOptions())
    steps = [run.prefill()]
    for limit in limits:
        if not run.is_going:
            break
        run._shares = lambda _, limit=limit: [limit[row.number] for row in run.rows]
        steps.append(run.round())
    drafter.close()
    return steps


def baseline_steps(target, config, prompts=PROMPTS, end_ids=()):
    """Return all steps of the plain batch, which drafts nothing."""
    rows = batch_target(target, prompts, config)
    configs = row_configs(config, len(prompts))
    return list(batch.decode_baseline(rows, prompts, configs, end_ids))


@cache
def plain_texts(target, max_new_tokens, end_ids=()):
    """Return the greedy texts of the plain batch, as one list of tokens per row."""
    config = DecodingConfig(max_new_tokens=max_new_tokens)
    steps = baseline_steps(target, config, end_ids=end_ids)
    return texts_of(steps)


def texts_of(steps):
    """Return the tokens of every row of a batch of PROMPTS."""
    return [tokens_of(events_of(steps, row)) for row in range(len(PROMPTS))]


def single_run(setup, prompt, end_ids=()):
    """Return all events of a run that decodes one prompt without a batch."""
    drafter = make_drafter(setup)
    return list(speculative.decode(setup.target, drafter, prompt, setup.config, end_ids))


def events_of(steps, row):
    return [each.event for step in steps for each in step.events if each.row == row]


def rounds_of(steps):
    """Return the rounds of each step after the prefill, as a list of lists."""
    return [[e.event for e in step.events if isinstance(e.event, Round)] for step in steps[1:]]


def batch_note(record):
    """Return the round's note about its batch; it must be the last note of the round."""
    assert isinstance(record.notes[-1], BatchRound)
    return record.notes[-1]
