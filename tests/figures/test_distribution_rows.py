"""The rows that show a distribution contain the right tokens, each with the recorded q."""

from __future__ import annotations

import pytest

from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.figures.distribution_rows import distribution_rows
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.records import DecodingConfig, Drawing


def test_a_later_sibling_shows_the_q_of_the_first_draw_as_all_rows_do() -> None:
    """When siblings are drawn without replacement, q of a later sibling is scaled up.

    The rule divides q by the mass that is left after the earlier siblings. No row of the table
    shows this scaled distribution.
    """
    config = DecodingConfig(
        method="draft-tree",
        branching=(4,),
        draft_length=1,
        drawing=Drawing.WITHOUT_REPLACEMENT,
        temperature=1.0,
        max_new_tokens=16,
    )
    race = start_race(RaceRequest(pair_named(BUNDLED), "def f(x):\n", config, device="cpu"))
    for _ in race:
        pass
    race.close()
    compared = 0
    for each in race.trace().rounds:
        for position in (p for p in each.positions if p.parent == -1 and p.draft_probs):
            known = dict(zip(position.token_ids, position.draft_probs, strict=True))
            # If no position is passed, the rows are made from the drafted nodes alone.
            for row in distribution_rows(None, each, 0, is_raw=False):
                if row.token_id in known and row.node:
                    assert row.draft == pytest.approx(known[row.token_id], rel=1e-3)
                    compared += 1
    assert compared > 5
