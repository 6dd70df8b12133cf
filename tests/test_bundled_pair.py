"""The shipped pair, on its held-out prompts: the same text as the baseline and as transformers.

Float32, because a forward over several tokens rounds otherwise than one over a single token, and
a near tie may then flip.
"""

from dataclasses import replace
from functools import cache

import pytest

from specviz.decoding import autoregressive, speculative, verification
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.target import cache_capacity
from specviz.experiments.benchmark.peers import LibraryPeer
from specviz.experiments.run.losslessness import measure_losslessness
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import TASKS, held_out_prompt
from specviz.records import DecodingConfig, ProposalKind
from tests.decoding.events import tokens_of

LENGTH = 16  # tokens per prompt: hundreds of rounds of every method in `make slow`
PROMPTS = [(task, number) for number in range(1, 11) for task in TASKS]  # all that are held out
MANY = pytest.mark.parametrize(
    "prompts",
    [PROMPTS[:2], pytest.param(PROMPTS, marks=pytest.mark.slow)],
    ids=["on two held-out prompts", "on 50 held-out prompts"],
)


WITH_DRAFT = frozenset({Need.DRAFT})


@cache
def loaded(needs=frozenset()):
    return load_pair(pair_named("bundled"), "cpu", "float32", needs)


@cache
def prompt_ids(task, number):
    return tuple(loaded().codec.encode(held_out_prompt(task, number), task))


@cache
def baseline(task, number):
    config = DecodingConfig(max_new_tokens=LENGTH)
    ids = prompt_ids(task, number)
    return tokens_of(autoregressive.decode(loaded().target, ids, config, loaded().codec.eos_ids))


def differences(decode, prompts):
    return [prompt for prompt in prompts if decode(*prompt) != baseline(*prompt)]


@MANY
@pytest.mark.parametrize("method", DRAFTERS.values(), ids=DRAFTERS)
def test_greedy_text_equals_the_baseline(method, prompts):
    config = DecodingConfig(
        method=method.name,
        branching=method.default_branching,
        tree_kind=method.kinds[0],
        max_new_tokens=LENGTH,
    )

    def speculate(task, number):
        ids = prompt_ids(task, number)
        able = loaded(method.needs)
        setup = Setup(able.target, able.parts, config, cache_capacity(ids, config))
        ends = loaded().codec.eos_ids
        return tokens_of(speculative.decode(setup.target, make_drafter(setup), ids, config, ends))

    assert differences(speculate, prompts) == []


@MANY
def test_the_baseline_equals_generate_of_transformers(prompts):
    peer = LibraryPeer(pair_named("bundled"), "cpu", "float32")

    def generate(task, number):
        return peer.generate(prompt_ids(task, number), LENGTH)

    assert differences(generate, prompts) == []


# Both tests below measure the same tree behind the same context, so that the second is the power of
# the first: 120 pairs of tokens, where a draw of the draft is as good as the target's in 30 of 100
# cases. Simulated from the exact distributions, a rule that resamples from p instead of the
# residual (total variation 0.49) was noticed in 1,000 of 1,000 measurements, and an exact one was
# called biased in 12 of 3,000. The seed is fixed, so a test that passes goes on passing.
SAMPLES, CONTEXT_LENGTH = 120, 16
MANY_SAMPLES = 200  # behind each of several contexts
TELLING = 6  # the number of the prompt
SIBLINGS = DecodingConfig(
    method="draft-tree",
    draft_length=2,
    branching=(4,),
    tree_kind=ProposalKind.WITHOUT_REPLACEMENT,
    temperature=1.0,
)


def measured(config, tasks, samples):
    contexts = [prompt_ids(task, TELLING)[:CONTEXT_LENGTH] for task in tasks]
    return measure_losslessness(loaded(WITH_DRAFT), config, contexts, samples * len(tasks))


def test_total_variation_is_at_its_noise_floor():
    found = measured(SIBLINGS, ["translate"], SAMPLES)
    assert found.verdict == "lossless", found


def test_the_measurement_notices_a_biased_rule(monkeypatch):
    """Resampling rejected tokens from p instead of the residual."""
    monkeypatch.setattr(verification, "residual", lambda p, q: p)
    assert measured(SIBLINGS, ["translate"], SAMPLES).verdict == "biased"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="without replacement"),
        pytest.param({"tree_kind": ProposalKind.IID, "temperature": 0.7}, id="IID"),
        pytest.param({"tree_kind": ProposalKind.DETERMINISTIC, "top_p": 0.9}, id="best"),
    ],
)
def test_total_variation_is_at_its_noise_floor_behind_every_task(changes):
    found = measured(replace(SIBLINGS, **changes), TASKS, MANY_SAMPLES)
    assert found.verdict == "lossless", found
