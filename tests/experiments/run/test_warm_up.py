"""Before a race starts, each model has already run the forwards with which the race begins."""

from dataclasses import replace
from weakref import WeakKeyDictionary

import pytest

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run import warm_up
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.experiments.run.warm_up import warm_up_pair
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import load_pair
from specviz.records import DecodingConfig

PROMPT = list(range(5, 12))


def watched(monkeypatch, model):
    """Record every forward of a model; return the growing list of their token counts."""
    sizes, forward = [], model.forward

    def watching(token_ids, *given, **named):
        sizes.append(token_ids.shape[1])
        return forward(token_ids, *given, **named)

    monkeypatch.setattr(model, "forward", watching)
    return sizes


@pytest.mark.parametrize(
    ("branching", "tree", "levels"),
    [((), 5, [1]), ((3, 2), 1 + 3 + 6 + 6 + 6, [1, 3, 6, 6])],
)
def test_target_and_draft_are_warmed_up_with_the_shapes_of_a_round(
    monkeypatch, branching, tree, levels
):
    loaded = load_pair(pair_named(BUNDLED), "cpu", "float32")
    target, draft = (watched(monkeypatch, each) for each in (loaded.target, loaded.parts.draft))
    config = DecodingConfig(draft_length=4, branching=branching, max_new_tokens=40)
    warm_up_pair(loaded, PROMPT, config)
    assert target == [len(PROMPT), 1, tree]
    assert draft == [len(PROMPT), *levels]


def test_no_warm_up_forward_is_longer_than_the_run_s_remaining_text(monkeypatch):
    loaded = load_pair(pair_named(BUNDLED), "cpu", "float32")
    target, draft = (watched(monkeypatch, each) for each in (loaded.target, loaded.parts.draft))
    length = loaded.target.info.context_length
    config = DecodingConfig(draft_length=8, branching=(3, 2), max_new_tokens=4)
    warm_up_pair(loaded, [5] * (length - 4), config)
    assert max(target[1:]) == 4 and max(draft[1:]) <= 4


def test_only_the_first_race_of_a_method_is_rehearsed(monkeypatch):
    monkeypatch.setattr(warm_up, "_rehearsed", WeakKeyDictionary())
    target = watched(monkeypatch, load_pair(pair_named(BUNDLED), "cpu", "float32").target)
    config = method_named("lookahead").usual(4, max_new_tokens=8)
    for run, rounds in enumerate((True, False, False)):
        request = RaceRequest(pair_named(BUNDLED), "x = 1", replace(config, seed=run), device="cpu")
        start_race(request).close()
        assert bool(target) == rounds
        target.clear()
