"""The sweeps that lessons measure, by name; each has few points, so that it is quick anywhere.

Most use the bundled pair. The sweep of drafters uses the chat model if it is on this machine. A
lesson's sweep sends the same messages as a sweep of the lab.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.errors import InputError, short
from specviz.models.pair_catalog import BUNDLED, CHAT, pair_named
from specviz.ui.lab.lab_sweeps import SweepOrder, sweep_order


def _sweep(task: str, axis: str, values: str, prompts: int = 1, **changes: str) -> dict[str, Any]:
    form = {"pair": BUNDLED, "task": task, "method": "draft-model", "draft_length": "4"}
    form |= {"max_new_tokens": "32", "temperature": "0"} | changes
    return {
        "form": form,
        "prompts": {"count": str(prompts)},
        "axes": [{"name": axis, "values": values}],
    }


DRAFTERS = "draft-model,quantised-self,early-exit,eagle,medusa,lookahead,prompt-lookup"
TASKS = "code,story,maths,translate,summarise"
SHAPES = "1x1x1x1x1x1,2x1x1,2x2,6"  # tree shapes with six nodes each
SWEEPS = {
    # Lesson 5 asks how many tokens to draft.
    "lengths": _sweep("story", "draft-length", "1,2,4,8", max_new_tokens="24"),
    # Lesson 6 compares tree shapes, for a draft that is often right and for one that is often
    # wrong. Then it compares all drafters.
    "shapes": _sweep("story", "tree", SHAPES, 16, method="draft-tree", temperature="0.7"),
    "shapes-hard": _sweep("summarise", "tree", SHAPES, 16, method="draft-tree", temperature="1"),
    "drafters-summary": _sweep("summarise", "method", DRAFTERS, pair=CHAT, method="prompt-lookup"),
    "drafters-story": _sweep("story", "method", DRAFTERS, pair=CHAT, method="prompt-lookup"),
    # Lesson 7 shows when speculation does not pay.
    "temperatures": _sweep("story", "temperature", "0,1,1.5,2,3,5", 8),
    "batches": _sweep("story", "batch-size", "1,4,16", 16, max_new_tokens="24"),
    "answers": _sweep("summarise", "output-length", "2,8,64"),
    "dear-draft": _sweep("summarise", "method", "draft-model,early-exit", 8),
    # The section on further reading measures a drafter that works while the target verifies.
    "ahead": _sweep("story", "method", "draft-model,pre-speculation", 2, max_new_tokens="48"),
    "models": _sweep("translate", "pair", f"{BUNDLED},{CHAT}", method="quantised-self"),
    # The remaining sweeps are measured in exercises.
    "three-lengths": _sweep("story", "draft-length", "2,5,10", max_new_tokens="64"),
    "tasks": _sweep("code", "task", TASKS, max_new_tokens="48"),
    "tasks-lookup": _sweep("code", "task", TASKS, method="prompt-lookup", max_new_tokens="48"),
}


def lesson_sweep(question: Mapping[str, Any], repeats: int = 1) -> SweepOrder:
    """Return the job for the question {"sweep": one of SWEEPS}.

    The job measures each point `repeats` times.
    """
    name = str(question["sweep"])
    if name not in SWEEPS:
        raise InputError(f"sweep must be one of {', '.join(SWEEPS)}, got {short(name)}")
    asked = SWEEPS[name]
    if asked["form"]["pair"] == CHAT and not pair_named(CHAT).is_here:
        asked = asked | {"form": asked["form"] | {"pair": BUNDLED}}
    return sweep_order(asked | {"repeats": str(repeats)})
