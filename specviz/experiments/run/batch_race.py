"""A race of a whole batch: both lanes decode the same prompts, with one trace per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specviz.decoding import batch
from specviz.decoding.batch import BatchStep
from specviz.decoding.batch_options import ALL_DRAFT, BatchOptions, row_seed
from specviz.decoding.batch_target import batch_target
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_row_drafters, method_named, settled
from specviz.decoding.target import cache_capacity, check_prompt
from specviz.experiments.run.blocks import WARM_UP_TOKENS, alternating, run_lanes
from specviz.experiments.run.racing import RaceRequest, load_request, trace_header, with_cache_bytes
from specviz.experiments.run.recorder import Recorder
from specviz.experiments.run.warm_up import rehearse
from specviz.records import BASELINE, SPECULATIVE, Prompt, Trace, prompt_text
from specviz.slices import giving_way


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The request for a race of 1 to MAX_BATCH_SIZE prompts.

    `first` is the request of the first row. The other rows differ only in prompt and seed.
    """

    first: RaceRequest
    prompts: tuple[Prompt, ...]
    options: BatchOptions = ALL_DRAFT

    @property
    def rows(self) -> tuple[RaceRequest, ...]:
        """Return the request of each prompt. Raises InputError for an invalid prompt."""
        config = self.first.config
        seeds = (row_seed(config.seed, row) for row in range(len(self.prompts)))
        return tuple(
            replace(self.first, prompt=prompt, config=replace(config, seed=seed))
            for prompt, seed in zip(self.prompts, seeds, strict=True)
        )


class BatchRace:
    """One race of a batch; each lane can run once."""

    def __init__(self, request: BatchRequest) -> None:
        """Load the pair if it is not in memory. Raises InputError for an invalid request."""
        longest = max(request.prompts, key=lambda prompt: len(prompt_text(prompt)))
        loaded = load_request(replace(request.first, prompt=longest), len(request.prompts))
        target, rows = loaded.target, request.rows
        configs = [row.config for row in rows]
        prompts = [tuple(loaded.codec.encode(row.prompt, row.task)) for row in rows]
        for model in loaded.prompt_models:
            for ids, config in zip(prompts, configs, strict=True):
                check_prompt(model, ids, config)
        grammar = loaded.grammar(configs[0])
        rehearse(loaded, max(prompts, key=len), configs[0])
        setups = [
            Setup(target, loaded.parts, config, cache_capacity(ids, config))
            for ids, config in zip(prompts, configs, strict=True)
        ]
        self._drafter = make_row_drafters(setups)
        plain = batch_target(target, prompts, configs[0])
        shares_cache = method_named(configs[0].method).shares_cache
        drafted = batch_target(
            target, prompts, configs[0], self._drafter.feature_layers, shares_cache
        )
        ends = loaded.codec.eos_ids
        self._lanes = {
            BASELINE: batch.decode_baseline(plain, prompts, configs, ends, grammar),
            SPECULATIVE: batch.decode(
                drafted, self._drafter, prompts, configs, ends, request.options, grammar
            ),
        }
        self._codec = loaded.codec
        self._recorders = [Recorder() for _ in rows]
        self._headers = [
            trace_header(
                replace(row, config=settled(setup)), loaded, ids, self._drafter.memory.weights
            )
            for row, setup, ids in zip(rows, setups, prompts, strict=True)
        ]

    def run_lane(self, lane: str) -> Iterator[BatchStep]:
        """Run one lane alone and yield its steps, for measurements in blocks."""
        for step in self._lanes[lane]:
            self._headers = [with_cache_bytes(each, self._drafter) for each in self._headers]
            for each in step.events:
                self._recorders[each.row].add(lane, each.event)
            yield step

    def traces(self) -> tuple[Trace, ...]:
        """Return the trace of every prompt, with all events so far."""
        rows = zip(self._recorders, self._headers, strict=True)
        return tuple(self._trace(recorder, header) for recorder, header in rows)

    def _trace(self, recorder: Recorder, header: Trace) -> Trace:
        trace = recorder.fill(header)
        ids = sorted(recorder.token_ids.union(trace.prompt_ids))
        return replace(trace, token_texts=tuple((i, self._codec.token_text(i)) for i in ids))

    def text(self, trace: Trace) -> str:
        return self._codec.decode(trace.emitted_ids)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()  # type: ignore[attr-defined]
        # A lane closes the drafter when it ends, but a lane that never started does not.
        self._drafter.close()


def run_rows(
    rows: Sequence[RaceRequest], lane: str, options: BatchOptions = ALL_DRAFT
) -> tuple[Trace, ...]:
    """Decode requests that differ only in prompt and seed as a batch, in one lane.

    Returns one trace per row. A single request runs as an ordinary race, unless `options` limits
    its drafts.
    """
    if len(rows) == 1 and options == ALL_DRAFT:
        return (run_lanes(rows[0], [lane]).trace(),)
    race = BatchRace(BatchRequest(rows[0], tuple(row.prompt for row in rows), options))
    try:
        for _ in giving_way(race.run_lane(lane)):
            pass
        return race.traces()
    finally:
        race.close()


def warm_up_rows(rows: Sequence[RaceRequest], options: BatchOptions = ALL_DRAFT) -> None:
    """Decode a few tokens in both lanes before any measurement."""
    config = rows[0].config
    tokens = min(WARM_UP_TOKENS + config.draft_length, config.max_new_tokens)
    short = [replace(row, config=replace(config, max_new_tokens=tokens)) for row in rows]
    for lane in alternating(0):
        run_rows(short, lane, options)
