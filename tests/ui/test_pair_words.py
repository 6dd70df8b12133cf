"""A report on two models is short lines; anything that prevents a run is shown as a problem."""

from __future__ import annotations

from dataclasses import replace

from specviz.models.memory_estimate import MemoryEstimate
from specviz.models.pair_check import PairReport
from specviz.models.text.vocabulary import Relation
from specviz.ui.pair_words import report_lines

FINE = PairReport(
    device="cpu",
    dtype="float32",
    vocabulary=Relation.EQUAL,
    shared_tokens=1.0,
    bytes_needed=2_000_000_000,
    memory=MemoryEstimate(1_600_000_000, 0, 300_000_000, 100_000_000),
    bytes_free=20_000_000_000,
    download_bytes=0,
    gated=False,
    instruct=False,
    problems=(),
    warnings=(),
)


def lines(report: PairReport) -> list[tuple[str, str]]:
    return [(line["tone"], line["text"]) for line in report_lines(report)]


def test_a_pair_that_fits_has_only_good_lines() -> None:
    assert lines(FINE) == [
        ("good", "both models have the same vocabulary"),
        ("good", "needs 2.0 GB in float32, 20 GB are free"),
    ]


def test_for_different_vocabularies_the_shared_part_is_named() -> None:
    report = replace(FINE, vocabulary=Relation.DIFFERENT, shared_tokens=0.314)
    assert lines(report)[0] == (
        *(
            "plain",
            "the vocabularies differ: 31% of the target's tokens are also tokens of the draft",
        ),
    )
    assert "padding" in lines(replace(FINE, vocabulary=Relation.PADDED))[0][1]


def test_without_a_draft_the_report_has_no_line_about_vocabularies() -> None:
    report = replace(FINE, vocabulary=None, shared_tokens=None)
    assert not any("vocabular" in text for _, text in lines(report))


def test_too_little_memory_is_a_warning_and_unknown_memory_is_not() -> None:
    assert lines(replace(FINE, bytes_free=1_000_000_000))[1][0] == "warning"
    tone, text = lines(replace(FINE, bytes_free=None))[1]
    assert tone == "plain" and text.endswith("the free memory is unknown")


def test_unknown_parts_of_the_memory_are_named() -> None:
    memory = replace(FINE.memory, unknown=("the cache of x (not counted)",))
    assert ("plain", "unknown: the cache of x (not counted)") in lines(replace(FINE, memory=memory))


def test_download_gated_access_and_chat_template_are_mentioned() -> None:
    report = replace(FINE, download_bytes=1_400_000_000, gated=True, instruct=True)
    texts = " ".join(text for _, text in lines(report))
    assert "1.4 GB of weights on the Hub" in texts
    assert "gated" in texts and "chat template" in texts


def test_warnings_and_problems_come_last_and_are_unchanged() -> None:
    report = replace(FINE, warnings=("slow",), problems=("too large",))
    assert lines(report)[-2:] == [("warning", "slow"), ("problem", "too large")]
