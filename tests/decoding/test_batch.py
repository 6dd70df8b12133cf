"""Each row of a batch equals the single run of its prompt and seed, whatever other rows do."""

import pytest

from specviz.decoding import autoregressive, batch
from specviz.decoding.batch import BatchRun, new_rows
from specviz.decoding.batch_options import BatchOptions, row_seed
from specviz.decoding.batch_target import batch_target
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.decoding.drafters.row_drafters import RowDrafters
from specviz.errors import InputError
from specviz.records import DecodingConfig, FinishReason, Outcome, Prefill, Round
from tests.decoding.batch_runs import (
    PROMPTS,
    baseline_steps,
    batch_note,
    batch_parts,
    batch_steps,
    events_of,
    plain_texts,
    rounds_of,
    row_configs,
    setups_of,
    single_run,
    texts_of,
)
from tests.decoding.conftest import VOCAB, tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.test_every_drafter import (
    ONE_KIND_EACH,
    ONE_KIND_QUICKLY,
    config_of,
    reads,  # noqa: F401
)
from tests.decoding.test_odd_drafters import Silent


def story(events):
    """Return those parts of a run that rounding errors cannot change."""
    told = []
    for event in events:
        match event:
            case Prefill():
                told.append((event.prompt_length, event.extra.token_id))
            case Round():
                tree = tuple((node.token_id, node.parent) for node in event.tree.nodes)
                outcomes = tuple(verdict.outcome for verdict in event.verdicts)
                draws = tuple(verdict.uniform_draw for verdict in event.verdicts)
                extra = event.extra and (event.extra.token_id, event.extra.kind)
                told.append((event.index, event.context_length, tree, outcomes, draws, extra))
            case FinishReason():
                told.append(event)
    return told


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_each_row_equals_its_single_run(method, kind, target, parts):
    """A row and its single run have the same trees, draws, verdicts and extra tokens.

    Both runs end at the same token.
    """
    config = config_of(method, kind, temperature=0.8, seed=5)
    setups = setups_of(target, parts, config)
    # The twelfth token of row 2 serves as end token, so row 2 ends early, and perhaps other rows.
    ends = {tokens_of(single_run(setups[2], PROMPTS[2]))[11]}
    alone = [single_run(setup, ids, ends) for setup, ids in zip(setups, PROMPTS, strict=True)]
    steps = batch_steps(target, parts, config, end_ids=ends)
    for row, expected in enumerate(alone):
        assert story(events_of(steps, row)) == story(expected)
    assert events_of(steps, 2)[-1] is FinishReason.END_OF_SEQUENCE
    assert len({len(rounds) for rounds in rounds_of(steps)}) > 1, "rows must end apart"


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_each_row_of_a_greedy_batch_writes_the_baseline_text(method, kind, target, parts):
    """Other tests vary the draft budget and compare whole rounds of sampled batches."""
    config = config_of(method, kind, seed=5)
    assert texts_of(batch_steps(target, parts, config)) == plain_texts(target, 24)


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=DRAFTERS)
def test_a_row_that_ends_with_its_first_token_does_not_affect_other_rows(method, target, parts):
    config = config_of(method, method.drawings[0], max_new_tokens=9)
    setups = setups_of(target, parts, config)
    ends = {tokens_of(single_run(setups[1], PROMPTS[1]))[0]}
    alone = [single_run(setup, ids, ends) for setup, ids in zip(setups, PROMPTS, strict=True)]
    steps = batch_steps(target, parts, config, end_ids=ends)
    for row, expected in enumerate(alone):
        assert story(events_of(steps, row)) == story(expected)
    assert len(steps[0].events) > len(PROMPTS) and len(steps) > 1


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_plain_batch_equals_single_baselines(temperature, target):
    config = DecodingConfig(max_new_tokens=30, temperature=temperature, seed=2)
    configs = row_configs(config, len(PROMPTS))
    runs = zip(PROMPTS, configs, strict=True)
    ends = {tokens_of(autoregressive.decode(target, PROMPTS[1], configs[1]))[5]}
    steps = baseline_steps(target, config, end_ids=ends)
    for row, (prompt, each) in enumerate(runs):
        expected = list(autoregressive.decode(target, prompt, each, ends))
        assert tokens_of(events_of(steps, row)) == tokens_of(expected)
        assert events_of(steps, row)[-1] is expected[-1]


