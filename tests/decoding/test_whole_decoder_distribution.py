"""Thousands of sampled runs have the target's distribution, although target and draft disagree.

`test_exactness` proves the functions `accept` and `walk` of the rules by enumeration. These tests
cover everything around them: which distributions the rule receives, which rows and slots it reads,
and whether two nodes share a draw by mistake. If two depths share a draw, the result is off by 7 to
10 standard deviations. If siblings share one, it is off by 3 at most, so `test_every_drafter`
checks the draws themselves.
"""

import math
from dataclasses import replace

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.sampling import Sampler
from specviz.models.parts import Need, Parts
from specviz.records import (
    DecodingConfig,
    Drawing,
    ExtraKind,
    Outcome,
    Prefill,
    Round,
    SuffixMatch,
)
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.table_eagle import NarrowTableEagle
from tests.decoding.table_model import TableModel
from tests.decoding.test_every_drafter import ONE_KIND_EACH, VARIANTS, config_of
from tests.decoding.tiny_parts import pair_for, parts_for

PROMPT = (0, 2, 1, 0, 2)
UNREPEATED = (0, 2, 1)  # a prompt after which a hybrid method has nothing to copy
LENGTH = 4

# Number of samples for each method or kind of proposal. With a limit of 4 standard deviations, a
# correct decoder fails in one of 30,000 settings of the test. The effect of an error is Cohen's w,
# the root of chi-square per sample. These samples find an error with a probability of 98 %:
#
# - 800 samples an effect of 0.28
# - 500 samples an effect of 0.36
# - 250 samples an effect of 0.51
#
# Drawing recovered tokens from p instead of the residual has an effect of 0.28 for the chain, 0.38
# for siblings without replacement and 0.6 for independent siblings. A tree of point masses has no
# residual. With the other methods, q differs much between positions. Using the q of another
# position therefore gives 9 standard deviations after 250 samples.
SAMPLES = {"draft-model": 800}
OF_KIND = {Drawing.WITHOUT_REPLACEMENT: 500}
OF_ANY_OTHER = 250
# Only verification and the static tree depend on the proposal kind. So the plain tree is sampled
# with every kind, and each other method with one kind; `make slow` samples all combinations. It
# also samples methods whose rounds are like those of a draft model: one has other weights, one
# drafts ahead, which changes no round (test_pre_speculation).
LIKE_A_DRAFT_MODEL = ("quantised-self", "pre-speculation")


def is_quick(variant):
    method = variant.values[0].name
    return method == "draft-tree" or (variant in ONE_KIND_EACH and method not in LIKE_A_DRAFT_MODEL)


SAMPLED = [
    each if is_quick(each) else pytest.param(*each.values, id=each.id, marks=pytest.mark.slow)
    for each in VARIANTS
]


def logits_after(model, tokens):
    """Return the logits of a model after the tokens, one for each token of the vocabulary."""
    ids, positions = torch.tensor([tokens]), torch.arange(len(tokens))[None]
    return model.forward(ids, positions, model.new_cache(len(tokens)), last_only=True).logits[0, 0]


def exact_distribution(model, sampler):
    """Return the exact distribution of the LENGTH tokens after the prompt."""
    distribution = {(): 1.0}
    for _ in range(LENGTH):
        distribution = {
            (*prefix, token): mass * prob
            for prefix, mass in distribution.items()
            for token, prob in enumerate(
                sampler.distributions(logits_after(model, [*PROMPT, *prefix])[None])[0].tolist()
            )
        }
    return distribution


