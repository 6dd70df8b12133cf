"""A race made from a random trace, for tests of the page without models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specviz.decoding.drafters.registry import method_named
from specviz.decoding.race import LaneEvent, race
from specviz.decoding.rules.rule_table import rule_named
from specviz.experiments.run.racing import RaceRequest
from specviz.records import Trace, prompt_text
from tests.random_traces import changed, random_trace


class RandomRace:
    """A race that plays a random trace as if it was decoded now.

    `max_new_tokens` is its number of rounds. A method without a draft model finds drafts in some
    rounds only, as a lookup does. With an odd seed the race drafts during verification.
    """

    def __init__(self, request: RaceRequest) -> None:
        config = request.config
        self.trace_played: Trace = random_trace(
            seed=config.seed,
            rounds=config.max_new_tokens,
            branching=config.branching,
            drawing=config.drawing,
            rule=config.rule,
            draft_length=config.draft_length,
            temperature=config.temperature,
            has_distributions=bool(method_named(config.method).needs),
            is_ahead=config.seed % 2 == 1,
        )
        self.texts = dict(self.trace_played.token_texts)
        bias = None if rule_named(config.rule).is_lossless else 0.25
        played = changed(self.trace_played.unstarted, config=config, total_variation=bias)
        played = changed(played, drafter_cache_bytes=1_200_000)
        self.header = replace(played, prompt=prompt_text(request.prompt))
        self.is_closed = False

    def __iter__(self) -> Iterator[LaneEvent]:
        return race({lane.name: lane.events for lane in self.trace_played.lanes})

    def token_text(self, token_id: int) -> str:
        return self.texts[token_id]

    def close(self) -> None:
        self.is_closed = True
