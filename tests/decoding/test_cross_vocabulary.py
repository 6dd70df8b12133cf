"""Drafts of another vocabulary: what is re-encoded, what is shared, and what that costs."""

import dataclasses
from functools import cache

import pytest
import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.base import Observation
from specviz.decoding.drafters.cross_vocabulary import METHOD
from specviz.decoding.drafters.foreign_source import ForeignSource, shared_length
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.reencoded_text import ReencodedText
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.sampling import Sampler
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.transfer import LateTransfer
from specviz.errors import InputError
from specviz.models.catalog import pair_named
from specviz.models.loading import LoadedModel
from specviz.models.pairs import load_pair
from specviz.models.parts import Parts
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig, ProposalKind, Round, SharedVocabulary
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_codecs import OURS, TAG, THEIRS, our_codec, their_codec, tiny_codec

KINDS = (ProposalKind.DETERMINISTIC, ProposalKind.IID)
PROMPT = (0, 1, 4, 0, 2, 1, 8, 9, 10)
VOCAB = 12


def config_of(kind, **changes):
    return DecodingConfig(method=METHOD.name, tree_kind=kind, **changes)


def parts_of(draft, ours=None, theirs=None):
    theirs = theirs or their_codec(draft.info.vocab_size)
    return Parts(foreign=LoadedModel(draft, theirs), codec=ours or our_codec(VOCAB))


def rounds_of(target, parts, config, prompt=PROMPT):
    drafter = make_drafter(Setup(target, parts, config, 400))
    events = speculative.decode(target, drafter, prompt, config)
    return [event for event in events if isinstance(event, Round)]


def tables():
    return TableModel(1, vocab=VOCAB), TableModel(2, vocab=VOCAB)


