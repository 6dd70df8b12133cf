"""A race of a pair: this module loads the pair, runs the lanes and builds the trace.

The page, the command line and the experiments all race through this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from specviz.bias import measured_bias
from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named, settled
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.drafters.suffix_tree import SuffixTree
from specviz.decoding.race import LaneEvent, race
from specviz.decoding.target import cache_capacity, check_prompt
from specviz.errors import InputError, short
from specviz.experiments.run.engine_lane import (
    SAMPLE,
    EngineEvent,
    EngineQuestion,
    RacedServer,
    ask_engine,
    engine_lane,
)
from specviz.experiments.run.recorder import Recorder
from specviz.experiments.run.template_warning import template_warning
from specviz.experiments.run.warm_up import rehearse, warm_up_pair
from specviz.machine import processor_name, version
from specviz.models.accelerator import is_accelerator
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.models.reading_limit import reading_limit
from specviz.prompts import check_task, own_text, prompt_number
from specviz.records import (
    BASELINE,
    SPECULATIVE,
    DecodingConfig,
    EngineReport,
    EngineToken,
    Event,
    Lane,
    LaneKind,
    Prompt,
    Trace,
    prompt_text,
)

MAX_PROMPT_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class RaceRequest:
    """The setting of a race.

    If the target has a special token for `task`, this token precedes the prompt. `servers` answer
    the same prompt, each in its own lane, when the race's own lanes have ended.
    """

    pair: Pair
    prompt: Prompt
    config: DecodingConfig
    task: str | None = None
    device: str = "auto"
    dtype: str = "float32"
    servers: tuple[RacedServer, ...] = ()

    def __post_init__(self) -> None:
        if self.task is not None:
            check_task(self.task, self.pair.is_asked_to_chat(self.task))
        if self.servers and self.config.grammar:
            raise InputError(
                "grammar must be empty in a race with a server, which would not follow it, got "
                f"{short(self.config.grammar)}"
            )
        text = prompt_text(self.prompt)
        if not own_text(self.prompt).strip():
            raise InputError("prompt must have some text, got an empty one")
        if len(text) > MAX_PROMPT_CHARACTERS:
            raise InputError(
                f"prompt must have at most {MAX_PROMPT_CHARACTERS} characters, got {len(text)}"
            )


class Race:
    """One race: iterate over it once; `trace()` returns everything up to that moment.

    `earlier` has the outputs of earlier races. Only a method that copies from earlier outputs uses
    it: the method also adds the output of this race.
    """

    def __init__(
        self, request: RaceRequest, loaded: LoadedPair, earlier: SuffixTree | None = None
    ) -> None:
        config, target = request.config, loaded.target
        prompt_ids = loaded.codec.encode(request.prompt, request.task)
        for model in loaded.prompt_models:
            check_prompt(model, prompt_ids, config)
        grammar = loaded.grammar(config)
        rehearse(loaded, prompt_ids, config)
        capacity = cache_capacity(prompt_ids, config)
        setup = Setup(target, loaded.parts, config, capacity, earlier)
        self._loaded = loaded
        self._drafter = drafter = make_drafter(setup)
        ends = loaded.codec.eos_ids
        self._codec = loaded.codec
        self._lanes: dict[str, Iterator[Event]] = {
            BASELINE: autoregressive.decode(target, prompt_ids, config, ends, grammar),
            SPECULATIVE: speculative.decode(
                target, drafter, prompt_ids, config, ends, grammar=grammar
            ),
        }
        self._recorder = Recorder()
        # Name of a server's lane -> seconds on that lane's clock so far.
        self._clocks = {each.lane: 0.0 for each in request.servers}
        self.request = request
        # a warning about control tokens in the prompt, which the caller shows to the user
        self.warning = template_warning(loaded.codec, (request.prompt,))
        used = replace(request, config=settled(setup))
        header = trace_header(used, loaded, prompt_ids, drafter.memory.weights)
        asked = tuple(engine_lane(each, used.config) for each in request.servers)
        self.header = replace(header, lanes=(*header.lanes, *asked))
        sample = tuple(loaded.codec.encode_part(SAMPLE))
        self._question = EngineQuestion(
            tuple(prompt_ids), sample, loaded.codec.vocab_size, used.config
        )

    def __iter__(self) -> Iterator[LaneEvent]:
        """Run both lanes of specviz, after an untimed forward of each model; yield their events.

        The lane whose own clock is behind runs next.
        """
        warm_up_pair(self._loaded, self.header.prompt_ids, self.header.config)
        for event in race(self._lanes):
            self._recorder.add(event.lane, event.event)
            self.header = with_cache_bytes(self.header, self._drafter)
            yield event

    def run_lane(self, lane: str) -> Iterator[Event]:
        """Run one lane alone and yield its events, for measurements in blocks."""
        for event in self._lanes[lane]:
            self._recorder.add(lane, event)
            self.header = with_cache_bytes(self.header, self._drafter)
            yield event

    def ask(
        self, server: RacedServer, stop: threading.Event | None = None
    ) -> Iterator[EngineEvent]:
        """Yield the events of a server's answer.

        This does not change the race, so any thread may call it.
        """
        return ask_engine(server, self._question, stop)

    def take(self, lane: str, event: EngineEvent) -> LaneEvent | None:
        """Record an event of a server, and return it with the time on the clock of that lane.

        The result is None for an EngineReport, because it is no event of a lane.
        """
        if isinstance(event, EngineReport):
            lanes = (
                replace(each, engine=event) if each.name == lane else each
                for each in self.header.lanes
            )
            self.header = replace(self.header, lanes=tuple(lanes))
            return None
        self._recorder.add(lane, event)
        self._clocks[lane] += event.seconds if isinstance(event, EngineToken) else 0.0
        return LaneEvent(lane, event, self._clocks[lane])

    def trace(self) -> Trace:
        """Return the trace with all events so far."""
        trace = self._recorder.fill(self.header)
        ids = sorted(self._recorder.token_ids.union(trace.prompt_ids))
        return replace(trace, token_texts=tuple((i, self.token_text(i)) for i in ids))

    def token_text(self, token_id: int) -> str:
        return self._codec.token_text(token_id)

    def text(self, lane: str) -> str:
        """Return the text that a lane has emitted so far."""
        return self._codec.decode(self.emitted_ids(lane))

    def emitted_ids(self, lane: str) -> tuple[int, ...]:
        """Return the ids of the tokens that a lane has emitted so far."""
        return self._recorder.fill(self.header).lane(lane).emitted_ids

    def close(self) -> None:
        """Free all lanes; a lane that has not ended stays unfinished in the trace."""
        for lane in self._lanes.values():
            lane.close()  # type: ignore[attr-defined]
        # A lane closes the drafter when it ends, but a lane that never started does not.
        self._drafter.close()


class DecodingRequest(Protocol):
    """The attributes that all requests for decoding share."""

    @property
    def pair(self) -> Pair: ...
    @property
    def prompt(self) -> Prompt: ...
    @property
    def config(self) -> DecodingConfig: ...
    @property
    def device(self) -> str: ...
    @property
    def dtype(self) -> str: ...


def trace_header(
    request: DecodingRequest, loaded: LoadedPair, prompt_ids: Sequence[int], drafter_bytes: int
) -> Trace:
    """Return a trace with a baseline and a speculative lane, before anything has run."""
    config, target, parts = request.config, loaded.target, loaded.parts
    draft = parts.draft or parts.foreign
    bias = measured_bias(config.method, config.rule)
    lanes = (
        Lane(BASELINE, LaneKind.BASELINE, config),
        Lane(
            SPECULATIVE,
            LaneKind.SPECULATIVE,
            config,
            draft=draft.info if draft else None,
            drafter_bytes=drafter_bytes,
            total_variation=bias.total_variation if bias else None,
        ),
    )
    return Trace(
        target=target.info,
        device=device_name(target.device),
        dtype=str(target.dtype).removeprefix("torch."),
        prompt=prompt_text(request.prompt),
        prompt_ids=tuple(prompt_ids),
        token_texts=(),
        lanes=lanes,
        reading=reading_limit(target),
        processor=processor_name(),
        made_by=f"specviz {version()}",
    )


def with_cache_bytes(header: Trace, drafter: Drafter | BatchDrafter) -> Trace:
    """Return `header`, a trace, with the current size of the drafter's caches in bytes."""
    found = drafter.memory.caches
    if found == header.main.drafter_cache_bytes:
        return header
    main = header.main
    lanes = (replace(x, drafter_cache_bytes=found) if x is main else x for x in header.lanes)
    return replace(header, lanes=tuple(lanes))


