"""A planned deployment.

Its fields have the same names on the command line, the page and in files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, read_number, read_whole, short
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.forward_time import GPUS, MAX_GPUS, Gpu, gpu_named
from specviz.sizing.printed_acceptance import rate_of_length, rate_of_positions, read_positions
from specviz.sizing.published import DEEPEST_DRAFT, N_GRAM_ACCEPTANCE, N_GRAM_LENGTH
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
# The first word of the source of an acceptance rate that nobody measured.
ASSUMED_RATE = "assumed"
# The acceptance rate of a draft model or head, as an example. Users should replace it by a
# measurement.
USUAL_ACCEPTANCE = 0.7


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a plan: a choice if it has `choices`, otherwise a number within limits.

    The page shows `title` before the field and `unit` after it. `meaning` is also the help text of
    the flag. A field with the default None may stay empty.
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
    is_list: bool = False

    def read(self, value: Any) -> Any:
        """Check a value and return it. A text that contains a number is converted to the number.

        Raises InputError with the field, the rule and the value.
        """
        if self.choices:
            if value not in self.choices:
                raise InputError(
                    f"{self.name} must be one of {', '.join(self.choices)}, got {short(value)}"
                )
            return value
        if self.default is None and (value is None or value == ""):
            return None
        if self.is_list:
            return read_positions(value, self.name)
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
    f"what drafts tokens: a small model, {EAGLE} (a head on the target), or {N_GRAM} (copies from "
    "the text so far, without a model)"
)
_ALL = (
    _choice(
        "target", "Target", "llama-3-1-70b", MODELS, "the large model that the deployment serves"
    ),
    _choice("draft", "Draft", "llama-3-2-1b", (*MODELS, EAGLE, N_GRAM), _WITH_DRAFT),
    _choice("gpu", "GPU", "h100-sxm", GPUS, "the kind of GPU or other machine"),
    _whole(
        *("gpus", "Cards", 4, (1, MAX_GPUS)),
        "number of GPUs that share every layer (tensor parallelism)",
    ),
    _whole(
        *("draft_gpus", "Draft’s own cards", 0, (0, MAX_GPUS)),
        "number of GPUs for the draft alone; 0 runs the draft on the target's GPUs",
    ),
    _choice(
        *("precision", "Weights", PUBLISHED, (PUBLISHED, *PRECISIONS)),
        "number format of the target's weights",
    ),
    _choice(
        *("draft_precision", "Draft’s weights", PUBLISHED, (PUBLISHED, *PRECISIONS)),
        "number format of the draft's weights",
    ),
    _choice(
        *("cache_precision", "Cache", "bf16", CACHE_PRECISIONS),
        "number format of the cached keys and values",
    ),
    _real(
        *("acceptance", "Acceptance rate α", None, (0, 1)),
        "probability that the target accepts a guess if it has accepted all guesses before it, "
        f"such as 0.7 or 70 %; without a value, the plan assumes {USUAL_ACCEPTANCE:g} as an "
        f"example, or for {N_GRAM} the median of published runs",
        "best measured",
    ),
    _real(
        *("acceptance_length", "Tokens per forward", None, (1, MAX_DRAFT_LENGTH + 1)),
        "tokens per target forward that verifies a draft (block efficiency; vLLM prints it as mean "
        "acceptance length); it replaces the acceptance rate, and needs the draft length with "
        "which it was measured",
        "instead of α",
    ),
    Field(
        *("acceptance_per_position", "Acceptance by position", None),
        "for each position of a draft, the share of all drafts that are accepted up to it, such as "
        "0.8, 0.61, 0.47; vLLM prints these numbers, and they replace the acceptance rate",
        is_whole=False,
        unit="instead of α",
        is_list=True,
    ),
    _whole(
        *("draft_length", "Draft length", 0, (0, MAX_DRAFT_LENGTH)),
        "drafted tokens per round; 0 chooses the best number for each batch size",
        "0: best",
    ),
    _whole(
        *("batch", "Requests at once", 8, (1, MAX_ROWS)),
        "number of requests that are decoded together",
    ),
    _whole("prompt", "Prompt", 512, (1, MAX_TOKENS), "number of tokens in a prompt", "tokens"),
    _whole("output", "Answer", 256, (2, MAX_TOKENS), "number of tokens in an answer", "tokens"),
    _real(
        *("price", "Price", None, (0, 1_000_000)),
        "price of one GPU for one hour; without a price, no costs are shown",
        "a card-hour",
    ),
    _choice("currency", "Currency", CURRENCIES[0], CURRENCIES, "currency of the price"),
    _real(
        *("memory_share", "Memory used", 0.9, (0.1, 1)),
        "share of a GPU's memory that the engine may use",
    ),
    _real(
        *("first_token_limit", "First token within", 1000, (1, 1_000_000)),
        "longest acceptable time to the first token, in milliseconds; the plan computes the "
        "largest load at which requests keep this limit",
        "ms",
    ),
    _real(
        *("token_limit", "Each further within", 50, (0.01, 1_000_000)),
        "longest acceptable time for each further token, in milliseconds; the plan computes the "
        "largest load at which requests keep this limit",
        "ms",
    ),
    _real(
        *("load", "Load", 2.0, (0.001, 1000)),
        "average number of requests that arrive per second",
        "a second",
    ),
    _whole(
        *("job", "Batch job", None, (1, MAX_JOB)),
        "number of requests in a batch job; if given, the time and the cost of the job are "
        "computed",
        "requests",
    ),
)
FIELDS = {field.name: field for field in _ALL}
# The fields in which the user enters acceptance as an engine prints it, and not as an acceptance
# rate.
PRINTED = ("acceptance_length", "acceptance_per_position")


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """A plan after all fields are read and checked. `draft` is None if no model drafts.

    `acceptance_source` describes where the rate comes from. It is "" for a rate that the user
    typed. `survival` has measured probabilities that at least 1, 2, … guesses are accepted. If it
    is empty, every guess is accepted with the probability `acceptance`.
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
    survival: tuple[float, ...] = ()

    @property
    def longest_draft(self) -> int:
        """Return the largest draft length K that the search for the best K tries.

        The limit is the depth to which acceptance was measured. If only a rate is known, the limit
        is the length of the longest draft in a published run: of all runs if a model drafts,
        otherwise of runs with n-grams. The search needs this limit, because with a rate that never
        falls every further guess would seem useful.
        """
        if self.survival:
            return len(self.survival)
        return DEEPEST_DRAFT if self.draft else N_GRAM_LENGTH


