"""Speed of a batch against the plain batch of the same prompts, measured in alternating blocks.

Ratios are medians over neighbouring blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from statistics import mean
from typing import Any

from specviz.decoding.batch import BatchStep
from specviz.experiments.run.batch_race import BatchRace, BatchRequest
from specviz.experiments.run.blocks import WARM_UP_TOKENS, alternating
from specviz.metrics import RoundTotals, summarise
from specviz.records import BASELINE, SPECULATIVE, BatchRound, Prefill, Round, TokenStep, Trace
from specviz.slices import give_way, letting_by


@dataclass(frozen=True, slots=True)
class LaneTotals:
    """One lane of one block, all rows together; seconds are of its own clock.

    Slots are places in the target's forwards behind the prompts, `padding` those that held no
    token because another row was longer; `prompt_padding` the same in the prompts' forward.
    """

    tokens: int
    seconds: float
    prefill_seconds: float
    draft_prefill_seconds: float
    draft_seconds: float
    verify_seconds: float
    host_seconds: float
    target_forwards: int
    slots: int
    padding: int
    prompt_padding: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def slot_waste(self) -> float:
        """Share of the slots that held no token."""
        return self.padding / self.slots if self.slots else 0.0


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """One repeat: both lanes."""

    baseline: LaneTotals
    speculative: LaneTotals

    @property
    def speedup(self) -> float:
        return self.speculative.tokens_per_second / self.baseline.tokens_per_second


@dataclass(frozen=True, slots=True)
class BatchMeasurement:
    """Every repeat; traces and texts are the last one's, row by row."""

    blocks: tuple[BatchBlock, ...]
    traces: tuple[Trace, ...]
    texts: tuple[str, ...]

    @property
    def typical(self) -> BatchBlock:
        """The repeat whose speedup is the median one."""
        ordered = sorted(self.blocks, key=lambda each: each.speedup)
        return ordered[(len(ordered) - 1) // 2]

    @property
    def speedup(self) -> float:
        """Speculative / baseline tokens per second of the whole batch."""
        return self.typical.speedup

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest speedup of all repeats."""
        speedups = [each.speedup for each in self.blocks]
        return min(speedups), max(speedups)

    def full_seconds(self, lane: str) -> float | None:
        """Mean seconds of a step (baseline) or a round (speculative) in which every row still ran,
        of the last repeat; None where there was none.
        """
        taken = [_taken_seconds(trace, lane) for trace in self.traces]
        shared = taken[0][: min(map(len, taken))]
        return mean(shared) if shared else None

    def prefill_seconds(self, lane: str) -> float:
        """Of all prompts together, with the drafter's reading of them."""
        block = self.typical
        totals = block.baseline if lane == BASELINE else block.speculative
        return totals.prefill_seconds + totals.draft_prefill_seconds

    @property
    def rounds(self) -> list[Round]:
        """Of all rows."""
        return [each for trace in self.traces for each in trace.rounds]


def _taken_seconds(trace: Trace, lane: str) -> list[float]:
    if lane == BASELINE:
        return [step.seconds for step in trace.lane(BASELINE).steps]
    return [each.work_seconds for each in trace.rounds]


def measure_batch(
    request: BatchRequest, repeats: int, progress: Callable[[str], None] = lambda line: None
) -> BatchMeasurement:
    """Run `repeats` (>= 1) pairs of blocks after a short warm-up of both lanes."""
    short = replace(request.first.config, max_new_tokens=WARM_UP_TOKENS)
    _run(replace(request, first=replace(request.first, config=short)), 0)
    blocks = []
    for repeat in range(repeats):
        race, block = _run(request, repeat)
        blocks.append(block)
        progress(f"repeat {repeat + 1} of {repeats}: {block.speedup:.2f}x")
        give_way()
    traces = race.traces()
    return BatchMeasurement(tuple(blocks), traces, tuple(race.text(trace) for trace in traces))


def _run(request: BatchRequest, repeat: int) -> tuple[BatchRace, BatchBlock]:
    race = BatchRace(request)
    try:
        totals = {lane: _totals(letting_by(race.run_lane(lane))) for lane in alternating(repeat)}
    finally:
        race.close()
    return race, BatchBlock(totals[BASELINE], totals[SPECULATIVE])


def _totals(steps: Iterable[BatchStep]) -> LaneTotals:
    prompts, *others = steps
    rounds = [event for step in others if isinstance(event := step.events[0].event, Round)]
    return LaneTotals(
        tokens=sum(_emitted(step) for step in (prompts, *others)),
        seconds=sum(step.seconds for step in (prompts, *others)),
        prefill_seconds=prompts.seconds,
        draft_prefill_seconds=sum(each.draft_prefill_seconds for each in rounds),
        draft_seconds=sum(each.draft_seconds for each in rounds),
        verify_seconds=sum(each.verify_seconds for each in rounds),
        host_seconds=sum(each.host_seconds for each in rounds),
        target_forwards=1 + len(others),
        slots=sum(step.tokens + step.padding for step in others),
        padding=sum(step.padding for step in others),
        prompt_padding=prompts.padding,
    )


def _emitted(step: BatchStep) -> int:
    count = 0
    for each in step.events:
        match each.event:
            case Round():
                count += len(each.event.emitted_ids)
            case Prefill() | TokenStep():
                count += 1
    return count


def batch_report(request: BatchRequest, measured: BatchMeasurement) -> dict[str, Any]:
    """Totals are those of the repeat whose speedup is the median, rows those of the last one.

    `identical` says whether every row wrote what it wrote in the plain batch (None above
    temperature 0, where texts differ by chance).
    """
    first, typical, totals = measured.traces[0], measured.typical, RoundTotals(measured.rounds)
    low, high = measured.spread
    rows = [_report_row(number, *each) for number, each in enumerate(_each_report_row(measured))]
    limits = sorted({note.limit for trace in measured.traces for note in _notes(trace)})
    return {
        "batch_size": len(measured.traces),
        "baseline": _report_lane(typical.baseline),
        "speculative": {
            **_report_lane(typical.speculative),
            "acceptance_rate": totals.acceptance_rate,
            "draft_utilization": totals.draft_utilization,
            "block_efficiency": totals.block_efficiency,
        },
        "speedup": measured.speedup,
        "speedup_spread": [low, high],
        "slot_waste": typical.speculative.slot_waste,
        "lossless": first.config.tree_kind.is_lossless,
        "identical": None if rows[0]["identical"] is None else all(r["identical"] for r in rows),
        "speculate_up_to": request.options.speculate_up_to,
        "speculation_limits": limits,
        "draft_budget": request.options.draft_budget,
        "extra_bytes": first.main.drafter_bytes,
        "rows": rows,
        "device": first.device,
        "dtype": first.dtype,
        "pair": request.first.pair.name,
        "method": first.config.method,
    }


def _report_lane(totals: LaneTotals) -> dict[str, Any]:
    return {
        **asdict(totals),
        "tokens_per_second": totals.tokens_per_second,
        "slot_waste": totals.slot_waste,
    }


def _each_report_row(measured: BatchMeasurement) -> zip[tuple[Trace, str]]:
    return zip(measured.traces, measured.texts, strict=True)


def _report_row(number: int, trace: Trace, text: str) -> dict[str, Any]:
    """What the row would be alone but for its seconds, which are those of the whole batch."""
    summary = asdict(summarise(trace))
    numbers = summary["speculative"]
    return {
        "row": number,
        "seed": trace.config.seed,
        "prompt_tokens": len(trace.prompt_ids),
        "tokens": numbers["tokens"],
        "seconds": numbers["seconds"],
        "tokens_per_second": numbers["tokens_per_second"],
        "target_forwards": numbers["target_forwards"],
        "acceptance_rate": numbers["acceptance_rate"],
        "block_efficiency": numbers["block_efficiency"],
        "finish": trace.finish.value if trace.finish else None,
        "identical": summary["identical"],
        "first_divergence": summary["first_divergence"],
        "text": text,
    }


def _notes(trace: Trace) -> list[BatchRound]:
    return [note for each in trace.rounds for note in each.notes if isinstance(note, BatchRound)]
