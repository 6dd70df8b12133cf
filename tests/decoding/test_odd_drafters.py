"""The text is right even if a drafter outside the registry drafts nothing or drafts badly."""

import pytest
import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.base import Proposal, QuietDrafter
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.prompt_lookup import find_match
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.source import fitted
from specviz.decoding.topology import topology
from specviz.errors import InputError
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, NgramMatch, Round
from tests.decoding.conftest import VOCAB
from tests.decoding.events import tokens_of

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)


@pytest.mark.parametrize("size", [3, 5, 7])
def test_fitted_logits_give_probability_only_to_tokens_of_the_target(size):
    logits = torch.arange(size)[None].float()
    fit = fitted(logits, 5)
    assert fit.shape == (1, 5)
    # Tokens that the draft's vocabulary lacks get no probability.
    assert fit.softmax(-1)[0, size:].sum() == 0
    assert torch.equal(
        fit[:, :size], logits[:, :5]
    )  # logits of tokens that the target lacks are dropped


class OddDrafter(QuietDrafter):
    """A drafter that proposes fixed tokens on a fixed tree and records whether it was closed."""

    parents: tuple[int, ...] = ()

    def __init__(self):
        self.closed = False

    def propose(self, committed, room, round_index):
        tree = topology(self.parents if room >= 2 else (), torch.device("cpu"))
        tokens = torch.tensor([(7 * round_index + 5 * i) % VOCAB for i in range(tree.size)])
        return Proposal(tree, tokens.long())

    def close(self):
        self.closed = True


class Silent(OddDrafter):
    pass


class Nonsense(OddDrafter):
    parents = (-1, -1, 0, 0, 1)


def baseline_text(target, config):
    return tokens_of(autoregressive.decode(target, PROMPT, config))


@pytest.mark.parametrize("drafter", [Silent, Nonsense])
def test_a_useless_drafter_still_gives_the_baseline_text(drafter, target):
    config = DecodingConfig(max_new_tokens=40)
    text = tokens_of(speculative.decode(target, drafter(), PROMPT, config))
    assert text == baseline_text(target, config)


def test_a_silent_drafter_takes_one_round_per_token_and_uses_the_baseline_s_draws(target):
    """Draws of extra tokens depend on the text position only, so even sampled texts are equal."""
    config = DecodingConfig(max_new_tokens=30, temperature=1.0, seed=4)
    events = list(speculative.decode(target, Silent(), PROMPT, config))
    assert sum(isinstance(event, Round) for event in events) == 29
    assert tokens_of(events) == baseline_text(target, config)


def test_a_dropped_run_closes_its_drafter(target):
    drafter = Silent()
    events = speculative.decode(target, drafter, PROMPT, DecodingConfig())
    next(events)
    events.close()
    assert drafter.closed


def test_prompt_lookup_takes_the_longest_and_then_the_most_recent_match():
    assert find_match([1, 2, 3, 1, 2, 4, 1, 2]) == NgramMatch(2, 5)
    assert find_match([5, 1, 2, 7, 9, 2, 8, 1, 2]) == NgramMatch(2, 3)
    assert find_match([1, 2, 3]) is None and find_match([4]) is None
    assert find_match([6, 6, 6]) == NgramMatch(2, 2)


def test_a_match_has_a_length_between_the_shortest_and_the_longest():
    text = [1, 2, 3, 4, 9, 3, 4, 8, 4, 7, 1, 2, 3, 4]
    # Before the last token, which is a 4, the most recent other 4 is at position 8. So the draft
    # starts at position 9.
    assert find_match(text, 1, 1) == NgramMatch(1, 9)
    assert find_match(text, 1, 2) == NgramMatch(2, 7)
    assert find_match(text, 3, 5) == NgramMatch(4, 4)
    assert find_match(text, 5, 5) is None


def test_prompt_lookup_obeys_its_minimal_and_maximal_length(target):
    text = (1, 2, 3, 4, 9, 3, 4, 8, 4, 7, 1, 2, 3, 4)

    def copied(**lengths):
        config = DRAFTERS["prompt-lookup"].usual(5, options=tuple(lengths.items()))
        proposal = make_drafter(Setup(target, Parts(), config, 64)).propose(text, 2, 0)
        return proposal.token_ids.tolist()

    assert copied(shortest_ngram=1, longest_ngram=1) == [7, 1]
    assert copied() == copied(longest_ngram=4) == [9, 3]
    assert copied(shortest_ngram=5, longest_ngram=8) == []


def test_the_longest_ngram_must_not_be_shorter_than_the_shortest(target):
    config = DRAFTERS["prompt-lookup"].usual(5, options=(("shortest_ngram", 4),))
    rule = "longest_ngram must be at least shortest_ngram = 4, got 3"
    with pytest.raises(InputError, match=rule):
        make_drafter(Setup(target, Parts(), config, 64))
