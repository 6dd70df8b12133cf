"""The errors against published measurements are computed, and the pages quote them exactly."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from specviz.sizing.published import RUNS, SOURCES, trust

DOCS = Path(__file__).parents[2] / "docs"


def test_every_measurement_names_a_source_and_every_source_is_used() -> None:
    assert {run.source for run in RUNS} == set(SOURCES)
    assert len({(run.source, run.kind, run.setting) for run in RUNS}) == len(RUNS)


def test_the_tables_of_the_sources_are_complete() -> None:
    """The table of gpt-fast has every row for an A100.

    The two tables of llama.cpp have rows for six GPUs. Each GPU with enough memory also has a row
    for the 70B model.
    """
    counts = Counter(run.source for run in RUNS)
    assert (counts["gpt-fast"], counts["llama-cpp-gpus"], counts["spec-bench"]) == (31, 32, 12)


def test_the_page_of_measurements_has_the_computed_table() -> None:
    """If this fails, change the page's sentence about the largest error as well."""
    found = trust()
    rows = [
        f"| {each['group']} | {each['count']} | {100 * each['median_error']:.0f} % | "
        f"{100 * each['lowest_error']:+.0f} % | {100 * each['highest_error']:+.0f} % |"
        for each in found["groups"]
    ]
    page = (DOCS / "measurements.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
    counts = re.findall(r"\d+ of \d+ are positive", page)
    assert counts == [f"{sum(run.error > 0 for run in RUNS)} of {len(RUNS)} are positive"]


def test_the_page_about_trust_has_the_computed_ranges() -> None:
    found = trust()
    page = " ".join((DOCS / "explanation" / "trust_in_size.md").read_text(encoding="utf-8").split())
    assert f"Half of the errors are below {100 * found['median_error']:.0f} %" in page
    for each in found["groups"]:
        if each["group"] == "prompts":
            assert f"off by more than {100 * each['median_error']:.0f} %" in page
        else:
            ends = f"{100 * each['lowest_error']:+.0f} to {100 * each['highest_error']:+.0f} %"
            assert ends in page, each["group"]
    for name in ("explanation/trust_in_size.md", "pages.md"):
        text = (DOCS / name).read_text(encoding="utf-8")
        assert f"{len(RUNS)} published measurements" in " ".join(text.split())


def test_the_largest_error_is_named_with_its_source_s_explanation() -> None:
    sentence = trust()["sentence"]
    assert f"half of all {len(RUNS)} published measurements, the error is at most 26 %" in sentence
    assert "published speedups 5 to 47 % too high; none of them was measured with more" in sentence
    assert "outlier of its source" in sentence and "Nothing was fitted" not in sentence


def test_rates_of_one_card_are_close_except_for_llama_cpp_on_two_gpus() -> None:
    """measurements.md and trust_in_size.md say: except for llama.cpp, the error is within 8 %."""
    one_card = [run for run in RUNS if run.group.endswith("one card")]
    far = {(run.source, run.gpu) for run in one_card if abs(run.error) > 0.08}
    assert far == {("llama-cpp-gpus", "a100-80"), ("llama-cpp-gpus", "h100-pcie")}


def test_a_published_run_is_computed_with_its_own_settings() -> None:
    plain = next(run for run in RUNS if run.value == 104.9)
    assert plain.computed == pytest.approx(110.7, rel=0.01)
    assert plain.error == pytest.approx(plain.computed / 104.9 - 1)
    assert plain.setting == "Llama 2 7B, Vicuna 7B, bf16, A100 80 GB (SXM)"
