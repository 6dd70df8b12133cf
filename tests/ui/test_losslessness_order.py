"""The page's exactness test finds wrong rules, and refuses requests that break a rule."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.experiments.bug_zoo import laboratory
from specviz.ui.lab.lab_losslessness import PLACE, losslessness_order, place_of

FORM = PLACE | {"temperature": "1"}
QUESTION: dict[str, Any] = {"form": FORM, "rule": "right", "draft": "", "draws": 2000}


def last(**changes: Any) -> dict[str, Any]:
    """Return the last message with counts, which comes just before the end of the measurement."""
    messages = list(losslessness_order(QUESTION | changes).messages(threading.Event()))
    assert messages[-1] == {"kind": "end", "reason": "done"}
    return messages[-2]


def test_the_decoder_s_own_rule_is_found_exact_with_any_draft() -> None:
    with_model, with_dice = last(), last(draft="random")
    assert not with_model["is_other"] and not with_dice["is_other"]
    assert with_dice["accepted"] < with_model["accepted"]
    for cell in with_model["cells"]:
        assert sum(each["p"] for each in cell) == pytest.approx(1)


def test_a_wrong_rule_is_found_and_its_counts_include_all_draws() -> None:
    found = last(rule="resampled-from-target")
    assert found["is_other"]
    assert sum(each["count"] for each in found["cells"][0]) == found["draws"] == 2000


@pytest.mark.parametrize(
    ("rule", "draws"),
    [
        ("length-by-drawn-token", 1000),
        ("block-stops-early", 1000),
        pytest.param("stop-after-drawing", 16_000, marks=pytest.mark.slow),
        pytest.param("block-plain-residual", 16_000, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_rule_that_drafts_two_places_is_found_at_its_own_text(
    rule: str, draws: int
) -> None:
    place = place_of(rule)
    assert place["prompt"] != PLACE["prompt"]
    found = last(form=place | {"temperature": "1"}, rule=rule, draws=draws)
    assert found["is_other"] and found["side_by_side"]


def test_a_draft_of_dice_is_judged_over_two_places_as_well() -> None:
    found = last(
        form=place_of("block-stops-early"), rule="block-stops-early", draft="random", draws=50
    )
    assert found["draws"] == 50


def test_any_other_method_decodes_once_per_draw() -> None:
    found = last(form=FORM | {"method": "prompt-lookup"}, draws=3)
    assert not found["side_by_side"] and found["draws"] == 3


def test_block_verification_decodes_once_per_draw() -> None:
    found = last(form=FORM | {"rule": "block"}, draws=3)
    assert not found["side_by_side"] and found["draws"] == 3


def test_a_long_series_sends_intermediate_counts_and_ends_with_its_last_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(laboratory, "MOST_STEPS", 2)
    order = losslessness_order(QUESTION | {"form": FORM | {"method": "prompt-lookup"}, "draws": 5})
    counts = [each["draws"] for each in order.messages(threading.Event()) if "draws" in each]
    assert counts == [3, 5]


def test_at_temperature_0_one_token_is_certain() -> None:
    found = last(form=FORM | {"temperature": "0"}, draws=20)
    assert not found["is_other"] and found["distance"]["total_variation"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "none"},
        {"draft": "bad"},
        {"draws": 0},
        {"draws": "many"},
        {"form": FORM | {"method": "prompt-lookup"}, "rule": "equal-argmax"},
        {"form": FORM | {"rule": "block"}, "rule": "equal-argmax"},
        {"form": FORM | {"rule": "block"}, "draft": "random"},
        {"form": 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_request_that_breaks_a_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        losslessness_order(QUESTION | changes)


def test_a_stopped_series_keeps_its_draws() -> None:
    stop = threading.Event()
    messages = losslessness_order(QUESTION).messages(stop)
    assert next(messages)["draws"] < 2000
    stop.set()
    assert list(messages)[-1] == {"kind": "end", "reason": "stopped"}
