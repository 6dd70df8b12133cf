"""What somebody plans to serve: its fields, as the command line, the page and files name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, short
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.forward_time import GPUS, MAX_GPUS, Gpu, gpu_named
from specviz.sizing.shape import MODELS, PRECISIONS, ModelShape, eagle_head, model_named

EAGLE, N_GRAM = "eagle", "n-gram"  # drafts that are no model of their own
MAX_ROWS = 1024
MAX_TOKENS = 1_000_000
CACHE_PRECISIONS = ("bf16", "fp8")


@dataclass(frozen=True, slots=True)
class Field:
    """One of a plan: a choice where it has `choices`, else a number between two bounds.

    `title` stands beside it on the page, `unit` behind it; `meaning` is the flag's help, too.
    """

    name: str
    title: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    is_whole: bool = True
    unit: str = ""

    def read(self, value: Any) -> Any:
        """The value, checked; a number may come as text. InputError names field, rule and value."""
        if self.choices:
            if value not in self.choices:
                raise InputError(
                    f"{self.name} must be one of {', '.join(self.choices)}, got {short(value)}"
                )
            return value
        number = _number(value)
        rule = "an integer" if self.is_whole else "a number"
        is_right = number is not None and self.low <= number <= self.high
        if not is_right or (self.is_whole and number != int(number or 0)):
            raise InputError(
                f"{self.name} must be {rule} from {self.low:g} to {self.high:g}, got {short(value)}"
            )
        return int(number or 0) if self.is_whole else number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _choice(name: str, title: str, default: str, choices: Iterable[str], meaning: str) -> Field:
    return Field(name, title, default, meaning, choices=tuple(choices))


def _whole(
    name: str, title: str, default: int, bounds: tuple[int, int], meaning: str, unit: str = ""
) -> Field:
    return Field(name, title, default, meaning, (), *bounds, is_whole=True, unit=unit)


def _real(
    name: str, title: str, default: float, bounds: tuple[float, float], meaning: str, unit: str = ""
) -> Field:
    return Field(name, title, default, meaning, (), *bounds, is_whole=False, unit=unit)


_WITH_DRAFT = (
    f"what guesses ahead: a small model, {EAGLE} (a head on the target), or {N_GRAM} (words of the "
    "prompt, no model)"
)
_ALL = (
    _choice("target", "Target", "llama-3-1-70b", MODELS, "the large model whose text is wanted"),
    _choice("draft", "Draft", "llama-3-2-1b", (*MODELS, EAGLE, N_GRAM), _WITH_DRAFT),
    _choice("gpu", "GPU", "h100-sxm", GPUS, "the kind of card"),
    _whole("gpus", "Cards", 4, (1, MAX_GPUS), "cards that share every layer (tensor parallel)"),
    _whole(
        *("draft_gpus", "Draft’s own cards", 0, (0, MAX_GPUS)),
        "cards of the draft's own; 0: it runs on the target's",
    ),
    _choice("precision", "Weights", "bf16", PRECISIONS, "format of the target's weights"),
    _choice("draft_precision", "Draft’s weights", "bf16", PRECISIONS, "the same for the draft"),
    _choice("cache_precision", "Cache", "bf16", CACHE_PRECISIONS, "format of keys and values"),
    _real(
        *("acceptance", "Acceptance rate α", 0.7, (0, 1)),
        "share of the examined guesses that the target accepts",
    ),
    _whole(
        *("draft_length", "Draft length", 0, (0, MAX_DRAFT_LENGTH)),
        "guesses a round; 0: the best for this batch",
        "0: best",
    ),
    _whole("batch", "Requests at once", 8, (1, MAX_ROWS), "requests decoded together"),
    _whole("prompt", "Prompt", 512, (1, MAX_TOKENS), "tokens of a prompt", "tokens"),
    _whole("output", "Answer", 256, (2, MAX_TOKENS), "tokens of an answer", "tokens"),
    _real(
        *("price", "Price", 3.0, (0, 1000)),
        "of one GPU for an hour; 3 is an example, type your own",
        "per GPU-hour",
    ),
    _real(
        *("memory_share", "Memory used", 0.9, (0.1, 1)),
        "share of a card's memory that the engine may take",
    ),
    _real(
        *("first_token_limit", "First token within", 1000, (1, 1_000_000)),
        "limit on the time to the first token, in milliseconds",
        "ms",
    ),
    _real(
        *("token_limit", "Each further within", 50, (0.01, 1_000_000)),
        "limit on the time of each further token, in milliseconds",
        "ms",
    ),
    _real(
        *("load", "Load", 2.0, (0.001, 1000)),
        "requests that arrive in a second, on average",
        "a second",
    ),
)
FIELDS = {field.name: field for field in _ALL}


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """All fields, read. `draft` is None where no model drafts."""

    target: ModelShape
    draft: ModelShape | None
    gpu: Gpu
    gpus: int
    draft_gpus: int
    precision: str
    draft_precision: str
    cache_precision: str
    acceptance: float
    draft_length: int
    batch: int
    prompt: int
    output: int
    price: float
    memory_share: float
    first_token_limit: float
    token_limit: float
    load: float


def read_plan(
    given: Mapping[str, Any],
    target: ModelShape | None = None,
    draft: ModelShape | None = None,
) -> ServingPlan:
    """Of the fields that are given, the others by default; a shape stands for its field.

    >>> read_plan({"gpus": "2"}).gpus
    2
    """
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise InputError(f"field must be one of {', '.join(FIELDS)}, got {short(unknown[0])}")
    values = {name: field.read(given.get(name, field.default)) for name, field in FIELDS.items()}
    target = target or model_named(values["target"])
    if draft is None and values["draft"] == EAGLE:
        draft = eagle_head(target)
    elif draft is None and values["draft"] != N_GRAM:
        draft = model_named(values["draft"])
    if draft is None and values["draft_gpus"]:
        raise InputError(
            f"draft_gpus must be 0 for {N_GRAM}, which is no model, got {values['draft_gpus']}"
        )
    if values["draft"] == EAGLE and values["draft_gpus"]:
        raise InputError(
            f"draft_gpus must be 0 for {EAGLE}, which reads the target's features, "
            f"got {values['draft_gpus']}"
        )
    return ServingPlan(
        **values | {"target": target, "draft": draft, "gpu": gpu_named(values["gpu"])}
    )
