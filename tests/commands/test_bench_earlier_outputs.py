"""`bench --earlier-outputs` lets suffix decoding copy from earlier outputs of the same pass."""

from __future__ import annotations

import json

import pytest

from specviz.cli import main

BENCH = ("bench", "--pair", "bundled", "--tasks", "code", "--prompt-count", "1", "--device", "cpu")
FEW = ("--methods", "suffix", "--draft-lengths", "2", "--max-new-tokens", "8", "--repeat", "1")


def test_the_result_says_how_many_outputs_were_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BENCH, *FEW, "--earlier-outputs", "7", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["earlier_outputs"] == 7
    assert "suffix" in {row["method"] for row in result["rows"]}


@pytest.mark.parametrize(
    "flags, told",
    [
        (("-1",), "earlier-outputs must be a whole number from 0 to 10,000, got -1"),
        (
            ("3", "--temperature", "0.5"),
            "temperature must be 0 with earlier-outputs, because all prompts share their random "
            "draws, got 0.5",
        ),
        (
            ("3", "--batch-size", "2"),
            "earlier-outputs must be 0 with batch-size, because all texts are decoded at the same "
            "time, got 3",
        ),
    ],
)
def test_a_benchmark_that_cannot_share_outputs_is_refused(
    flags: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BENCH, *FEW, "--earlier-outputs", *flags]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