@cache
def bundled():
    return load_pair(pair_named("bundled"), "cpu", "float32", METHOD.needs)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_that_is_the_target_is_accepted_to_the_leaf(kind, temperature):
    """One byte per token in both vocabularies, so that re-encoding changes nothing."""
    pieces = ("a", "b", "c", "d", "e")
    model = tiny_model(1, 2, "both", vocab=5)
    parts = parts_of(model, tiny_codec(pieces), tiny_codec(pieces))
    config = config_of(kind, temperature=temperature, top_k=3, max_new_tokens=60)
    for each in rounds_of(model, parts, config, prompt=(0, 1, 2, 3)):
        if each.tree.nodes and (kind is ProposalKind.IID or temperature == 0):
            assert len(each.accepted) == len(each.tree.nodes)
        (note,) = each.notes if each.tree.nodes else [None]
        assert note is None or (note.shared, note.mass) == (5, pytest.approx(1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_permuted_ids_make_no_difference(kind):
    """The same tokens under other ids: a draft over them is the draft itself."""
    model, order = TableModel(1, vocab=3), torch.tensor([2, 0, 1])
    draft = Permuted(model, order)
    theirs = tiny_codec(tuple("abc"[i] for i in order.tolist()))
    parts = parts_of(draft, tiny_codec(("a", "b", "c")), theirs)
    config = config_of(kind, temperature=0.0 if kind is KINDS[0] else 0.9, max_new_tokens=40)
    for each in rounds_of(model, parts, config, prompt=(0, 1, 2, 2)):
        assert len(each.accepted) == len(each.tree.nodes)


class Permuted:
    """A model whose token i is token order[i] of another."""

    def __init__(self, model, order):
        self._model, self._order = model, order

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, token_ids, *rest, **options):
        output = self._model.forward(self._order[token_ids], *rest, **options)
        return dataclasses.replace(output, logits=output.logits[..., self._order])


def first_proposal(parts, config, committed):
    drafter = make_drafter(Setup(tables()[0], parts, config, 400))
    return drafter.propose(committed, 9, 0)


def test_q_is_the_drafts_law_restricted_to_shared_tokens_and_renormalised():
    draft = tables()[1]
    config = config_of(ProposalKind.IID, temperature=0.7, draft_length=1)
    proposal = first_proposal(parts_of(draft), config, [0, 1, 0, 1])
    law = Sampler(0.7).laws(draft.law(context_of([0, 1, 0, 1]))[None])[0]
    shared = {i: THEIRS.index(piece) for i, piece in enumerate(OURS) if piece in THEIRS}
    shared.pop(OURS.index(TAG))
    mass = sum(float(law[j]) for j in shared.values())
    expected = [float(law[shared[i]]) / mass if i in shared else 0.0 for i in range(VOCAB)]
    assert proposal.laws[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert 0.05 < mass < 0.95


def context_of(committed):
    return ReencodedText(our_codec(VOCAB), their_codec(VOCAB)).token_ids(committed)


def test_the_note_tells_the_mass_of_the_shared_tokens():
    target, draft = tables()
    config = config_of(ProposalKind.IID, draft_length=1, temperature=1.0, max_new_tokens=30)
    shared = torch.tensor([j for j, p in enumerate(THEIRS) if p in OURS and p != TAG])
    committed = list(PROMPT)
    events = speculative.decode(
        target, make_drafter(Setup(target, parts_of(draft), config, 400)), PROMPT, config
    )
    seen = 0
    for event in events:
        if isinstance(event, Round) and event.notes:
            (note,) = event.notes
            raw = draft.law(context_of(committed)).softmax(-1)
            assert note == SharedVocabulary(
                shared=7,
                target_share=7 / 12,
                draft_share=7 / 12,
                mass=pytest.approx(float(raw[shared].sum()), abs=1e-5),
                draft_tokens=1,
                target_tokens=1,
            )
            seen += 1
        committed += getattr(event, "emitted_ids", ()) or (
            [event.extra.token_id] if hasattr(event, "extra") else []
        )
    assert seen > 10


def test_the_mass_is_the_mean_over_the_whole_chain():
    draft, committed = tables()[1], [0, 1, 0, 1]
    config = config_of(ProposalKind.IID, temperature=1.0, draft_length=3)
    drafter = make_drafter(Setup(tables()[0], parts_of(draft), config, 400))
    drafted = drafter.propose(committed, 9, 0).token_ids.tolist()
    written = [*context_of(committed), *(THEIRS.index(OURS[token_id]) for token_id in drafted)]
    shared = torch.tensor([j for j, p in enumerate(THEIRS) if p in OURS and p != TAG])
    laws = [draft.law(written[:end]).softmax(-1) for end in range(-3 + len(written), len(written))]
    masses = [float(law[shared].sum()) for law in laws]
    (note,) = drafter.observe(Observation((), (), (0,), None, ())).notes
    assert note.mass == pytest.approx(sum(masses) / 3, abs=1e-5)
    assert max(masses) - min(masses) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_of_earlier_rounds_changes_no_draft(kind):
    """A drafter that begins anew in every round proposes the same."""
    target, draft = tiny_model(1, 2, "target"), tiny_model(2, 1, "draft")
    config = config_of(kind, temperature=0.9, draft_length=4, max_new_tokens=60)
    setup = Setup(target, parts_of(draft), config, 400)
    drafter, openings, compared = make_drafter(setup), [], []
    start, propose = drafter.start, drafter.propose

    def begun(opening):
        openings.append(opening)
        start(opening)

    def drafted(committed, room, index):
        fresh = make_drafter(setup)
        fresh.start(openings[0])
        ours, anew = propose(committed, room, index), fresh.propose(list(committed), room, index)
        assert ours.token_ids.tolist() == anew.token_ids.tolist()
        if ours.laws is not None:
            assert torch.allclose(ours.laws, anew.laws, atol=1e-4)
        compared.append(ours.topology.size)
        return ours

    drafter.start, drafter.propose = begun, drafted
    list(speculative.decode(target, drafter, PROMPT, config))
    assert sum(compared) > 20


def test_restricting_before_top_k_always_leaves_a_law():
    """The draft's favourite is a token that the target lacks."""
    draft = tables()[1]
    favourite = THEIRS.index("e")
    draft.law = lambda tokens, layer=-1: (
        9.0 * torch.eye(VOCAB)[favourite] + 0.1 * torch.arange(VOCAB)
    )
    for top_k, top_p in ((1, 1.0), (0, 0.5)):
        config = config_of(ProposalKind.IID, temperature=1.0, top_k=top_k, top_p=top_p)
        laws = first_proposal(parts_of(draft), config, [0, 1]).laws
        assert laws.sum(-1).tolist() == pytest.approx([1.0] * len(laws))


@pytest.mark.parametrize("kind, copies", [(KINDS[0], 2), (KINDS[1], 1)])
def test_only_re_encoding_waits_a_second_time(kind, copies):
    target, draft = tables()
    config = config_of(kind, max_new_tokens=30, temperature=0.8)
    drafter = make_drafter(Setup(target, parts_of(draft), config, 400))
    run = SpeculativeRun(target, drafter, PROMPT, config, ())
    run.prefill()
    while run.finish is None:
        before = run.target.transfer.count
        drafted = run.round().notes
        assert run.target.transfer.count - before == (copies if drafted else 1)


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_the_drafts_context_loses_its_beginning(kind):
    target, draft = tables()
    draft.info = dataclasses.replace(draft.info, context_length=20)
    counted = Counted(draft)
    config = config_of(kind, max_new_tokens=80)
    drafter = make_drafter(Setup(target, parts_of(counted), config, 400))
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


class Short:
    """A model of another description."""

    def __init__(self, model, info):
        self._model, self.info = model, info

    def __getattr__(self, name):
        return getattr(self._model, name)


def test_re_encoded_tokens_spell_what_the_draft_wrote():
    foreign, ours = bundled().parts.foreign, bundled().codec
    config = config_of(ProposalKind.DETERMINISTIC, draft_length=6, max_new_tokens=40)
    prompt = tuple(ours.encode(held_out_prompt("story", 2), "story"))
    drafter = make_drafter(Setup(bundled().target, bundled().parts, config, 400))
    run = SpeculativeRun(bundled().target, drafter, prompt, config, ())
    run.prefill()
    for _ in range(8):
        each = run.round()
        chain = ours.decode([node.token_id for node in each.tree.nodes])
        text = foreign.codec.decode(drafter._written)
        assert text.startswith(chain) and 1 <= len(each.tree.nodes) <= 6
        (note,) = each.notes
        assert (note.draft_tokens, note.target_tokens) == (6, len(each.tree.nodes))
        assert 0.5 < note.mass <= 1


def test_the_drafts_end_token_becomes_the_targets():
    ours, theirs = tiny_codec(("a", TAG)), tiny_codec((TAG, "a"))
    draft = TableModel(2, vocab=2)
    draft.law = lambda tokens, layer=-1: torch.tensor([5.0, 0.0])  # always the control token
    config = config_of(ProposalKind.DETERMINISTIC, max_new_tokens=9)
    rounds = rounds_of(TableModel(1, vocab=2), parts_of(draft, ours, theirs), config, (0, 0))
    assert [node.token_id for node in rounds[0].tree.nodes] == [1]


def test_vocabularies_that_share_nothing_can_only_be_re_encoded():
    target, draft = TableModel(1, vocab=2), TableModel(2, vocab=2)
    parts = parts_of(draft, tiny_codec(("a", "b")), tiny_codec(("c", "d")))
    with pytest.raises(InputError, match="must share a token with target .*, got none: choose"):
        rounds_of(target, parts, config_of(ProposalKind.IID), (0, 1))
    config = config_of(ProposalKind.DETERMINISTIC, max_new_tokens=20)
    rounds = rounds_of(target, parts, config, (0, 1))
    assert all(not each.tree.nodes for each in rounds)


def test_an_empty_text_can_be_drafted_behind():
    source = ForeignSource(LoadedModel(TableModel(1), their_codec(3)), our_codec(3), 2)
    assert source.begin([]).shape == (1, 3)


def test_sequences_are_alike_up_to_their_first_difference():
    assert shared_length([], [1]) == 0 == shared_length([2], [1])
    assert shared_length([1, 2], [1, 2, 3]) == 2 == shared_length([1, 2, 3], [1, 2])


def test_a_late_number_is_there_behind_the_next_copy():
    late = LateTransfer(torch.device("cpu"))
    late.send(torch.tensor([0.25]))
    assert late.arrived() == 0.25
