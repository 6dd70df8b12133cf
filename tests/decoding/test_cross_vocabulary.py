"""The tokens of a draft with another vocabulary become the target's, at the stated costs."""

import dataclasses

import pytest
import torch

from specviz.decoding.drafters.cross_vocabulary import METHOD
from specviz.decoding.speculative import SpeculativeRun
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.prompts import held_out_prompt
from specviz.records import Drawing
from tests.decoding.conftest import tiny_model
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
from tests.decoding.tiny_codecs import TAG, tiny_codec


class Permuted:
    """A model whose token i is token order[i] of another model."""

    def __init__(self, model, order):
        self._model, self._order = model, order

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, token_ids, *rest, **options):
        output = self._model.forward(self._order[token_ids], *rest, **options)
        return dataclasses.replace(output, logits=output.logits[..., self._order])


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_that_equals_the_target_is_accepted_to_the_last_node(kind, temperature):
    """Both vocabularies have one byte per token, so re-encoding changes nothing."""
    pieces = ("a", "b", "c", "d", "e")
    model = tiny_model(1, 2, "both", vocab=5)
    parts = parts_of(model, tiny_codec(pieces), tiny_codec(pieces))
    config = config_of(kind, temperature=temperature, top_k=3, max_new_tokens=60)
    for each in rounds_of(model, parts, config, prompt=(0, 1, 2, 3)):
        if each.tree.nodes and (kind is Drawing.INDEPENDENT or temperature == 0):
            assert len(each.accepted) == len(each.tree.nodes)
        (note,) = each.notes if each.tree.nodes else [None]
        assert note is None or (note.shared, note.mass) == (5, pytest.approx(1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_permuted_token_ids_make_no_difference(kind):
    """The draft has the target's tokens under other ids, so it must draft as well as the target."""
    model, order = TableModel(1, vocab=3), torch.tensor([2, 0, 1])
    draft = Permuted(model, order)
    theirs = tiny_codec(tuple("abc"[i] for i in order.tolist()))
    parts = parts_of(draft, tiny_codec(("a", "b", "c")), theirs)
    config = config_of(kind, temperature=0.0 if kind is KINDS[0] else 0.9, max_new_tokens=40)
    for each in rounds_of(model, parts, config, prompt=(0, 1, 2, 2)):
        assert len(each.accepted) == len(each.tree.nodes)


@pytest.mark.parametrize("kind, copies", [(KINDS[0], 2), (KINDS[1], 1)])
def test_only_re_encoding_waits_for_the_device_a_second_time(kind, copies):
    target, draft = tables()
    config = config_of(kind, max_new_tokens=30, temperature=0.8)
    drafter = drafter_of(target, parts_of(draft), config)
    run = SpeculativeRun(target, drafter, PROMPT, config, ())
    run.prefill()
    while run.finish is None:
        before = run.target.transfer.count
        drafted = run.round().notes
        assert run.target.transfer.count - before == (copies if drafted else 1)


def test_re_encoded_tokens_spell_the_text_that_the_draft_wrote():
    bundled = load_pair(pair_named("bundled"), "cpu", "float32", METHOD.needs)
    foreign, ours = bundled.parts.foreign, bundled.codec
    config = config_of(Drawing.CHOSEN, draft_length=6, max_new_tokens=40)
    prompt = tuple(ours.encode(held_out_prompt("story", 2), "story"))
    drafter = drafter_of(bundled.target, bundled.parts, config)
    run = SpeculativeRun(bundled.target, drafter, prompt, config, ())
    run.prefill()
    for _ in range(8):
        each = run.round()
        chain = ours.decode([node.token_id for node in each.tree.nodes])
        text = foreign.codec.decode(drafter._written)
        assert text.startswith(chain) and 1 <= len(each.tree.nodes) <= 6
        (note,) = each.notes
        assert (note.draft_tokens, note.target_tokens) == (6, len(each.tree.nodes))
        assert 0.5 < note.mass <= 1


def test_the_draft_s_end_token_becomes_the_target_s():
    ours, theirs = tiny_codec(("a", TAG)), tiny_codec((TAG, "a"))
    draft = TableModel(2, vocab=2)
    # The draft model always proposes its end token.
    draft.distribution = lambda tokens, layer=-1: torch.tensor([5.0, 0.0])
    config = config_of(Drawing.CHOSEN, max_new_tokens=9)
    rounds = rounds_of(TableModel(1, vocab=2), parts_of(draft, ours, theirs), config, (0, 0))
    assert [node.token_id for node in rounds[0].tree.nodes] == [1]


def test_vocabularies_without_common_tokens_can_only_be_re_encoded():
    target, draft = TableModel(1, vocab=2), TableModel(2, vocab=2)
    parts = parts_of(draft, tiny_codec(("a", "b")), tiny_codec(("c", "d")))
    with pytest.raises(
        InputError,
        match="must share at least one token with target .*, got none: set drawing to chosen",
    ):
        rounds_of(target, parts, config_of(Drawing.INDEPENDENT), (0, 1))
    config = config_of(Drawing.CHOSEN, max_new_tokens=20)
    rounds = rounds_of(target, parts, config, (0, 1))
    assert all(not each.tree.nodes for each in rounds)
