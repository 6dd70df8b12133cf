"""Only the same sweep can continue a sweep's file, and an error names the file's broken line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.experiments.sweep.sweep_file import SweepFile, describe, read_points
from specviz.experiments.sweep.sweeping import SweepPlan
from specviz.models.pair_catalog import custom_pair
from tests.experiments.sweep.sweep_points import PLAN, whole_point

POINT = json.dumps(whole_point(1))


def of_models(target: str, draft: str) -> SweepPlan:
    return replace(PLAN, setting=replace(PLAN.setting, pair=custom_pair(target, draft)))


def changed(**fields: Any) -> str:
    return json.dumps(whole_point(1) | fields)


def depths(**fields: Any) -> str:
    (first,) = whole_point(1)["acceptance_by_depth"]
    return changed(acceptance_by_depth=[first | fields])


def test_a_file_of_other_models_is_not_continued(tmp_path: Path) -> None:
    path = str(tmp_path / "sweep.jsonl")
    with SweepFile(path, of_models("one", "draft")) as file:
        file.add(whole_point(1))
    for other in (of_models("another", "draft"), of_models("one", "another")):
        with pytest.raises(InputError, match="must be new or from this sweep"):
            SweepFile(path, other)
    with SweepFile(path, of_models("one", "draft")) as again:
        assert list(again.known) == [PLAN.places[0]]


def test_heads_of_other_models_are_part_of_the_sweep_s_description() -> None:
    pair = custom_pair("one", eagle="head")
    described = describe(replace(PLAN, setting=replace(PLAN.setting, pair=pair)))
    assert described["eagle"] == "head" and "medusa" not in described
    assert "eagle" not in describe(of_models("one", "draft"))


def test_a_pair_with_a_name_is_described_by_its_name_only() -> None:
    """A file from the page must not name folders, so a named pair is described by its name."""
    assert describe(PLAN)["pair"] == "bundled"
    assert not {"target", "draft"} & set(describe(PLAN))


BROKEN = {
    "cut": '{"broken',
    "no fields": "{}",
    "a list": "[1]",
    "an empty line": "",
    "a setting of lists": changed(setting={"draft-length": [1]}),
    "a setting alone": '{"setting": {"draft-length": 1}}',
    "a point of elsewhere": changed(setting={"draft-length": 9}),
    "a setting of another type": changed(setting={"draft-length": 1.0}),
    "true for 1": changed(setting={"draft-length": True}),
    "a band without its speedup": changed(theory_speedup=None),
    "a speedup without its band": changed(theory_band=None),
    "a depth that nothing reached": depths(reached=0, passed=0),
    "more passed than reached": depths(reached=3, passed=4),
    "a word": changed(speedup="fast"),
    "a field too many": changed(more=1),
    "no text": changed(**{"\ud800": 1}),
    "a point twice": POINT,
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_is_refused_by_its_number_and_the_file_stays_unchanged(
    line: str, tmp_path: Path
) -> None:
    path = tmp_path / "sweep.jsonl"
    text = "\n".join((json.dumps(describe(PLAN)), POINT, line, ""))
    path.write_text(text)
    with pytest.raises(InputError) as error:
        SweepFile(str(path), PLAN)
    sentence = "must contain only complete points of its sweep, each point once, but line 3 is"
    assert str(error.value).startswith(f"output file sweep.jsonl {sentence} incomplete, ")
    assert path.read_text() == text


def test_a_point_that_drafted_nothing_is_complete() -> None:
    names = ("acceptance_rate", "cost_ratio", "verify_overhead", "theory_speedup", "theory_band")
    lines = [POINT, json.dumps(whole_point(2) | dict.fromkeys(names))]
    assert list(read_points(PLAN, lines, "file")) == list(PLAN.places)


def test_in_older_files_the_draft_time_includes_the_drafter_s_prefill() -> None:
    older = whole_point(1)
    del older["draft_prefill_seconds"], older["rejection_rate"], older["drafter_cache_bytes"]
    (point,) = read_points(PLAN, [json.dumps(older)], "file").values()
    assert (point["draft_prefill_seconds"], point["draft_seconds"]) == (0.0, 0.1)
    assert point["drafter_cache_bytes"] is None  # the older file does not contain the cache's size


def test_sums_over_repeats_in_older_files_become_values_per_repeat() -> None:
    older = whole_point(1)
    del older["texts"]
    (point,) = read_points(PLAN, [json.dumps(older)], "file").values()
    # The older file has the sums of two repeats, 10 rounds and 0.1 s.
    assert (point["rounds"], point["verify_seconds"]) == (5, 0.05)
    assert point["acceptance_by_depth"] == [{"depth": 1, "reached": 5, "passed": 4, "rate": 0.8}]
    assert point["texts"] == PLAN.setting.prompts
    # These two values were never sums over repeats, so they stay as they are.
    assert (point["ttft_seconds"], point["block_efficiency"]) == (0.01, 1.8)


def test_a_file_that_repeats_one_line_many_times_is_refused_quickly() -> None:
    axes = (("draft-length", tuple(range(1, 17))), ("temperature", tuple(map(float, range(1, 6)))))
    plan = SweepPlan(PLAN.setting, axes)
    point = json.dumps(whole_point(1) | {"setting": dict(plan.places[0])})
    began = thread_time()
    with pytest.raises(InputError, match="line 3"):
        read_points(plan, [point] * 7000, "file")
    assert thread_time() - began < 0.5


def test_points_survive_a_full_disk_when_a_sweep_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sweep.jsonl"
    with SweepFile(str(path), PLAN) as file:
        file.add(whole_point(1))
    before = path.read_text()

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("specviz.whole_file.os.fsync", full)
    with pytest.raises(InputError, match="cannot be used: No space left on device"):
        SweepFile(str(path), PLAN)
    assert path.read_text() == before
