"""The tables of facts about engines are consistent with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.engines import engine_registry
from specviz.engines.engine_facts import SPECULATIVE
from specviz.engines.engine_registry import adapters, engines, server_adapters, servers
from specviz.engines.model_deployment import EngineMethod
from specviz.engines.typed_fields import DEPLOYMENT_FIELDS

EVERY = list(engines().values())


@pytest.mark.parametrize("facts", EVERY, ids=lambda each: each.name)
def test_every_flag_sets_an_existing_field(facts) -> None:
    named = {flag.field for flag in facts.flags} | {old.field for old in facts.old if old.field}
    assert named <= {*DEPLOYMENT_FIELDS, *adapters()[facts.name].meant, "early_exit"}
    assert set(facts.lacks) <= set(DEPLOYMENT_FIELDS)


@pytest.mark.parametrize("facts", EVERY, ids=lambda each: each.name)
def test_a_spelling_of_a_flag_is_old_or_current_and_occurs_once(facts) -> None:
    assert facts.older.keys().isdisjoint(facts.current)
    spellings = [old.name for old in facts.old]
    assert len(spellings) == len(set(spellings))
    assert all(old.why and not old.why.endswith(".") for old in facts.old)


def test_every_field_has_a_flag_or_a_reason_in_every_engine() -> None:
    for name, adapter in server_adapters().items():
        facts = engines()[name]
        said = {adapter.meant.get(flag.field, flag.field) for flag in facts.flags}
        # A flag of another field may contain the value, as the name of a model contains its format.
        said |= {*facts.lacks, *adapter.within}
        # llama.cpp has only one n-gram length, so the field lookup_min has no flag of its own.
        both = {"lookup_min"} if name == "llama.cpp" else set()
        assert set(DEPLOYMENT_FIELDS) - said == both, name


def test_the_engine_has_every_flag_that_is_written() -> None:
    for name in servers():
        facts = engines()[name]
        keys = facts.speculative_fields()
        for flag in facts.flags:
            key = flag.name.removeprefix(SPECULATIVE)
            assert flag.name in facts.known or key in keys, (name, flag.name)


def test_the_engine_does_not_have_removed_flags() -> None:
    for name in servers():
        facts = engines()[name]
        assert {flag for flag in facts.older if flag in facts.known} == set(), name


def test_every_folder_of_an_engine_is_registered() -> None:
    folders = {path.parent for path in Path(engine_registry.__file__).parent.glob("*/*_adapter.py")}
    assert len(folders) == len(adapters()) == len(EVERY)
    assert all((folder / f"{folder.name}.toml").is_file() for folder in folders)


def test_every_method_has_an_engine_and_every_server_has_an_adapter() -> None:
    served = {method for name in servers() for method in engines()[name].methods}
    assert served == set(EngineMethod) - {EngineMethod.NONE}
    assert tuple(server_adapters()) == servers()
    assert all(facts.version and facts.sources for facts in EVERY)
