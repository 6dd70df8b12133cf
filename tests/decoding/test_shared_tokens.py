"""q is the draft's distribution restricted to shared tokens; a note has their probability."""

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.base import Observation
from specviz.decoding.drafters.cross_vocabulary import LateTransfer, ReencodedText
from specviz.decoding.sampling import Sampler
from specviz.records import Drawing, Round, SharedVocabulary
from tests.decoding.foreign_drafts import PROMPT, VOCAB, config_of, drafter_of, parts_of, tables
from tests.decoding.tiny_codecs import OURS, TAG, THEIRS, our_codec, their_codec


def context_of(committed):
    return ReencodedText(our_codec(VOCAB), their_codec(VOCAB)).token_ids(committed)


def first_proposal(parts, config, committed):
    return drafter_of(tables()[0], parts, config).propose(committed, 9, 0)


def test_q_is_the_draft_s_distribution_restricted_to_shared_tokens():
    draft = tables()[1]
    config = config_of(Drawing.INDEPENDENT, temperature=0.7, draft_length=1)
    proposal = first_proposal(parts_of(draft), config, [0, 1, 0, 1])
    distribution = Sampler(0.7).distributions(draft.distribution(context_of([0, 1, 0, 1]))[None])[0]
    shared = {i: THEIRS.index(piece) for i, piece in enumerate(OURS) if piece in THEIRS}
    shared.pop(OURS.index(TAG))
    mass = sum(float(distribution[j]) for j in shared.values())
    expected = [float(distribution[shared[i]]) / mass if i in shared else 0.0 for i in range(VOCAB)]
    assert proposal.distributions[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert 0.05 < mass < 0.95


def test_restricting_before_top_k_always_leaves_a_distribution():
    """The draft's most probable token is missing in the target's vocabulary."""
    draft = tables()[1]
    favourite = THEIRS.index("e")
    draft.distribution = lambda tokens, layer=-1: (
        9.0 * torch.eye(VOCAB)[favourite] + 0.1 * torch.arange(VOCAB)
    )
    for top_k, top_p in ((1, 1.0), (0, 0.5)):
        config = config_of(Drawing.INDEPENDENT, temperature=1.0, top_k=top_k, top_p=top_p)
        distributions = first_proposal(parts_of(draft), config, [0, 1]).distributions
        assert distributions.sum(-1).tolist() == pytest.approx([1.0] * len(distributions))


def test_the_note_has_the_mass_of_the_shared_tokens():
    target, draft = tables()
    config = config_of(Drawing.INDEPENDENT, draft_length=1, temperature=1.0, max_new_tokens=30)
    shared = torch.tensor([j for j, p in enumerate(THEIRS) if p in OURS and p != TAG])
    committed = list(PROMPT)
    events = speculative.decode(target, drafter_of(target, parts_of(draft), config), PROMPT, config)
    seen = 0
    for event in events:
        if isinstance(event, Round) and event.notes:
            (note,) = event.notes
            raw = draft.distribution(context_of(committed)).softmax(-1)
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
    config = config_of(Drawing.INDEPENDENT, temperature=1.0, draft_length=3)
    drafter = drafter_of(tables()[0], parts_of(draft), config)
    drafted = drafter.propose(committed, 9, 0).token_ids.tolist()
    written = [*context_of(committed), *(THEIRS.index(OURS[token_id]) for token_id in drafted)]
    shared = torch.tensor([j for j, p in enumerate(THEIRS) if p in OURS and p != TAG])
    distributions = [
        draft.distribution(written[:end]).softmax(-1)
        for end in range(-3 + len(written), len(written))
    ]
    masses = [float(distribution[shared].sum()) for distribution in distributions]
    (note,) = drafter.observe(Observation((), (), (0,), None, ())).notes
    assert note.mass == pytest.approx(sum(masses) / 3, abs=1e-5)
    assert max(masses) - min(masses) > 0.01


def test_a_number_sent_with_a_later_copy_arrives():
    late = LateTransfer(torch.device("cpu"))
    late.send(torch.tensor([0.25]))
    assert late.arrived() == 0.25
