"""At each moment of a round the page tells what is known then, and no more."""

from __future__ import annotations

from step_driver import StepDriver


def test_no_token_is_called_accepted_before_it_is_judged(opened: StepDriver) -> None:
    assert opened.phase == "draft"
    assert "accepted" not in opened.driver.text("stepOrigin")
    opened.page.get_by_role("button", name="accept/reject").click()
    opened.settle()
    assert "accepted" in opened.driver.text("stepOrigin")
