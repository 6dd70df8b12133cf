"""A grammar masks the target; with every method and rule, the output is the masked target's.

The grammar is compiled for tiny vocabularies. Python's own regular expressions say independently
which tokens may follow a text.
"""

import itertools
import math
import re
from dataclasses import replace
from functools import cache

import pytest

from specviz.decoding import autoregressive, batch, speculative
from specviz.decoding.batch_target import batch_target
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.rules import block, token_by_token, traversal
from specviz.decoding.sampling import Sampler, masked
from specviz.decoding.target import cache_capacity
from specviz.decoding.topology import topology
from specviz.errors import InputError
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.text.grammar import compiled
from specviz.records import (
    MOST_MARGIN,
    DecodingConfig,
    Drawing,
    FinishReason,
    ForcedTokens,
    Prefill,
    Round,
    TokenStep,
)
from tests.decoding.batch_runs import PROMPTS, batch_parts, events_of, row_configs, setups_of
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of, without_seconds
from tests.decoding.test_departure import trace_of
from tests.decoding.test_every_drafter import ONE_KIND_EACH, VARIANTS, config_of
from tests.decoding.test_exactness import BRANCHING, CHAINS, CPU, World, worst_error
from tests.decoding.test_whole_decoder_distribution import (
    OF_ANY_OTHER,
    OF_KIND,
    SAMPLED,
    SAMPLES,
    deviations,
    logits_after,
)
from tests.decoding.tiny_codecs import tiny_codec
from tests.decoding.tiny_parts import pair_for, parts_for

pytest.importorskip("llguidance")

END = "<|end|>"
# the vocabulary of the tiny Llama, and a grammar in which some tokens are forced
PIECES = ("a", "b", "ab", END, "c", "Ã", "©", "Ã©", "abc", "Ġ", "Ġa", "d")
REGEX = "(ab|cd)*(é| a){2}((c|d)é)+"
CODEC = tiny_codec(PIECES, END)
PROMPT = (4, 5, 1, 4, 5, 2, 7, 4, 5)
# the vocabulary of the table models
SMALL = tiny_codec(("a", "b", END), END)
SMALL_REGEX = "(a|b)(ab|ba|b)*"
SMALL_PROMPT = (0, 1, 1, 0, 1)
LENGTH = 4


@cache
def may_follow(regex, text, longest=8):
    """Return the letters, or "" for the end, that may follow a text of the letters a and b."""
    found = {""} if re.fullmatch(regex, text) else set()
    for letter in "ab":
        rests = (rest for n in range(longest) for rest in itertools.product("ab", repeat=n))
        if any(re.fullmatch(regex, text + letter + "".join(rest)) for rest in rests):
            found.add(letter)
    return frozenset(found)


def masked_probs(logits, text, temperature):
    """Return the probability of each token after a text, with the mask of the grammar."""
    allowed = may_follow(SMALL_REGEX, text)
    weights = {
        token: math.exp(float(logits[token]) / temperature)
        for token, letter in enumerate(("a", "b", ""))
        if letter in allowed
    }
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def masked_distribution(model, temperature):
    """Return the exact distribution of the first LENGTH tokens; a text may end earlier."""
    distribution = {(): 1.0}
    for _ in range(LENGTH):
        longer = {}
        for prefix, mass in distribution.items():
            if prefix[-1:] == (2,):
                longer[prefix] = mass
                continue
            text = "".join("ab"[token] for token in prefix)
            logits = logits_after(model, [*SMALL_PROMPT, *prefix])
            for token, prob in masked_probs(logits, text, temperature).items():
                longer[*prefix, token] = mass * prob
        distribution = longer
    return distribution


@pytest.mark.parametrize(
    "forced", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["forced", "not forced"]
)
@pytest.mark.parametrize("method, kind", SAMPLED)
def test_the_tokens_have_the_joint_distribution_of_the_masked_target(method, kind, forced):
    target, draft = pair_for(method, tiny_model)
    config = config_of(
        method,
        kind,
        draft_length=2,
        max_new_tokens=LENGTH,
        temperature=0.8,
        grammar=SMALL_REGEX,
        draft_forced=forced,
    )
    counts: dict = {}
    parts, grammar = parts_for(target, draft), compiled(SMALL_REGEX, SMALL)
    for seed in range(SAMPLES.get(method.name) or OF_KIND.get(kind, OF_ANY_OTHER)):
        seeded = replace(config, seed=seed)
        drafter = make_drafter(Setup(target, parts, seeded, 300))
        events = speculative.decode(target, drafter, SMALL_PROMPT, seeded, {2}, grammar=grammar)
        ids = tuple(tokens_of(events))
        counts[ids] = counts.get(ids, 0) + 1
    assert deviations(counts, masked_distribution(target, 0.8)) < 4


