"""What is known of engines agrees with itself."""

from __future__ import annotations

import pytest

from specviz.engines.dialects import DEPLOYMENT_FIELDS, DIALECTS, MEANT
from specviz.engines.engine_facts import SPECULATIVE, engines, servers
from specviz.engines.model_deployment import EngineMethod

EVERY = list(engines().values())


@pytest.mark.parametrize("facts", EVERY, ids=lambda each: each.name)
def test_every_flag_sets_a_field_that_there_is(facts) -> None:
    named = {flag.field for flag in facts.flags} | {old.field for old in facts.old if old.field}
    assert named <= {*DEPLOYMENT_FIELDS, *MEANT, "early_exit"}
    assert set(facts.lacks) <= set(DEPLOYMENT_FIELDS)


@pytest.mark.parametrize("facts", EVERY, ids=lambda each: each.name)
def test_a_spelling_is_old_or_current_and_stands_once(facts) -> None:
    assert facts.older.keys().isdisjoint(facts.current)
    spellings = [old.name for old in facts.old]
    assert len(spellings) == len(set(spellings))
    assert all(old.why and not old.why.endswith(".") for old in facts.old)


def test_every_field_has_a_flag_or_a_reason_in_every_engine() -> None:
    through_others = {"max_length", "lookup_min", "lookup_max"}  # of llama.cpp: in its own fields
    through_others |= {"quantization", "draft_quantization"}  # behind a repository's name
    for name in servers():
        facts = engines()[name]
        said = {flag.field for flag in facts.flags} | set(facts.lacks)
        missing = set(DEPLOYMENT_FIELDS) - said
        assert missing == (through_others if name == "llama.cpp" else set()), name


def test_flags_that_are_written_are_flags_that_the_engine_has() -> None:
    for name in servers():
        facts = engines()[name]
        keys = facts.speculative_fields()
        for flag in facts.flags:
            key = flag.name.removeprefix(SPECULATIVE)
            assert flag.name in facts.known or key in keys, (name, flag.name)


def test_a_removed_flag_is_not_among_those_that_the_engine_has() -> None:
    for name in servers():
        facts = engines()[name]
        assert {flag for flag in facts.older if flag in facts.known} == set(), name


def test_every_method_but_none_is_served_somewhere_and_every_server_has_a_dialect() -> None:
    served = {method for name in servers() for method in engines()[name].methods}
    assert served == set(EngineMethod) - {EngineMethod.NONE}
    assert set(DIALECTS) == set(servers())
    assert all(facts.version and facts.sources for facts in EVERY)
