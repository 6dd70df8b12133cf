"""The daily cost of a load with and without speculation, from the numbers in a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from specviz.errors import read_number
from specviz.serving_cost import DailyCost, Load, Machine, daily_cost

# The fields of the form with the tokens per second of one machine.
RATES = ("baseline_rate", "speculative_rate")
# A field of a load or a machine -> the lowest and the highest accepted value.
BOUNDS = {
    "tokens_per_day": (1.0, 1e13),
    "peak_factor": (1.0, 100.0),
    "price_per_hour": (0.0, 1e6),
    **dict.fromkeys(RATES, (0.01, 1e7)),
}


def daily_costs(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cost of a day at each of the RATES; if a rate is empty, its cost is None."""
    load = Load(_number(form, "tokens_per_day"), _number(form, "peak_factor"))
    price = _number(form, "price_per_hour")
    baseline, speculative = (_cost(load, form, name, price) for name in RATES)
    return {
        "costs": {"baseline": _fields(baseline), "speculative": _fields(speculative)},
        "sentence": _sentence(baseline, speculative),
    }


def _cost(load: Load, form: Mapping[str, Any], name: str, price: float) -> DailyCost | None:
    if str(form.get(name, "")).strip() == "":
        return None
    return daily_cost(load, Machine(_number(form, name), price))


def _fields(cost: DailyCost | None) -> dict[str, Any] | None:
    return None if cost is None else asdict(cost)


def _sentence(baseline: DailyCost | None, speculative: DailyCost | None) -> str:
    """Return a sentence on how speculation changes the cost, or "" if a rate is missing."""
    if baseline is None or speculative is None:
        return ""
    saved = baseline.machines - speculative.machines
    if saved == 0:
        count = f"{baseline.machines:,} machine{'' if baseline.machines == 1 else 's'}"
        return f"Both need {count}: the gain, or the load, is too small to save a whole one."
    money = abs(baseline.money - speculative.money)
    if saved > 0:
        return (
            f"Speculation saves {saved:,} of {baseline.machines:,} machines, "
            f"which is {money:,.2f} a day."
        )
    more = f"{-saved:,} more machine{'' if saved == -1 else 's'}"
    return f"Speculation needs {more}, which is {money:,.2f} more a day."


def _number(form: Mapping[str, Any], name: str) -> float:
    value = form.get(name, "")
    plain = value.replace(" ", "") if isinstance(value, str) else value
    return read_number(plain, name, *BOUNDS[name])
