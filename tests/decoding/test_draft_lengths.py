"""However the draft length is chosen, by earlier rounds or by the entropy of q, the text is exact.

Tests enumerate all texts of random models, with the decoder's own policies, stop and rules. One
test shows that a text is biased if the draft length depends on the drawn token.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest
import torch

from specviz.decoding import draft_lengths, speculative
from specviz.decoding.departure import Departure
from specviz.decoding.draft_lengths import (
    GAMMA,
    POLICIES,
    AdaptiveLength,
    EntropyStop,
    draft_length,
)
from specviz.decoding.drafters.base import HostTransfer, PrefilledPrompt
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.static_tree import static_parents
from specviz.decoding.rules import block
from specviz.decoding.sampling import Sampler
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.topology import topology
from specviz.errors import InputError
from specviz.records import DecodingConfig, Drawing, Round
from tests.decoding.batch_runs import PROMPTS, batch_steps, events_of, setups_of, single_run
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.test_batch import story
from tests.decoding.test_every_drafter import (
    PROMPT,
    VARIANTS,
    baseline_text,
    config_of,
    reads,  # noqa: F401
)
from tests.decoding.test_exactness import CPU, World, prefix_of, shape_of, verdicts
from tests.decoding.test_whole_decoder_distribution import (
    LIKE_A_DRAFT_MODEL,
    deviations,
    exact_distribution,
)
from tests.decoding.test_whole_decoder_distribution import PROMPT as TABLE_PROMPT
from tests.decoding.tiny_parts import pair_for, parts_for

ADAPTIVE = {"length_policy": "adaptive"}
# The distributions of the tiny Llamas, of the table models and of the enumerated worlds have
# different entropies. Each of these thresholds stops about half of their drafts.
STOPPED = {"entropy_threshold": 0.42}
STOPPED_TABLE = {"entropy_threshold": 0.565}
STOPPED_WORLD = {"entropy_threshold": 0.68}
CHAIN = DRAFTERS["draft-model"]


def lengths_of(method, kind, **changes):
    """Return a configuration; with an entropy threshold it drafts a chain, which alone can stop."""
    config = config_of(method, kind, **changes)
    return replace(config, branching=()) if config.entropy_threshold else config


def is_allowed(method, kind, changes):
    try:
        method.check(lengths_of(method, kind, **changes))
    except InputError:
        return False
    return True


LENGTHS = [
    pytest.param(*each.values, changes, id=f"{each.id} {name}")
    for name, changes in (
        ("adaptive", ADAPTIVE),
        ("stopped", STOPPED),
        ("both", ADAPTIVE | STOPPED),
    )
    for each in VARIANTS
    if is_allowed(*each.values, changes)
]
STOPPING = [each for each in LENGTHS if "entropy_threshold" in each.values[2]]


@pytest.fixture
def jumpy(monkeypatch):
    """Let the adaptive length follow the last round alone, so that it changes often."""
    monkeypatch.setattr(draft_lengths, "NEWEST", 1.0)


def rounds_of(target, drafter_for, config, prompt=PROMPT):
    events = speculative.decode(target, drafter_for(config, prompt), prompt, config)
    return [event for event in events if isinstance(event, Round)]


def heights(rounds):
    return [max((node.depth for node in each.tree.nodes), default=0) for each in rounds]


# The whole decoder, enumerated


class After:
    """The distributions and the rule of `world` for a text that begins with the tokens `prefix`."""

    def __init__(self, world, prefix):
        self.vocab, self.rule = world.vocab, world.rule
        self.p, self.q = Later(world.p, prefix), Later(world.q, prefix)


class Later:
    def __init__(self, table, prefix):
        self.table, self.prefix = table, prefix

    def __getitem__(self, path):
        return self.table[self.prefix + path]


def drawn_chains(after, config, length):
    """Yield every chain that the drafter can draw, with its probability."""
    stop = EntropyStop.of(config)
    unfinished = [((), 1.0)]
    while unfinished:
        path, weight = unfinished.pop()
        q = after.q[path]
        if len(path) == length or (path and stop is not None and bool(stop.stops(q[None])[0])):
            yield path, weight
            continue
        unfinished += [((*path, x), weight * float(q[x])) for x in range(after.vocab)]


def chosen_tree(after, widths):
    """Return the tokens of a tree of the most probable tokens of q."""
    tokens: list[int] = []
    tree = topology(static_parents(widths), CPU)
    for node, parent in enumerate(shape_of(tree).parents):
        q = after.q[prefix_of(tree, tokens, parent + 1)]
        rank = sum(other == parent for other in shape_of(tree).parents[:node])
        tokens.append(int(q.argsort(descending=True)[rank]))
    return tree, tuple(tokens)


def proposals(after, config, length):
    """Yield every proposal of a round, as (tree, tokens, probability)."""
    if config.branching:
        yield *chosen_tree(after, config.widths[:length]), 1.0
        return
    for tokens, weight in drawn_chains(after, config, length):
        if weight > 0:
            yield topology(tuple(range(-1, len(tokens) - 1)), CPU), tokens, weight


def written(world, config, propose=proposals):
    """Return the distribution of whole texts of `max_new_tokens` tokens."""

    @cache
    def from_here(prefix, rounds):
        room = config.max_new_tokens - len(prefix) - 1
        if room < 0:
            return {prefix: 1.0}
        length = draft_length(config)
        for drafted, accepted in rounds:
            length.add(drafted, accepted)
        after, found = After(world, prefix), {}
        most = min(length.within(room), config.draft_length)
        for tree, tokens, weight in propose(after, config, most):
            extras, paths = after.p[()][None], [(1.0, ())]
            if tokens:
                result, paths = verdicts(tree, config.drawing, after, tokens)
                extras = result.extra_distributions
            height = max(shape_of(tree).depths, default=0)
            for mass, path in paths:
                row = path[-1] + 1 if path else 0
                for extra, share in enumerate(extras[row].tolist()):
                    if share == 0:
                        continue
                    text = (*prefix, *prefix_of(tree, tokens, row), extra)
                    for whole, left in from_here(text, (*rounds, (height, len(path)))).items():
                        found[whole] = found.get(whole, 0.0) + weight * mass * share * left
        return found

    return from_here((), ())


def error(world, config, propose=proposals):
    """Return the largest difference between the probability of a text and the target's."""
    found, worst = written(world, config, propose), 0.0
    for text in itertools.product(range(world.vocab), repeat=config.max_new_tokens):
        expected = 1.0
        for end in range(len(text)):
            expected *= float(world.p[text[:end]][text[end]])
        worst = max(worst, abs(found.get(text, 0.0) - expected))
    return worst


