"""Compare published measurements with computed times, to show how far to trust a plan.

`forward_time` computes all times with the same constants: the speeds in data sheets, and
properties of GPU kernels. When these constants were chosen, some published speeds of gpt-fast were
already known. After the comparison, no constant was changed. A plan uses the same function, so its
times have errors of about the same size.
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
    """One published measurement. published.toml describes the fields."""

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
        """Return the value that specviz computes for this measurement, in the published unit."""
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
        """Return computed / published - 1.

        A positive error means that the computed value promises too much.
        """
        return self.computed / self.value - 1

    @property
    def setting(self) -> str:
        cards = f"{self.gpus} x {GPUS[self.gpu].title}" if self.gpus > 1 else GPUS[self.gpu].title
        draft = f" with {self.draft}" if self.draft else ""
        return f"{MODELS[self.target].title}{draft}, {self.precision}, {cards}"

    @property
    def group(self) -> str:
        """Return the group of measurements to which this one belongs.

        The errors in a group have common causes.
        """
        if self.kind != RATE:
            return "prompts" if self.kind == PROMPT_RATE else "speedups"
        if self.precision not in ("bf16", "fp8"):
            return "rates, weights of 4 or 8 bits that are unpacked"
        return (
            f"rates, weights of 16 bits or FP8, {'one card' if self.gpus == 1 else 'several cards'}"
        )


def trust() -> dict[str, Any]:
    """Return all measurements with their computed values and errors, and a summary by group."""
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
        f"specviz computes the {len(speedups)} published speedups {_range(*SPEEDUP_ERRORS)}; "
        f"{batched or 'none'} of them {'was' if batched < 2 else 'were'} measured with more than "
        f"one request at once. For half of all {len(RUNS)} published measurements, the error is at "
        f"most {100 * middle:.0f} %. The worst one is {_off(worst.error)} ({worst.kind}, "
        f"{worst.setting}{note}). All are computed with the same constants, which were not "
        "adjusted after the comparison."
    )


def n_gram_overheads() -> str:
    """Return a sentence about the cost of verification in published runs with n-grams."""
    extra = [run.tokens_per_round / run.value - 1 for run in _N_GRAMS]
    return (
        "In this computation, verification costs almost nothing as long as reading the weights "
        "takes longer than the arithmetic. In the published runs with n-grams of the prompt "
        f"({N_GRAM_LENGTH} guesses per round, one request), a round took {100 * min(extra):.0f} to "
        f"{100 * max(extra):.0f} % longer than a plain forward. The plan tries no longer n-gram "
        f"drafts. If you give no rate, it uses the median of these runs, {N_GRAM_ACCEPTANCE:.2f}."
    )


def _off(error: float) -> str:
    """Return a relative error in words.

    >>> _off(24.35), _off(-0.4)
    ('computed 25 times as high', 'off by -40 %')
    """
    return (
        f"computed {1 + error:.0f} times as high" if error > 1 else f"off by {100 * error:+.0f} %"
    )


def _range(low: float, high: float) -> str:
    """Return a range of relative errors in words.

    >>> _range(0.05, 0.47), _range(-0.1, 0.2)
    ('5 to 47 % too high', '-10 to +20 % off')
    """
    if low >= 0:
        return f"{100 * low:.0f} to {100 * high:.0f} % too high"
    return f"{100 * low:+.0f} to {100 * high:+.0f} % off"


def _acceptance(run: PublishedRun) -> float:
    """Return the acceptance rate, the same at all depths, that gives the run's tokens per round."""
    rate = theory.break_even_acceptance(run.verified - 1, 0.0, run.tokens_per_round - 1)
    # `rate` is None only for more than `run.verified` tokens per round, which no run can have.
    assert rate is not None
    return rate


_DATA = tomllib.loads(_FILE.read_text(encoding="utf-8"))
SOURCES: dict[str, dict[str, str]] = _DATA["sources"]
RUNS = tuple(PublishedRun(**entry) for entry in _DATA["measured"])
_N_GRAMS = [run for run in RUNS if run.draft == N_GRAM]
# The median and the highest acceptance rate of published runs that draft with n-grams.
N_GRAM_ACCEPTANCE = round(median(map(_acceptance, _N_GRAMS)), 2)
N_GRAM_HIGHEST = max(map(_acceptance, _N_GRAMS))
# The lowest and the highest relative error of computed speedups.
_SPEEDUP_ERRORS = [run.error for run in RUNS if run.kind == SPEEDUP]
SPEEDUP_ERRORS = (min(_SPEEDUP_ERRORS), max(_SPEEDUP_ERRORS))
# The median relative error of computed prompt rates. It is 0.2 if published prompts took 20 %
# longer than computed ones.
PROMPT_ERROR = median(run.error for run in RUNS if run.kind == PROMPT_RATE)
# The longest draft in any published run, and the longest draft in a published run with n-grams.
DEEPEST_DRAFT = max(run.draft_forwards for run in RUNS)
N_GRAM_LENGTH = max(run.verified - 1 for run in _N_GRAMS)
