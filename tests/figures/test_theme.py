"""The palettes fit each other and are readable."""

from __future__ import annotations

import doctest

import pytest

from specviz.figures import hover, labels
from specviz.figures.outcomes import LOOKS
from specviz.figures.theme import DARK, LIGHT, PALETTES
from specviz.records import ExtraKind, Outcome

DATA_ROLES = sorted(LIGHT.keys() - {"grid", "paper", "card"})


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2: 0 is black, 1 white."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_both_palettes_have_the_same_roles() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert set(PALETTES) == {"light", "dark"}


@pytest.mark.parametrize("role", DATA_ROLES)
def test_dark_roles_stand_out_from_the_dark_card(role: str) -> None:
    assert contrast(DARK[role], DARK["card"]) >= 3


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("role", ["ink", "muted"])
def test_text_is_readable_on_card_and_paper(palette: str, role: str) -> None:
    colours = PALETTES[palette]
    assert contrast(colours[role], colours["card"]) >= 4.5
    assert contrast(colours[role], colours["paper"]) >= 4.5


def test_outcomes_keep_the_colours_that_colour_blind_readers_tell_apart() -> None:
    wanted = ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#999999")
    roles = ("accepted", "rejected", "recovered", "bonus", "unreached")
    assert tuple(LIGHT[role] for role in roles) == wanted


def test_every_outcome_has_a_shape_and_a_mark_of_its_own_beside_its_colour() -> None:
    outcomes = [each.value for each in (*Outcome, *ExtraKind) if each is not ExtraKind.FIRST]
    assert sorted(LOOKS) == sorted(outcomes)
    for quality in ("light", "dark", "symbol", "mark", "title"):
        assert len({getattr(look, quality) for look in LOOKS.values()}) == len(LOOKS)


def test_swapping_colours_by_value_needs_no_role() -> None:
    swap = {(LIGHT[role], DARK[role]) for role in LIGHT}
    assert len({light for light, _ in swap}) == len(swap)


@pytest.mark.parametrize("module", [hover, labels])
def test_the_worked_examples_hold(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.failed == 0 and results.attempted > 0
