"""The lab's advice: progress messages during the measurement, then the verdict with its reasons.

Kinds of message: `progress`, `advice`, `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.advisor.advice import Wording
from specviz.advisor.measured_before import fastest_of_sweep
from specviz.advisor.probe import Candidate
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, read_number, read_whole, short
from specviz.experiments.advice.advising import DEFAULT_SECONDS, Advising
from specviz.experiments.advice.probing import AdviceRequest
from specviz.models.pair_catalog import Pair
from specviz.sizing.file_acceptance import read_object
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder, prompt_warnings
from specviz.ui.lab.lab_setting import LabSetting, lab_setting
from specviz.ui.lab.lab_sweeps import MAX_CHARACTERS
from specviz.ui.messages import Message

# Shortest and longest time that a user may choose for the measurement, in seconds.
SECONDS = (10.0, 600.0)
SHOWN = Wording(lambda name: method_named(name).title, "×")


@dataclass(frozen=True, slots=True)
class AdviceOrder(LabOrder):
    """A job that probes all methods and races the best ones, for `seconds` seconds in total.

    If the user stops it, the advice uses what was measured until then.
    """

    title: ClassVar[str] = "advice"

    request: AdviceRequest
    setting: LabSetting
    seconds: float = DEFAULT_SECONDS

    @property
    def pair(self) -> Pair:
        return self.request.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        setting = self.setting
        yield from prompt_warnings(setting.pair, setting.device, setting.dtype, setting.own_prompts)
        advising = Advising(self.request, self.seconds, SHOWN)
        for step in until_stopped(advising, stop):
            yield {
                "kind": "progress",
                "stage": step.stage,
                "doing": step.doing,
                "seconds_left": step.seconds_left,
            }
        yield from self._advice(advising)
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _advice(self, advising: Advising) -> Iterator[Message]:
        advice = advising.advice()
        if advice is None:
            return
        fields = advice.to_dict()
        ranking = [
            each | {"title": SHOWN.candidate(Candidate(**each["candidate"]))}
            for each in fields["ranking"]
        ]
        refusals = [each | {"title": SHOWN.method(each["method"])} for each in fields["refusals"]]
        yield {
            "kind": "advice",
            "setting": self._setting,
            **fields,
            "ranking": ranking,
            "refusals": refusals,
        }

    @property
    def _setting(self) -> str:
        request = self.request
        parts = [
            *self.setting.words,
            f"{request.config.max_new_tokens} new tokens",
            f"batch size {request.batch_size}",
        ]
        return " · ".join(parts)


def advice_order(question: Mapping[str, Any]) -> AdviceOrder:
    """Return the job for a request for advice.

    The question is {"form", "prompts", "batch_size", "seconds", "methods", "sweep"}.
    `lab_setting` reads "form" and "prompts". "methods" holds names separated by commas. If it is
    empty or missing, all methods are tried. "sweep" is the file of the sweep on the page. If that
    sweep used the same pair, its fastest setting is probed first.
    """
    setting = lab_setting(question)
    request = AdviceRequest(
        setting.pair,
        setting.prompts,
        setting.config,
        setting.task,
        read_whole(question.get("batch_size"), "batch_size"),
        AdviceRequest.methods_of(_methods(question)),
        device=setting.device,
        dtype=setting.dtype,
        before=fastest_of_sweep(read_object(_sweep(question)), setting.pair.name),
    )
    seconds = read_number(question.get("seconds"), "seconds")
    if not SECONDS[0] <= seconds <= SECONDS[1]:
        low, high = SECONDS
        raise InputError(f"seconds must be from {low:g} to {high:g}, got {seconds:g}")
    return AdviceOrder(request, setting, seconds)


def advice_offer() -> dict[str, Any]:
    return {"seconds": DEFAULT_SECONDS}


def _sweep(question: Mapping[str, Any]) -> str:
    value = question.get("sweep", "")
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise InputError(f"sweep must be the text of a sweep's file, got {short(value)}")
    return value


def _methods(question: Mapping[str, Any]) -> str:
    value = question.get("methods", "")
    if not isinstance(value, str):
        raise InputError(f"methods must be names separated by commas, got {short(value)}")
    return value
