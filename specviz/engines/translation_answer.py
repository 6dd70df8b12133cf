"""Convert a translation to JSON, for the command line, the page and other programs."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from typing import Any

from specviz.engines.configuration import Configuration
from specviz.engines.engine_registry import engines
from specviz.engines.model_deployment import ModelDeployment
from specviz.engines.translation import Translation


def translation_answer(found: Translation) -> dict[str, Any]:
    """Return a translation as JSON values.

    If there are problems, `forms` is empty and `deployment` can be None.
    """
    return {
        "from": found.source,
        "to": found.target,
        "version": engines()[found.target].version,
        "changes": [asdict(each) | {"fate": each.fate.value} for each in found.changes],
        "notes": list(found.notes),
        "problems": list(found.problems),
        "deployment": deployment_json(found.deployment) if found.deployment else None,
        "forms": forms_json(found.configuration) if found.configuration else {},
    }


def deployment_json(deployment: ModelDeployment) -> dict[str, Any]:
    """Return every field of a deployment that has a value, as JSON values."""
    fields = asdict(deployment).items()
    plain = {name: each.value if isinstance(each, Enum) else each for name, each in fields}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items() if v}


def forms_json(configuration: Configuration) -> dict[str, str]:
    """Return the configuration in each form. A text is "" if the engine cannot read that form."""
    names = ("command", "yaml", "python", "compose", "kubernetes")
    return {name: getattr(configuration, name) for name in names}
