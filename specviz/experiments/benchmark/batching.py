"""The speedup of a batch over plain decoding of the same prompts, in alternating blocks.

The numbers that are shown come from one repeat, so that they agree with each other: see
`run.repeats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from statistics import mean
from typing import Any

from specviz.decoding.batch import BatchStep
from specviz.decoding.rules.rule_table import rule_named
from specviz.experiments.run.batch_race import BatchRace, BatchRequest
from specviz.experiments.run.blocks import WARM_UP_TOKENS, alternating
from specviz.experiments.run.repeats import Repeats, chosen, repeated
from specviz.metrics import RoundTotals, block_efficiency, exceeds, summarise
from specviz.records import BASELINE, SPECULATIVE, BatchRound, Prefill, Round, TokenStep, Trace
from specviz.slices import give_way, giving_way


@dataclass(frozen=True, slots=True)
class LaneTotals:
    """The totals of one lane in one block, over all sequences of the batch.

    Times are on the lane's own clock. `slots` counts the token positions of all sequences in the
    target's forwards after the prefill. `padding` counts those positions that have no token because
    another sequence has more tokens in this forward. `prompt_padding` counts such positions in the
    prefill.
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
        """Return the share of all slots that are padding."""
        return self.padding / self.slots if self.slots else 0.0


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """One repeat: a block of each lane.

    `tokens_per_forward` is the highest value among the sequences of the batch. The speedup of the
    batch cannot be larger, because a round takes at least as long as a plain step.
    """

    baseline: LaneTotals
    speculative: LaneTotals
    tokens_per_forward: float = math.inf

    @property
    def speedup(self) -> float:
        return self.speculative.tokens_per_second / self.baseline.tokens_per_second

    @property
    def is_disturbed(self) -> bool:
        """Return whether the speedup is impossibly high, so that other work disturbed the times.

        The limit is `tokens_per_forward`. It holds only if both lanes wrote the same number of
        tokens; otherwise the result is False.
        """
        is_alike = self.speculative.tokens == self.baseline.tokens
        return is_alike and exceeds(self.speedup, self.tokens_per_forward)


@dataclass(frozen=True, slots=True)
class BatchMeasurement:
    """All repeats of a batch; the traces and texts, one per row, are those of the last repeat."""

    blocks: tuple[BatchBlock, ...]
    traces: tuple[Trace, ...]
    texts: tuple[str, ...]

    @property
    def repeats(self) -> Repeats:
        disturbed = [each.is_disturbed for each in self.blocks]
        return chosen([each.speedup for each in self.blocks], disturbed)

    @property
    def typical(self) -> BatchBlock:
        """Return the repeat whose numbers are shown to the user."""
        return self.blocks[self.repeats.shown]

    @property
    def speedup(self) -> float:
        """Return the speedup in tokens per second of the whole batch, in the shown repeat."""
        return self.typical.speedup

    @property
    def spread(self) -> tuple[float, float]:
        """Return the smallest and the largest speedup among the counted repeats (see `Repeats`)."""
        speedups = [self.blocks[index].speedup for index in self.repeats.counted]
        return min(speedups), max(speedups)

    def full_seconds(self, lane: str) -> float | None:
        """Return the mean seconds of a step or round in which every row was still running.

        The times come from the last repeat. The result is None if it has no such step or round.
        """
        taken = [_taken_seconds(trace, lane) for trace in self.traces]
        shared = taken[0][: min(map(len, taken))]
        return mean(shared) if shared else None

    def prefill_seconds(self, lane: str) -> float:
        """Return the seconds in which the target and the drafter read all prompts."""
        block = self.typical
        totals = block.baseline if lane == BASELINE else block.speculative
        return totals.prefill_seconds + totals.draft_prefill_seconds

    @property
    def rounds(self) -> list[Round]:
        """Return the rounds of all sequences of the batch in one list."""
        return [each for trace in self.traces for each in trace.rounds]


def _taken_seconds(trace: Trace, lane: str) -> list[float]:
    if lane == BASELINE:
        return [step.seconds for step in trace.lane(BASELINE).steps]
    return [each.work_seconds for each in trace.rounds]


def measure_batch(
    request: BatchRequest, repeats: int, progress: Callable[[str], None] = lambda line: None
) -> BatchMeasurement:
    """Run `repeats` (>= 1) blocks of each lane in alternation, after a short warm-up.

    If other work disturbed some repeat, further repeats follow, at most `repeats` of them.
    """
    short = replace(request.first.config, max_new_tokens=WARM_UP_TOKENS)
    _run(replace(request, first=replace(request.first, config=short)), 0)

    def once(number: int) -> tuple[BatchRace, BatchBlock]:
        race, block = _run(request, number)
        again = ", impossible: other work disturbed it" if block.is_disturbed else ""
        progress(f"repeat {number + 1} of {repeats}: {block.speedup:.2f}x{again}")
        give_way()
        return race, block

    runs = repeated(once, lambda run: run[1].is_disturbed, repeats)
    race, _ = runs[-1]
    traces, blocks = race.traces(), tuple(block for _, block in runs)
    return BatchMeasurement(blocks, traces, tuple(race.text(trace) for trace in traces))


def _run(request: BatchRequest, repeat: int) -> tuple[BatchRace, BatchBlock]:
    race = BatchRace(request)
    try:
        totals = {lane: _totals(giving_way(race.run_lane(lane))) for lane in alternating(repeat)}
    finally:
        race.close()
    rows = [block_efficiency(trace.rounds) for trace in race.traces()]
    most = max(filter(None, rows), default=math.inf)
    return race, BatchBlock(totals[BASELINE], totals[SPECULATIVE], most)


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
    """Return the report of a batch as JSON-ready values.

    Totals come from the repeat that is shown, rows from the last repeat. `identical` says whether
    every row has the same text as without drafts. It is None above temperature 0, where texts
    differ by chance.
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
        "speedup_is": measured.repeats.name,
        "remark": measured.repeats.remark,
        "slot_waste": typical.speculative.slot_waste,
        "lossless": rule_named(first.config.rule).is_lossless,
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
    """Return the numbers of one prompt of a batch, under the names that a single run uses.

    `seconds` is the time of the whole batch.
    """
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
        "draft_utilization": numbers["draft_utilization"],
        "block_efficiency": numbers["block_efficiency"],
        "finish": trace.finish.value if trace.finish else None,
        "identical": summary["identical"],
        "first_divergence": summary["first_divergence"],
        "text": text,
    }


def _notes(trace: Trace) -> list[BatchRound]:
    return [note for each in trace.rounds for note in each.notes if isinstance(note, BatchRound)]
