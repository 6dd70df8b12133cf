"""A fork: the real decoder goes on from a round of a trace, with forced draws or another setting.

Every draw of the target's side is keyed by seed and text
position, every draft draw by seed and round, so a fork with the trace's own setting and nothing
forced writes the trace's own rounds again, but for the rounding of its probabilities: the text so
far is run in one forward, not round by round. Three methods can be told from the original:

- lookahead starts with a fresh window and pool, so it may guess otherwise from round 1 on;
- quantised-self rounds its inputs to bfloat16, so its q depends on which tokens ran together and
  now and then another token is drafted;
- pre-speculation has nothing prepared for its first round, which then notes a miss.

The text stays as exact as any: proposals may differ, the rule that judges them does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from specviz.decoding import speculative
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, settled
from specviz.decoding.race import LaneEvent, race
from specviz.decoding.target import cache_capacity, check_prompt
from specviz.errors import InputError
from specviz.experiments.run.fork_parent import check_texts, copied_baseline, with_measured_nodes
from specviz.experiments.run.racing import (
    load_request,
    trace_header,
    with_cache_bytes,
)
from specviz.experiments.run.recorder import Recorder
from specviz.experiments.run.warm_up import rehearse, warm_up_pair
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import LoadedPair
from specviz.records import DecodingConfig, Event, ForkPoint, Round, Trace
from specviz.what_if import check_draws


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """Where to leave a trace, and how to go on.

    `round_index` is that of the first new round, from 0 (sentences for people count from 1); the
    trace's length stands for its end. `forced` pairs nodes of the trace's own round of that index
    with uniform draws in [0, 1). A forced draw belongs to a path of tokens: where `config` or
    `pair` draft another tree, the fork finds the same path in it or refuses.
    `config.max_new_tokens` counts the whole text, what is written before the fork included.
    """

    parent: Trace
    round_index: int
    pair: Pair
    config: DecodingConfig
    forced: tuple[tuple[int, float], ...] = ()
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        count = len(self.parent.rounds)
        if self.parent.prefill is None:
            raise InputError("trace must have a speculative lane to fork from, got none")
        if not 0 <= self.round_index <= count:
            raise InputError(f"round must be from 1 to {count + 1}, got {self.round_index + 1}")
        if self.forced and self.round_index == count:
            raise InputError(f"forced draws must be of one of the trace's {count} rounds")
        if self.forced:
            check_draws(self.parent.rounds[self.round_index], dict(self.forced))
        written = len(self.departure.written)
        if written >= self.config.max_new_tokens:
            raise InputError(
                f"max_new_tokens must be above {written}, the tokens written before round "
                f"{self.round_index + 1}, got {self.config.max_new_tokens}"
            )

    @property
    def prompt(self) -> str:
        return self.parent.prompt

    @property
    def departure(self) -> Departure:
        """Where the decoder begins."""
        return Departure.of(self.parent, self.round_index, dict(self.forced))

    @property
    def forks(self) -> tuple[ForkPoint, ...]:
        """Those of the parent before this one, and this one."""
        parent, index = self.parent, self.round_index
        before = (fork for fork in parent.main.forks if fork.round_index < index)
        nodes = parent.rounds[index].tree.nodes if self.forced else ()
        forced = tuple((nodes[node].token_id, u) for node, u in self.forced)
        return *before, ForkPoint(index, parent.config_of(index - 1), forced)


class Fork:
    """One fork, with the face of a race: iterate it once, `trace()` gives all up to that moment.

    First the parent's own events up to the fork come again as they were, and its baseline, which is
    not run again. `header` and `trace()` carry the fork's setting, also for the rounds that the
    parent made under its own. The lane's clock goes on from the parent's; running the text so far
    through the target once more is not on it, but the first new round also pays for the drafter's
    pass over that text, as the first round of any run does.
    """

    def __init__(self, request: ForkRequest, loaded: LoadedPair) -> None:
        """InputError for a pair that cannot go on with this text."""
        parent, departure = request.parent, request.departure
        config, target, prompt_ids = request.config, loaded.target, parent.prompt_ids
        check_texts(parent, loaded.codec, loaded.pair.name)
        _check_goes_on(request, loaded.codec.eos_ids)
        for model in loaded.prompt_models:
            check_prompt(model, prompt_ids, config)
        drafting = with_measured_nodes(parent, config)
        rehearse(loaded, prompt_ids, drafting)
        setup = Setup(target, loaded.parts, drafting, cache_capacity(prompt_ids, config))
        self._parent, self._rounds = parent, parent.rounds[: request.round_index]
        self._loaded, self._codec = loaded, loaded.codec
        self._drafter = make_drafter(setup)
        self._decoder = speculative.decode(
            target, self._drafter, prompt_ids, config, loaded.codec.eos_ids, departure
        )
        self._recorder = Recorder()
        used = replace(request, config=settled(replace(setup, config=config)))
        header = trace_header(used, loaded, prompt_ids, self._drafter.memory.weights)
        bias = _bias(header, self._rounds, parent)
        lane = replace(header.main, total_variation=bias, forks=request.forks)
        self._copied = copied_baseline(parent, header)
        lanes = (self._copied.unstarted, lane) if self._copied else (lane,)
        self.header = replace(
            header,
            token_texts=parent.token_texts,
            lanes=lanes,
            beside=parent.beside,
            waited=parent.waited,
        )

    def __iter__(self) -> Iterator[LaneEvent]:
        """The lanes on fair clocks; the decoder begins when the parent's rounds are through."""
        lanes = {self.header.main.name: self._events()}
        if self._copied is not None:
            lanes = {self._copied.name: self._copied.events} | lanes
        for event in race(lanes):
            self._recorder.add(event.lane, event.event)
            self.header = with_cache_bytes(self.header, self._drafter)
            yield event

    def _events(self) -> Iterator[Event]:
        assert self._parent.prefill is not None
        return chain([self._parent.prefill], self._rounds, self._new_events())

    def _new_events(self) -> Iterator[Event]:
        warm_up_pair(self._loaded, self.header.prompt_ids, self.header.config)
        yield from self._decoder

    def trace(self) -> Trace:
        """The record of all that has happened so far, the copied lane as a whole."""
        trace = self._recorder.fill(self.header)
        texts = dict(self.header.token_texts)
        texts |= {i: self.token_text(i) for i in self._recorder.token_ids}
        lanes = (self._copied, trace.main) if self._copied else trace.lanes
        return replace(trace, token_texts=tuple(sorted(texts.items())), lanes=lanes)

    def token_text(self, token_id: int) -> str:
        """One token's visible text."""
        return self._codec.token_text(token_id)

    def close(self) -> None:
        """Free the decoder; a lane that has not ended stays unfinished in the trace."""
        self._decoder.close()  # type: ignore[attr-defined]
        self._drafter.close()  # a decoder that never started has not done it


def start_fork(request: ForkRequest) -> Fork:
    """Load the pair (from memory where it is there) and make the decoder ready.

    Raises InputError for anything that the user can mend.
    """
    return Fork(request, load_request(request))


def _bias(header: Trace, kept: Sequence[Round], parent: Trace) -> float | None:
    """Of the fork's own rule, or of the parent's where lossy rounds of it are kept."""
    is_lossy = any(not each.tree.kind.is_lossless for each in kept)
    own = header.main.total_variation
    return parent.main.total_variation if own is None and is_lossy else own


def _check_goes_on(request: ForkRequest, end_ids: Collection[int]) -> None:
    if request.departure.written[-1] in end_ids:
        raise InputError(
            f"round must be before the end of the text, got {request.round_index + 1}: the token "
            "before it ends the sequence"
        )
