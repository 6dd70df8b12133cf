"""Every drafting method of the registry meets the same claims, with every kind of proposal."""

import dataclasses
from functools import cache

import pytest
import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.self_draft import BITS, QUANTISED
from specviz.decoding.speculative import SpeculativeRun
from specviz.errors import InputError, one_of
from specviz.models.parts import Need, Parts
from specviz.records import (
    DecodingConfig,
    Drawing,
    ExtraKind,
    FinishReason,
    Outcome,
    Round,
)
from tests.decoding.events import tokens_of, without_seconds

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
IN_FOUR_BITS = dataclasses.replace(QUANTISED, options=(dataclasses.replace(BITS, default=4),))
VARIANTS = [
    pytest.param(method, kind, id=f"{method.name} {kind.value}")
    for method in DRAFTERS.values()
    for kind in method.drawings
]
# The int4 draft of quantised-self differs from its int8 draft only in the weights, so the tests
# need only one drawing for it.
VARIANTS.append(pytest.param(IN_FOUR_BITS, Drawing.INDEPENDENT, id="quantised-self 4 bits"))
# One drawing per method, for tests whose claim does not depend on it.
ONE_KIND_EACH = [each for each in VARIANTS if each.values[1] is each.values[0].drawings[0]]
# One drawing per method in `make test`; `make slow` runs the others as well.
ONE_KIND_QUICKLY = [
    each
    if each in ONE_KIND_EACH
    else pytest.param(*each.values, id=each.id, marks=pytest.mark.slow)
    for each in VARIANTS
]


def config_of(method, kind, **changes):
    return DecodingConfig(
        method=method.name,
        draft_length=changes.pop("draft_length", 4),
        branching=method.default_branching,
        drawing=kind,
        max_new_tokens=changes.pop("max_new_tokens", 24),
        options=tuple((option.name, option.default) for option in method.options),
        **changes,
    )


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_greedy_text_is_the_baseline_text(method, kind, target, drafter_for):
    assert_baseline_text(method, kind, PROMPT, target, drafter_for)


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
@pytest.mark.parametrize("prompt", [(4,), (1, 1, 1, 1, 1, 1)], ids=["one", "same"])
def test_greedy_text_is_the_baseline_text_after_odd_prompts(
    method, kind, prompt, target, drafter_for
):
    assert_baseline_text(method, kind, prompt, target, drafter_for)


def assert_baseline_text(method, kind, prompt, target, drafter_for):
    config = config_of(method, kind)
    drafter = drafter_for(config, prompt)
    found = tokens_of(speculative.decode(target, drafter, prompt, config))
    assert found == baseline_text(target, prompt)
    assert len(found) == 24


@cache
def baseline_text(target, prompt, end_ids=()):
    """Return the greedy text without drafts, which is the same for every method."""
    config = DecodingConfig(max_new_tokens=24)
    return tokens_of(autoregressive.decode(target, prompt, config, end_ids))


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_the_same_seed_gives_the_same_rounds(method, kind, target, drafter_for):
    config = config_of(method, kind, temperature=0.9, seed=11)

    def rounds():
        drafter = drafter_for(config, PROMPT)
        for event in speculative.decode(target, drafter, PROMPT, config):
            if isinstance(event, Round):
                yield without_seconds(event)

    torch.manual_seed(1)
    first = list(rounds())
    torch.manual_seed(2)  # torch's global seed must not change a run
    assert list(rounds()) == first


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_no_run_exceeds_its_token_limit(method, kind, target, drafter_for):
    for limit in (1, 2, 3, 7):
        config = config_of(method, kind, max_new_tokens=limit, temperature=0.7)
        events = list(speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config))
        assert len(tokens_of(events)) == limit
        assert events[-1] is FinishReason.LENGTH


@pytest.mark.parametrize("method, kind", ONE_KIND_QUICKLY)
def test_an_end_token_inside_an_accepted_path_cuts_the_path(method, kind, target, drafter_for):
    config = config_of(method, kind)
    text = baseline_text(target, PROMPT)
    for end in sorted(set(text)):
        expected = text[: text.index(end) + 1]
        drafter = drafter_for(config, PROMPT)
        events = list(speculative.decode(target, drafter, PROMPT, config, {end}))
        assert tokens_of(events) == expected == baseline_text(target, PROMPT, (end,))
        assert events[-1] is FinishReason.END_OF_SEQUENCE
        for event in events:
            if isinstance(event, Round) and event.extra is None:
                assert event.emitted_ids[-1] == end
                assert end not in event.emitted_ids[:-1]


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_the_numbers_of_a_round_are_consistent(method, kind, target, drafter_for):
    config = config_of(method, kind, temperature=0.8, top_p=0.95)
    context = len(PROMPT) + 1
    drafter = drafter_for(config, PROMPT)
    for event in speculative.decode(target, drafter, PROMPT, config):
        if not isinstance(event, Round):
            continue
        assert event.context_length == context
        context += len(event.emitted_ids)
        path = event.accepted
        assert path == (event.tree.path(path[-1]) if path else ())
        assert event.cache.committed == event.context_length - 1
        assert event.cache.speculative - event.cache.rolled_back == 1 + len(path)
        assert [position.parent for position in event.positions] == [-1, *path]
        for node, verdict in zip(event.tree.nodes, event.verdicts, strict=True):
            accepted = verdict.uniform_draw < verdict.acceptance_prob
            if verdict.outcome is not Outcome.UNREACHED:
                assert accepted == (verdict.outcome is Outcome.ACCEPTED)
            assert node.draft_prob == verdict.draft_prob
        children = event.tree.children(path[-1] if path else -1)
        whole = ExtraKind.BONUS if event.tree.nodes else ExtraKind.PLAIN
        kind_of_extra = ExtraKind.RECOVERED if children else whole
        assert event.extra is not None and event.extra.kind is kind_of_extra


