"""The settings of a run: one table of what each is called, may hold, and where it can be given.

Whatever has to know a setting follows from its entry here: the checks of `DecodingConfig`, the
flags of the command line, the page's fields with their errors, its address, trace files, the axes
of a sweep. To add a setting, add an entry to the table and a field to `DecodingConfig`; one of
`Part.SAMPLING` also needs a field in `decoding.sampling.Sampler`. `is_newer` keeps old files open.
What only several texts together have is in BATCH.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from specviz.errors import (
    InputError,
    is_number,
    is_whole,
    read_number,
    read_whole,
    short,
    whole_rule,
)

MAX_DRAFT_LENGTH = 32
MAX_BATCH_SIZE = 64
MAX_DRAFT_BUDGET = 4096
MAX_NEW_TOKENS = 4096
MAX_TEMPERATURE = 5.0
MIN_TEMPERATURE = 1e-3  # of those above 0: colder, logits overflow when divided by it
MAX_TOP_K = 1_000_000  # more than any vocabulary has
MAX_SEED = 2**53 - 1  # the largest integer that a browser holds exactly
ON = "yes"  # a switch as text; an empty one is off
MOST_DIGITS = 9  # of an integer in a list: far beyond every bound


class ProposalKind(Enum):
    """How drafted siblings were chosen; the verification rule follows from it.

    TYPICAL trees are chosen as DETERMINISTIC ones are, but verified by typical acceptance (Medusa
    2401.10774), which is not lossless.
    """

    IID = "iid"
    WITHOUT_REPLACEMENT = "without-replacement"
    DETERMINISTIC = "deterministic"
    TYPICAL = "typical"

    @property
    def is_lossless(self) -> bool:
        return self is not ProposalKind.TYPICAL


class ValueType(Enum):
    """What a setting holds."""

    TEXT = "text"
    CHOICE = "choice"  # one name of a menu
    INTEGER = "integer"
    NUMBER = "number"
    INTEGERS = "integers"  # from 1 on, as a tuple
    KIND = "kind"  # a ProposalKind
    OPTIONS = "options"  # pairs of a name and an integer, as a tuple
    SWITCH = "switch"  # on or off


class Part(Enum):
    """What a setting is about."""

    PROMPT = "prompt"
    MODELS = "models"
    METHOD = "method"  # how drafts are made and judged; another method has its own
    SAMPLING = "sampling"  # the distribution that tokens are drawn from
    LENGTH = "length"
    SEED = "seed"
    BATCH = "batch"  # how many texts are decoded together, and what they share


@dataclass(frozen=True, slots=True)
class Slider:
    """The useful part of a number's range; what is typed may go beyond."""

    low: float
    high: float
    step: float = 1


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """What the setting is called where a sweep varies it, and the values that a page offers."""

    name: str
    title: str
    usual: str


