"""A draft with another vocabulary runs only new text, and never more than its context."""

import dataclasses

import pytest
import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.cross_vocabulary import ForeignSource, shared_length
from specviz.models.files.loading import LoadedModel
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.foreign_drafts import (
    KINDS,
    PROMPT,
    config_of,
    drafter_of,
    parts_of,
    rounds_of,
    tables,
)
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_codecs import our_codec, their_codec, tiny_codec


class Counted:
    def __init__(self, model):
        self._model, self.tokens, self.last = model, 0, 0

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, token_ids, position_ids, *rest, **options):
        self.tokens += token_ids.shape[1]
        self.last = max(self.last, int(position_ids.max()))
        return self._model.forward(token_ids, position_ids, *rest, **options)


class Short:
    """A model whose description states a shorter context than the model has."""

    def __init__(self, model, info):
        self._model, self.info = model, info

    def __getattr__(self, name):
        return getattr(self._model, name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_of_earlier_rounds_does_not_change_a_draft(kind):
    """A new drafter in every round proposes the same tokens as one that keeps its state."""
    target, draft = tiny_model(1, 2, "target"), tiny_model(2, 1, "draft")
    config = config_of(kind, temperature=0.9, draft_length=4, max_new_tokens=60)
    parts, openings, compared = parts_of(draft), [], []
    drafter = drafter_of(target, parts, config)
    start, propose = drafter.start, drafter.propose

    def begun(opening):
        openings.append(opening)
        start(opening)

    def drafted(committed, room, index):
        fresh = drafter_of(target, parts, config)
        fresh.start(openings[0])
        ours, anew = propose(committed, room, index), fresh.propose(list(committed), room, index)
        assert ours.token_ids.tolist() == anew.token_ids.tolist()
        if ours.distributions is not None:
            assert torch.allclose(ours.distributions, anew.distributions, atol=1e-4)
        compared.append(ours.topology.size)
        return ours

    drafter.start, drafter.propose = begun, drafted
    list(speculative.decode(target, drafter, PROMPT, config))
    assert sum(compared) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_draft_runs_no_token_twice_while_its_tokens_are_accepted(kind):
    pieces = ("a", "b", "c", "d", "e")
    model = tiny_model(1, 2, "both", vocab=5)
    counted = Counted(model)
    parts = parts_of(counted, tiny_codec(pieces), tiny_codec(pieces))
    config = config_of(kind, draft_length=4, max_new_tokens=51)
    rounds = rounds_of(model, parts, config, prompt=(0, 1, 2, 3))
    assert len(rounds) == 10  # five tokens per round give 50 tokens after the prefill
    # The draft never runs the last token of the last draft, nor the bonus token after it.
    assert counted.tokens == 4 + 50 - 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_the_draft_s_context_loses_its_beginning(kind):
    target, draft = tables()
    draft.info = dataclasses.replace(draft.info, context_length=20)
    counted = Counted(draft)
    config = config_of(kind, max_new_tokens=80)
    drafter = drafter_of(target, parts_of(counted), config)
    text = tokens_of(speculative.decode(target, drafter, PROMPT, config))
    assert text == tokens_of(autoregressive.decode(target, PROMPT, config))
    assert 15 < counted.last < 20


def test_a_text_beyond_the_draft_s_context_is_not_run_again_every_round():
    """When the text exceeds the context, the draft drops a quarter of it.

    Until the text exceeds the context again, the draft uses its cache.
    """
    draft, codec = Counted(TableModel(2, vocab=2)), tiny_codec(("a", "b"))
    info = dataclasses.replace(draft.info, context_length=20)
    source = ForeignSource(LoadedModel(Short(draft, info), codec), codec, 4)
    text = [int(bit) for bit in f"{0x9E3779B97F:040b}"]
    for end in range(1, len(text) + 1):
        source.begin(text[:end])
    assert len(text) < draft.tokens < 4 * len(text)


def test_a_draft_may_follow_an_empty_text():
    source = ForeignSource(LoadedModel(TableModel(1), their_codec(3)), our_codec(3), 2)
    assert source.begin([]).shape == (1, 3)


def test_the_shared_length_ends_at_the_first_difference():
    assert shared_length([], [1]) == 0 == shared_length([2], [1])
    assert shared_length([1, 2], [1, 2, 3]) == 2 == shared_length([1, 2, 3], [1, 2])
