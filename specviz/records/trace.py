"""The trace of a complete run: its models, its prompt and its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from specviz.records.decoding_config import DecodingConfig
from specviz.records.field_types import (
    MAX_NUMBER,
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

FORMAT_VERSION = 1
# The names of the lanes of a race.
BASELINE = "baseline"
SPECULATIVE = "speculative"
SERVER = "server"
# a serving engine with the same model as the lane SERVER, but without drafts
PLAIN_SERVER = "plain-server"


class LaneKind(Enum):
    """The type of decoder that runs a lane."""

    BASELINE = "baseline"  # the target alone, which writes one token per step
    SPECULATIVE = "speculative"  # specviz's own speculative decoder
    LIBRARY = "library"  # the method `generate` of transformers
    ENGINE = "engine"  # a serving engine, reached over the network


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The facts about a model. `bytes` is the size of the weights as they were loaded.

    `context_length` can be smaller than the model's own context length. `context_reason` then says
    why; otherwise it is "".
    """

    name: Annotated[str, Most(1000)]
    architecture: Annotated[str, Most(1000)]
    parameters: int
    bytes: int
    layers: int
    hidden_size: int
    vocab_size: int
    context_length: int
    context_reason: Annotated[str, Most(1000)] = ""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The facts that a serving engine reports about itself and about the answer in its lane.

    `engine`, `version` and `model` are "" if unknown. `drafted` and `accepted` count tokens and are
    None if unknown. `remark` is a sentence about settings that the engine could not use, or about a
    missing or incomplete answer; it is "" if there is nothing to say.
    """

    engine: str = ""
    version: str = ""
    model: Annotated[str, Most(1000)] = ""
    drafted: int | None = None
    accepted: int | None = None
    remark: Annotated[str, Most(2000)] = ""


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The round from which a fork continues its parent run.

    `round_index` is the first round that was decoded again. `config` has the settings with which
    the rounds before that round were decoded. `forced` lists the draws that replaced random
    draws in that round. Each is a pair: the id of a drafted token, and the uniform number.
    """

    round_index: Annotated[int, IntRange(0, MAX_NEW_TOKENS)]
    config: DecodingConfig
    forced: tuple[tuple[int, Annotated[float, FloatRange(0, 1)]], ...] = ()


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to decode the prompt, on its own clock.

    A lane that has not started has no prefill. The kind of the lane decides whether it has rounds
    or plain steps. The lane of a serving engine has only `arrivals`; `engine` is None until the
    engine has reported about itself.

    - `config`: the settings of the rounds after the last fork; `forks` are sorted by round. For an
      engine these are the requested settings; the engine drafts in its own way.
    - `total_variation`: the measured distance of a lossy rule from the target's distribution;
      None for a lossless rule.
    - `drafter_cache_bytes`: the size of the drafter's KV cache; None if unknown.
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
        """Return the size of the drafter's weights and caches in bytes, as far as it is known."""
        return self.drafter_bytes + (self.drafter_cache_bytes or 0)

    @property
    def events(self) -> Iterator[Event]:
        """Yield all events of the lane, the earliest first.

        If the lane has not ended, the last event is STOPPED.
        """
        if self.prefill is not None:
            yield self.prefill
        yield from self.rounds
        yield from self.steps
        yield from self.arrivals
        yield self.finish or FinishReason.STOPPED

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """Return the ids of all new tokens, including the first one."""
        ids = [] if self.prefill is None else [self.prefill.extra.token_id]
        for each in self.rounds:
            ids.extend(each.emitted_ids)
        ids.extend(step.token_id for step in self.steps)
        ids.extend(each.token_id for each in self.arrivals)
        return tuple(ids)

    @property
    def seconds(self) -> float:
        """Return the time on the lane's own clock so far, in seconds."""
        first = self.prefill.seconds if self.prefill else 0.0
        rounds = sum((each.seconds for each in self.rounds), first)
        steps = sum((each.seconds for each in self.steps), rounds)
        return sum((each.seconds for each in self.arrivals), steps)

    @property
    def unstarted(self) -> Lane:
        """Return a copy of the lane without any events."""
        return replace(self, prefill=None, rounds=(), steps=(), arrivals=(), finish=None)

    def config_of(self, round_index: int) -> DecodingConfig:
        """Return the settings with which the round at this index was decoded; -1 is the prefill."""
        later = (fork.config for fork in self.forks if round_index < fork.round_index)
        return next(later, self.config)


@dataclass(frozen=True, slots=True)
class ReadingLimit:
    """The data for the shortest possible time of a step of the target, on the machine of the run.

    `bytes_per_second` is the fastest sequential read of memory that was measured in the process of
    the run. `step_bytes` is the size of the weights that a step reads once.
    """

    bytes_per_second: Annotated[float, FloatRange(1, MAX_NUMBER, digits=6)]
    step_bytes: int

    @property
    def step_seconds(self) -> float:
        """Return the shortest possible time of a step in seconds.

        A step must read its weights from memory once.
        """
        return self.step_bytes / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class Trace:
    """A run of at least one lane with the same target and prompt.

    `token_texts` has pairs of id and text for every token in the run. The main lane is the first
    lane that is not the plain baseline. `config`, `prefill`, `rounds`, `finish` and `emitted_ids`
    are those of the main lane.

    - `beside`: the number of other runs that alternated with this one.
    - `waited`: the share of the time in which other work used the processor; None if the share is
      negligible or unknown.
    - `reading`: the shortest possible time of a step, from the speed of the memory; None if that
      speed was not measured.
    - `processor`, `made_by` (specviz's version, with the commit in a clone): "" in older files.
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
    reading: ReadingLimit | None = None
    processor: Annotated[str, Most(200)] = ""
    made_by: Annotated[str, Most(100)] = ""

    def lane(self, name: str) -> Lane:
        return next(lane for lane in self.lanes if lane.name == name)

    @property
    def baseline(self) -> Lane | None:
        return next((lane for lane in self.lanes if lane.kind is LaneKind.BASELINE), None)

    @property
    def main(self) -> Lane:
        others = (lane for lane in self.lanes if lane.kind is not LaneKind.BASELINE)
        return next(others, self.lanes[0])

    @property
    def unstarted(self) -> Trace:
        """Return a copy of the run without any events."""
        return replace(self, lanes=tuple(lane.unstarted for lane in self.lanes))

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
