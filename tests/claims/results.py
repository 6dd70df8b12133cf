"""Results with made-up numbers, in the form in which experiments return them."""

from __future__ import annotations

from typing import Any


def point(
    axis: str,
    value: Any,
    speedup: float,
    acceptance: float = 0.8,
    spread: float = 0.02,
    levels: int = 100,
    **others: Any,
) -> dict[str, Any]:
    """Return a point of a sweep with every key that the rules for claims read.

    The point has `levels` examined levels and half as many rounds.
    """
    passed = round(levels * acceptance)
    return {
        "setting": {axis: value},
        "speedup": speedup,
        "speedup_spread": [speedup - spread, speedup + spread],
        "acceptance_rate": acceptance,
        "acceptance_by_depth": [{"depth": 1, "reached": levels, "passed": passed}],
        "rounds": levels // 2,
        "block_efficiency": 1 + passed / (levels // 2),
        "draft_utilization": 0.5,
        "cost_ratio": 0.1,
        "draft_seconds": 1.0,
        "drafter_bytes": 4_000_000,
        "drafter_cache_bytes": 500_000,
        "prompt_tokens": 30.0,
        "baseline_ttft_seconds": 0.01,
        **others,
    }


def grid(*points: dict[str, Any]) -> dict[str, Any]:
    return {"points": list(points)}


def grid_of(axis: str, speedups: dict[Any, float], **others: Any) -> dict[str, Any]:
    return grid(*(point(axis, value, gain, **others) for value, gain in speedups.items()))


def batches(*speedups: float) -> dict[str, Any]:
    """Return the results of a batch sweep for the sizes 1, 4 and 16, one speedup each."""
    sizes = (1, 4, 16)
    return {
        "rows": [
            {"batch_size": size, "speedup": gain, "speedup_spread": [gain - 0.02, gain + 0.02]}
            for size, gain in zip(sizes, speedups, strict=True)
        ]
    }


def exactness(verdict: str = "lossless") -> dict[str, Any]:
    return {
        "verdict": verdict,
        "total_variation": 0.1,
        "noise_floor": 0.1,
        "noise_ceiling": 0.12,
    }


def distributions(temperature: float, **values: list[float]) -> dict[str, Any]:
    return {"temperature": temperature, **values}
