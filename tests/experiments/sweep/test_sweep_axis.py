"""An axis of a sweep accepts only possible values, and each value changes the settings."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.decoding.drafters.registry import DRAFTERS, OPTIONS
from specviz.errors import InputError
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.racing import RaceRequest, load_request
from specviz.experiments.sweep import sweep_setting
from specviz.experiments.sweep.sweep_axis import AXES, axis_named
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import SweepPlan
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig, prompt_text
from tests.chat_folder import chat_folder

SETTING = SweepSetting(pair_named("bundled"), DecodingConfig(), device="cpu")


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("draft-length", "1-4", (1, 2, 3, 4)),
        ("draft-length", "1-2,8", (1, 2, 8)),
        ("draft-length", " 3 , 1 ", (3, 1)),
        ("temperature", "0,0.7", (0.0, 0.7)),
        ("task", "story,code", ("story", "code")),
        ("length-policy", "fixed,adaptive", ("fixed", "adaptive")),
        ("tree", "1x1,2x1, 4", ("1x1", "2x1", "4")),
    ],
)
def test_values_may_be_lists_and_ranges_of_whole_numbers(
    name: str, text: str, values: tuple[object, ...]
) -> None:
    assert axis_named(name).values(text) == values


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("draft-length", "", "draft-length must be 1 to 64 different values, got ''"),
        ("draft-length", "1,1", "draft-length must be 1 to 64 different values"),
        (
            "draft-length",
            "5-2",
            "draft-length must be a rising range of at most 64 values, got '5-2'",
        ),
        ("draft-length", "1-1000000", "draft-length must be a rising range of at most 64 values"),
        (
            "draft-length",
            "1.5",
            "draft-length must be whole numbers separated by commas, got '1.5'",
        ),
        ("draft-length", "-3", "draft-length must be whole numbers separated by commas, got '-3'"),
        ("temperature", "warm", "temperature must be numbers separated by commas, got 'warm'"),
        ("task", "poems", "task must be one of"),
        ("method", "magic", "method must be one of"),
        ("length-policy", "short", "length_policy must be one of fixed, adaptive, got 'short'"),
        ("pair", "none", "pair must be one of"),
        (
            "tree",
            "2y1",
            "tree must be the number of children at each depth, such as 2x1x1, got '2y1'",
        ),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        axis_named(name).values(text)
    assert str(error.value).startswith(message)


def test_a_tree_is_as_deep_as_its_shape() -> None:
    given = replace(SETTING, config=DecodingConfig(method="draft-tree", draft_length=5))
    config = axis_named("tree").apply(given, "2x1x1").config
    assert (config.branching, config.draft_length, config.node_count) == ((2, 1, 1), 3, 6)


def test_an_unknown_axis_is_refused() -> None:
    with pytest.raises(InputError, match="axis must be one of draft-length, "):
        axis_named("speed")


@pytest.mark.parametrize("axis", AXES.values(), ids=lambda axis: axis.name)
def test_the_default_values_of_every_axis_give_different_settings(axis) -> None:
    values = axis.values(axis.usual)
    plan = SweepPlan(of_method_with(axis.setting), ((axis.name, values),))
    settings = [plan.setting_at(place) for place in plan.places]
    assert len(set(settings)) == len(values)
    if axis.setting in OPTIONS:
        plan.check_methods()


def of_method_with(option: str) -> SweepSetting:
    """Return the settings of a sweep with a method that has this option.

    If no method has it, the method is draft-model.
    """
    having = (each for each in DRAFTERS.values() if option in [o.name for o in each.options])
    method = next(having, DRAFTERS["draft-model"])
    return replace(SETTING, config=method.usual(5))


def test_methods_with_an_option_of_the_same_name_share_its_axis() -> None:
    found = [option for method in DRAFTERS.values() for option in method.options]
    assert set(found) == set(OPTIONS.values())


def test_an_axis_lists_the_methods_that_have_its_option() -> None:
    assert AXES["temperature"].methods == tuple(DRAFTERS)
    assert AXES["longest-ngram"].methods == ("prompt-lookup",)
    for axis in AXES.values():
        (value, *_) = axis.values(axis.usual)
        for name, method in DRAFTERS.items():
            plan = SweepPlan(replace(SETTING, config=method.usual(5)), (("draft-length", (5,)),))
            with nullcontext() if name in axis.methods else pytest.raises(InputError):
                changed = axis.apply(plan.setting, value)
                DRAFTERS[changed.config.method].check(changed.config)


def test_an_option_that_the_method_lacks_is_refused_by_axis_and_method() -> None:
    with pytest.raises(InputError) as error:
        SweepPlan(SETTING, (("longest-ngram", (2,)),))
    assert str(error.value) == (
        "longest-ngram must be an option of the method, but the options of draft-model are: none"
    )


def test_an_option_can_be_varied_together_with_the_option_that_limits_it() -> None:
    given = replace(SETTING, config=DRAFTERS["prompt-lookup"].usual(5))
    axes = (("shortest-ngram", (4,)), ("longest-ngram", (4, 5)))
    SweepPlan(given, axes).check_methods()
    with pytest.raises(InputError, match="longest_ngram must be at least shortest_ngram = 4"):
        SweepPlan(given, axes[:1]).check_methods()


@pytest.mark.parametrize("method", DRAFTERS)
def test_a_method_uses_its_own_tree_shape_and_rule(method: str) -> None:
    config = AXES["method"].apply(SETTING, method).config
    assert config.method == method and config.drawing is DRAFTERS[method].drawings[0]
    assert config.branching == DRAFTERS[method].default_branching[: config.draft_length]


def test_a_method_axis_is_applied_before_the_axes_that_shape_the_tree() -> None:
    plan = SweepPlan(SETTING, (("width", (3,)), ("method", ("draft-tree",))))
    (place,) = plan.places
    assert plan.setting_at(place).config.branching == (3,)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_longer_draft_keeps_the_method_s_whole_shape(is_first: bool) -> None:
    axes = (("draft-length", (5,)), ("method", ("draft-tree",)))
    short = replace(SETTING, config=replace(SETTING.config, draft_length=1))
    plan = SweepPlan(short, axes if is_first else axes[::-1])
    (place,) = plan.places
    config = plan.setting_at(place).config
    assert config.branching == DRAFTERS["draft-tree"].default_branching != ()
    assert len(config.branching) > 1 and config.draft_length == 5


@pytest.mark.parametrize("tokens", [1, 5, 60, 400])
def test_a_prompt_is_truncated_or_extended_to_its_number_of_tokens(tokens: int) -> None:
    first, second, _ = AXES["prompt-length"].apply(SETTING, tokens).requests
    codec = load_pair(SETTING.pair, "cpu").codec
    found = len(codec.encode_part(first.prompt))
    assert tokens - 3 <= found <= tokens
    assert first.prompt != second.prompt or tokens < 5
    whole = held_out_prompt("code", 1)
    assert whole.startswith(first.prompt) or first.prompt.startswith(whole)


def test_a_prompt_that_will_be_truncated_need_not_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def load(request: RaceRequest) -> LoadedPair:
        seen.append(len(prompt_text(request.prompt)))
        return load_request(request)

    monkeypatch.setattr(sweep_setting, "load_request", load)
    setting = replace(SETTING, texts=("x = 1\n" * 9000,), task=None, prompts=1)
    (request,) = AXES["prompt-length"].apply(setting, 16).requests
    assert len(prompt_text(request.prompt)) < 100 and max(seen) < 200


def test_a_chat_model_s_prompt_is_truncated_inside_its_template(tmp_path: Path) -> None:
    pair = custom_pair(chat_folder(tmp_path), "")
    lookup = DecodingConfig(method="prompt-lookup")
    setting, lengths = SweepSetting(pair, lookup, device="cpu"), []
    codec = load_pair(pair, "cpu", needs=frozenset()).codec
    for tokens in (1, 8, 16):
        first, *_ = AXES["prompt-length"].apply(setting, tokens).requests
        ids = codec.encode(first.prompt)
        assert codec.decode(ids) == f"user\n{first.prompt}assistant\n"
        lengths.append(len(ids))
    assert lengths == sorted(set(lengths))


def test_batches_are_always_full_and_a_batch_of_one_is_a_single_run() -> None:
    alone, four = (AXES["batch-size"].apply(SETTING, size) for size in (1, 4))
    assert [len(group) for group in alone.groups] == [1, 1, 1] and alone == SETTING
    # The setting has three prompts; to fill a batch of four, the first is repeated.
    (group,) = four.groups
    assert [each.prompt for each in group] == [held_out_prompt("code", n) for n in (1, 2, 3, 1)]
    assert AXES["batch-size"].apply(replace(SETTING, prompts=5), 4).batches == 2


def test_every_batch_size_is_measured_on_the_same_texts_and_draws() -> None:
    alone, *larger = (AXES["batch-size"].apply(SETTING, size) for size in (1, 2, 3, 16))
    texts = {each.prompt for each in alone.requests}
    assert len(texts) == SETTING.prompts
    for setting in larger:
        assert {each.prompt for each in setting.requests} == texts
        assert setting.requests[:3] == alone.requests
    (group,) = larger[-1].groups
    rows = BatchRequest(group[0], tuple(each.prompt for each in group)).rows
    assert rows == group  # the race of the whole batch makes the same requests as the sweep
