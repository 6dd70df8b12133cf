"""The settings of a run: one table with the names, bounds and uses of each setting.

Everything that depends on a setting is derived from its entry here: the checks of `DecodingConfig`,
the flags of the command line, the page's fields and errors, its address, trace files and the axes
of a sweep. To add a setting, add an entry to the table and a field to `DecodingConfig`. A setting
of `Part.SAMPLING` also needs a field in `decoding.sampling.Sampler`. BATCH holds the
settings that only a batch has.
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
# smallest temperature above 0; with a smaller temperature, scaled logits would overflow
MIN_TEMPERATURE = 1e-3
MAX_TOP_K = 1_000_000  # a limit that is larger than any vocabulary
MAX_GRAMMAR = 4000  # largest number of characters of a grammar
MAX_SEED = 2**53 - 1  # largest seed, because a browser represents no larger integer exactly
ON = "yes"  # the text that means that a switch is on; an empty text means off
# The largest number of digits of an integer in a list, which is enough for all bounds.
MOST_DIGITS = 9


class Drawing(Enum):
    """The way in which drafted tokens, and siblings among them, were drawn.

    This is a fact about the draft: every lossless rule has to know it. Tokens that are CHOSEN
    depend on no random draw, so their q is a point mass.
    """

    INDEPENDENT = "independent"
    WITHOUT_REPLACEMENT = "without-replacement"
    CHOSEN = "chosen"

    @property
    def is_drawn(self) -> bool:
        return self is not Drawing.CHOSEN

    @property
    def removes(self) -> bool:
        """Return whether a drawn token is removed from q before its next sibling is drawn."""
        return self is Drawing.WITHOUT_REPLACEMENT


class ValueType(Enum):
    """The type of the value that a setting has."""

    TEXT = "text"
    CHOICE = "choice"  # one name out of a list of allowed names
    INTEGER = "integer"
    NUMBER = "number"
    INTEGERS = "integers"  # a tuple of integers that are at least 1
    DRAWING = "drawing"
    OPTIONS = "options"  # a tuple of pairs, each of a name and an integer
    SWITCH = "switch"


class Part(Enum):
    """The part of a run that a setting belongs to."""

    PROMPT = "prompt"
    MODELS = "models"
    # how tokens are drafted and verified; each drafting method has its own defaults for these
    # settings
    METHOD = "method"
    SAMPLING = "sampling"  # the distribution from which tokens are drawn
    GRAMMAR = "grammar"  # the texts that the target may write
    LENGTH = "length"
    SEED = "seed"
    # the number of prompts that are decoded together, and the limits that these prompts share
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Slider:
    """The useful part of a number's range, which the slider covers. A typed value may exceed it."""

    low: float
    high: float
    step: float = 1


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """A setting as an axis of a sweep: its name and title.

    `usual` has the values with which the page fills the field at first, as text.
    """

    name: str
    title: str
    usual: str