DRAFTS = {
    "chain": DecodingConfig(draft_length=3, drawing=Drawing.INDEPENDENT),
    "chosen chain": DecodingConfig(draft_length=3, branching=(1,), drawing=Drawing.CHOSEN),
    "chosen tree": DecodingConfig(draft_length=3, branching=(2,), drawing=Drawing.CHOSEN),
}


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize(
    "draft, changes",
    [
        *((name, ADAPTIVE) for name in DRAFTS),
        ("chain", STOPPED_WORLD),
        ("chain", ADAPTIVE | STOPPED_WORLD),
    ],
)
def test_whole_texts_have_the_distribution_of_the_target(draft, changes, zeros, jumpy):
    config = replace(DRAFTS[draft], max_new_tokens=4, **changes)
    vocab = 3 if draft == "chosen tree" else 2
    assert error(World(3, vocab, 6, zeros), config) < 1e-9


def test_whole_texts_are_exact_with_the_shipped_average():
    config = replace(DRAFTS["chain"], max_new_tokens=5, draft_length=2, **ADAPTIVE)
    assert error(World(5, 2, 6, False), config) < 1e-9


def test_the_enumerated_worlds_have_chains_of_every_length():
    config = replace(DRAFTS["chain"], **STOPPED_WORLD)
    for zeros in (False, True):
        world = World(3, 2, 6, zeros)
        chains = [
            tokens
            for start in itertools.product((0, 1), repeat=2)
            for tokens, _ in drawn_chains(After(world, start), config, 3)
        ]
        assert set(map(len, chains)) == {1, 2, 3}


@pytest.mark.parametrize("changes", [ADAPTIVE, STOPPED_WORLD], ids=str)
def test_a_judged_block_is_exact_with_every_length(changes, jumpy):
    world = World(3, 2, 6, False)
    world.rule = block.RULE
    assert error(world, replace(DRAFTS["chain"], max_new_tokens=4, **changes)) < 1e-9


def test_a_chain_that_ends_before_an_improbable_drawn_token_is_biased():
    """The chain is drawn first and then cut, so its length depends on the drawn tokens."""

    def picky(after, config, length):
        for tokens, weight in drawn_chains(after, config, length):
            qs = [float(after.q[tokens[:i]][x]) for i, x in enumerate(tokens)]
            kept = next((i for i, q in enumerate(qs) if q < 0.5), len(tokens))
            chain = tokens[:kept]
            yield topology(tuple(range(-1, kept - 1)), CPU), chain, weight

    config = replace(DRAFTS["chain"], max_new_tokens=4)
    assert error(World(3, 2, 6, False), config, picky) > 0.01


