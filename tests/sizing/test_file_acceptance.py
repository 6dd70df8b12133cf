"""An acceptance rate is read from a sweep's file if the file has enough evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.sizing.file_acceptance import FEWEST, acceptance_of_sweep, read_sweep_acceptance

HEADER = {
    **{"axes": [["batch-size", [1, 2]]], "pair": "bundled"},
    "config": {"method": "draft-model", "draft_length": 3},
}


def point(reached: int, passed: int, **setting: Any) -> dict[str, Any]:
    depths = [{"depth": 1, "reached": reached, "passed": passed, "rate": passed / reached}]
    return {"setting": setting, "rounds": reached // 2, "acceptance_by_depth": depths}


def text(*points: dict[str, Any], **header: Any) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in (HEADER | header, *points))


def test_the_rate_is_accepted_over_examined_guesses_and_names_its_source() -> None:
    found = read_sweep_acceptance(text(point(400, 300), point(800, 400)), "s.jsonl")
    assert found.rate == pytest.approx(700 / 1200), "not the mean of two rates"
    assert found.words == (
        "0.58 for the pair bundled with draft-model, from 800 examined guesses in 400 rounds"
    )
    whole = HEADER | {"points": [point(400, 300), point(800, 400)]}
    assert read_sweep_acceptance(json.dumps(whole), "s.json") == found == acceptance_of_sweep(whole)


def test_the_same_texts_in_several_batches_count_once() -> None:
    same = [point(200, 150, **{"batch-size": size}) for size in (1, 2, 4)]
    found = acceptance_of_sweep(HEADER | {"points": same})
    assert found is not None and (found.examined, found.is_enough) == (200, False)
    tasks = [point(200, 150, task=task) for task in ("code", "story")]
    other = acceptance_of_sweep(HEADER | {"points": tasks})
    assert other is not None and (other.examined, other.is_enough) == (400, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            text(point(6, 6)),
            f"sweep must have at least {FEWEST} examined guesses for an acceptance rate, each text "
            "counted once, got 6 guesses in 3 rounds: ",
        ),
        (
            text({"setting": {}, "rounds": 3, "acceptance_by_depth": []}),
            "sweep must have points with an acceptance rate, got none in 's.jsonl'",
        ),
        (text(point(900, 9), axes=[["method", ["eagle"]]]), "must have one pair and one method"),
        ("[1, 2]", "sweep must be a complete file that `sweep --output` wrote, got 's.jsonl'"),
        ('{"axes": 3}', "sweep must be a complete file that `sweep --output` wrote"),
        (text({"setting": {}}), "sweep must be a complete file that `sweep --output` wrote"),
    ],
)
def test_a_file_with_too_little_evidence_is_refused_in_one_line(given: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_sweep_acceptance(given, "s.jsonl")
    assert said in str(refused.value) and "\n" not in str(refused.value)
