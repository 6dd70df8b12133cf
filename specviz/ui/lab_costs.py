"""What a load costs a day, for the page: the numbers of a form through `serving_cost`.

Trusts nothing of a form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from specviz.errors import InputError
from specviz.serving_cost import DailyCost, Load, Machine, daily_cost
from specviz.trace_file.fields import short

RATES = ("baseline_rate", "speculative_rate")  # tokens per second of a machine
MAX_NUMBER = 1e15
_IN_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")


def told_costs(form: Mapping[str, Any]) -> dict[str, Any]:
    """The form's load, price and RATES -> the day's cost at each rate; none at an empty one."""
    load = Load(_number(form, "tokens_per_day"), _number(form, "peak_factor"))
    price = _number(form, "price_per_hour")
    baseline, speculative = (_cost(load, form, name, price) for name in RATES)
    return {
        "costs": {"baseline": _told(baseline), "speculative": _told(speculative)},
        "sentence": _sentence(baseline, speculative),
    }


def _cost(load: Load, form: Mapping[str, Any], name: str, price: float) -> DailyCost | None:
    if str(form.get(name, "")).strip() == "":
        return None
    rate = _number(form, name)
    if rate <= 0:
        raise InputError(f"{name} must be a positive number, got {rate}")
    return daily_cost(load, Machine(rate, price))


def _told(cost: DailyCost | None) -> dict[str, Any] | None:
    return None if cost is None else asdict(cost)


def _sentence(baseline: DailyCost | None, speculative: DailyCost | None) -> str:
    """What speculating changes of the day, "" where a rate is missing."""
    if baseline is None or speculative is None:
        return ""
    saved = baseline.machines - speculative.machines
    if saved == 0:
        return "Both need as many machines: the load is too small, or the gain, to save one."
    whole = f"{abs(saved):,} of {baseline.machines:,} machines" if saved > 0 else f"{-saved:,} more"
    money = abs(baseline.money - speculative.money)
    if saved > 0:
        return f"Speculating saves {whole}, {money:,.2f} a day."
    return f"Speculating needs {whole} machines, {money:,.2f} more a day."


def _number(form: Mapping[str, Any], name: str) -> float:
    value = form.get(name, "")
    text = str(value).replace(" ", "")
    try:
        number = float(text.replace(",", "") if _IN_THOUSANDS.fullmatch(text) else text)
    except ValueError:
        raise InputError(f"{name} must be a number, got {short(value)}") from None
    if not abs(number) <= MAX_NUMBER:
        raise InputError(f"{name} must be a number of at most {MAX_NUMBER:.0e}, got {number}")
    return number
