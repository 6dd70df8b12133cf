"""The lab's comparison of this app with the Transformers library's own ways to decode.

Kinds of message: `progress`, `peers` (everything measured so far), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import read_whole
from specviz.models.pair_catalog import Pair
from specviz.records import MAX_DRAFT_LENGTH
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder, prompt_warnings
from specviz.ui.lab.lab_setting import LabSetting, lab_setting, prompts_words
from specviz.ui.messages import Message
from specviz.ui.settings_form import refusal

# PLAIN, and each method in SAME, is a title, this app's name of the method, and the call of
# Transformers that decodes in the same way.
PLAIN = ("Plain decoding", "baseline", "generate()")
SAME = (
    ("A draft model", "draft-model", "generate(assistant_model)"),
    ("Prompt lookup", "prompt-lookup", "generate(prompt_lookup_num_tokens)"),
    ("Early exit", "early-exit", "generate(assistant_early_exit)"),
)
TITLES = {ours: f"{title}, this app" for title, ours, _ in (PLAIN, *SAME)}


@dataclass(frozen=True, slots=True)
class PeersOrder(LabOrder):
    """A job that compares this app with Transformers, with equal models, prompts and draft length.

    Both decode greedily. If stopped, the job keeps what it has measured.
    """

    title: ClassVar[str] = "a comparison of peers"

    setting: LabSetting
    draft_length: int
    repeats: int = 3

    @property
    def pair(self) -> Pair:
        return self.setting.pair

    @property
    def _compared(self) -> list[tuple[str, str, str]]:
        """Return the methods in the list SAME that these models can run."""
        return [each for each in SAME if refusal(self.pair, method_named(each[1])) is None]

    def messages(self, stop: threading.Event) -> Generator[Message]:
        from specviz.experiments.benchmark.benchmark import Benchmark

        setting = self.setting
        yield from prompt_warnings(setting.pair, setting.device, setting.dtype, setting.own_prompts)
        if not stop.is_set():
            measuring = Benchmark(self._plan())
            for step in until_stopped(measuring, stop):
                yield {
                    "kind": "progress",
                    "doing": TITLES.get(step.doing, step.doing),
                    "repeat": None if step.seconds_left is None else step.repeat + 1,
                    "repeats": max(self.repeats, step.repeat + 1),
                    "seconds_left": step.seconds_left,
                }
                yield self._peers(measuring.result()["rows"])
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _plan(self) -> Any:
        from specviz.experiments.benchmark.benchmark import Plan

        setting = self.setting
        return Plan(
            setting.pair,
            (setting.task,),
            tuple(method for _, method, _ in self._compared),
            (self.draft_length,),
            max_new_tokens=setting.config.max_new_tokens,
            prompts=len(setting.prompts),
            repeats=self.repeats,
            device=setting.device,
            dtype=setting.dtype,
            texts=setting.own_prompts,
            peers=tuple(call for _, _, call in self._compared),
        )

    def _peers(self, rows: Sequence[dict[str, Any]]) -> Message:
        found = {row["method"]: row for row in rows}
        pairs = [
            _pair(title, call, found.get(ours), found.get(call))
            for title, ours, call in (PLAIN, *self._compared)
            if ours in found or call in found
        ]
        return {"kind": "peers", "pairs": pairs, "setting": self._setting}

    @property
    def _setting(self) -> str:
        setting = self.setting
        parts = [
            setting.pair.title,
            prompts_words(setting.task, len(setting.prompts)),
            f"K {self.draft_length}",
            "temperature 0 (both sides are compared greedily)",
            f"{setting.config.max_new_tokens} new tokens",
            "1 pass" if self.repeats == 1 else f"{self.repeats} passes",
        ]
        return " · ".join(parts)


def _pair(
    title: str, call: str, ours: dict[str, Any] | None, theirs: dict[str, Any] | None
) -> dict[str, Any]:
    """Return one row of the table: the results of this app and of Transformers, and their ratio.

    The ratio of the two speeds is None until both results are known.
    """
    ratio = _ratio(ours["rates"], theirs["rates"]) if ours and theirs else None
    return {"title": title, "call": call, "ours": ours, "theirs": theirs, "ratio": ratio}


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return this app's median speed divided by that of Transformers.

    If the user stopped the job, one of the two may have completed one pass more than the other.
    This additional pass is ignored.
    """
    both = min(len(ours), len(theirs))
    return median(ours[:both]) / median(theirs[:both])


def peers_order(question: Mapping[str, Any]) -> PeersOrder:
    """Return the job that compares this app with Transformers.

    The question is {"form", "prompts", "draft_length"}. `lab_setting` reads "form" and "prompts".
    """
    length = read_whole(question.get("draft_length"), "draft_length", 1, MAX_DRAFT_LENGTH)
    return PeersOrder(lab_setting(question), length)
