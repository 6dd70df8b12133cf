"""The table of errors against publications is what the forwards make of it, and stays as told."""

from __future__ import annotations

import pytest

from specviz.sizing.forward_time import EFFICIENCY
from specviz.sizing.published import RUNS, SOURCES, trust


def test_every_measurement_names_a_source_and_every_source_is_used() -> None:
    assert {run.source for run in RUNS} == set(SOURCES)
    assert len(RUNS) >= 10 and len(SOURCES) >= 5


def test_no_constant_was_fitted_to_a_card_or_a_source() -> None:
    assert set(EFFICIENCY) == {"gpu", "cpu"}


def test_half_of_the_errors_are_as_small_as_the_page_says() -> None:
    """Change these only with the reason for it, and docs/measurements.md with them."""
    found = trust()
    assert found["median_error"] == pytest.approx(0.14, abs=0.01)
    assert found["worst_error"] == pytest.approx(0.65, abs=0.02)
    by_group = {each["group"]: each["median_error"] for each in found["groups"]}
    assert by_group["one card"] < 0.06


def test_what_is_computed_is_of_the_setting_that_was_measured() -> None:
    plain = next(run for run in RUNS if run.value == 104.9)
    assert plain.computed == pytest.approx(110.7, rel=0.01)
    assert plain.error == pytest.approx(plain.computed / 104.9 - 1)
    assert plain.setting == "Llama 2 7B, Vicuna 7B, bf16, A100 80 GB (SXM)"
