"""Convert the values that a user typed to values of a deployment's fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from specviz.engines.engine_registry import engines
from specviz.engines.model_deployment import (
    PARTS,
    WORDS,
    BatchRange,
    DraftSampling,
    EngineMethod,
    ModelDeployment,
    VerificationRule,
)
from specviz.errors import InputError, read_number, read_whole, short, whole_rule

# The typed values, as a map from a field to its value. A field belongs to `ModelDeployment` or
# to one engine only (`EngineAdapter.meant`).
Heard = dict[str, Any]
DEPLOYMENT_FIELDS = tuple(each.name for each in fields(ModelDeployment))
WEIGHTS = ("quantization", "draft_quantization")
NAMES = frozenset({"target", "draft", *WORDS})


def read_field(name: str, value: Any) -> Any:
    """Convert a typed value to the value of a deployment's field.

    Raises InputError for a bad value.
    """
    match name:
        case "method":
            if not isinstance(value, EngineMethod):
                raise InputError(f"method must be one name, got {short(value)}")
            return value
        case "schedule":
            return read_schedule(value)
        case "draft_sampling":
            return value if isinstance(value, DraftSampling) else _sampling(value)
        case "rule":
            return value if isinstance(value, VerificationRule) else _rule(value)
        case "mixed_vocabularies":
            return str(value).lower() == "true"
    if name in WEIGHTS:
        return _weights(str(value))
    if name in NAMES:
        return value if isinstance(value, tuple) else str(value)
    return read_number(value, _flag(name)) if name in PARTS else read_integer(value, _flag(name))


def read_integer(value: Any, name: str) -> int:
    """Return a whole number from a file or a flag. The value True means a flag without a value."""
    if value is True:
        raise InputError(f"{name} must be {whole_rule()}, got no value")
    return read_whole(value, name)


def read_schedule(value: Any) -> tuple[BatchRange, ...]:
    """Read the ranges in [[first, last, K], ...]. Raises InputError for anything else."""
    if not isinstance(value, list | tuple) or any(
        not isinstance(each, list | tuple) or len(each) != 3 for each in value
    ):
        raise InputError(
            f"schedule must be a list of [first batch size, last batch size, K], got {short(value)}"
        )
    return tuple(BatchRange(*(read_integer(each, "schedule") for each in row)) for row in value)


def _weights(name: str) -> str:
    """Return the name of a weight format in the spelling of the engine that has it."""
    if any(facts.has_weights(name) for facts in engines().values()):
        return name
    formats = (each for facts in engines().values() for each in facts.weights)
    return next((each for each in formats if each.lower() == name.lower()), name)


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _sampling(value: Any) -> DraftSampling:
    try:
        return DraftSampling(value)
    except ValueError:
        names = " or ".join(each.value for each in DraftSampling)
        raise InputError(f"draft-sampling must be {names}, got {short(value)}") from None


def _rule(value: Any) -> VerificationRule:
    try:
        return VerificationRule(value)
    except ValueError:
        names = " or ".join(each.value for each in VerificationRule)
        raise InputError(f"rule must be {names}, got {short(value)}") from None
