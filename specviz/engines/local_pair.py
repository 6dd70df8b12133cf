"""Read facts about a deployment's models on this machine, without their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.engines.served_pair import ServedPair
from specviz.errors import InputError

_HEADS = ("heads", "medusa_num_heads", "num_heads")
MAX_CONFIG_BYTES = 10_000_000


def read_local_pair(deployment: ModelDeployment) -> ServedPair | None:
    """Return the facts about both models, or None if they are not both on this machine.

    Raises InputError if both are on this machine and one of them cannot be read.
    """
    if deployment.draft is None:
        return None
    draft = _local(deployment.draft)
    if draft is not None and deployment.method is EngineMethod.MEDUSA:
        config = _config(draft)
        heads = next((config[name] for name in _HEADS if type(config.get(name)) is int), None)
        return ServedPair(heads=heads, inner_size=config.get("inner_size"))
    if draft is not None and deployment.method is EngineMethod.EAGLE:
        config = _config(draft)
        return ServedPair(config.get("vocab_size"), config.get("draft_vocab_size"))
    target = _local(deployment.target)
    if target is None or draft is None or deployment.method is not EngineMethod.DRAFT_MODEL:
        return None
    return _compared(str(target), str(draft))


def _local(name: str) -> Path | None:
    path = Path(name).expanduser()
    return path if path.exists() else None


def _config(folder: Path) -> dict[str, Any]:
    """Return the config.json in a folder, or an empty dictionary if it cannot be read."""
    file = folder / "config.json"
    try:
        if file.stat().st_size > MAX_CONFIG_BYTES:
            return {}
        config: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def _compared(target: str, draft: str) -> ServedPair:
    # These imports are inside the function because the libraries take seconds to load, and most
    # pasted commands name no models on this machine.
    from specviz.environment import Environment
    from specviz.models.files.survey import survey_model
    from specviz.models.text.vocabulary import difference

    environment = Environment.read()
    try:
        ours = survey_model(target, environment)
        theirs = survey_model(draft, environment, ours.codec)
    except InputError as error:
        raise InputError(f"target and draft must be readable to be compared: {error}") from None
    return ServedPair(
        target_rows=ours.config.vocab_size,
        draft_rows=theirs.config.vocab_size,
        difference=difference(ours.codec, theirs.codec),
    )