@dataclass(frozen=True, slots=True)
class RunSetting:
    """One setting of a run.

    - `title`, `word`, `key`, `flag`: its names on the page, in a sentence, in the page's address
      and on the command line.
    - `low`, `high`: its bounds. If `excludes_low` or `excludes_high` is True, the bound itself is
      not allowed.
    - `least`: the smallest allowed value above 0.
    - `off`: the value that disables it.
    - `menu`: the name of the list from which the page offers choices.
    - `in_fork`: whether a fork of a recorded run may change it.
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

    @property
    def is_bounded(self) -> bool:
        """Return whether the value of the setting is a single number with bounds."""
        return self.type in (ValueType.INTEGER, ValueType.NUMBER)

    @property
    def hint(self) -> str:
        """Return the hint next to the page's field.

        The hint says which value disables the setting, or which value is the largest.
        """
        if self.slider and self.slider.high < self.high:
            return f"up to {self.high:g} if typed"
        return "" if self.off is None else f"{self.off:g} = off"

    @property
    def parser(self) -> Callable[[str], Any]:
        """Return the function that converts the setting's text on the command line to a value.

        The function raises ValueError for bad text.
        """
        return {ValueType.INTEGER: int, ValueType.NUMBER: float}.get(self.type, str)

    @property
    def rule(self) -> str:
        """Return which values the setting allows, as words that follow "must be"."""
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
            ValueType.DRAWING: "a Drawing",
            ValueType.OPTIONS: "pairs of a name and a whole number",
            ValueType.SWITCH: "true or false",
            ValueType.TEXT: f"a text of at most {self.high:,} characters",
        }.get(self.type, "a name")

    def check(self, value: object) -> None:
        """Raise InputError, which names the setting, its rule and the value, if the value is wrong.

        >>> SETTINGS["draft_length"].check(0)
        Traceback (most recent call last):
        specviz.errors.InputError: draft_length must be a whole number from 1 to 32, got 0
        """
        if not self.holds(value):
            raise InputError(f"{self.name} must be {self.rule}, got {short(value)}")

    def holds(self, value: Any) -> bool:
        """Return whether a value has the type of the setting and is within its bounds."""
        match self.type:
            case ValueType.INTEGER:
                return is_whole(value) and self._is_within(value)
            case ValueType.NUMBER:
                return is_number(value) and self._is_within(value)
            case ValueType.INTEGERS:
                return isinstance(value, tuple) and all(is_whole(n) and n >= 1 for n in value)
            case ValueType.DRAWING:
                return isinstance(value, Drawing)
            case ValueType.OPTIONS:
                pairs = isinstance(value, tuple)
                return pairs and all(isinstance(name, str) and is_whole(n) for name, n in value)
            case ValueType.SWITCH:
                return isinstance(value, bool)
            case ValueType.TEXT:
                return isinstance(value, str) and len(value) <= self.high
        return isinstance(value, str) and bool(value)

    def _is_within(self, value: float) -> bool:
        if 0 < value < self.least:
            return False
        above = value > self.low if self.excludes_low else value >= self.low
        return above and (value < self.high if self.excludes_high else value <= self.high)

    def read(self, given: Any) -> Any:
        """Convert a value as the user typed it, such as "3,2", without checking its bounds.

        Numbers arrive as text, so that the InputError can quote texts such as '', 'abc' or '1e999'.
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
    """Read integers separated by commas; an empty text is an empty tuple.

    >>> read_integers("branching", " 3, 2 "), read_integers("branching", "")
    ((3, 2), ())
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        raise InputError(
            f"{name} must be whole numbers separated by commas, such as 3,2, got {short(text)}"
        )
    return tuple(map(int, parts))


def read_options(name: str, given: object) -> tuple[tuple[str, int], ...]:
    """Convert options such as {"nodes": "16"} to pairs such as (("nodes", 16),).

    The drafting method checks the names later.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must map names to values, got {short(given)}")
    return tuple((str(each), read_whole(value, str(each)[:40])) for each, value in given.items())


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
        flag_help="put this system prompt before every prompt",
    ),
    RunSetting(
        "raw",
        "Raw prompt",
        ValueType.SWITCH,
        False,
        Part.PROMPT,
        key="raw",
        flag="--raw",
        flag_help="send prompts without a chat template; the name of a control token in a prompt, "
        "such as <|im_end|>, then stands for that token",
    ),
    RunSetting(
        "pair",
        "Models",
        ValueType.CHOICE,
        "",
        Part.MODELS,
        key="pair",
        flag="--pair",
        flag_help="name of a pair of models, as `specviz models` lists them (default smollm2, the "
        "chat model, if this machine has it, otherwise bundled)",
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
        flag_help="target model instead of --pair: a folder, GGUF file or Hub id",
    ),
    RunSetting(
        "draft",
        "Draft",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="draft",
        flag="--draft",
        flag_help="draft model for --target: a folder, GGUF file or Hub id",
    ),
    RunSetting(
        "eagle",
        "EAGLE head",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="eagle",
        flag="--eagle",
        flag_help="EAGLE head for --target: a folder or Hub id with a head in the format of EAGLE "
        "(version 1, 2 or 3) or of the library speculators",
    ),
    RunSetting(
        "medusa",
        "Medusa heads",
        ValueType.TEXT,
        "",
        Part.MODELS,
        key="medusa",
        flag="--medusa",
        flag_help="Medusa heads for --target: a folder or Hub id",
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
        flag_help="drafting method, as `specviz methods` lists them (default quantised-self for "
        "the pair smollm2, otherwise draft-model)",
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
        flag_help="K, the largest number of tokens drafted along one path in a round",
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
        flag_help="number of children per node, for each depth of the tree, such as 3,2 "
        "(default the method's own)",
    ),
    RunSetting(
        "options",
        "Options",
        ValueType.OPTIONS,
        (),
        Part.METHOD,
        word="options",
        flag="--option",
        flag_help="an option of the method, as `specviz methods` lists them; for several options, "
        "repeat the flag",
    ),
    RunSetting(
        "drawing",
        "Drawing of siblings",
        ValueType.DRAWING,
        Drawing.INDEPENDENT,
        Part.METHOD,
        word="drawing",
        key="drawing",
        flag="--drawing",
        flag_help="how alternative tokens at one position (siblings) are drawn: "
        + ", ".join(drawing.value for drawing in Drawing)
        + "; chosen means without a random draw (default the method's own)",
        menu="drawings",
    ),
    RunSetting(
        "rule",
        "Verification rule",
        ValueType.CHOICE,
        "token",
        Part.METHOD,
        word="rule",
        key="rule",
        flag="--rule",
        flag_help="how the target judges the draft; `specviz methods` lists the rules of each "
        "method (default token: token by token)",
        menu="rules",
    ),
    RunSetting(
        "length_policy",
        "Length policy",
        ValueType.CHOICE,
        "fixed",
        Part.METHOD,
        word="length",
        key="length",
        flag="--length-policy",
        flag_help="how many tokens a round drafts: fixed (K) or adaptive (1 to K, by the tokens "
        "that earlier rounds accepted)",
        menu="length_policies",
    ),
    RunSetting(
        "entropy_threshold",
        "Entropy threshold",
        ValueType.NUMBER,
        0.0,
        Part.METHOD,
        high=1,
        excludes_high=True,
        off=0,
        word="entropy threshold",
        key="entropy",
        flag="--entropy-threshold",
        flag_help="end the draft of a chain when 1 - sqrt(0.2 H) is below this number, where H is "
        "the entropy of the draft's distribution in nats; 0 is off",
        axis=SweepAxis("entropy-threshold", "Entropy threshold", "0.1,0.2,0.3,0.4"),
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
        flag_help="sampling temperature; 0 is greedy",
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
        flag_help="sample from the k most probable tokens only; 0 is off",
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
        flag_help="sample from the most probable tokens that together have this probability; "
        "1 is off",
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
        flag_help="drop tokens that have less than this share of the most probable token's "
        "probability; 0 is off",
        axis=SweepAxis("min-p", "Min-p", "0,0.05,0.1,0.2,0.3"),
    ),
    RunSetting(
        "grammar",
        "Grammar",
        ValueType.TEXT,
        "",
        Part.GRAMMAR,
        high=MAX_GRAMMAR,
        word="grammar",
        key="grammar",
        flag="--grammar",
        flag_help="let the target write only texts that match this JSON schema, which begins with "
        "{, or this regular expression (default no grammar)",
    ),
    RunSetting(
        "draft_forced",
        "Draft forced tokens",
        ValueType.SWITCH,
        False,
        Part.GRAMMAR,
        key="draft-forced",
        flag="--draft-forced",
        flag_help="where the grammar leaves only one token to choose, draft these tokens without "
        "the method; without a grammar, this has no effect",
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
        flag_help="seed of every random draw",
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
        flag_help="stop after this many new tokens",
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
        flag_help="where the models run: auto, cpu or cuda",
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
        flag_help="precision of the weights: float32, bfloat16 or float16",
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
        flag_help="decode this many prompts together, in the same forward passes (default one "
        "prompt at a time, without a batch)",
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
        flag_help="stop drafting when more than N sequences are running; 0 measures the best N "
        "during the run (default no limit)",
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
        flag_help="largest number of drafted tokens in a round, over all sequences of the batch "
        "(default 0: no limit)",
        key="draft-budget",
        axis=SweepAxis("draft-budget", "Draft budget", "4,8,16,32"),
    ),
)
SETTINGS = {setting.name: setting for setting in _TABLE}
_OF_REQUEST = (Part.PROMPT, Part.MODELS)
# DECODING has the settings that are fields of DecodingConfig. SAMPLING has only the settings that
# change the target's distribution.
DECODING = tuple(setting for setting in _TABLE if setting.part not in _OF_REQUEST)
SAMPLING = tuple(setting for setting in _TABLE if setting.part is Part.SAMPLING)
# The settings that only a batch has, and a single run does not have.
BATCH = {setting.name: setting for setting in _BATCH_TABLE}
