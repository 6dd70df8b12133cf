"""A draft of another vocabulary runs what is new of its text, and no more than it can hold."""

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
    """A model that counts the tokens it runs."""

    def __init__(self, model):
        self._model, self.tokens, self.last = model, 0, 0

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, token_ids, position_ids, *rest, **options):
        self.tokens += token_ids.shape[1]
        self.last = max(self.last, int(position_ids.max()))
        return self._model.forward(token_ids, position_ids, *rest, **options)


class Short:
    """A model of another description."""

    def __init__(self, model, info):
        self._model, self.info = model, info

    def __getattr__(self, name):
        return getattr(self._model, name)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_of_earlier_rounds_changes_no_draft(kind):
    """A drafter that begins anew in every round proposes the same."""
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
def test_the_draft_runs_no_text_twice_while_its_tokens_are_accepted(kind):
    pieces = ("a", "b", "c", "d", "e")
    model = tiny_model(1, 2, "both", vocab=5)
    counted = Counted(model)
    parts = parts_of(counted, tiny_codec(pieces), tiny_codec(pieces))
    config = config_of(kind, draft_length=4, max_new_tokens=51)
    rounds = rounds_of(model, parts, config, prompt=(0, 1, 2, 3))
    assert len(rounds) == 10  # 5 tokens each
    assert counted.tokens == 4 + 50 - 1  # the last drafted token and the last bonus never run


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_the_drafts_context_loses_its_beginning(kind):
    target, draft = tables()
    draft.info = dataclasses.replace(draft.info, context_length=20)
    counted = Counted(draft)
    config = config_of(kind, max_new_tokens=80)
    drafter = drafter_of(target, parts_of(counted), config)
    text = tokens_of(speculative.decode(target, drafter, PROMPT, config))
    assert text == tokens_of(autoregressive.decode(target, PROMPT, config))
    assert 15 < counted.last < 20


def test_a_text_that_slides_out_of_the_drafts_context_is_not_run_anew_every_time():
    """It loses a quarter at a time, so the rest stays in its cache meanwhile."""
    draft, codec = Counted(TableModel(2, vocab=2)), tiny_codec(("a", "b"))
    info = dataclasses.replace(draft.info, context_length=20)
    source = ForeignSource(LoadedModel(Short(draft, info), codec), codec, 4)
    text = [int(bit) for bit in f"{0x9E3779B97F:040b}"]
    for end in range(1, len(text) + 1):
        source.begin(text[:end])
    assert len(text) < draft.tokens < 4 * len(text)


def test_an_empty_text_can_be_drafted_behind():
    source = ForeignSource(LoadedModel(TableModel(1), their_codec(3)), our_codec(3), 2)
    assert source.begin([]).shape == (1, 3)


def test_sequences_are_alike_up_to_their_first_difference():
    assert shared_length([], [1]) == 0 == shared_length([2], [1])
    assert shared_length([1, 2], [1, 2, 3]) == 2 == shared_length([1, 2, 3], [1, 2])
