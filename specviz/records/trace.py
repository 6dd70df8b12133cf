"""A whole run: what it ran with, and its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from specviz.records.decoding_config import DecodingConfig
from specviz.records.field_types import (
    MAX_PROMPT,
    Columns,
    FloatRange,
    IntRange,
    LongText,
    Most,
    Name,
)
from specviz.records.rounds import EngineToken, Event, FinishReason, Prefill, Round, TokenStep
from specviz.records.settings import MAX_NEW_TOKENS

FORMAT_VERSION = 5
BASELINE = "baseline"  # usual names of lanes
SPECULATIVE = "speculative"
SERVER = "server"
PLAIN_SERVER = "plain-server"  # of the same model, without drafts


class LaneKind(Enum):
    """Who decodes in a lane."""

    BASELINE = "baseline"  # the target alone, token by token
    SPECULATIVE = "speculative"  # our own decoder
    LIBRARY = "library"  # transformers' `generate`
    ENGINE = "engine"  # a serving engine, asked over the network


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is; `bytes` counts the weights as loaded."""

    name: Annotated[str, Most(1000)]
    architecture: Annotated[str, Most(1000)]
    parameters: int
    bytes: int
    layers: int
    hidden_size: int
    vocab_size: int
    context_length: int


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What a serving engine said of itself and of the one answer that its lane holds.

    `engine`, `version` and `model` are "" where it did not say them; `drafted` and `accepted` count
    tokens, None where it keeps them to itself. `remark` is a sentence on what it could not take of
    the setting, or on why there is no answer or only a part of one; "" for nothing.
    """

    engine: str = ""
    version: str = ""
    model: Annotated[str, Most(1000)] = ""
    drafted: int | None = None
    accepted: int | None = None
    remark: Annotated[str, Most(2000)] = ""


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where a lane left the run that it goes on from.

    `round_index` is the first round that was decoded anew; `config` made the rounds before it.
    `forced` are the draws that were forced in that round: the id of a drafted token, and its u.
    """

    round_index: Annotated[int, IntRange(0, MAX_NEW_TOKENS)]
    config: DecodingConfig
    forced: tuple[tuple[int, Annotated[float, FloatRange(0, 1)]], ...] = ()


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to write the text, on a clock of its own.

    A lane that has not begun has no prefill; it has rounds or plain steps, by its kind. That of a
    serving engine has `arrivals` alone, and `engine` once it was asked. `config` is the setting of
    the rounds behind the last of the `forks`, which stand in the order of their rounds; of an
    engine's lane what it was asked for, while how it drafts is its own. `total_variation` is how
    far a lossy rule was found from the target's distribution when it was measured, None for a
    lossless one. `drafter_cache_bytes` is None where it was not seen.
    """

    name: Name
    kind: LaneKind
    config: DecodingConfig
    draft: ModelInfo | None = None
    drafter_bytes: int = 0
    drafter_cache_bytes: int | None = None
    total_variation: Annotated[float, FloatRange(0, 1)] | None = None
    forks: Annotated[tuple[ForkPoint, ...], Most(256)] = ()
    prefill: Prefill | None = None
    rounds: Annotated[tuple[Round, ...], Most(MAX_NEW_TOKENS)] = ()
    steps: Annotated[tuple[TokenStep, ...], Columns(MAX_NEW_TOKENS)] = ()
    finish: FinishReason | None = None
    arrivals: Annotated[tuple[EngineToken, ...], Columns(MAX_NEW_TOKENS)] = ()
    engine: EngineReport | None = None

    @property
    def held_bytes(self) -> int:
        """Weights and caches that the drafter holds beside the target's, as far as was seen."""
        return self.drafter_bytes + (self.drafter_cache_bytes or 0)

    @property
    def events(self) -> Iterator[Event]:
        """Everything that happened, in order; a lane that has not ended ends as stopped."""
        if self.prefill is not None:
            yield self.prefill
        yield from self.rounds
        yield from self.steps
        yield from self.arrivals
        yield self.finish or FinishReason.STOPPED

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """All new tokens, the first one included."""
        ids = [] if self.prefill is None else [self.prefill.extra.token_id]
        for each in self.rounds:
            ids.extend(each.emitted_ids)
        ids.extend(step.token_id for step in self.steps)
        ids.extend(each.token_id for each in self.arrivals)
        return tuple(ids)

    @property
    def seconds(self) -> float:
        """The lane's own time so far."""
        first = self.prefill.seconds if self.prefill else 0.0
        rounds = sum((each.seconds for each in self.rounds), first)
        steps = sum((each.seconds for each in self.steps), rounds)
        return sum((each.seconds for each in self.arrivals), steps)

    @property
    def unstarted(self) -> Lane:
        """The lane before anything has run."""
        return replace(self, prefill=None, rounds=(), steps=(), arrivals=(), finish=None)

    def config_of(self, round_index: int) -> DecodingConfig:
        """The setting that made a round (-1: the prefill)."""
        later = (fork.config for fork in self.forks if round_index < fork.round_index)
        return next(later, self.config)


@dataclass(frozen=True, slots=True)
class Trace:
    """A run of any number of lanes, at least one, on the same target and prompt.

    `token_texts` pairs every token id that occurs with its text. What a run is about is its main
    lane: the first that is not the plain baseline. `config`, `prefill`, `rounds`, `finish` and
    `emitted_ids` are that lane's. How its times were measured: `beside` counts the other runs that
    took turns with it, `waited` is the share of its time for which other work had the processor,
    None where that is too small to matter or nobody looked.
    """

    target: ModelInfo
    device: str
    dtype: str
    prompt: LongText
    prompt_ids: Annotated[tuple[int, ...], Most(MAX_PROMPT)]
    token_texts: Annotated[tuple[tuple[int, LongText], ...], Most(MAX_PROMPT)]
    lanes: Annotated[tuple[Lane, ...], Most(16)]
    beside: int = 0
    waited: Annotated[float, FloatRange(0, 1)] | None = None

    def lane(self, name: str) -> Lane:
        """The lane of that name."""
        return next(lane for lane in self.lanes if lane.name == name)

    @property
    def baseline(self) -> Lane | None:
        """The plain baseline, where there is one."""
        return next((lane for lane in self.lanes if lane.kind is LaneKind.BASELINE), None)

    @property
    def main(self) -> Lane:
        """The lane that the run is about."""
        others = (lane for lane in self.lanes if lane.kind is not LaneKind.BASELINE)
        return next(others, self.lanes[0])

    @property
    def unstarted(self) -> Trace:
        """The trace before anything has run."""
        return replace(self, lanes=tuple(lane.unstarted for lane in self.lanes))

    # ---- the main lane's

    @property
    def config(self) -> DecodingConfig:
        return self.main.config

    @property
    def prefill(self) -> Prefill | None:
        return self.main.prefill

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.main.rounds

    @property
    def finish(self) -> FinishReason | None:
        return self.main.finish

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        return self.main.emitted_ids

    def config_of(self, round_index: int) -> DecodingConfig:
        return self.main.config_of(round_index)
