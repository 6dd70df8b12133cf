"""Change the configuration files of saved models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
