"""The messages of a run. Each is encoded as JSON only once, however many pages read it."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]


def encode(message: Message) -> str:
    """Encode a message as JSON without any `<`, so that model text can never act as markup."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
