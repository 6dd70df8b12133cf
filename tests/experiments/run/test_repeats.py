"""Of several repeats of a race, the page shows the median, and disturbed ones are run again."""

from __future__ import annotations

import pytest

from specviz.experiments.run.repeats import chosen, remark_of, repeated

CALM = [False, False, False]


def test_an_odd_number_of_repeats_shows_the_median() -> None:
    found = chosen([1.6, 1.2, 1.4], CALM)
    assert (found.shown, found.name, found.remark) == (2, "the median of 3 repeats", "")


def test_the_slower_of_two_repeats_is_not_called_their_median() -> None:
    found = chosen([1.6, 1.2], CALM[:2])
    assert found.shown == 1 and found.name == "the lower of two repeats"
    assert chosen([1.6, 1.2, 1.3, 1.5], [False] * 4).name == "the lower median of 4 repeats"


def test_a_disturbed_repeat_does_not_count_and_is_mentioned() -> None:
    found = chosen([1.6, 9.0, 1.2, 1.4], [False, True, False, False])
    assert found.counted == (0, 2, 3) and found.shown == 3
    assert found.name == "the median of 3 repeats" and found.remark.startswith("1 repeat was")
    assert not found.is_disturbed


def test_if_every_repeat_was_disturbed_the_shown_one_says_so() -> None:
    found = chosen([9.0, 8.0], [True, True])
    assert found.is_disturbed and found.remark.startswith("Disturbed: the speedup exceeds")


@pytest.mark.parametrize(
    ("disturbed", "runs"), [([], 3), ([1], 4), ([0, 1], 5), (list(range(9)), 6)]
)
def test_disturbed_repeats_are_measured_again_at_most_once_each(
    disturbed: list[int], runs: int
) -> None:
    found = repeated(lambda number: number, disturbed.__contains__, 3)
    assert found == list(range(runs))


def test_a_spread_that_exceeds_the_tokens_per_forward_gets_a_remark() -> None:
    assert "disturbed" in remark_of(2.0, 1.9) and remark_of(1.9, 1.9) == ""