def test_a_batch_of_one_is_a_single_run(target, parts):
    config = DecodingConfig(max_new_tokens=30, temperature=0.8, seed=3)
    setup = setups_of(target, parts, config)[0]
    assert setup.config == config
    steps = batch_steps(target, parts, config, PROMPTS[:1])
    assert story(events_of(steps, 0)) == story(single_run(setup, PROMPTS[0]))


def test_rows_with_the_same_prompt_have_different_draws_and_record_their_seeds(target, parts):
    config = DecodingConfig(max_new_tokens=30, temperature=1.0)
    steps = batch_steps(target, parts, config, [PROMPTS[0]] * 3)
    assert len({tuple(tokens_of(events_of(steps, row))) for row in range(3)}) == 3
    seeds = [row_seed(seed, row) for seed in (0, 1) for row in range(64)]
    assert len(set(seeds)) == len(seeds) and seeds[0] == 0


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_a_round_of_all_rows_waits_for_the_device_once(method, kind, target, parts, reads):  # noqa: F811
    """In each round, the host waits once for the verification of all rows together.

    If the host must read a method's drafts (`host_copies` is 2), it waits once more for each row.
    """
    config = config_of(method, kind, temperature=0.8, top_k=6)
    rows, drafter, *settings = batch_parts(target, parts, config)
    run = BatchRun(rows, drafter, new_rows(*settings, ()), BatchOptions())
    run.prefill()
    while run.is_going:
        before = rows.transfer.count
        reads.clear()
        alive = len(run.round().events)
        copies = rows.transfer.count - before
        assert reads == ["tolist"] * copies
        assert 1 <= copies <= 1 + alive * (method.host_copies - 1)
    drafter.close()


def test_the_plain_batch_waits_once_per_step(target, reads):  # noqa: F811
    reads.clear()
    steps = baseline_steps(target, DecodingConfig(max_new_tokens=12, temperature=0.8))
    assert reads == ["tolist"] * len(steps)


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_waste_is_the_number_of_slots_without_a_token(method, kind, target, parts):
    config = config_of(method, kind, temperature=0.8)
    steps = batch_steps(target, parts, config)
    for step, rounds in zip(steps[1:], rounds_of(steps), strict=True):
        ran = [record.cache.speculative for record in rounds]
        padding = 0 if method.shares_cache else len(ran) * max(ran) - sum(ran)
        assert (step.tokens, step.padding) == (sum(ran), padding)
        notes = [batch_note(record) for record in rounds]
        assert [note.rows for note in notes] == [len(rounds)] * len(rounds)
        assert {(note.tokens, note.padding) for note in notes} == {(step.tokens, step.padding)}
        assert [note.row for note in notes] == [e.row for e in step.events[: len(rounds)]]
    longest = max(map(len, PROMPTS))
    assert steps[0].tokens == sum(map(len, PROMPTS))
    if not method.shares_cache:
        assert steps[0].padding == len(PROMPTS) * longest - steps[0].tokens


@pytest.mark.parametrize("budget", [1, 6])
@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_no_round_exceeds_the_draft_budget_and_greedy_texts_are_unchanged(
    method, kind, budget, target, parts
):
    config = config_of(method, kind, max_new_tokens=24)
    steps = batch_steps(target, parts, config, options=BatchOptions(draft_budget=budget))
    assert texts_of(steps) == plain_texts(target, 24)
    drafted = [sum(len(record.tree.nodes) for record in rounds) for rounds in rounds_of(steps)]
    assert max(drafted) <= budget
    if method.name.startswith("draft") and budget > 1:
        full = [n for n, rounds in zip(drafted, rounds_of(steps), strict=True) if len(rounds) == 4]
        assert max(full) == budget, "the whole budget is used"


