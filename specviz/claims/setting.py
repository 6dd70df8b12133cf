"""What would measure a claim here: the nearest settings of the experiments, as plain values.

Knows no experiment; every setting is of the bundled pair.
"""

from __future__ import annotations

from dataclasses import dataclass

DRAFT_MODEL = "draft-model"


@dataclass(frozen=True, slots=True)
class Grid:
    """A sweep: speculative against plain decoding over one axis, `values` as they are typed."""

    axis: str
    values: str
    method: str = DRAFT_MODEL
    draft_length: int = 5
    task: str = "code"


@dataclass(frozen=True, slots=True)
class Batches:
    """The same by batch size."""

    sizes: tuple[int, ...] = (1, 4, 16)
    draft_length: int = 5


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds to the first token and of a plain step, by method and tokens of the prompt."""

    methods: tuple[str, ...] = (DRAFT_MODEL,)
    prompt_tokens: tuple[int | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Exactness:
    """The output's distribution beside the target's."""

    method: str = DRAFT_MODEL
    temperature: float = 1.0
    draft_length: int = 3


@dataclass(frozen=True, slots=True)
class Distributions:
    """Exact p and q of both models behind held-out prompts, by temperature."""

    temperatures: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Noise:
    """The baseline beside itself."""


@dataclass(frozen=True, slots=True)
class LibraryLength:
    """Target forwards of the library's assisted decoding, by how the draft length is asked for."""

    lengths: tuple[int, int] = (1, 5)


Setting = Grid | Batches | Clocks | Exactness | Distributions | Noise | LibraryLength

BY_DRAFT_LENGTH = Grid("draft-length", "1,4,5,8")
BY_TASK = Grid("task", "code,story,maths,translate,summarise")
BY_OUTPUT = Grid("output-length", "10,25,49")
BY_TEMPERATURE = Grid("temperature", "0.7,1,1.5")
BY_VOCABULARY = Grid("method", "draft-model,cross-vocabulary")
BY_BATCH = Batches()
