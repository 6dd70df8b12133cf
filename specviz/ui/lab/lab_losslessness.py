"""The losslessness laboratory: a test of one acceptance rule.

The laboratory draws the token at one position of a text thousands of times.

Every question is checked. Kinds of message: `counts` (everything drawn so far), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specviz.errors import InputError, short, whole_between
from specviz.experiments.bug_zoo.laboratory import (
    SIDE_BY_SIDE,
    Laboratory,
    LaboratoryRequest,
    LaboratoryStep,
)
from specviz.experiments.bug_zoo.zoo import RIGHT, specimens
from specviz.models.pair_catalog import BUNDLED, Pair
from specviz.records import prompt_text
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import race_request

DRAFTS = ("", "random")
# At this position the bundled draft is nearly sure of a token to which the target gives little
# probability. Rejections are therefore frequent, and they expose a rule that treats them wrongly.
PLACE = {
    "pair": BUNDLED,
    "method": SIDE_BY_SIDE,
    "draft_length": "1",
    "task": "translate",
    "prompt": "I'm sorry.\nDésolé",
}


def place_of(rule: str) -> dict[str, str]:
    """Return the form's fields for the position at which this rule is tested by default.

    A rule of the zoo can have a text of its own, which shows it best.
    """
    specimen = specimens().get(rule)
    return PLACE | ({"prompt": specimen.text} if specimen and specimen.text else {})


def zoo_offer() -> dict[str, Any]:
    """Return the data that the page needs before a test.

    The data are the acceptance rules, and the values of the form's fields for the default position.
    """
    return {"specimens": [asdict(each) for each in specimens().values()], "form": PLACE}


@dataclass(frozen=True, slots=True)
class LosslessnessOrder(LabOrder):
    """A job that samples one position of a text; if stopped, it keeps the draws so far."""

    title: ClassVar[str] = "a test of losslessness"

    request: LaboratoryRequest

    @property
    def pair(self) -> Pair:
        return self.request.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        laboratory = Laboratory(self.request)
        for step in until_stopped(laboratory, stop):
            yield _counts(step, laboratory)
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def _counts(step: LaboratoryStep, laboratory: Laboratory) -> Message:
    return {
        "kind": "counts",
        **asdict(step),
        "is_other": step.is_other,
        "side_by_side": laboratory.is_side_by_side,
    }


def losslessness_order(question: Mapping[str, Any]) -> LosslessnessOrder:
    """Return the job for a test of an acceptance rule.

    The question is {"form", "rule", "draft", "draws"}. The form has the fields of a race's form.
    Its prompt is the text before the position.
    """
    form = question.get("form")
    if not isinstance(form, dict):
        raise InputError(f"form must be an object from setting to value, got {short(form)}")
    usual = race_request(form)
    draft = question.get("draft", "")
    if draft not in DRAFTS:
        raise InputError(f"draft must be one of {', '.join(map(repr, DRAFTS))}, got {short(draft)}")
    request = LaboratoryRequest(
        usual.pair,
        prompt_text(usual.prompt),
        usual.config,
        whole_between(question.get("draws"), "draws"),
        str(question.get("rule", RIGHT)),
        draft == "random",
        usual.task,
        usual.device,
        usual.dtype,
    )
    return LosslessnessOrder(request)
