"""Results of commands as text for a terminal.

Knows nothing of how they were made; every function takes what `--json` would print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Aligned columns under the keys of the first row.

    >>> print(table([{"name": "a", "speedup": 1.234}, {"name": "long", "speedup": None}]))
    name  speedup
    a        1.23
    long        -
    """
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    left = [isinstance(rows[0][name], str) for name in names]
    lines = [
        "  ".join(
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in (names, *cells)
    ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
        case [float() as low, float() as high]:
            return f"{low:.2f} to {high:.2f}"
        case list():
            return ", ".join(map(str, value)) or "-"
    return str(value)


def race(result: dict[str, Any]) -> str:
    """Both lanes, the verdict and the speculative text; of a batch both lanes and every row."""
    if "rows" in result:
        return _batch(result)
    lanes = [
        {
            "lane": name,
            "tokens": result[name]["tokens"],
            "target forwards": result[name].get("target_forwards", result[name]["tokens"]),
            "seconds": result[name]["seconds"],
            "tokens/s": result[name]["tokens_per_second"],
            "first token (ms)": 1000 * result[name]["ttft_seconds"],
        }
        for name in ("baseline", "speculative")
    ]
    numbers = result["speculative"]
    facts = {
        "acceptance_rate": numbers["acceptance_rate"],
        "block_efficiency": numbers["block_efficiency"],
        "theory_speedup": result["theory_speedup"],
        "speedup": result["speedup"],
        "speedup_spread": result["speedup_spread"],
    }
    head = f"{result['method']} on {result['pair']}, {result['device']}, {result['dtype']}"
    text = result["speculative"]["text"].strip("\n")
    return "\n\n".join([head, text, table(lanes), table([facts]), _verdict(result)])


def _batch(result: dict[str, Any]) -> str:
    """What all rows took together, then each by itself."""
    lanes = [
        {
            "lane": name,
            "tokens": result[name]["tokens"],
            "target forwards": result[name]["target_forwards"],
            "seconds": result[name]["seconds"],
            "tokens/s": result[name]["tokens_per_second"],
            "slots wasted": result[name]["slot_waste"],
        }
        for name in ("baseline", "speculative")
    ]
    facts = {
        "acceptance_rate": result["speculative"]["acceptance_rate"],
        "block_efficiency": result["speculative"]["block_efficiency"],
        "speedup": result["speedup"],
        "speedup_spread": result["speedup_spread"],
        "identical": "-" if result["identical"] is None else str(result["identical"]),
    }
    names = ("row", "seed", "prompt_tokens", "tokens", "target_forwards", "block_efficiency")
    rows = [{name: row[name] for name in (*names, "finish")} for row in result["rows"]]
    head = f"{result['method']} on {result['pair']}, {result['batch_size']} rows"
    place = f"{head}, {result['device']}, {result['dtype']}"
    return "\n\n".join([place, table(lanes), table([facts]), table(rows)])


def _verdict(result: dict[str, Any]) -> str:
    divergence = result["first_divergence"]
    if not result["lossless"]:
        return "lossy: the verification rule asked for does not keep the target's distribution"
    if result["identical"] is None:
        return "same distribution (at a temperature above 0 the texts differ by chance)"
    if divergence is None:
        return "identical text"
    where = f"first difference at token {divergence['index'] + 1}"
    if divergence["margin"] is None:
        return f"{where}, which the baseline does not have"
    return (
        f"{where}, where the target's two best logits "
        f"are {divergence['margin']:.2g} apart (a numerical tie if that is tiny)"
    )


def methods(result: Sequence[dict[str, Any]]) -> str:
    """A line per method, then the options that only one or a few have."""
    rows = [
        {
            "method": each["name"],
            "title": each["title"],
            "needs": each["needs"],
            "lossy rules": [bias["rule"] for bias in each["lossy"]],
        }
        for each in result
    ]
    options = [
        {
            "option": f"{each['name']} --option {option['name']}=N",
            "N": f"{option['low']} to {option['high']}",
            "default": option["default"],
            "meaning": "; ".join(filter(None, (option["title"], option["hint"]))),
        }
        for each in result
        for option in each["options"]
    ]
    return f"{table(rows)}\n\n{table(options)}"


def models(result: Sequence[dict[str, Any]]) -> str:
    if "relation" in result[0] or "inflated" in result[0]:
        return facts(result[0])
    return table(
        [
            {
                "pair": pair["name"],
                "source": pair["source"],
                "target": pair["target"]["name"],
                "draft": pair.get("draft", {}).get("name"),
                "parameters (M)": _millions(pair),
            }
            for pair in result
        ]
    )


def _millions(pair: dict[str, Any]) -> str:
    sizes = [pair.get(role, {}).get("parameters") for role in ("target", "draft")]
    return " and ".join(f"{size / 1e6:.1f}" for size in sizes if size) or "-"


def bench(result: dict[str, Any]) -> str:
    parts = [table(result["rows"])]
    if "pays_up_to" in result:
        parts.append("pays up to a batch of\n" + table(result["pays_up_to"]))
    return "\n\n".join(parts)


def facts(result: dict[str, Any]) -> str:
    """One name and value a line."""
    return table([{"name": name, "value": _cell(value)} for name, value in result.items()])