class MaskedWorld(World):
    """Random models whose target is masked: the third token ends a text, the grammar is real."""

    def __init__(self, seed, depth):
        super().__init__(seed, 3, depth, zeros=False)
        grammar = compiled(SMALL_REGEX, SMALL)
        for prefix, p in self.p.items():
            state = grammar.begin()
            parents = tuple(range(-1, len(prefix) - 1))
            allowed = state.allowed(prefix, parents)[-1:]
            self.p[prefix] = Sampler().distributions(masked(p.log()[None], allowed))[0].double()


RULED = [
    *((rule, shape) for rule in (token_by_token.RULE, traversal.RULE) for shape in BRANCHING),
    *((rule, shape) for rule in (token_by_token.RULE, block.RULE) for shape in CHAINS),
]


@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
@pytest.mark.parametrize("rule, shape", RULED, ids=[f"{r.name} {s}" for r, s in RULED])
def test_every_rule_emits_the_distribution_of_the_masked_target(rule, shape, kind):
    tree = topology((CHAINS | BRANCHING)[shape], CPU)
    world = MaskedWorld(len(shape), tree.height + 1)
    world.rule = rule
    assert worst_error(tree, kind, world) < 1e-6  # the masked p is rounded to float32


def masked_config(method, kind, **changes):
    return config_of(method, kind, grammar=REGEX, **changes)


def run(target, drafter, config, prompt=PROMPT, departure=None):
    grammar = compiled(config.grammar, CODEC)
    return list(
        speculative.decode(target, drafter, prompt, config, CODEC.eos_ids, departure, grammar)
    )


@cache
def baseline(target, seed=0, temperature=0.0):
    config = DecodingConfig(grammar=REGEX, max_new_tokens=24, seed=seed, temperature=temperature)
    grammar = compiled(REGEX, CODEC)
    return list(autoregressive.decode(target, PROMPT, config, CODEC.eos_ids, grammar))


@pytest.mark.parametrize("forced", [False, True], ids=["not forced", "forced"])
@pytest.mark.parametrize("method, kind", VARIANTS)
def test_greedy_text_is_the_text_of_the_masked_baseline(method, kind, forced, target, drafter_for):
    config = masked_config(method, kind, draft_forced=forced)
    events = run(target, drafter_for(config, PROMPT), config)
    assert tokens_of(events) == tokens_of(baseline(target))
    assert events[-1] is baseline(target)[-1]


def test_a_masked_text_matches_the_grammar_once_it_has_ended(target):
    ended = 0
    for seed in range(30):
        *events, finish = baseline(target, seed, 1.0)
        *ids, last = tokens_of(events)
        text = CODEC.decode([*ids, last])
        assert (finish is FinishReason.END_OF_SEQUENCE) == (last in CODEC.eos_ids)
        if finish is FinishReason.END_OF_SEQUENCE:
            assert re.fullmatch(REGEX, text)
            ended += 1
    assert ended > 5


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_forced_tokens_are_accepted_and_the_method_drafts_only_in_other_rounds(
    method, kind, target, drafter_for
):
    seen = 0
    for seed in range(4):
        config = masked_config(method, kind, temperature=1.0, seed=seed, draft_forced=True)
        for each in run(target, drafter_for(config, PROMPT), config):
            if not isinstance(each, Round):
                continue
            counts = [note.count for note in each.notes if isinstance(note, ForcedTokens)]
            assert each.is_forced == bool(counts)
            assert each.is_forced == (each.positions[0].allowed == 1 and bool(each.tree.nodes))
            if each.is_forced:
                assert counts == [len(each.tree.nodes)] == [len(each.accepted)]
                assert [verdict.target_prob for verdict in each.verdicts] == [1.0] * counts[0]
                assert all(position.allowed == 1 for position in each.positions[: counts[0]])
                seen += 1
    assert seen


def test_without_a_grammar_no_position_counts_allowed_tokens(target, drafter_for):
    config = config_of(DRAFTERS["draft-model"], Drawing.INDEPENDENT, draft_forced=True)
    for each in run(target, drafter_for(config, PROMPT), config):
        if isinstance(each, Round):
            assert not each.is_forced
            assert {position.allowed for position in each.positions} == {None}


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_row_of_a_batch_equals_a_single_run(method, kind, temperature, target, parts):
    config = masked_config(method, kind, temperature=temperature, draft_forced=True, seed=3)
    grammar, ends = compiled(REGEX, CODEC), CODEC.eos_ids
    steps = list(batch.decode(*batch_parts(target, parts, config), ends, grammar=grammar))
    for row, setup in enumerate(setups_of(target, parts, config)):
        drafter = make_drafter(setup)
        single = run(target, drafter, setup.config, PROMPTS[row])
        assert tokens_of(events_of(steps, row)) == tokens_of(single)


