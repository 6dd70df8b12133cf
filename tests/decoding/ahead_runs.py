"""Runs of pre-speculation, and the draft-model runs that they must equal."""

from specviz.decoding import speculative
from specviz.decoding.drafters import pre_speculation
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.target import cache_capacity
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Round

CHAIN, AHEAD = "draft-model", pre_speculation.METHOD.name


def drafter_of(method, target, draft, prompt, **setting):
    config = DecodingConfig(method=method, **setting)
    setup = Setup(target, Parts(draft=draft), config, cache_capacity(prompt, config))
    return config, make_drafter(setup)


def rounds_of(method, target, draft, prompt, end_ids=(), **setting):
    config, drafter = drafter_of(method, target, draft, prompt, **setting)
    events = speculative.decode(target, drafter, prompt, config, end_ids)
    return [event for event in events if isinstance(event, Round)]


def hits(rounds):
    """Return for each round whether its draft was prepared during the round before.

    The first round has no round before it, so its value is false.
    """
    return [round_.notes[0].hit for round_ in rounds if round_.notes]


def assert_same(ahead, chain):
    """Assert that two runs have equal tokens, draws and verdicts.

    Their distributions may differ by rounding.
    """
    assert [each.emitted_ids for each in ahead] == [each.emitted_ids for each in chain]
    for ours, theirs in zip(ahead, chain, strict=True):
        assert [n.token_id for n in ours.tree.nodes] == [n.token_id for n in theirs.tree.nodes]
        assert ours.tree.drawing is theirs.tree.drawing
        for a, b in zip(ours.tree.nodes, theirs.tree.nodes, strict=True):
            assert abs(a.draft_prob - b.draft_prob) < 1e-5
            assert abs(a.draft_score - b.draft_score) < 1e-5
        for a, b in zip(ours.verdicts, theirs.verdicts, strict=True):
            assert a.outcome is b.outcome and a.uniform_draw == b.uniform_draw
            assert abs(a.acceptance_prob - b.acceptance_prob) < 1e-4
