"""Runs with block verification have the target's distribution, and trees are refused.

`test_exactness` proves the rule itself by enumeration.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.rules.block import walk_block
from specviz.decoding.sampling import Sampler
from specviz.errors import InputError
from specviz.figures.rule_words import carried_ratios
from specviz.records import Drawing, Outcome, Round
from tests.decoding.batch_runs import PROMPTS, batch_steps, events_of, setups_of, single_run
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.table_model import TableModel
from tests.decoding.test_batch import story
from tests.decoding.test_every_drafter import PROMPT, baseline_text, config_of
from tests.decoding.test_whole_decoder_distribution import LENGTH, deviations, exact_distribution
from tests.decoding.test_whole_decoder_distribution import PROMPT as TABLE_PROMPT
from tests.decoding.tiny_parts import pair_for, parts_for

CHAIN = DRAFTERS["draft-model"]
# The methods that draft a chain by default, each with the way in which its chain is drawn.
CHAINS = [
    pytest.param(method, method.drawings[0], id=method.name)
    for method in DRAFTERS.values()
    if any(rule.name == "block" for rule in method.rules)
    and not method.drafts_siblings(config_of(method, method.drawings[0]))
]


def block_of(method, drawing, **changes):
    return config_of(method, drawing, rule="block", **changes)


def rounds_of(target, drafter_for, config):
    events = speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config)
    return [event for event in events if isinstance(event, Round)]


def test_four_tokens_have_the_joint_distribution_of_the_target():
    target, draft = pair_for(CHAIN, tiny_model)
    config = block_of(
        CHAIN, Drawing.INDEPENDENT, draft_length=3, max_new_tokens=LENGTH, temperature=0.8
    )
    counts: dict = {}
    for seed in range(800):
        seeded = replace(config, seed=seed)
        drafter = make_drafter(Setup(target, parts_for(target, draft), seeded, 300))
        ids = tuple(tokens_of(speculative.decode(target, drafter, TABLE_PROMPT, seeded)))
        counts[ids] = counts.get(ids, 0) + 1
    assert deviations(counts, exact_distribution(target, Sampler(0.8))) < 4


def test_no_round_judges_with_a_draw_that_an_earlier_round_has_read(target, drafter_for):
    """The rule reads the draws of all drafted tokens, also of those that it does not accept.

    Suppose that a draw depended only on the position in the text. The next round would then use the
    draws of the rejected tokens again, which are known to be large, so the texts would be biased.
    In a simulation of four tokens (vocabulary of 3, K = 3, 60,000 texts), chi-square was 244 in 66
    cells. With new draws it is 78.
    """
    config = block_of(CHAIN, Drawing.INDEPENDENT, temperature=0.8, max_new_tokens=60)
    rounds = rounds_of(target, drafter_for, config)
    draws = [verdict.uniform_draw for each in rounds for verdict in each.verdicts]
    assert len(set(draws)) == len(draws) > 60


@pytest.mark.parametrize("method, drawing", CHAINS)
def test_greedy_text_is_the_baseline_text(method, drawing, target, drafter_for):
    config = block_of(method, drawing)
    drafter = drafter_for(config, PROMPT)
    found = tokens_of(speculative.decode(target, drafter, PROMPT, config))
    assert found == baseline_text(target, PROMPT)


@pytest.mark.parametrize("method", ["draft-model", "prompt-lookup"])
def test_each_row_of_a_batch_equals_its_single_run(method, target, parts):
    config = block_of(DRAFTERS[method], DRAFTERS[method].drawings[0], temperature=0.8, seed=5)
    setups = setups_of(target, parts, config)
    ends = {tokens_of(single_run(setups[2], PROMPTS[2]))[11]}
    steps = batch_steps(target, parts, config, end_ids=ends)
    for row, (setup, prompt) in enumerate(zip(setups, PROMPTS, strict=True)):
        assert story(events_of(steps, row)) == story(single_run(setup, prompt, ends))


def test_the_accepted_length_is_the_largest_whose_draw_passes(target, drafter_for):
    config = block_of(CHAIN, Drawing.INDEPENDENT, temperature=0.8, max_new_tokens=120)
    made_up_for = 0
    for each in rounds_of(target, drafter_for, config):
        passes = [verdict.uniform_draw < verdict.acceptance_prob for verdict in each.verdicts]
        length = max((i for i, good in enumerate(passes, start=1) if good), default=0)
        assert each.rule == "block" and each.accepted == tuple(range(length))
        later = {verdict.outcome for verdict in each.verdicts[length:]}
        assert later <= {Outcome.REJECTED}
        made_up_for += not all(passes[:length])
    assert made_up_for > 0, "a later guess must have made up for an earlier one"


def test_the_last_threshold_is_the_ratio_that_the_record_gives(target, drafter_for):
    config = block_of(CHAIN, Drawing.INDEPENDENT, temperature=0.8, max_new_tokens=60)
    for each in rounds_of(target, drafter_for, config):
        ratios = carried_ratios(each)
        if ratios:
            assert each.verdicts[-1].acceptance_prob == pytest.approx(ratios[-1], abs=1e-4)


def test_a_draft_that_equals_the_target_is_accepted_to_its_end():
    model = TableModel(1)
    config = block_of(CHAIN, Drawing.INDEPENDENT, temperature=0.9, max_new_tokens=60)
    drafter = make_drafter(Setup(model, parts_for(model, model), config, 500))
    events = speculative.decode(model, drafter, TABLE_PROMPT, config)
    for each in (event for event in events if isinstance(event, Round)):
        assert len(each.accepted) == len(each.tree.nodes)


def test_a_walk_reads_the_chain_from_its_end():
    chain = [[0], [1], [2], []]
    assert walk_block(chain, [0.5, 0.0, 0.6], [0.9, 0.0, 0.5]).path == (0, 1, 2)
    assert walk_block(chain, [0.5, 0.0, 0.6], [0.4, 0.0, 0.7]) == walk_block(
        chain, [1, 0, 0], [0, 0, 0]
    )
    assert walk_block(chain, [0.5, 0.0, 0.0], [0.5, 0.0, 0.0]).rejected == (0, 1, 2)
    assert walk_block([[]], [], []).path == ()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("draft-tree", {}),
        ("eagle", {}),
        ("early-exit", {"branching": (2,)}),
        ("draft-tree", {"branching": (1, 2), "drawing": Drawing.WITHOUT_REPLACEMENT}),
    ],
)
def test_siblings_are_refused_with_the_way_out(method, changes):
    entry = DRAFTERS[method]
    config = replace(block_of(entry, entry.drawings[0]), **changes)
    with pytest.raises(InputError, match=r"rule block must be used on a chain.* empty branching"):
        entry.check(config)


@pytest.mark.parametrize("method", ["medusa", "lookahead", "dynamic-tree"])
def test_a_method_that_only_drafts_trees_does_not_offer_the_rule(method):
    entry = DRAFTERS[method]
    assert "block" not in [rule.name for rule in entry.rules]
    with pytest.raises(InputError, match="rule block must be used on a chain"):
        entry.check(block_of(entry, entry.drawings[0]))