@dataclass(frozen=True, slots=True)
class RunSetting:
    """One setting.

    `title` is its name on the page, `word` within a sentence, `key` in the address, `flag` on the
    command line. `low` and `high` are its bounds: excluded where `excludes_low` or `excludes_high`.
    A number above 0 is at least `least`. `off` is the value at which it does
    nothing. `menu` names the list of choices that the page gets with it. `in_fork`: a fork of a
    recorded run may change it. `is_newer`: files written before it was added have its default.
    """

    name: str
    title: str
    type: ValueType
    default: Any
    part: Part
    low: float = 0
    high: float = math.inf
    excludes_low: bool = False
    excludes_high: bool = False
    least: float = 0
    off: float | None = None
    word: str = ""
    key: str = ""
    flag: str = ""
    flag_help: str | None = None
    slider: Slider | None = None
    axis: SweepAxis | None = None
    menu: str = ""
    in_fork: bool = False
    is_newer: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether it is one number between bounds."""
        return self.type in (ValueType.INTEGER, ValueType.NUMBER)

    @property
    def hint(self) -> str:
        """A few words beside its field: what is off, and how far it goes beyond its slider."""
        if self.slider and self.slider.high < self.high:
            return f"up to {self.high:g} if typed"
        return "" if self.off is None else f"{self.off:g} = off"

    @property
    def parser(self) -> Callable[[str], Any]:
        """What turns a word of the command line into a value, ValueError where it is none."""
        return {ValueType.INTEGER: int, ValueType.NUMBER: float}.get(self.type, str)

    @property
    def rule(self) -> str:
        """What a value must be, to follow "must be"."""
        match self.type:
            case ValueType.INTEGER:
                return whole_rule(self.low, self.high)
            case ValueType.NUMBER if self.least:
                return f"0 or from {self.least:g} to {self.high:g}"
            case ValueType.NUMBER:
                low = f"above {self.low:g}" if self.excludes_low else f"at least {self.low:g}"
                high = f"below {self.high:g}" if self.excludes_high else f"at most {self.high:g}"
                return f"{low} and {high}"
        return {
            ValueType.INTEGERS: "a tuple of whole numbers >= 1",
            ValueType.KIND: "a ProposalKind",
            ValueType.OPTIONS: "pairs of a name and a whole number",
            ValueType.SWITCH: "true or false",
        }.get(self.type, "a name")

    def check(self, value: object) -> None:
        """InputError with name, rule and value where the rule is broken.

        >>> SETTINGS["draft_length"].check(0)
        Traceback (most recent call last):
        specviz.errors.InputError: draft_length must be a whole number from 1 to 32, got 0
        """
        if not self.holds(value):
            raise InputError(f"{self.name} must be {self.rule}, got {value!r}")

    def holds(self, value: Any) -> bool:
        """Whether a value is of the type and within the bounds."""
        match self.type:
            case ValueType.INTEGER:
                return is_whole(value) and self._is_within(value)
            case ValueType.NUMBER:
                return is_number(value) and self._is_within(value)
            case ValueType.INTEGERS:
                return isinstance(value, tuple) and all(is_whole(n) and n >= 1 for n in value)
            case ValueType.KIND:
                return isinstance(value, ProposalKind)
            case ValueType.OPTIONS:
                pairs = isinstance(value, tuple)
                return pairs and all(isinstance(name, str) and is_whole(n) for name, n in value)
            case ValueType.SWITCH:
                return isinstance(value, bool)
        return isinstance(value, str) and bool(value)

    def _is_within(self, value: float) -> bool:
        if 0 < value < self.least:
            return False
        above = value > self.low if self.excludes_low else value >= self.low
        return above and (value < self.high if self.excludes_high else value <= self.high)

    def read(self, given: Any) -> Any:
        """A value as a person types it, such as "3,2"; its bounds are not looked at.

        Numbers come as text, so that '', 'abc' and '1e999' can be named in the InputError.
        """
        match self.type:
            case ValueType.INTEGER:
                return read_whole(given, self.name)
            case ValueType.NUMBER:
                return read_number(given, self.name)
            case ValueType.INTEGERS:
                return read_integers(self.name, read_text(self.name, given))
            case ValueType.OPTIONS:
                return read_options(self.name, given)
            case ValueType.SWITCH:
                return read_switch(self.name, given)
        return read_text(self.name, given)


def read_text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise InputError(f"{name} must be text, got {short(given)}")
    return given.strip()


def read_integers(name: str, text: str) -> tuple[int, ...]:
    """Integers with commas between; an empty text is an empty tuple.

    >>> read_integers("branching", " 3, 2 "), read_integers("branching", "")
    ((3, 2), ())
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        raise InputError(
            f"{name} must be whole numbers with commas, such as 3,2, got {short(text)}"
        )
    return tuple(map(int, parts))


def read_options(name: str, given: object) -> tuple[tuple[str, int], ...]:
    """{"nodes": "16"} -> (("nodes", 16),); which names there are, the method says."""
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must be values by name, got {short(given)}")
    return tuple((str(each), read_whole(value, str(each))) for each, value in given.items())