def test_a_plain_batch_equals_plain_runs(target):
    config = DecodingConfig(grammar=REGEX, max_new_tokens=24, temperature=0.8, seed=5)
    grammar, configs = compiled(REGEX, CODEC), row_configs(config, len(PROMPTS))
    rows = batch_target(target, PROMPTS, config)
    steps = list(batch.decode_baseline(rows, PROMPTS, configs, CODEC.eos_ids, grammar))
    for row, (prompt, each) in enumerate(zip(PROMPTS, configs, strict=True)):
        single = autoregressive.decode(target, prompt, each, CODEC.eos_ids, grammar)
        assert tokens_of(events_of(steps, row)) == tokens_of(single)


@pytest.mark.parametrize(
    "method", [DRAFTERS["draft-model"], DRAFTERS["draft-tree"]], ids=lambda each: each.name
)
def test_captured_steps_follow_the_grammar(method):
    """Both lanes run twice, so that the second run uses the buffers of the first."""
    target, draft = (
        tiny_model(seed, layers, name, kind=CapturedModel)
        for seed, layers, name in ((1, 3, "tiny target"), (2, 1, "tiny draft"))
    )
    expected = tokens_of(baseline(tiny_model(1, 3, "tiny target")))
    config = masked_config(method, method.drawings[0], draft_forced=True)
    setup = Setup(target, parts_for(target, draft), config, cache_capacity(PROMPT, config))
    for _ in range(2):
        assert tokens_of(run(target, make_drafter(setup), config)) == expected
        baseline.cache_clear()
        assert tokens_of(baseline(target)) == expected


# Methods that draft from more than the text, or with inputs that depend on how the text was run.
HISTORY = ("lookahead", "quantised-self", "token-recycling", "medusa")
MEMORYLESS = [each for each in ONE_KIND_EACH if each.values[0].name not in HISTORY]


@pytest.mark.parametrize("method, kind", MEMORYLESS)
def test_a_run_that_departs_in_the_middle_repeats_the_rest(method, kind, target, drafter_for):
    policy = method.length_policies[-1].name
    changes = {"temperature": 0.9, "seed": 3, "draft_forced": True, "length_policy": policy}
    config = masked_config(method, kind, **changes)
    events = run(target, drafter_for(config, PROMPT), config)
    trace = trace_of(events, config)
    for index in range(len(trace.rounds)):
        departure = Departure.of(trace, index, {})
        again = run(target, drafter_for(config, PROMPT), config, departure=departure)
        shapes = [(len(each.tree.nodes), each.emitted_ids) for each in trace.rounds[index:]]
        rounds = (each for each in again if isinstance(each, Round))
        assert [(len(each.tree.nodes), each.emitted_ids) for each in rounds] == shapes


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_the_same_seed_gives_the_same_masked_rounds(method, kind, target, drafter_for):
    config = masked_config(method, kind, temperature=0.9, seed=11, draft_forced=True)
    first, second = (
        [
            without_seconds(each)
            for each in run(target, drafter_for(config, PROMPT), config)
            if isinstance(each, Round)
        ]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("cut", [{"top_k": 1}, {"top_p": 0.01}, {"min_p": 0.99}], ids=str)
def test_the_mask_comes_before_the_sampling_settings(cut, target, drafter_for):
    """Each of these settings keeps only the most probable token, which must be an allowed one."""
    greedy = tokens_of(baseline(target))
    config = masked_config(DRAFTERS["draft-model"], Drawing.INDEPENDENT, temperature=1.0, **cut)
    assert tokens_of(run(target, drafter_for(config, PROMPT), config)) == greedy


def test_a_text_of_which_the_limit_cuts_the_end_is_no_error(target, drafter_for):
    config = masked_config(
        DRAFTERS["draft-model"], Drawing.INDEPENDENT, max_new_tokens=2, draft_forced=True
    )
    events = run(target, drafter_for(config, PROMPT), config)
    assert len(tokens_of(events)) == 2 and events[-1] is FinishReason.LENGTH


def test_a_caller_that_compiles_no_grammar_is_refused(target, drafter_for):
    config = masked_config(DRAFTERS["draft-model"], Drawing.INDEPENDENT)
    events = speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config)
    with pytest.raises(InputError, match="grammar must be empty here"):
        next(events)
    with pytest.raises(InputError, match="grammar must be empty here"):
        next(autoregressive.decode(target, PROMPT, config))


def test_plain_steps_report_the_margin_between_allowed_tokens(target):
    """A forced token has no rival, so its margin is the largest recorded one."""
    margins = [e.margin for e in baseline(target) if isinstance(e, TokenStep)]
    prefill = baseline(target)[0]
    assert isinstance(prefill, Prefill) and prefill.position.allowed > 1
    assert MOST_MARGIN in margins and min(margins) < MOST_MARGIN
