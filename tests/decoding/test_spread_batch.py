"""If a model is on several devices, every row of a batch has its own cache and forward."""

import pytest

from specviz.decoding.batch_target import RaggedTarget, SeparateRows, batch_target
from specviz.decoding.drafters.registry import DRAFTERS, make_row_drafters
from specviz.decoding.drafters.row_drafters import RowDrafters
from specviz.decoding.drafters.static_rows import StaticRows
from specviz.models.library_model import LibraryModel, SpreadModel
from specviz.models.parts import Need, Parts
from specviz.records import DecodingConfig
from tests.decoding.batch_runs import (
    PROMPTS,
    baseline_steps,
    batch_steps,
    events_of,
    setups_of,
    single_run,
)
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.test_batch import story
from tests.decoding.test_every_drafter import ONE_KIND_EACH, VARIANTS, config_of
from tests.decoding.tiny_parts import parts_for

ABLE = [each for each in ONE_KIND_EACH if Need.LAYERS not in each.values[0].needs]
# A chain, a tree, heads, and a method without models; `make slow` runs the others.
QUICK = ("draft-model", "draft-tree", "medusa", "lookahead")
ABLE_QUICKLY = [
    pytest.param(
        *each.values,
        id=each.id,
        marks=() if each.values[0].name in QUICK else pytest.mark.slow,
    )
    for each in ABLE
]


@pytest.fixture(scope="module")
def spread():
    return tiny_model(1, 3, "tiny target", kind=SpreadModel)


def test_only_a_target_on_several_devices_has_separate_rows(spread):
    for kind, expected in ((SpreadModel, SeparateRows), (LibraryModel, RaggedTarget)):
        model = tiny_model(1, 1, "target", kind=kind)
        assert type(batch_target(model, PROMPTS, DecodingConfig())) is expected


@pytest.mark.parametrize("name", ["draft-model", "draft-tree"])
def test_only_a_draft_on_several_devices_drafts_row_by_row(target, name):
    method = DRAFTERS[name]
    for kind, expected in ((SpreadModel, RowDrafters), (LibraryModel, StaticRows)):
        parts = Parts(draft=tiny_model(2, 1, "draft", kind=kind))
        config = config_of(method, method.drawings[0])
        assert type(make_row_drafters(setups_of(target, parts, config))) is expected


@pytest.mark.parametrize("method, kind", ABLE_QUICKLY)
def test_with_a_target_on_several_devices_each_row_equals_its_single_run(
    method, kind, spread, draft
):
    config = config_of(method, kind, temperature=0.8, max_new_tokens=24, seed=5)
    parts = parts_for(spread, draft)
    steps = batch_steps(spread, parts, config)
    for row, setup in enumerate(setups_of(spread, parts, config)):
        assert story(events_of(steps, row)) == story(single_run(setup, PROMPTS[row]))


def test_a_draft_on_several_devices_gives_the_same_rows_as_on_one(target):
    config = config_of(DRAFTERS["draft-model"], VARIANTS[0].values[1], temperature=0.8)
    texts = []
    for kind in (SpreadModel, LibraryModel):
        parts = Parts(draft=tiny_model(2, 1, "draft", kind=kind))
        steps = batch_steps(target, parts, config)
        texts.append([tokens_of(events_of(steps, row)) for row in range(len(PROMPTS))])
    assert texts[0] == texts[1]


def test_separate_rows_waste_no_slot_and_their_plain_batch_equals_the_baseline(spread, draft):
    config = DecodingConfig(max_new_tokens=24)
    steps = batch_steps(spread, Parts(draft=draft), config)
    plain = baseline_steps(spread, config)
    assert {step.padding for step in (*steps, *plain)} == {0}
    for row in range(len(PROMPTS)):
        assert tokens_of(events_of(steps, row)) == tokens_of(events_of(plain, row))