def deviations(counts, distribution):
    """Return by how many standard deviations chi-square is above its mean (Wilson-Hilferty)."""
    samples = sum(counts.values())
    expected = {ids: samples * mass for ids, mass in distribution.items()}
    assert all(expected[ids] > 0 for ids in counts), "a text that the target cannot write"
    common = [ids for ids, mass in expected.items() if mass >= 5]
    cells = [(counts.get(ids, 0), expected[ids]) for ids in common]
    rest = samples - sum(mass for _, mass in cells)
    if rest > 1e-6:
        cells.append((samples - sum(count for count, _ in cells), rest))
    chi_square = sum((count - mass) ** 2 / mass for count, mass in cells)
    spread = 2 / (9 * (len(cells) - 1))
    return ((chi_square / (len(cells) - 1)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param({"top_p": 0.9}, id="p .9"),
        pytest.param({"min_p": 0.2}, id="min .2", marks=pytest.mark.slow),
        pytest.param({}, id="all", marks=pytest.mark.slow),
        pytest.param({"top_k": 2, "top_p": 0.8}, id="k 2, p .8", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("method, kind", SAMPLED)
def test_four_tokens_have_the_joint_distribution_of_the_target(method, kind, cut):
    assert sampled_deviations(method, kind, cut) < 4


def test_min_p_cuts_the_target_and_the_draft_in_the_same_way():
    """Siblings without replacement are the kind that most often draws tokens that min-p removes.

    `make slow` runs the other kinds of proposal.
    """
    kind = Drawing.WITHOUT_REPLACEMENT
    assert sampled_deviations(DRAFTERS["draft-tree"], kind, {"min_p": 0.2}) < 4


@pytest.mark.parametrize("kind", DRAFTERS["eagle"].drawings, ids=lambda kind: kind.value)
def test_a_token_that_the_head_never_drafts_keeps_its_probability(kind):
    """A level of the tree can ask for more siblings than the head has tokens to draft."""
    target, table = pair_for(DRAFTERS["eagle"], tiny_model)
    parts = Parts(eagle=NarrowTableEagle(target, table))
    assert sampled_deviations(DRAFTERS["eagle"], kind, {}, parts) < 4


def sampled_deviations(method, kind, cut, parts=None):
    """Return by how many standard deviations sampled texts differ from the target's texts."""
    target, draft = pair_for(method, tiny_model)
    config = config_of(
        method,
        kind,
        draft_length=2,
        max_new_tokens=LENGTH,
        temperature=0.8,
        **cut,
    )
    counts: dict = {}
    parts = parts or parts_for(target, draft)
    for seed in range(SAMPLES.get(method.name) or OF_KIND.get(kind, OF_ANY_OTHER)):
        seeded = replace(config, seed=seed)
        drafter = make_drafter(Setup(target, parts, seeded, 300))
        ids = tuple(tokens_of(speculative.decode(target, drafter, PROMPT, seeded)))
        counts[ids] = counts.get(ids, 0) + 1
    return deviations(counts, exact_distribution(target, Sampler(0.8, **cut)))


def rounds_of(target, draft, config, prompt=PROMPT):
    drafter = make_drafter(Setup(target, parts_for(target, draft), config, 500))
    events = speculative.decode(target, drafter, prompt, config)
    return [event for event in events if isinstance(event, Round)]


def is_copied(round_):
    """Return whether a hybrid method copied the draft instead of asking the draft model."""
    return any(isinstance(note, SuffixMatch) for note in round_.notes)


WITH_DRAFT = [variant for variant in VARIANTS if variant.values[0].needs == {Need.DRAFT}]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("method, kind", WITH_DRAFT)
@pytest.mark.parametrize("models", ["table", "llama"])
def test_a_draft_that_equals_the_target_is_accepted_to_the_last_node(
    models, method, kind, temperature
):
    """Wrong slots, positions, masks or distributions of the draft would lower acceptance."""
    model = TableModel(1) if models == "table" else tiny_model(1, 2, "both")
    config = config_of(method, kind, temperature=temperature, top_p=0.9, max_new_tokens=60)
    is_drawn = temperature > 0 and kind.is_drawn
    for each in rounds_of(model, model, config):
        if not each.tree.nodes or is_copied(each):
            continue
        if is_drawn or temperature == 0:
            assert each.tree.children(each.extra.parent) == () != each.accepted
        first = each.verdicts[each.tree.children(-1)[0]]
        if is_drawn:
            assert first.acceptance_prob == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("method, kind", WITH_DRAFT)
def test_tokens_are_drawn_from_the_recorded_q(method, kind):
    """Over many seeds, the shares of first siblings equal the recorded draft probabilities."""
    if not kind.is_drawn:
        draft = TableModel(2)
        config = config_of(method, kind, temperature=0.7, max_new_tokens=6)
        for each in rounds_of(TableModel(1), draft, config)[:1]:
            children = [each.tree.nodes[i] for i in each.tree.children(-1)]
            scores = [child.draft_score for child in children]
            assert scores == sorted(scores, reverse=True) and children[0].draft_prob == 1
        return
    target, draft = TableModel(1), TableModel(2)
    expected: dict = {}
    counts: dict = {}
    # Enough samples to find an error of 0.13 in a probability, with a certainty of 99.9 %.
    samples = 800
    for seed in range(samples):
        config = config_of(method, kind, temperature=0.7, top_k=2, max_new_tokens=6, seed=seed)
        drafter = make_drafter(Setup(target, Parts(draft=draft), config, 64))
        proposal = drafter.propose([*UNREPEATED], 2, 0)
        token = int(proposal.token_ids[0])
        counts[token] = counts.get(token, 0) + 1
        expected = dict(enumerate(proposal.distributions[0].tolist()))
    assert expected == pytest.approx(
        dict(
            enumerate(
                Sampler(0.7, 2)
                .distributions(draft.distribution(list(UNREPEATED))[None])[0]
                .tolist()
            )
        )
    )
    for token, prob in expected.items():
        deviation = math.sqrt(samples * prob * (1 - prob)) + 1e-9
        assert abs(counts.get(token, 0) - samples * prob) < 4 * deviation


def test_siblings_and_cousins_use_different_draws():
    """Two independent draws from one distribution are equal with probability sum q^2.

    The test compares siblings, and cousins that have the same distribution.
    """
    config = config_of(DRAFTERS["draft-tree"], Drawing.INDEPENDENT, draft_length=2, temperature=1.0)
    draft = TableModel(2, vocab=6)
    alike, expected, spread = 0, 0.0, 0.0
    for seed in range(300):
        setting = replace(config, branching=(2, 1), seed=seed)
        setup = Setup(TableModel(1, vocab=6), Parts(draft=draft), setting, 64)
        proposal = make_drafter(setup).propose(PROMPT, 2, 0)
        first, second, *children = proposal.token_ids.tolist()
        alike += first == second
        share = float(proposal.distributions[0].square().sum())
        expected, spread = expected + share, spread + share * (1 - share)
        if first == second:  # equal nodes have children with the same distribution
            alike += children[0] == children[1]
            share = float(proposal.distributions[1].square().sum())
            expected, spread = expected + share, spread + share * (1 - share)
    assert abs(alike - expected) < 4 * math.sqrt(spread)


@pytest.mark.parametrize("method, kind", WITH_DRAFT)
def test_every_round_uses_new_draws(method, kind):
    """The same text in another round gives other draws, unless the proposal needs no draws."""
    differ, target, draft = 0, TableModel(1), TableModel(2)
    for seed in range(30):
        config = config_of(method, kind, temperature=1.0, seed=seed)
        setup = Setup(target, Parts(draft=draft), config, 256)
        first, second = (
            make_drafter(setup).propose(UNREPEATED, 4, index).token_ids.tolist() for index in (0, 1)
        )
        differ += first != second
    assert differ > 20 if kind.is_drawn else differ == 0


def test_siblings_without_replacement_differ_while_tokens_with_mass_remain():
    config = DecodingConfig(
        method="draft-tree", draft_length=1, branching=(3,), temperature=1.0, max_new_tokens=12,
        drawing=DRAFTERS["draft-tree"].drawings[1],
    )  # fmt: skip
    for each in rounds_of(TableModel(1), TableModel(2), config):
        tokens = [node.token_id for node in each.tree.nodes]
        assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_recovered_tokens_are_drawn_from_the_shown_residual(method, kind):
    config = config_of(method, kind, temperature=0.8, max_new_tokens=120, seed=3)
    # With only two siblings per level, all siblings of a level are often rejected.
    config = replace(config, branching=config.branching[:1] and (2,))
    recovered, least = 0, 1.0
    for each in rounds_of(*pair_for(method, tiny_model), config):
        least = min([least, *(verdict.acceptance_prob for verdict in each.verdicts)])
        if each.extra is None or each.extra.kind is not ExtraKind.RECOVERED:
            continue
        recovered += 1
        position = each.positions[-1]
        shown = dict(zip(position.token_ids, position.residual_probs, strict=True))
        assert shown[each.extra.token_id] == pytest.approx(each.extra.prob, abs=1e-6)
        assert sum(position.residual_probs) == pytest.approx(1, abs=1e-5)
        failed = each.tree.children(position.parent)[-1]
        assert each.verdicts[failed].outcome is Outcome.REJECTED
        # The residual is 0 at a rejected token: q >= p there, or the draft is a point mass.
        assert shown[each.tree.nodes[failed].token_id] == 0
    # A run without a recovered token is allowed only if the draft is nearly as good as the target.
    assert recovered > 0 or least > 0.9


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_a_row_with_a_bonus_token_shows_no_residual(method, kind):
    model, _ = pair_for(method, tiny_model)
    config = config_of(method, kind, temperature=0.8, max_new_tokens=60)
    for each in rounds_of(model, model, config):
        if each.extra is not None and each.extra.kind is ExtraKind.BONUS:
            assert each.positions[-1].residual_probs == ()


def test_the_first_token_is_drawn_from_the_target():
    # With a certainty of 99.9 %, 800 samples find an error of 0.13 in a probability, as in the test
    # of the recorded q.
    model, counts, samples = TableModel(1), [0, 0, 0], 800
    for seed in range(samples):
        config = DecodingConfig(
            method="prompt-lookup",
            drawing=Drawing.CHOSEN,
            max_new_tokens=1,
            temperature=1.0,
            seed=seed,
        )
        drafter = make_drafter(Setup(model, Parts(), config, 64))
        first = next(iter(speculative.decode(model, drafter, PROMPT, config)))
        assert isinstance(first, Prefill)
        counts[first.extra.token_id] += 1
    for count, prob in zip(
        counts, model.distribution(list(PROMPT)).softmax(-1).tolist(), strict=True
    ):
        assert abs(count - samples * prob) < 4 * math.sqrt(samples * prob * (1 - prob))


@pytest.mark.parametrize("kind", DRAFTERS["draft-tree"].drawings)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_tree_may_have_more_children_per_node_than_the_vocabulary_has_tokens(kind, temperature):
    config = config_of(DRAFTERS["draft-tree"], kind, temperature=temperature)
    target, draft = TableModel(1, vocab=2), TableModel(2, vocab=2)
    assert sum(len(each.accepted) for each in rounds_of(target, draft, config, (0, 1))) > 0
