"""The choice among several repeats of a measurement: which one is shown, and how it is named.

Every number that is shown was really measured. If the number of repeats is even, two repeats are in
the middle, and the one with the lower speedup is therefore shown. Its name says so. A repeat that
other work disturbed counts only if all repeats were disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from specviz.metrics import exceeds

DEFAULT_REPEATS = 3  # with three repeats, neither the fastest nor the slowest one is shown
DISTURBED = "above its tokens per forward: other work disturbed it, or the texts differ in length"
Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeats of a measurement that count, and the one whose numbers are shown.

    `counted` holds the indices of the repeats that count, and `shown` is one of them. `disturbed`
    is the number of repeats whose speedup was above their tokens per forward, which is impossible.
    `is_disturbed` is True if this happened in all repeats.
    """

    counted: tuple[int, ...]
    shown: int
    disturbed: int = 0
    is_disturbed: bool = False

    @property
    def name(self) -> str:
        """Return which repeat is shown, in words.

        >>> Repeats((0,), 0).name, Repeats((0, 1), 1).name, Repeats((0, 1, 2), 1).name
        ('of one repeat', 'the lower of two repeats', 'the median of 3 repeats')
        """
        count = len(self.counted)
        if count == 1:
            return "of one repeat"
        if count == 2:
            return "the lower of two repeats"
        return f"the {'median' if count % 2 else 'lower median'} of {count} repeats"

    @property
    def remark(self) -> str:
        """Return a sentence about disturbed repeats, or "" if there were none."""
        if self.is_disturbed:
            return (
                "Disturbed: the speedup exceeds the tokens per forward, which is impossible, so "
                "other work slowed the baseline; repeat the measurement on an idle machine."
            )
        if not self.disturbed:
            return ""
        some = "1 repeat was" if self.disturbed == 1 else f"{self.disturbed} repeats were"
        return (
            f"{some} measured again: the speedup exceeded the tokens per forward, which is "
            "impossible, so other work had slowed the baseline."
        )


def remark_of(largest: float, tokens_per_forward: float | None) -> str:
    """Return a remark if the largest speedup is above the tokens per forward, otherwise "".

    >>> remark_of(1.4, 1.9)
    ''
    """
    return DISTURBED if exceeds(largest, tokens_per_forward) else ""


def chosen(speedups: Sequence[float], disturbed: Sequence[bool]) -> Repeats:
    """Return the choice: the repeat with the median speedup among those that count.

    If two repeats are in the middle, the one with the lower speedup is chosen.

    >>> chosen([1.4, 1.2, 9.0], [False, False, True])
    Repeats(counted=(0, 1), shown=1, disturbed=1, is_disturbed=False)
    """
    calm = [index for index, bad in enumerate(disturbed) if not bad]
    counted = calm or list(range(len(speedups)))
    ordered = sorted(counted, key=speedups.__getitem__)
    shown = ordered[(len(ordered) - 1) // 2]
    return Repeats(tuple(counted), shown, sum(disturbed), not calm)


def repeated(
    once: Callable[[int], Run],
    is_disturbed: Callable[[Run], bool],
    repeats: int,
    is_last: Callable[[Run], bool] = lambda run: False,
) -> list[Run]:
    """Measure until `repeats` runs were undisturbed, with at most twice as many runs.

    `once` measures a run and receives its number, from 0. If `is_last` returns True for a run, the
    series ends.
    """
    runs: list[Run] = []
    calm = 0
    while calm < repeats and len(runs) < 2 * repeats:
        runs.append(once(len(runs)))
        calm += not is_disturbed(runs[-1])
        if is_last(runs[-1]):
            break
    return runs