# The whole decoder, sampled and greedy


@pytest.mark.parametrize("method, kind, changes", LENGTHS)
def test_greedy_text_is_the_baseline_text(method, kind, changes, target, drafter_for, jumpy):
    config = lengths_of(method, kind, **changes)
    drafter = drafter_for(config, PROMPT)
    found = tokens_of(speculative.decode(target, drafter, PROMPT, config))
    assert found == baseline_text(target, PROMPT)


def is_quick(each):
    method, kind, changes = each.values
    is_first = kind is next(d for d in method.drawings if is_allowed(method, d, changes))
    return is_first and len(changes) == 1 and method.name not in LIKE_A_DRAFT_MODEL


@pytest.mark.parametrize(
    "method, kind, changes",
    [
        each if is_quick(each) else pytest.param(*each.values, id=each.id, marks=pytest.mark.slow)
        for each in LENGTHS
    ],
)
def test_four_tokens_have_the_joint_distribution_of_the_target(method, kind, changes, jumpy):
    target, draft = pair_for(method, tiny_model)
    if "entropy_threshold" in changes:
        changes = changes | STOPPED_TABLE
    config = lengths_of(method, kind, draft_length=3, max_new_tokens=4, temperature=0.8, **changes)
    counts: dict = {}
    for seed in range(250):
        seeded = replace(config, seed=seed)
        drafter = make_drafter(Setup(target, parts_for(target, draft), seeded, 300))
        ids = tuple(tokens_of(speculative.decode(target, drafter, TABLE_PROMPT, seeded)))
        counts[ids] = counts.get(ids, 0) + 1
    assert deviations(counts, exact_distribution(target, Sampler(0.8))) < 4


@pytest.mark.parametrize("method, kind, changes", LENGTHS)
def test_no_run_exceeds_its_token_limit(method, kind, changes, target, drafter_for, jumpy):
    for limit in (1, 2, 7):
        config = lengths_of(method, kind, max_new_tokens=limit, temperature=0.7, **changes)
        drafter = drafter_for(config, PROMPT)
        assert len(tokens_of(speculative.decode(target, drafter, PROMPT, config))) == limit


@pytest.mark.parametrize("method, kind, changes", LENGTHS)
def test_each_row_of_a_batch_equals_its_single_run(method, kind, changes, target, parts, jumpy):
    config = lengths_of(method, kind, temperature=0.8, seed=5, **changes)
    setups = setups_of(target, parts, config)
    steps = batch_steps(target, parts, config)
    for row, (setup, prompt) in enumerate(zip(setups, PROMPTS, strict=True)):
        assert story(events_of(steps, row)) == story(single_run(setup, prompt))


# The adaptive length


def lengths_after(accepted, longest=8):
    """Return the adaptive draft length after each round.

    `accepted` has one number for each round: how many tokens the round accepts at most.

    Each round drafts as many tokens as the adaptive length allows.
    """
    length, found = AdaptiveLength(longest), []
    for most in accepted:
        allowed = length.within(100)
        length.add(allowed, min(most, allowed))
        found.append(length.within(100))
    return found


def test_the_length_rises_to_k_while_everything_is_accepted():
    assert lengths_after([8] * 20)[-1] == 8
    found = lengths_after([0] * 40 + [8] * 40)
    assert found[39] == 1 and found[-1] == 8


def test_the_length_stays_about_one_above_the_accepted_tokens():
    for accepted in range(7):
        assert lengths_after([accepted] * 60)[-1] in (accepted + 1, accepted + 2)


def test_the_length_does_not_swing_between_two_lengths():
    """Without hysteresis, rounds that accept 2 and 3 tokens in turn would change the length."""
    assert len(set(lengths_after([2, 3] * 60)[60:])) == 1


def test_the_length_is_always_from_1_to_k():
    generator = torch.Generator().manual_seed(0)
    accepted = torch.randint(0, 9, (500,), generator=generator).tolist()
    for longest in (1, 2, 5, 8):
        assert set(lengths_after(accepted, longest)) <= set(range(1, longest + 1))


def test_a_round_without_a_draft_says_nothing_about_acceptance():
    length = AdaptiveLength(8)
    for _ in range(50):
        length.add(0, 0)
    assert length.within(100) == AdaptiveLength(8).within(100) == 4


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_drafts_more_than_the_text_has_room_for(name):
    length = draft_length(DecodingConfig(draft_length=8, length_policy=name))
    assert [length.within(room) for room in (0, 1, 3)] == [0, 1, 3]


