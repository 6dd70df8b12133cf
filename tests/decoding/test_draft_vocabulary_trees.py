"""A tree grown within a draft vocabulary is the same as within the whole vocabulary."""

import pytest
import torch

from specviz.decoding.drafters.dynamic_tree import DynamicTree
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.source import ModelSource
from specviz.decoding.drafters.static_tree import StaticTree
from specviz.decoding.sampling import Sampler
from specviz.decoding.streams import Purpose, RandomStream
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.parts import Parts
from specviz.records import Drawing
from tests.decoding.conftest import tiny_model

PROMPT = (3, 40, 1)
WHOLE = 50
IDS = torch.arange(2, 42, 2)  # the draft vocabulary: 20 of the target's 50 tokens
WARM = Sampler(temperature=0.8, top_k=9)


def drawn(widths, drawing, sampler=WARM):
    return lambda: StaticTree(widths, drawing, sampler, RandomStream(7, Purpose.DRAFT))


SHAPES = {
    "chain": drawn((1, 1, 1), Drawing.INDEPENDENT),
    "greedy chain": drawn((1, 1, 1), Drawing.INDEPENDENT, Sampler(0.0)),
    "siblings": drawn((3, 2), Drawing.WITHOUT_REPLACEMENT),
    "more siblings than tokens": drawn((24,), Drawing.CHOSEN),
    "dynamic tree": lambda: DynamicTree(3, 4, 9, 1.0),
    "dynamic tree of the whole draft vocabulary": lambda: DynamicTree(2, 30, 40, 1.0),
}


@pytest.fixture
def draft():
    """Return a draft model with a draft vocabulary.

    The last row of its output matrix stands for all tokens outside this vocabulary.
    """
    model = tiny_model(3, 2, "draft", vocab=len(IDS) + 1, sharpness=1.0)
    return model.with_vocabulary(DraftVocabulary(IDS, WHOLE))


@pytest.mark.parametrize("name", SHAPES)
def test_a_tree_is_the_same_within_the_draft_vocabulary(name, draft):
    whole = ModelSource(draft, 64, WHOLE)
    part = ModelSource(draft.in_draft_vocabulary(), 64, WHOLE, drafted=draft.drafted)
    expected, found = (SHAPES[name]().grow(each, PROMPT, 10, 0) for each in (whole, part))
    assert torch.equal(found.topology.parents, expected.topology.parents)
    drafted = torch.isin(expected.token_ids, IDS)
    # With more siblings than tokens, the whole vocabulary adds tokens with probability 0.
    assert torch.equal(found.token_ids[drafted], expected.token_ids[drafted])
    assert torch.isin(found.token_ids, IDS).all()
    for q, wanted in zip(distributions(found), distributions(expected), strict=True):
        assert q.shape[-1] == WHOLE
        torch.testing.assert_close(q, wanted)


def test_a_draft_model_drafts_tokens_of_the_target_s_vocabulary(draft):
    config = DRAFTERS["draft-model"].usual(3)
    setup = Setup(tiny_model(1, 2, "target", vocab=WHOLE), Parts(draft=draft), config, 64)
    expected = SHAPES["greedy chain"]().grow(ModelSource(draft, 64, WHOLE), PROMPT, 10, 0)
    found = make_drafter(setup).propose(PROMPT, 10, 0)
    assert torch.equal(found.token_ids, expected.token_ids)


def distributions(proposal):
    both = (proposal.distributions, proposal.raw_distributions)
    return [each for each in both if each is not None]


def test_a_model_without_a_draft_vocabulary_gives_all_logits():
    model = tiny_model(3, 2, "draft")
    assert model.in_draft_vocabulary() is model and model.drafted is None
