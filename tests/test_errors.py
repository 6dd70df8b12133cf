"""A check of a number accepts valid values and refuses others with a message that names both."""

from __future__ import annotations

import math

import pytest

from specviz.errors import InputError, number_between, read_number, read_whole, whole_between

HUGE = pytest.param(10**5000, id="huge")  # the number has more digits than Python converts to text


@pytest.mark.parametrize(
    ("given", "number"),
    [(7, 7), (7.0, 7), (" 7 ", 7), ("+7", 7), ("3,000", 3000), ("-3,000", -3000), ("-1", -1)],
)
def test_a_whole_number_is_read_as_people_write_it(given: object, number: int) -> None:
    assert read_whole(given, "K") == number


@pytest.mark.parametrize(
    "given", [True, None, 7.5, "", "3.000", "3,00", "1_000", "٧", "7" * 5000, [7], math.nan]
)
def test_a_value_that_is_no_whole_number_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="^K must be a whole number, got "):
        read_whole(given, "K")


@pytest.mark.parametrize(
    ("given", "number"),
    [(2, 2.0), ("0,7", 0.7), (",5", 0.5), ("-1,200.5", -1200.5), ("1e3", 1000.0), ("+2.", 2.0)],
)
def test_a_number_is_read_as_people_write_it(given: object, number: float) -> None:
    assert read_number(given, "a") == number


@pytest.mark.parametrize("given", [True, None, "", "hot", "nan", "1e999", [1], {}, 10**400, HUGE])
def test_a_value_that_is_no_number_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="^a must be a number, got "):
        read_number(given, "a")


@pytest.mark.parametrize("given", ["01,000", "1,000e3", "1_0", "٣", "３,５", "1,2,3", "0x10", "."])
def test_ambiguous_numbers_and_numbers_in_python_syntax_are_refused(given: str) -> None:
    with pytest.raises(InputError, match="^a must be a number, got "):
        read_number(given, "a")


@pytest.mark.parametrize("check", [number_between, whole_between, read_whole, read_number])
@pytest.mark.parametrize("value", [0, 33])
def test_the_message_names_both_bounds(check: object, value: int) -> None:
    with pytest.raises(InputError, match=f"number from 1 to 32, got {value}$"):
        check(value, "K", 1, 32)  # type: ignore[operator]


@pytest.mark.parametrize("check", [number_between, whole_between])
def test_a_number_as_text_is_refused_from_a_program(check: object) -> None:
    with pytest.raises(InputError, match="got '7'$"):
        check("7", "K")  # type: ignore[operator]