def test_the_draft_follows_the_accepted_tokens(target, drafter_for, jumpy):
    config = config_of(CHAIN, Drawing.INDEPENDENT, max_new_tokens=60, draft_length=6, **ADAPTIVE)
    rounds = rounds_of(target, drafter_for, config)
    whole = heights(rounds)[:-6]
    expected = AdaptiveLength(6)
    for height, each in zip(whole, rounds, strict=False):
        assert height == expected.within(6)
        expected.add(height, len(each.accepted))
    assert len(set(whole)) > 1


def test_a_fork_goes_on_with_the_length_of_the_run(target, drafter_for, jumpy):
    drawing = Drawing.INDEPENDENT
    config = config_of(CHAIN, drawing, temperature=0.8, max_new_tokens=40, **ADAPTIVE)
    drafter = drafter_for(config, PROMPT)
    prefill, *events = speculative.decode(target, drafter, PROMPT, config)
    rounds = [each for each in events if isinstance(each, Round)]
    assert len(set(heights(rounds))) > 1
    for index in range(1, len(rounds)):
        before = rounds[:index]
        ids = [token for each in before for token in each.emitted_ids]
        lengths = tuple(zip(heights(before), (len(each.accepted) for each in before), strict=True))
        departure = Departure((prefill.extra.token_id, *ids), index, 0.0, lengths)
        drafter = drafter_for(config, PROMPT)
        again = speculative.decode(target, drafter, PROMPT, config, (), departure)
        assert story(again) == story(events[index:])


# The entropy stop


def test_the_bound_falls_with_the_entropy_and_is_1_for_a_certain_draft():
    certain, even = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    bound = 1 - (GAMMA * torch.tensor(2.0).log()).sqrt()
    assert not EntropyStop(0.999).stops(certain)[0]
    assert EntropyStop(float(bound) + 0.01).stops(even)[0]
    assert not EntropyStop(float(bound) - 0.01).stops(even)[0]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_chain_ends_before_the_first_token_whose_bound_is_below_the_threshold(
    temperature, target, parts
):
    free = config_of(CHAIN, Drawing.INDEPENDENT, temperature=temperature, draft_length=6)
    lengths = set()
    for index in range(10):
        start = (*PROMPT, index)
        whole, stopped = (
            drafted(Setup(target, parts, config, 200), start)
            for config in (free, replace(free, **STOPPED))
        )
        ends = EntropyStop(STOPPED["entropy_threshold"]).stops(whole.raw_distributions).tolist()
        length = next((i for i, is_end in enumerate(ends) if i and is_end), 6)
        assert stopped.token_ids.tolist() == whole.token_ids.tolist()[:length]
        assert len(stopped.raw_distributions) == stopped.topology.size == length
        lengths.add(length)
    assert len(lengths) > 1


def drafted(setup, prompt):
    drafter = make_drafter(setup)
    drafter.start(PrefilledPrompt(prompt[:-1], None, None, HostTransfer()))
    return drafter.propose(prompt, 6, 0)


@pytest.mark.parametrize("method, kind, changes", STOPPING)
def test_a_round_reads_once_per_token_after_the_first_and_once_at_its_end(
    method,
    kind,
    changes,
    target,
    drafter_for,
    reads,  # noqa: F811
):
    config = lengths_of(method, kind, temperature=0.8, max_new_tokens=30, **changes)
    run = SpeculativeRun(target, drafter_for(config, PROMPT), PROMPT, config, ())
    run.prefill()
    while run.finish is None:
        before = run.target.transfer.count
        reads.clear()
        nodes = len(run.round().tree.nodes)
        copies = run.target.transfer.count - before
        assert copies <= 1 + nodes
        assert reads == ["tolist"] * copies


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        (
            "draft-model",
            {"length_policy": "x"},
            "length_policy must be one of fixed, adaptive",
        ),
        ("pre-speculation", ADAPTIVE, "length_policy must be fixed for method pre-speculation"),
        ("pre-speculation", STOPPED, "entropy_threshold must be 0 for method pre-speculation"),
        ("prompt-lookup", STOPPED, "entropy_threshold must be 0 for method prompt-lookup"),
        (
            "draft-tree",
            STOPPED,
            "only a chain that is drawn token by token can stop",
        ),
    ],
)
def test_a_setting_that_the_method_cannot_obey_is_refused(method, changes, message):
    entry = DRAFTERS[method]
    with pytest.raises(InputError, match=message):
        entry.check(config_of(entry, entry.drawings[0], **changes))


def test_a_threshold_of_1_is_refused():
    with pytest.raises(InputError, match="entropy_threshold must be at least 0 and below 1, got 1"):
        DecodingConfig(entropy_threshold=1.0)
