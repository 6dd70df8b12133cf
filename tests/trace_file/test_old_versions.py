"""Recordings in older versions of the file format still open, with all their contents."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.records import BASELINE, ExtraKind, FinishReason, LaneKind
from specviz.trace_file import decode_trace, dumps, encode_trace, load, loads
from tests.random_traces import changed, random_trace

OLD = Path(__file__).parent / "old"
VERSIONS = ("version-1", "version-3")


def json_of(name: str) -> dict[str, Any]:
    value = json.loads(gzip.decompress((OLD / f"{name}.json.gz").read_bytes()))
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("name", VERSIONS)
def test_an_old_recording_opens_and_is_saved_in_the_new_form(name: str) -> None:
    trace, old = load(OLD / f"{name}.json.gz"), json_of(name)
    assert [lane.kind for lane in trace.lanes] == [LaneKind.BASELINE, LaneKind.SPECULATIVE]
    assert len(trace.rounds) == len(old["rounds"])
    assert trace.finish is FinishReason(old["finish"])
    assert [step.token_id for step in trace.lane(BASELINE).steps] == old["baseline"]["steps"]["id"]
    assert encode_trace(trace)["version"] == 5 and loads(dumps(trace)) == trace


def test_a_file_of_version_1_has_no_extra_ids_and_no_forks() -> None:
    """An older version of specviz wrote the stored file from the random trace that is made here."""
    trace = loads(dumps(random_trace(3, rounds=2)))
    without = tuple(replace(each, extra_ids=()) for each in trace.rounds)
    assert load(OLD / "version-1.json.gz") == changed(trace, rounds=without, forks=())


def test_a_round_of_version_3_keeps_every_number() -> None:
    each, old = load(OLD / "version-3.json.gz").rounds[1], json_of("version-3")["rounds"][1]
    assert [each.draft_seconds, each.verify_seconds, each.host_seconds] == old["seconds"]
    cache = each.cache
    assert [cache.committed, cache.speculative, cache.rolled_back] == old["cache"]
    assert [[span.who, span.start, span.end] for span in each.spans] == old["spans"]
    letters = "".join(verdict.outcome.value[0] for verdict in each.verdicts)
    assert letters == old["verdicts"]["outcome"]
    assert [node.token_id for node in each.tree.nodes] == old["nodes"]["id"]
    assert each.tree.kind.value == old["kind"]


def test_in_version_4_a_round_without_a_draft_has_a_plain_token_and_no_bonus() -> None:
    trace = random_trace(3, rounds=12, has_distributions=False)
    kinds = [each.extra.kind for each in trace.rounds if each.extra and not each.tree.nodes]
    assert kinds and set(kinds) == {ExtraKind.PLAIN}
    old = encode_trace(trace) | {"version": 4}
    for each in old["lanes"][1]["rounds"]:
        if each["extra"] and each["extra"]["kind"] == "plain":
            each["extra"]["kind"] = "bonus"
    assert decode_trace(old) == loads(dumps(trace))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every item in a JSON value, but only of the first two items of an array."""
    if path:
        yield path
    if isinstance(value, dict | list):
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))[:2]
        for key, each in items:
            yield from places(each, (*path, key))


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("junk", [None, [], {}, "x", -1, [[]], {"a": 1}])
def test_a_broken_old_recording_is_either_refused_in_one_line_or_read(name: str, junk: Any) -> None:
    value = json_of(name)
    value["rounds"] = value["rounds"][:1]
    for *above, last in places(value):
        broken = copy.deepcopy(value)
        place: Any = broken
        for key in above:
            place = place[key]
        place[last] = junk
        try:
            decode_trace(broken)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 250
