"""A hybrid round copies if the copy's score is high enough; otherwise the draft model drafts."""

from dataclasses import replace

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters.base import HostTransfer, PrefilledPrompt
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.suffix_tree import DraftLimits, SuffixTree
from specviz.errors import InputError
from specviz.models.parts import Parts
from specviz.records import Drawing, HybridChoice, Prefill, Round, SuffixMatch

METHOD = DRAFTERS["hybrid"]
PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
LENGTH, MODEL_LENGTH = 4, 3  # the longest copy, and the longest draft of the model


def setup_of(target, draft, percent, temperature=0.9):
    options = (("least_score", percent), ("model_length", MODEL_LENGTH))
    config = METHOD.usual(LENGTH, options=options, max_new_tokens=60, temperature=temperature)
    return Setup(target, Parts(draft=draft), config, 256)


def best_copy(text, room):
    tree = SuffixTree()
    tree.begin()
    for token_id in text:
        tree.append(token_id)
    return tree.best_path(DraftLimits(min(LENGTH, room)))


def modelled(setup, text, room, round_index):
    """Return the proposal of a new draft-model drafter that has read nothing before."""
    config = replace(setup.config, method="draft-model", draft_length=MODEL_LENGTH, options=())
    drafter = make_drafter(replace(setup, config=config))
    drafter.start(PrefilledPrompt(tuple(text[:-1]), None, None, HostTransfer()))
    return drafter.propose(text, room, round_index)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_each_round_has_the_draft_that_the_score_decides(target, draft, temperature):
    setup = setup_of(target, draft, percent=100, temperature=temperature)
    text, copied, drafted = list(PROMPT), 0, 0
    for event in speculative.decode(target, make_drafter(setup), PROMPT, setup.config):
        if isinstance(event, Prefill):
            text.append(event.extra.token_id)
        if not isinstance(event, Round):
            continue
        room = setup.config.max_new_tokens - (len(text) - len(PROMPT)) - 1
        found, copy = [node.token_id for node in event.tree.nodes], best_copy(text, room)
        if copy.score >= 1:
            copied += 1
            assert found == list(copy.token_ids)
            assert event.tree.drawing is Drawing.CHOSEN
            note, choice = event.notes
            assert isinstance(note, SuffixMatch) and note.score == pytest.approx(copy.score)
            assert choice == HybridChoice(note.score, 1.0)
        elif room:
            drafted += 1
            proposal = modelled(setup, text, room, event.index)
            assert found == proposal.token_ids.tolist()
            assert event.notes == (HybridChoice(pytest.approx(copy.score), 1.0),)
            assert event.tree.drawing is Drawing.INDEPENDENT
        text += event.emitted_ids
    assert copied > 1 and drafted > 1


@pytest.mark.parametrize(("percent", "copies"), [(0, True), (3200, False)])
def test_the_smallest_score_decides_whether_a_run_copies_at_all(target, draft, percent, copies):
    setup = setup_of(target, draft, percent)
    events = speculative.decode(target, make_drafter(setup), PROMPT, setup.config)
    notes = [note for event in events if isinstance(event, Round) for note in event.notes]
    assert any(isinstance(note, SuffixMatch) for note in notes) is copies


def test_both_parts_read_the_prompt_at_the_start_of_a_run(target, draft):
    """The tree of earlier outputs must not count the prompt, which is no output."""
    earlier = SuffixTree()
    setup = replace(setup_of(target, draft, 100, temperature=0.0), earlier=earlier)
    drafter = make_drafter(setup)
    drafter.start(PrefilledPrompt(PROMPT[:-1], None, None, HostTransfer()))
    assert drafter._model._source._cache.length == len(PROMPT) - 1
    assert drafter.propose(PROMPT, LENGTH, 0).token_ids.tolist()
    assert earlier.best_path(DraftLimits(LENGTH)).token_ids == ()


def test_the_model_never_drafts_more_than_k_tokens(target, draft):
    setup = setup_of(target, draft, percent=3200)
    setup = replace(setup, config=replace(setup.config, draft_length=2))
    events = speculative.decode(target, make_drafter(setup), PROMPT, setup.config)
    sizes = {len(event.tree.nodes) for event in events if isinstance(event, Round)}
    assert max(sizes) == 2


def test_a_hybrid_needs_the_memory_of_its_draft_model(target, draft):
    setup = setup_of(target, draft, 100)
    config = replace(setup.config, method="draft-model", draft_length=MODEL_LENGTH, options=())
    alone = replace(setup, config=config)
    assert make_drafter(setup).memory == make_drafter(alone).memory


def test_a_pair_without_a_draft_model_is_refused(target):
    setup = setup_of(target, None, 100)
    with pytest.raises(InputError, match="method hybrid must have a draft model, got none"):
        make_drafter(setup)
