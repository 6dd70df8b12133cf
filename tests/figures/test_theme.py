"""The light and the dark palette have the same roles and are readable."""

from __future__ import annotations

import doctest

import pytest

from specviz.figures import hover, labels
from specviz.figures.outcomes import LOOKS
from specviz.figures.theme import DARK, LIGHT, PALETTES
from specviz.records import ExtraKind, Outcome

DATA_ROLES = sorted(LIGHT.keys() - {"grid", "paper", "card"})


def luminance(colour: str) -> float:
    """Return the relative luminance by WCAG 2: 0 for black, 1 for white."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_follows_the_wcag_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_both_palettes_have_the_same_roles() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert set(PALETTES) == {"light", "dark"}


@pytest.mark.parametrize("role", DATA_ROLES)
def test_dark_roles_have_enough_contrast_on_the_dark_card(role: str) -> None:
    assert contrast(DARK[role], DARK["card"]) >= 3


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("role", ["ink", "muted"])
def test_text_is_readable_on_cards_and_on_the_page(palette: str, role: str) -> None:
    colours = PALETTES[palette]
    assert contrast(colours[role], colours["card"]) >= 4.5
    assert contrast(colours[role], colours["paper"]) >= 4.5


def test_colours_of_outcomes_can_be_distinguished_by_colour_blind_readers() -> None:
    wanted = ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#999999")
    roles = ("accepted", "rejected", "recovered", "bonus", "unreached")
    assert tuple(LIGHT[role] for role in roles) == wanted


def test_every_outcome_has_its_own_shape_and_mark_in_addition_to_its_colour() -> None:
    outcomes = [each.value for each in (*Outcome, *ExtraKind) if each is not ExtraKind.FIRST]
    assert sorted(LOOKS) == sorted(outcomes)
    for quality in ("light", "dark", "symbol", "mark", "title"):
        assert len({getattr(look, quality) for look in LOOKS.values()}) == len(LOOKS)


def test_replacing_colours_by_value_needs_no_role() -> None:
    swap = {(LIGHT[role], DARK[role]) for role in LIGHT}
    assert len({light for light, _ in swap}) == len(swap)


@pytest.mark.parametrize("module", [hover, labels])
def test_the_examples_in_docstrings_are_true(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.failed == 0 and results.attempted > 0
