"""The table of settings is complete and has no duplicates, and its defaults obey its rules."""

from __future__ import annotations

from dataclasses import fields

import pytest

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError
from specviz.models.pair_catalog import BUNDLED, CHAT, pair_named
from specviz.models.parts import Need
from specviz.records import DECODING, SAMPLING, SETTINGS, DecodingConfig, RunSetting

NUMBERS = [setting for setting in DECODING if setting.is_bounded]


def test_the_table_has_every_field_of_the_config() -> None:
    assert {each.name for each in DECODING} == {each.name for each in fields(DecodingConfig)}


@pytest.mark.parametrize("attribute", ["name", "title", "flag", "key", "word"])
def test_no_two_settings_share_a_name(attribute: str) -> None:
    names = [getattr(setting, attribute) for setting in SETTINGS.values()]
    given = [name for name in names if name]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
def test_a_number_is_refused_outside_its_bounds_and_only_there(setting: RunSetting) -> None:
    assert setting.holds(setting.default) and setting.read(str(setting.default)) == setting.default
    assert setting.holds(setting.low) != setting.excludes_low
    assert not setting.holds(setting.low - 1)
    assert setting.holds(setting.high) != setting.excludes_high
    assert not setting.holds(setting.high + 1)
    with pytest.raises(InputError, match=f"^{setting.name} must be .*, got None$"):
        setting.check(None)


@pytest.mark.parametrize("setting", SAMPLING, ids=lambda setting: setting.name)
def test_sampling_settings_that_are_off_are_not_listed(setting: RunSetting) -> None:
    words = DecodingConfig(temperature=0.5).sampling_words
    assert words == ["temperature 0.5"]
    if setting.off is not None:
        assert setting.default == setting.off


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_every_method_accepts_its_own_default_settings(method: Method) -> None:
    for draft_length in (1, 2, 5, 8):
        config = method.usual(draft_length, temperature=0.7, seed=3)
        method.check(config)
        assert (config.method, config.draft_length) == (method.name, draft_length)
        assert config.beside_method == DecodingConfig(temperature=0.7, seed=3).beside_method


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_only_trained_drafters_begin_with_the_draft_length_of_the_pair(method: Method) -> None:
    usual = SETTINGS["draft_length"].default
    assert method.usual_length(pair_named(BUNDLED)) == usual
    is_trained = bool(method.needs & {Need.DRAFT, Need.MEDUSA, Need.EAGLE})
    # K is the length of copies for a method whose draft model has a draft length of its own.
    is_trained &= all(option.name != "model_length" for option in method.options)
    assert (method.usual_length(pair_named(CHAT)) < usual) == is_trained
