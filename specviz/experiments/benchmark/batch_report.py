"""A measured batch as one JSON-able value: totals of both lanes, then every row.

Knows nothing of how it was measured or is shown.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.experiments.benchmark.batching import BatchMeasurement, LaneTotals
from specviz.experiments.run.batch_race import BatchRequest
from specviz.metrics import RoundTotals, summarise
from specviz.records import BatchRound, Trace


def batch_report(request: BatchRequest, measured: BatchMeasurement) -> dict[str, Any]:
    """Totals are those of the repeat whose speedup is the median, rows those of the last one.

    `identical` says whether every row wrote what it wrote in the plain batch (None above
    temperature 0, where texts differ by chance).
    """
    first, typical, totals = measured.traces[0], measured.typical, RoundTotals(measured.rounds)
    low, high = measured.spread
    rows = [_row(number, *each) for number, each in enumerate(_each_row(measured))]
    limits = sorted({note.limit for trace in measured.traces for note in _notes(trace)})
    return {
        "batch_size": len(measured.traces),
        "baseline": _lane(typical.baseline),
        "speculative": {
            **_lane(typical.speculative),
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
        "extra_bytes": first.drafter_bytes,
        "rows": rows,
        "device": first.device,
        "dtype": first.dtype,
        "pair": request.first.pair.name,
        "method": first.config.method,
    }


def _lane(totals: LaneTotals) -> dict[str, Any]:
    return {
        **asdict(totals),
        "tokens_per_second": totals.tokens_per_second,
        "slot_waste": totals.slot_waste,
    }


def _each_row(measured: BatchMeasurement) -> zip[tuple[Trace, str]]:
    return zip(measured.traces, measured.texts, strict=True)


def _row(number: int, trace: Trace, text: str) -> dict[str, Any]:
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
