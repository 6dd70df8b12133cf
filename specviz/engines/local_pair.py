"""What is known of a deployment's models that lie on this machine, without their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specviz.engines.engine_rules import ServedPair
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.errors import InputError

_HEADS = ("heads", "medusa_num_heads", "num_heads")
MAX_CONFIG_BYTES = 10_000_000


def read_local_pair(deployment: ModelDeployment) -> ServedPair | None:
    """None where not both are here; InputError where they are and one cannot be read."""
    if deployment.draft is None:
        return None
    draft = _local(deployment.draft)
    if draft is not None and deployment.method is EngineMethod.MEDUSA:
        return ServedPair(heads=_heads(draft))
    target = _local(deployment.target)
    if target is None or draft is None or deployment.method is not EngineMethod.DRAFT_MODEL:
        return None
    return _compared(str(target), str(draft))


def _local(name: str) -> Path | None:
    path = Path(name).expanduser()
    return path if path.exists() else None


def _heads(folder: Path) -> int | None:
    """None where the configuration does not say it."""
    file = folder / "config.json"
    try:
        if file.stat().st_size > MAX_CONFIG_BYTES:
            return None
        config: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    named = [config.get(name) for name in _HEADS] if isinstance(config, dict) else []
    return next((each for each in named if isinstance(each, int)), None)


def _compared(target: str, draft: str) -> ServedPair:
    # imported here: the models' libraries take seconds, and most texts name no local models
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