def late_survivor(texts):
    """Return an end token with which one or two rows continue long after the others have ended.

    The longest row has at least eight tokens more than the third longest row.
    """
    for end in range(VOCAB):
        lengths = sorted(text.index(end) if end in text else len(text) for text in texts)
        if 3 < lengths[-3] <= lengths[-1] - 8:
            return end
    raise AssertionError("no such token")


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_batches_above_the_row_limit_draft_nothing_and_smaller_ones_do(method, kind, target, parts):
    config = config_of(method, kind, max_new_tokens=30)
    end = late_survivor(plain_texts(target, 30))
    options = BatchOptions(speculate_up_to=2)
    steps = batch_steps(target, parts, config, end_ids={end}, options=options)
    assert texts_of(steps) == plain_texts(target, 30, (end,))
    drafting = [bool(record.tree.nodes) for rounds in rounds_of(steps) for record in rounds[:1]]
    alive = list(map(len, rounds_of(steps)))
    assert not any(some for some, rows in zip(drafting, alive, strict=True) if rows > 2)
    assert {rows for rows in alive if rows > 2}, "the limit was met"
    if method.name.startswith(("draft", "early")):
        assert any(some for some, rows in zip(drafting, alive, strict=True) if rows <= 2)


def test_a_measured_limit_does_not_change_greedy_texts(target, parts):
    config = DecodingConfig(max_new_tokens=40)
    steps = batch_steps(target, parts, config, options=BatchOptions(speculate_up_to=0))
    assert texts_of(steps) == plain_texts(target, 40)
    limits = [batch_note(rounds[0]).limit for rounds in rounds_of(steps)]
    assert limits[0] == len(PROMPTS) and all(0 <= limit <= len(PROMPTS) for limit in limits)


def test_rows_near_the_end_of_the_context_do_not_affect_other_rows(parts):
    """With the draft length of the other rows, one row's draft would exceed the context."""
    target = tiny_model(1, 3, "tiny target")
    room = target.info.context_length
    prompts = [tuple(i % 9 for i in range(length)) for length in (room - 20, 5)]
    config = DecodingConfig(draft_length=6, max_new_tokens=20, temperature=0.8)
    setups = setups_of(target, parts, config, prompts)
    steps = batch_steps(target, parts, config, prompts)
    for row, setup in enumerate(setups):
        assert story(events_of(steps, row)) == story(single_run(setup, prompts[row]))


def test_a_dropped_batch_closes_its_drafters(target, parts):
    drafters = [Silent() for _ in PROMPTS]
    config = DecodingConfig()
    rows = batch_target(target, PROMPTS, config)
    configs = row_configs(config, len(PROMPTS))
    steps = batch.decode(rows, RowDrafters(drafters), PROMPTS, configs)
    next(steps)
    steps.close()
    assert all(drafter.closed for drafter in drafters)


def test_a_row_that_ends_closes_its_own_drafter_only(target):
    drafters = [Silent(), Silent(), Silent()]
    RowDrafters(drafters).select([0, 2])
    assert [drafter.closed for drafter in drafters] == [False, True, False]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"speculate_up_to": 65}, "speculate_up_to must be a whole number from 0 to 64, got 65"),
        ({"draft_budget": -1}, "draft_budget must be a whole number from 0 to 4,096, got -1"),
    ],
)
def test_options_out_of_bounds_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        BatchOptions(**options)


def test_a_prompt_that_does_not_fit_is_refused(target, parts):
    with pytest.raises(InputError, match="prompt must have at least one token"):
        batch_steps(target, parts, DecodingConfig(), [(1, 2), ()])


def test_every_outcome_occurs_in_a_sampled_batch(target, parts):
    """Without all outcomes, the comparison with single runs would prove little."""
    config = DecodingConfig(max_new_tokens=40, temperature=0.8)
    steps = batch_steps(target, parts, config)
    outcomes = {v.outcome for rounds in rounds_of(steps) for r in rounds for v in r.verdicts}
    assert outcomes == set(Outcome)
