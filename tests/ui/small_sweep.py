"""A small sweep as the page requests it, and its result as lines of a file."""

from __future__ import annotations

from typing import Any

FORM = {"pair": "bundled", "task": "code", "method": "draft-model", "max_new_tokens": "6"}
LENGTHS = {"name": "draft-length", "values": "1-3"}


def asked(*axes: dict[str, str], **question: Any) -> dict[str, Any]:
    usual = {
        "form": FORM,
        "axes": list(axes) or [LENGTHS],
        "prompts": {"count": "1"},
        "repeats": "1",
    }
    return usual | question


def lines(messages: list[dict[str, Any]]) -> str:
    found = [each["line"] for each in messages if each["kind"] in ("plan", "point")]
    return "".join(f"{line}\n" for line in found)