def read_switch(name: str, given: object) -> bool:
    text = read_text(name, given)
    if text not in ("", ON):
        raise InputError(f"{name} must be {ON} or empty, got {short(text)}")
    return text == ON


_TABLE = (
    RunSetting("task", "Task", ValueType.CHOICE, None, Part.PROMPT, key="task", flag="--task"),
    RunSetting("prompt", "Prompt", ValueType.TEXT, "", Part.PROMPT, key="text", flag="--prompt"),
    RunSetting(
        "system",
        "System prompt",
        ValueType.TEXT,
        "",
        Part.PROMPT,
        key="system",
        flag="--system",
        flag_help="a system prompt before every prompt",
    ),
    RunSetting(
        "raw",
        "Raw prompt",
        ValueType.SWITCH,
        False,
        Part.PROMPT,
        key="raw",
        flag="--raw",
        flag_help="prompts as they are, without a chat template; "
        "names of control tokens are tokens",
    ),
    RunSetting(
        "pair",
        "Models",
        ValueType.CHOICE,
        "",
        Part.MODELS,
        key="pair",
        flag="--pair",
        flag_help="a named pair (default the chat model where it is here, else the bundled one)",
        menu="pairs",
    ),
    RunSetting(
        "target",
        "Target",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="target",
        flag="--target",
        flag_help="folder, GGUF file or Hub id, instead of --pair",
    ),
    RunSetting(
        "draft",
        "Draft",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="draft",
        flag="--draft",
        flag_help="folder, GGUF file or Hub id; for methods that need one",
    ),
    RunSetting(
        "eagle",
        "EAGLE head",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="eagle",
        flag="--eagle",
        flag_help="folder or Hub id of an EAGLE head for --target: EAGLE 1 to 3, or speculators",
    ),
    RunSetting(
        "medusa",
        "Medusa heads",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="medusa",
        flag="--medusa",
        flag_help="folder or Hub id of Medusa heads for --target",
    ),
    RunSetting(
        "method",
        "Method",
        ValueType.CHOICE,
        "draft-model",
        Part.METHOD,
        word="method",
        key="method",
        flag="--method",
        flag_help="see the command `methods`",
        menu="methods",
        in_fork=True,
    ),
    RunSetting(
        "draft_length",
        "Draft length",
        ValueType.INTEGER,
        5,
        Part.METHOD,
        low=1,
        high=MAX_DRAFT_LENGTH,
        word="K",
        key="k",
        flag="--draft-length",
        flag_help="tokens drafted a round, K",
        slider=Slider(1, MAX_DRAFT_LENGTH),
        axis=SweepAxis("draft-length", "Draft length K", "1-16"),
        in_fork=True,
    ),
    RunSetting(
        "branching",
        "Branching",
        ValueType.INTEGERS,
        (),
        Part.METHOD,
        word="branching",
        key="branching",
        flag="--branching",
        flag_help="children per depth of a tree, such as 3,2",
    ),
    RunSetting(
        "options",
        "Options",
        ValueType.OPTIONS,
        (),
        Part.METHOD,
        word="options",
        flag="--option",
        flag_help="an option of the method, see the command `methods`; may be given several times",
    ),
    RunSetting(
        "tree_kind",
        "Siblings and rule",
        ValueType.KIND,
        ProposalKind.IID,
        Part.METHOD,
        word="rule",
        key="siblings",
        flag="--rule",
        flag_help="how siblings are drawn and verified: "
        + ", ".join(kind.value for kind in ProposalKind),
        menu="kinds",
    ),
    RunSetting(
        "temperature",
        "Temperature",
        ValueType.NUMBER,
        0.0,
        Part.SAMPLING,
        high=MAX_TEMPERATURE,
        least=MIN_TEMPERATURE,
        word="temperature",
        key="temperature",
        flag="--temperature",
        slider=Slider(0, 2, 0.1),
        axis=SweepAxis("temperature", "Temperature", "0,0.3,0.7,1,1.5"),
        in_fork=True,
    ),
    RunSetting(
        "top_k",
        "Top-k",
        ValueType.INTEGER,
        0,
        Part.SAMPLING,
        high=MAX_TOP_K,
        off=0,
        word="top-k",
        key="top-k",
        flag="--top-k",
        flag_help="0 is off",
    ),
    RunSetting(
        "top_p",
        "Top-p",
        ValueType.NUMBER,
        1.0,
        Part.SAMPLING,
        high=1,
        excludes_low=True,
        off=1,
        word="top-p",
        key="top-p",
        flag="--top-p",
        flag_help="1 is off",
        axis=SweepAxis("top-p", "Top-p", "0.5,0.8,0.9,0.95,1"),
    ),
    RunSetting(
        "min_p",
        "Min-p",
        ValueType.NUMBER,
        0.0,
        Part.SAMPLING,
        high=1,
        excludes_high=True,
        off=0,
        word="min-p",
        key="min-p",
        flag="--min-p",
        flag_help="least share of the best token's probability; 0 is off",
        axis=SweepAxis("min-p", "Min-p", "0,0.05,0.1,0.2,0.3"),
        is_newer=True,
    ),
    RunSetting(
        "seed",
        "Seed",
        ValueType.INTEGER,
        0,
        Part.SEED,
        high=MAX_SEED,
        word="seed",
        key="seed",
        flag="--seed",
    ),
    RunSetting(
        "max_new_tokens",
        "New tokens",
        ValueType.INTEGER,
        128,
        Part.LENGTH,
        low=1,
        high=MAX_NEW_TOKENS,
        word="tokens",
        key="tokens",
        flag="--max-new-tokens",
        slider=Slider(16, 512, 16),
        axis=SweepAxis("output-length", "New tokens", "10,50,200,500"),
    ),
    RunSetting(
        "device",
        "Device",
        ValueType.CHOICE,
        "auto",
        Part.MODELS,
        key="device",
        flag="--device",
        flag_help="auto, cpu or cuda",
        menu="devices",
    ),
    RunSetting(
        "dtype",
        "Precision",
        ValueType.CHOICE,
        "float32",
        Part.MODELS,
        key="dtype",
        flag="--dtype",
        flag_help="float32, bfloat16 or float16",
        menu="dtypes",
    ),
)
_BATCH_TABLE = (
    RunSetting(
        "batch_size",
        "Batch size",
        ValueType.INTEGER,
        1,
        Part.BATCH,
        low=1,
        high=MAX_BATCH_SIZE,
        flag="--batch-size",
        flag_help="so many prompts at once",
        key="batch-size",
        axis=SweepAxis("batch-size", "Batch size", "1,2,4,8,16,32"),
    ),
    RunSetting(
        "speculate_up_to",
        "Speculate up to",
        ValueType.INTEGER,
        MAX_BATCH_SIZE,
        Part.BATCH,
        high=MAX_BATCH_SIZE,
        flag="--speculate-up-to",
        flag_help="rounds of more rows draft nothing; 0: measured in the run",
        key="speculate-up-to",
        axis=SweepAxis("speculate-up-to", "Speculate up to", "1,2,4,8"),
    ),
    RunSetting(
        "draft_budget",
        "Draft budget",
        ValueType.INTEGER,
        0,
        Part.BATCH,
        high=MAX_DRAFT_BUDGET,
        off=0,
        flag="--draft-budget",
        flag_help="drafted tokens a round, all rows together; 0: no budget",
        key="draft-budget",
        axis=SweepAxis("draft-budget", "Draft budget", "4,8,16,32"),
    ),
)
SETTINGS = {setting.name: setting for setting in _TABLE}
_OF_REQUEST = (Part.PROMPT, Part.MODELS)
# those of DecodingConfig, and of these the ones that the target's distribution follows from
DECODING = tuple(setting for setting in _TABLE if setting.part not in _OF_REQUEST)
SAMPLING = tuple(setting for setting in _TABLE if setting.part is Part.SAMPLING)
# of several texts decoded together: no settings of a single run
BATCH = {setting.name: setting for setting in _BATCH_TABLE}