def read_plan(
    given: Mapping[str, Any],
    target: ModelShape | None = None,
    draft: ModelShape | None = None,
    acceptance_source: str = "",
    survival: tuple[float, ...] = (),
) -> ServingPlan:
    """Read a plan from the given fields. Fields that are missing get defaults.

    The shapes `target` and `draft` replace the fields with these names. If the acceptance rate was
    measured, `acceptance_source` and `survival` describe the measurement.

    >>> read_plan({"gpus": "2"}).gpus
    2
    """
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise InputError(f"field must be one of {', '.join(FIELDS)}, got {short(unknown[0])}")
    values = {name: field.read(given.get(name, field.default)) for name, field in FIELDS.items()}
    length, places = (values.pop(name) for name in PRINTED)
    if (source := _printed_source(values, length, places)) is not None:
        acceptance_source = source
    if places is not None:
        values["acceptance"], survival = rate_of_positions(places), places
    elif length is not None:
        values["acceptance"] = rate_of_length(length, values["draft_length"])
    if survival and values["draft_length"] > len(survival):
        raise InputError(
            f"draft_length must be at most {len(survival)}, the depth of the measured acceptance, "
            f"got {values['draft_length']}"
        )
    target = target or model_named(values["target"])
    if draft is None and values["draft"] == EAGLE:
        draft = eagle_head(target)
    elif draft is None and values["draft"] != N_GRAM:
        draft = model_named(values["draft"])
    if draft is None and values["draft_gpus"]:
        raise InputError(
            f"draft_gpus must be 0 for {N_GRAM}, which is not a model, got {values['draft_gpus']}"
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
    for name, model in (("precision", target), ("draft_precision", draft)):
        if values[name] == PUBLISHED:
            values[name] = _published(name, model) if model else "bf16"
    shapes = {"target": target, "draft": draft, "gpu": gpu_named(values["gpu"])}
    return ServingPlan(**values | shapes, acceptance_source=acceptance_source, survival=survival)


def _published(name: str, model: ModelShape) -> str:
    """Return the format of the weights that a model's authors published. InputError if unknown."""
    if not model.stored:
        raise InputError(
            f"{name} must be given for {model.title}, because its weights are quantised by "
            f"{short(model.quantised_by)} with an unknown number of bits: one of "
            f"{', '.join(PRECISIONS)}"
        )
    return model.stored


def _printed_source(
    values: Mapping[str, Any], length: float | None, places: tuple[float, ...] | None
) -> str | None:
    """Return the source of an acceptance rate that was given as an engine prints it, or None.

    Raises InputError if acceptance is given twice, or without the draft length that it needs.
    """
    given = {"acceptance": values["acceptance"], "acceptance_length": length}
    given["acceptance_per_position"] = places
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{named[1]} must be left out if {named[0]} is given")
    if places is not None:
        return f"{rate_of_positions(places):.2f}, computed from your rates by position"
    if length is None:
        return None
    if not values["draft_length"]:
        raise InputError(
            "acceptance_length must be given with the draft_length that it was measured with, "
            "got draft_length 0"
        )
    rate = rate_of_length(length, values["draft_length"])
    return f"{rate:.2f}, computed from your {length:g} tokens per forward"