READS = (
    "item",
    "tolist",
    "cpu",
    "numpy",
    "nonzero",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
)


@pytest.fixture
def reads(monkeypatch):
    """Return a list that collects the names of all calls that read a tensor on the host."""
    seen = []

    def counted(name, original):
        def read(tensor, *arguments, **options):
            seen.append(name)
            return original(tensor, *arguments, **options)

        return read

    for name in READS:
        monkeypatch.setattr(torch.Tensor, name, counted(name, getattr(torch.Tensor, name)))
    return seen


@pytest.mark.parametrize("method, kind", VARIANTS)
def test_no_walk_uses_a_draw_twice(method, kind, target, drafter_for):
    """If two siblings shared a draw, the bias would be too small for a sampling test to detect."""
    config = config_of(method, kind, temperature=0.8)
    seen: dict[float, tuple[int, int]] = {}
    events = speculative.decode(target, drafter_for(config, PROMPT), PROMPT, config)
    for each in events:
        if not isinstance(each, Round):
            continue
        for index, (node, verdict) in enumerate(zip(each.tree.nodes, each.verdicts, strict=True)):
            position = each.context_length + node.depth - 1
            place = position, each.tree.children(node.parent).index(index)
            assert seen.setdefault(verdict.uniform_draw, place) == place
    assert seen


@pytest.mark.parametrize("method, kind", ONE_KIND_EACH)
def test_a_round_waits_for_the_device_exactly_once(method, kind, target, drafter_for, reads):
    """Until the context is full, every round makes one counted copy and reads no other tensor."""
    prompt = 11 * PROMPT
    end = target.info.context_length - len(prompt)
    config = config_of(method, kind, temperature=0.8, top_k=6, max_new_tokens=end)
    run = SpeculativeRun(target, drafter_for(config, prompt), prompt, config, ())
    run.prefill()
    while run.finish is None:
        before = run.target.transfer.count
        reads.clear()
        run.round()
        copies = run.target.transfer.count - before
        assert 1 <= copies <= method.host_copies
        assert reads == ["tolist"] * copies


def test_the_counter_of_reads_detects_every_kind_of_read(reads):
    one = torch.ones(1)
    one.item(), one.tolist(), bool(one), int(one), float(one), one.cpu(), one.nonzero()
    assert {"item", "tolist", "__bool__", "__int__", "__float__", "cpu", "nonzero"} <= set(reads)


def test_an_unknown_method_is_refused_by_name(target, drafter_for):
    with pytest.raises(InputError, match="method must be one of draft-model, .*got 'nonsense'"):
        drafter_for(DecodingConfig(method="nonsense"), PROMPT)


@pytest.mark.parametrize("method", [m for m in DRAFTERS.values() if not m.takes_branching])
def test_a_chain_method_refuses_branching(method, drafter_for):
    config = DecodingConfig(method=method.name, branching=(2,), drawing=method.drawings[0])
    with pytest.raises(InputError, match="branching must be empty for method"):
        drafter_for(config, PROMPT)


@pytest.mark.parametrize("method", [m for m in DRAFTERS.values() if m.needs - {Need.LAYERS}])
def test_a_method_says_what_it_needs(method, target):
    titles = "|".join(need.title for need in method.needs)
    with pytest.raises(InputError, match=f"must have an? ({titles}), got none"):
        make_drafter(Setup(target, Parts(), config_of(method, method.drawings[0]), 64))


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=DRAFTERS)
def test_a_method_refuses_kinds_and_options_that_it_does_not_have(method, drafter_for):
    config = config_of(method, method.drawings[0])
    with pytest.raises(InputError, match="options of method .* must be among .*, got 'nonsense'"):
        drafter_for(dataclasses.replace(config, options=(("nonsense", 1),)), PROMPT)
    for option in method.options:
        too_much = ((option.name, option.high + 1),)
        with pytest.raises(InputError, match=f"{option.name} must be {option.rule}, got"):
            drafter_for(dataclasses.replace(config, options=too_much), PROMPT)
    allowed = one_of(drawing.value for drawing in method.drawings)
    for kind in set(Drawing) - set(method.drawings):
        with pytest.raises(InputError, match=f"drawing must be {allowed} for method {method.name}"):
            drafter_for(dataclasses.replace(config, drawing=kind), PROMPT)
