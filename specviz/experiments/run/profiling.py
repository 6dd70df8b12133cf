"""A profile of where a method loses acceptance, over many prompts.

The iterator yields after every round, so that the caller can show progress and stop at any moment.
It keeps only the profile's sums and the traces that its examples name. No baseline is decoded,
because the cost of a rejection follows from the rounds' own times. This module does not know how
results are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specviz.acceptance_profile import AcceptanceProfile, AcceptanceProfiler
from specviz.errors import InputError
from specviz.experiments.run.racing import Race, RaceRequest, load_for_all
from specviz.experiments.run.template_warning import template_warning
from specviz.models.pair_catalog import Pair
from specviz.records import SPECULATIVE, DecodingConfig, Prompt, Round, Trace

MAX_PROMPTS = 500
WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The prompts to profile, and the setting.

    If the target has a special token for `task`, this token precedes every prompt.
    """

    pair: Pair
    prompts: tuple[Prompt, ...]
    config: DecodingConfig
    task: str | None = None
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not 1 <= len(self.prompts) <= MAX_PROMPTS:
            raise InputError(f"prompts must be from 1 to {MAX_PROMPTS}, got {len(self.prompts)}")

    def race(self, prompt: Prompt) -> RaceRequest:
        """Return the race request of one prompt."""
        return RaceRequest(self.pair, prompt, self.config, self.task, self.device, self.dtype)


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """A progress step: the completed prompts, all prompts, and the tokens emitted so far.

    If this step completed a prompt, `trace` is its whole run. `index` is the prompt's number, from
    0.
    """

    index: int
    done: int
    prompts: int
    tokens: int
    trace: Trace | None


class Profiling:
    """One profile in progress: iterate over it once; `profile()` may be called at any time."""

    def __init__(self, request: ProfileRequest) -> None:
        """Load the pair and check every prompt before anything is decoded.

        Raises InputError for an invalid request.
        """
        self._request = request
        self._loaded, self._requests = load_for_all(request.race, request.prompts)
        self.warning = template_warning(self._loaded.codec, request.prompts)
        self._profiler = AcceptanceProfiler()
        self.traces: dict[int, Trace] = {}

    def __iter__(self) -> Iterator[ProfileStep]:
        """Decode prompt after prompt; closing the iterator ends the current run."""
        self._warm_up()
        count, tokens = len(self._requests), 0
        for index, request in enumerate(self._requests):
            race = Race(request, self._loaded)
            try:
                for event in race.run_lane(SPECULATIVE):
                    if isinstance(event, Round):
                        tokens += len(event.emitted_ids)
                        yield ProfileStep(index, index, count, tokens, None)
                trace = race.trace()
            finally:
                race.close()
            self._take(index, trace)
            yield ProfileStep(index, index + 1, count, tokens, trace)

    def profile(self) -> AcceptanceProfile:
        """Return the profile of the prompts that have been decoded so far."""
        return self._profiler.profile()

    def _take(self, index: int, trace: Trace) -> None:
        """Add a decoded prompt to the profile.

        Keep only traces that the profile's examples name.
        """
        self._profiler.add(trace)
        self.traces[index] = trace
        named = self._profiler.example_traces()
        self.traces = {key: kept for key, kept in self.traces.items() if key in named}

    def _warm_up(self) -> None:
        first = self._requests[0]
        tokens = min(WARM_UP_TOKENS, first.config.max_new_tokens)
        config = replace(first.config, max_new_tokens=tokens)
        race = Race(replace(first, config=config), self._loaded)
        try:
            for _ in race.run_lane(SPECULATIVE):
                pass
        finally:
            race.close()
