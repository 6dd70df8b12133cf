"""What a run says, as the page reads it: JSON that is encoded once."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]


def encode(message: Message) -> str:
    """JSON without any `<`: whatever a model wrote, no one can take it for markup on the way."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
