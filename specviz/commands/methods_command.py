"""The command `methods`: it lists the drafting methods."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specviz.bias import measured_bias
from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.decoding.rules.rule import Rule


def list_methods() -> list[dict[str, Any]]:
    """Return all methods; `lossy` lists those verification rules that are not lossless."""
    return [_describe_method(method) for method in DRAFTERS.values()]


def _describe_method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "title": method.title,
        "drawings": [drawing.value for drawing in method.drawings],
        "rules": [rule.name for rule in method.rules if rule.is_lossless],
        "lossy": [_describe_bias(method, rule) for rule in method.rules if not rule.is_lossless],
        "needs": sorted(need.value for need in method.needs),
        "options": [asdict(option) for option in method.options],
    }


def _describe_bias(method: Method, rule: Rule) -> dict[str, Any]:
    bias = measured_bias(method.name, rule.name)
    return {"rule": rule.name} | (asdict(bias) if bias else {})


def methods(options: Namespace, progress: Progress) -> list[dict[str, Any]]:
    return list_methods()


def methods_text(result: Sequence[dict[str, Any]]) -> str:
    """Return a table of the methods, and a table of their options."""
    rows = [
        {
            "method": each["name"],
            "title": each["title"],
            "needs": each["needs"],
            "rules": each["rules"],
            "lossy rules": [bias["rule"] for bias in each["lossy"]],
        }
        for each in result
    ]
    options = [
        {
            "option": f"{each['name']} --option {option['name']}=N",
            "N": ", ".join(map(str, option["choices"])) or f"{option['low']} to {option['high']}",
            "default": option["default"],
            "meaning": "; ".join(filter(None, (option["title"], option["hint"]))),
        }
        for each in result
        for option in each["options"]
    ]
    return f"{table(rows)}\n\n{table(options)}"


COMMAND = Command(methods, methods_text, example="--json")
