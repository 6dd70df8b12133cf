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

from specviz import theory
from specviz.sizing.forward_time import GPUS, placed
from specviz.sizing.shape import EAGLE, MODELS, N_GRAM, eagle_head

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
    batch: int = 1
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
        rows = self.batch
        step = target.seconds(rows, 1, self.context)
        if self.kind == RATE:
            return rows / step
        if self.kind == PROMPT_RATE:
            return rows * self.context / target.prefill_seconds(rows, self.context)
        round_seconds = target.seconds(rows, self.verified, self.context)
        if self.draft.startswith(EAGLE):
            head = placed(eagle_head(shape), gpu, self.gpus, self.precision)
            round_seconds += self.draft_forwards * head.seconds(rows, 1, self.context)
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
    speedups = [run for run in RUNS if run.kind == SPEEDUP]
    batched = sum(run.batch > 1 for run in speedups)
    note = f"; {worst.note}" if worst.note else ""
    return (
        f"The {len(speedups)} published speedups come out {_range(*SPEEDUP_ERRORS)} here, "
        f"and {batched or 'none'} of them {'is' if batched < 2 else 'are'} at more than one "
        f"request at once. Of all {len(RUNS)} published measurements half come out within "
        f"{100 * middle:.0f} %, the worst figure {_off(worst.error)} ({worst.kind}, "
        f"{worst.setting}{note}). The constants are the same for all, and were not adjusted after "
        "the comparison."
    )


def n_gram_overheads() -> str:
    """What verifying took in published runs with n-grams, where nothing else costs anything."""
    extra = [run.tokens_per_round / run.value - 1 for run in _N_GRAMS]
    return (
        "Verifying costs next to nothing here while a forward waits for its weights to be read. In "
        f"the published runs with n-grams of the prompt, {N_GRAM_LENGTH} guesses a round and one "
        f"request, a round took {100 * min(extra):.0f} to {100 * max(extra):.0f} % longer than a "
        "plain forward. Longer guesses than those are not looked at for n-grams, and without a "
        f"rate of yours theirs is taken, {N_GRAM_ACCEPTANCE:.2f}."
    )


def _off(error: float) -> str:
    """
    >>> _off(24.35), _off(-0.4)
    ('comes out 25 times as high', 'off by -40 %')
    """
    return (
        f"comes out {1 + error:.0f} times as high" if error > 1 else f"off by {100 * error:+.0f} %"
    )


def _range(low: float, high: float) -> str:
    """Of errors, in words.

    >>> _range(0.05, 0.47), _range(-0.1, 0.2)
    ('5 to 47 % too high', '-10 to +20 % off')
    """
    if low >= 0:
        return f"{100 * low:.0f} to {100 * high:.0f} % too high"
    return f"{100 * low:+.0f} to {100 * high:+.0f} % off"


def _acceptance(run: PublishedRun) -> float:
    """The i.i.d. rate that emits as many tokens a round."""
    rate = theory.break_even_acceptance(run.verified - 1, 0.0, run.tokens_per_round - 1)
    assert rate is not None  # it emits at most what it verifies
    return rate


_DATA = tomllib.loads(_FILE.read_text(encoding="utf-8"))
SOURCES: dict[str, dict[str, str]] = _DATA["sources"]
RUNS = tuple(PublishedRun(**entry) for entry in _DATA["measured"])
_N_GRAMS = [run for run in RUNS if run.draft == N_GRAM]
# of n-grams of the prompt: the middle acceptance rate, the highest one, and the longest guesses
N_GRAM_ACCEPTANCE = round(median(map(_acceptance, _N_GRAMS)), 2)
N_GRAM_HIGHEST = max(map(_acceptance, _N_GRAMS))
# of the speedups: how far too high the least and the most promising come out
_SPEEDUP_ERRORS = [run.error for run in RUNS if run.kind == SPEEDUP]
SPEEDUP_ERRORS = (min(_SPEEDUP_ERRORS), max(_SPEEDUP_ERRORS))
# of prompts: how much longer they took than they come out
PROMPT_ERROR = median(run.error for run in RUNS if run.kind == PROMPT_RATE)
N_GRAM_LENGTH = max(run.verified - 1 for run in _N_GRAMS)
