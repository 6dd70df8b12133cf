"""Decodes many prompts speculatively and profiles where acceptance is lost.

Yields after every round, so that whoever iterates can show progress and stop at any moment. Keeps
the profile's sums and the traces that its examples name, not every trace. No baseline is decoded:
what a loss costs is told from the rounds' own times. Knows nothing of how results are shown.
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
    """What to decode. `task` puts the pair's own task tag before every prompt."""

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
        """One prompt's run."""
        return RaceRequest(self.pair, prompt, self.config, self.task, self.device, self.dtype)


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """Progress: prompts that are done, of how many, and the tokens that were written so far.

    `trace` is the whole run where this step ended a prompt, `index` that prompt's number from 0.
    """

    index: int
    done: int
    prompts: int
    tokens: int
    trace: Trace | None


class Profiling:
    """One profile in the making. Iterate it once; `profile()` may be asked at any time."""

    def __init__(self, request: ProfileRequest) -> None:
        """Load the pair and check every prompt, so that a bad one costs no decoding.

        Raises InputError for anything that the user can mend.
        """
        self._request = request
        self._loaded, self._requests = load_for_all(request.race, request.prompts)
        self.warning = template_warning(self._loaded.codec, request.prompts)
        self._profiler = AcceptanceProfiler()
        self.traces: dict[int, Trace] = {}

    def __iter__(self) -> Iterator[ProfileStep]:
        """Decode prompt after prompt; closing the iterator ends the run that is under way."""
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
        """Of the prompts that are done."""
        return self._profiler.profile()

    def _take(self, index: int, trace: Trace) -> None:
        """Count a run; keep those that the examples name now, which are few."""
        self._profiler.add(trace)
        self.traces[index] = trace
        named = self._profiler.example_traces()
        self.traces = {key: kept for key, kept in self.traces.items() if key in named}

    def _warm_up(self) -> None:
        """A few tokens that nobody counts: the first forwards of a process are slow."""
        first = self._requests[0]
        tokens = min(WARM_UP_TOKENS, first.config.max_new_tokens)
        config = replace(first.config, max_new_tokens=tokens)
        race = Race(replace(first, config=config), self._loaded)
        try:
            for _ in race.run_lane(SPECULATIVE):
                pass
        finally:
            race.close()