def start_race(request: RaceRequest, earlier: SuffixTree | None = None) -> Race:
    """Load the pair if it is not in memory, and prepare the lanes.

    `earlier` has the outputs of earlier races, from which some methods copy. Raises InputError for
    an invalid request.
    """
    return Race(request, load_request(request), earlier)


def load_for_all(
    race: Callable[[Prompt], RaceRequest], prompts: Sequence[Prompt]
) -> tuple[LoadedPair, tuple[RaceRequest, ...]]:
    """Load the pair and check the request of each prompt, before anything is decoded.

    `race` is a function that returns the request of a prompt. If a prompt is invalid or leaves no
    room for the output, this function raises InputError with the prompt's number.
    """
    requests: list[RaceRequest] = []
    for number, prompt in enumerate(prompts, start=1):
        with prompt_number(number):
            requests.append(race(prompt))
    loaded = load_request(max(requests, key=lambda each: len(prompt_text(each.prompt))))
    for number, request in enumerate(requests, start=1):
        with prompt_number(number):
            ids = loaded.codec.encode(request.prompt, request.task)
            for model in loaded.prompt_models:
                check_prompt(model, ids, request.config)
    return loaded, tuple(requests)


def load_request(request: DecodingRequest, sequences: int = 1) -> LoadedPair:
    """Load the pair with everything that the request's method needs.

    `sequences` is the number of prompts that each lane decodes together. The request must have the
    longest of these prompts, because that prompt decides how much memory is needed.
    """
    needs = method_named(request.config.method).needs
    demand = replace(
        demand_of(request.config, request.prompt, getattr(request, "task", None)),
        sequences=sequences,
    )
    return load_pair(request.pair, request.device, request.dtype, needs, demand)


def demand_of(
    config: DecodingConfig, prompt: Prompt | None = None, task: str | None = None
) -> Demand:
    """Return the facts that decide how much memory a race with this setting needs.

    `prompt` is None if it is unknown.
    """
    method = method_named(config.method)
    rows, extra = method.most_rows(config), method.extra_memory
    return Demand(prompt, task, config.max_new_tokens, rows, extra=extra)


def device_name(device: torch.device) -> str:
    """Return the device's name for users: `cuda (NVIDIA …)`, or `cpu (2 threads)`."""
    if is_accelerator(device):
        return f"cuda ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    return f"{device.type} ({threads} thread{'' if threads == 1 else 's'})"
