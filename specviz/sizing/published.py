"""How far to trust the sizes: published measurements, and what our forwards make of each setting.

`forward_time` has one set of constants, from data sheets and kernels, for all of them. Some figures
of gpt-fast had been seen before those were settled; none was adjusted after the comparison. The
errors are what a plan's numbers have to be read with.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from specviz.sizing.forward_time import GPUS, placed
from specviz.sizing.serving_plan import EAGLE
from specviz.sizing.shape import MODELS, eagle_head

RATE, PROMPT_RATE, SPEEDUP = "rate", "prompt rate", "speedup"
UNITS = {RATE: "tokens/s", PROMPT_RATE: "prompt tokens/s", SPEEDUP: "x"}
_FILE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One measurement of somebody else's: see published.toml for its fields."""

    source: str
    kind: str
    target: str
    gpu: str
    context: int
    value: float
    gpus: int = 1
    precision: str = "bf16"
    draft: str = ""
    tokens_per_round: float = 1.0
    draft_forwards: int = 0
    verified: int = 1
    note: str = ""

    @property
    def computed(self) -> float:
        """What the forwards' times make of it, in the published unit."""
        gpu, shape = GPUS[self.gpu], MODELS[self.target]
        target = placed(shape, gpu, self.gpus, self.precision)
        step = target.seconds(1, 1, self.context)
        if self.kind == RATE:
            return 1 / step
        if self.kind == PROMPT_RATE:
            return self.context / target.prefill_seconds(1, self.context)
        round_seconds = target.seconds(1, self.verified, self.context)
        if self.draft.startswith(EAGLE):
            head = placed(eagle_head(shape), gpu, self.gpus, self.precision)
            round_seconds += self.draft_forwards * head.seconds(1, 1, self.context)
        return self.tokens_per_round * step / round_seconds

    @property
    def error(self) -> float:
        """Of what is computed, as a share of what was measured: above 0 it promises too much."""
        return self.computed / self.value - 1

    @property
    def setting(self) -> str:
        cards = f"{self.gpus} x {GPUS[self.gpu].title}" if self.gpus > 1 else GPUS[self.gpu].title
        draft = f" with {self.draft}" if self.draft else ""
        return f"{MODELS[self.target].title}{draft}, {self.precision}, {cards}"

    @property
    def group(self) -> str:
        """By what its error depends on."""
        if self.kind != RATE:
            return "prompts" if self.kind == PROMPT_RATE else "speedups"
        if self.precision not in ("bf16", "fp8"):
            return "rates, weights of 4 or 8 bits that are unpacked"
        return (
            f"rates, weights of 16 bits or FP8, {'one card' if self.gpus == 1 else 'several cards'}"
        )


def trust() -> dict[str, Any]:
    """Every measurement beside what is computed; median and worst error, in all and by group."""
    runs = [
        asdict(run)
        | {
            "setting": run.setting,
            "unit": UNITS[run.kind],
            "computed": run.computed,
            "error": run.error,
            "group": run.group,
        }
        for run in RUNS
    ]
    groups = {run.group: [each.error for each in RUNS if each.group == run.group] for run in RUNS}
    worst = max(RUNS, key=lambda run: abs(run.error))
    middle = median(abs(run.error) for run in RUNS)
    return {
        "sentence": _sentence(middle, worst),
        "median_error": middle,
        "worst_error": worst.error,
        "groups": [
            {
                "group": name,
                "count": len(errors),
                "median_error": median(map(abs, errors)),
                "lowest_error": min(errors),
                "highest_error": max(errors),
            }
            for name, errors in groups.items()
        ],
        "runs": runs,
        "sources": SOURCES,
    }


def _sentence(middle: float, worst: PublishedRun) -> str:
    too_much = sum(run.error > 0 for run in RUNS)
    note = f"; {worst.note}" if worst.note else ""
    speedups = [run.error for run in RUNS if run.kind == SPEEDUP]
    return (
        f"Of {len(RUNS)} published measurements half come out within {100 * middle:.0f} %, and for "
        f"{too_much} more is promised than was measured: speedups are off by "
        f"{100 * min(speedups):+.0f} to {100 * max(speedups):+.0f} %, the worst figure by "
        f"{100 * worst.error:+.0f} % ({worst.kind}, {worst.setting}{note}). The constants are the "
        "same for all, and were not adjusted after the comparison."
    )


_DATA = tomllib.loads(_FILE.read_text(encoding="utf-8"))
SOURCES: dict[str, dict[str, str]] = _DATA["sources"]
RUNS = tuple(PublishedRun(**entry) for entry in _DATA["measured"])
