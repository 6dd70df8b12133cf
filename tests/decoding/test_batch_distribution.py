"""Decisions about a whole batch leave each row's distribution unchanged and use measured costs."""

from dataclasses import replace
from itertools import cycle

import pytest

from specviz.decoding.batch_options import (
    WARM_UP_ROUNDS,
    BatchOptions,
    FixedLimit,
    MeasuredLimit,
    shares,
)
from specviz.decoding.drafters.registry import DRAFTERS, make_row_drafters
from specviz.decoding.forward_times import rows_time
from tests.decoding.batch_runs import (
    PROMPTS,
    batch_steps,
    events_of,
    limited_steps,
    plain_texts,
    rounds_of,
    setups_of,
    texts_of,
)
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.test_every_drafter import ONE_KIND_QUICKLY, VARIANTS, config_of
from tests.decoding.test_whole_decoder_distribution import (
    LENGTH,
    PROMPT,
    Sampler,
    deviations,
    exact_distribution,
)
from tests.decoding.tiny_parts import pair_for, parts_for

# Each sample has two rows. The 400 rows detect an error of effect size w = 0.40 with a probability
# of 98 %; test_whole_decoder_distribution.py explains w.
SAMPLES = 200
METHODS = ("draft-model", "draft-tree", "prompt-lookup")
DRAWN = [each for each in ONE_KIND_QUICKLY if each.values[0].name in METHODS]
OPTIONS = {
    "budget": BatchOptions(draft_budget=3),  # in turns, one row drafts 2 tokens and the other 1
    "limit": BatchOptions(speculate_up_to=1),  # one row drafts only after the other row has ended
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("method, kind", DRAWN)
def test_with_a_budget_or_a_limit_each_row_has_the_distribution_of_the_target(
    method, kind, options
):
    target, draft = pair_for(method, tiny_model)
    parts, counts = parts_for(target, draft), {}
    for seed in range(SAMPLES):
        config = config_of(
            method, kind, draft_length=2, max_new_tokens=LENGTH, temperature=0.8, seed=seed
        )
        steps = batch_steps(target, parts, config, [PROMPT, PROMPT], options=options)
        for row in range(2):
            ids = tuple(tokens_of(events_of(steps, row)))
            counts[ids] = counts.get(ids, 0) + 1
    assert deviations(counts, exact_distribution(target, Sampler(0.8))) < 4


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_rounds_with_and_without_a_draft_may_alternate(method, kind, target, parts):
    """A tree that was prepared, kept or skipped in one round does not change the next tree."""
    config = config_of(method, kind)
    turns = cycle(([64] * 4, [64, 0, 3, 1], [0] * 4, [2] * 4, [0, 64, 64, 64]))
    steps = limited_steps(target, parts, config, PROMPTS, turns)
    assert texts_of(steps) == plain_texts(target, config.max_new_tokens)


def test_a_budget_is_divided_fairly_and_the_remainder_rotates():
    for budget, rows in ((8, 3), (2, 5), (7, 7), (1, 4)):
        given = [shares(budget, rows, index) for index in range(rows)]
        assert all(sum(each) == budget and max(each) - min(each) <= 1 for each in given)
        assert len({sum(column) for column in zip(*given, strict=True)}) == 1


def test_a_budget_of_one_token_goes_to_the_rows_in_turn(target, parts):
    config = config_of(DRAFTERS["draft-model"], DRAFTERS["draft-model"].drawings[0])
    steps = batch_steps(target, parts, config, options=BatchOptions(draft_budget=1))
    drafting = [[bool(each.tree.nodes) for each in rounds] for rounds in rounds_of(steps)[:8]]
    assert drafting == [[row == turn % 4 for row in range(4)] for turn in range(8)]


def some_rounds(target, parts, count):
    steps = batch_steps(target, parts, config_of(DRAFTERS["draft-model"], VARIANTS[0].values[1]))
    drafted = [rounds for rounds in rounds_of(steps) if rounds[0].tree.nodes]
    return drafted[:count]


def test_a_measured_limit_waits_until_it_has_enough_rounds(target, parts):
    # Here a forward takes time in proportion to its tokens, so drafts make decoding slower.
    limit = MeasuredLimit(8, lambda rows, tokens: float(rows * tokens))
    first, *others = some_rounds(target, parts, WARM_UP_ROUNDS)
    for each in others:
        limit.add(each)
        assert limit.rows == 8
    limit.add(first)
    assert limit.rows == 0


def test_a_measured_limit_is_the_last_number_of_rows_that_pays(target, parts):
    """A larger number of rows would make speculation slower than plain decoding.

    In this test a forward takes the same time for any number of tokens up to 16. A row with n
    drafted tokens adds 1 + n tokens to the forward.
    """
    limit = MeasuredLimit(32, lambda rows, tokens: max(1.0, rows * tokens / 16))
    free = {"draft_seconds": 0.0, "host_seconds": 0.0, "verify_seconds": 1.0}
    drafted = some_rounds(target, parts, WARM_UP_ROUNDS)
    rounds = [[replace(record, **free) for record in each] for each in drafted]
    for each in rounds:
        limit.add(each)
    trees = [record for each in rounds for record in each]
    gain = sum(len(record.emitted_ids) for record in trees) / len(trees)
    nodes = round(sum(len(record.tree.nodes) for record in trees) / len(trees))
    pays = [b for b in range(1, 33) if gain * max(1, b / 16) > max(1, b * (1 + nodes) / 16)]
    assert 0 < limit.rows == max(pays) < 32


def test_rounds_without_a_draft_do_not_change_a_limit():
    limit, fixed = MeasuredLimit(4, lambda rows, tokens: 1.0), FixedLimit(3)
    for _ in range(9):
        limit.add([])
        fixed.add([])
    assert (limit.rows, fixed.rows) == (4, 3)


def test_the_time_of_three_rows_is_between_those_of_two_and_four(target):
    two, three, four = (rows_time(target, rows, 3) for rows in (2, 3, 4))
    assert min(two, four) <= three <= max(two, four)
    assert rows_time(target, 2, 3) == two, "measured once"


def test_drafters_of_a_batch_share_their_weights(target, parts):
    for method in DRAFTERS.values():
        config = config_of(method, method.drawings[0])
        setups = setups_of(target, parts, config)
        drafters = [make_row_drafters(setups[:count]) for count in (1, 4)]
        assert len({drafter.memory.weights for drafter in drafters}) == 1
        for drafter in drafters:
            drafter.close()
