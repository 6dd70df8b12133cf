"""What somebody plans to serve: its fields, as the command line, the page and files name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, read_number, read_whole, short
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.forward_time import GPUS, MAX_GPUS, Gpu, gpu_named
from specviz.sizing.published import N_GRAM_ACCEPTANCE, N_GRAM_LENGTH
from specviz.sizing.shape import (
    EAGLE,
    MODELS,
    N_GRAM,
    PRECISIONS,
    ModelShape,
    eagle_head,
    model_named,
    undivided,
)

MAX_ROWS = 1024
MAX_TOKENS = 1_000_000
MAX_JOB = 1_000_000_000
CACHE_PRECISIONS = ("bf16", "fp8")
CURRENCIES = ("USD", "EUR", "GBP", "CHF", "CNY", "INR", "JPY")
PUBLISHED = "as published"
ASSUMED_RATE = "assumed"  # by nobody's measurement
USUAL_ACCEPTANCE = 0.7  # of a draft model or a head: an example, to be measured on one's own texts


@dataclass(frozen=True, slots=True)
class Field:
    """One of a plan: a choice where it has `choices`, else a number between two bounds.

    `title` stands beside it on the page, `unit` behind it; `meaning` is the flag's help, too. Where
    the default is None, it may be left empty.
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
        if self.default is None and (value is None or value == ""):
            return None
        if self.is_whole:
            return read_whole(value, self.name, self.low, self.high)
        if self.is_share and isinstance(value, str) and value.strip().endswith("%"):
            low, high = 100 * self.low, 100 * self.high
            return read_number(value.strip()[:-1], f"{self.name} in %", low, high) / 100
        return read_number(value, self.name, self.low, self.high)

    @property
    def is_share(self) -> bool:
        return not self.is_whole and self.high == 1


def _choice(name: str, title: str, default: str, choices: Iterable[str], meaning: str) -> Field:
    return Field(name, title, default, meaning, choices=tuple(choices))


def _whole(
    name: str,
    title: str,
    default: int | None,
    bounds: tuple[int, int],
    meaning: str,
    unit: str = "",
) -> Field:
    return Field(name, title, default, meaning, (), *bounds, is_whole=True, unit=unit)


def _real(
    name: str,
    title: str,
    default: float | None,
    bounds: tuple[float, float],
    meaning: str,
    unit: str = "",
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
    _choice(
        *("precision", "Weights", PUBLISHED, (PUBLISHED, *PRECISIONS)),
        "format of the target's weights",
    ),
    _choice("draft_precision", "Draft’s weights", "bf16", PRECISIONS, "the same for the draft"),
    _choice("cache_precision", "Cache", "bf16", CACHE_PRECISIONS, "format of keys and values"),
    _real(
        *("acceptance", "Acceptance rate α", None, (0, 1)),
        "share of the examined guesses that the target accepts, as 0.7 or 70 %; left empty, "
        f"{USUAL_ACCEPTANCE:g} as an example, or what published runs of {N_GRAM} had",
        "best measured",
    ),
    _whole(
        *("draft_length", "Draft length", 0, (0, MAX_DRAFT_LENGTH)),
        "guesses a round; 0: the best one at each number of requests at once",
        "0: best",
    ),
    _whole("batch", "Requests at once", 8, (1, MAX_ROWS), "requests decoded together"),
    _whole("prompt", "Prompt", 512, (1, MAX_TOKENS), "tokens of a prompt", "tokens"),
    _whole("output", "Answer", 256, (2, MAX_TOKENS), "tokens of an answer", "tokens"),
    _real(
        *("price", "Price", None, (0, 1_000_000)),
        "of one card for an hour, yours; left empty, nothing is said of money",
        "a card-hour",
    ),
    _choice("currency", "Currency", CURRENCIES[0], CURRENCIES, "what the price is in"),
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
    _whole(
        *("job", "Batch job", None, (1, MAX_JOB)),
        "requests of a job that is there all at once, for its hours and money; may be left empty",
        "requests",
    ),
)
FIELDS = {field.name: field for field in _ALL}


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """All fields, read. `draft` is None where no model drafts; `acceptance_source` says where the
    rate is from: "" where it is typed.
    """

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
    price: float | None
    currency: str
    memory_share: float
    first_token_limit: float
    token_limit: float
    load: float
    job: int | None
    acceptance_source: str = ""

    @property
    def longest_draft(self) -> int:
        """The most guesses a round among which the best is looked for.

        Of n-grams no more than anybody has published: they would cost nothing here, so each further
        one would seem to pay.
        """
        return MAX_DRAFT_LENGTH if self.draft else N_GRAM_LENGTH


def read_plan(
    given: Mapping[str, Any],
    target: ModelShape | None = None,
    draft: ModelShape | None = None,
    acceptance_source: str = "",
) -> ServingPlan:
    """Of the fields that are given, the others by default; a shape stands for its field, and a
    given acceptance rate may have a source.

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
    if (problem := undivided("gpus", "the target's", target.heads, values["gpus"])) is not None:
        raise InputError(problem)
    if values["acceptance"] is None:
        values["acceptance"] = USUAL_ACCEPTANCE if draft else N_GRAM_ACCEPTANCE
        acceptance_source = ASSUMED_RATE if draft else f"{ASSUMED_RATE} as in published runs"
    if values["precision"] == PUBLISHED:
        values["precision"] = target.stored
    shapes = {"target": target, "draft": draft, "gpu": gpu_named(values["gpu"])}
    return ServingPlan(**values | shapes, acceptance_source=acceptance_source)
