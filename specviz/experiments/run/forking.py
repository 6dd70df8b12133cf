"""A fork: the decoder continues from a round of a trace, with forced draws or another setting.

Every draw of the target depends only on the seed and the position in the text. Every draw of a
draft depends only on the seed and the round. A fork with the trace's own setting and without forced
draws therefore repeats the trace's rounds. Only the rounding of probabilities differs, because the
text so far runs in one forward instead of round by round. Four methods may also draft differently:

- lookahead starts with an empty window and pool, so it may guess differently from round 1 on;
- token recycling starts with the successors that the text shows, not with those of earlier rounds;
- quantised-self rounds its inputs to bfloat16, so its q depends on which tokens ran together, and
  it sometimes drafts another token;
- pre-speculation has prepared nothing for its first round, which then notes a miss.

The text stays exact in any case, because the rule that verifies the proposals does not change.
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
from specviz.decoding.rules.rule_table import rule_named
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
    """The round at which to leave a trace, and the setting to continue with.

    `round_index` is the index of the first new round, from 0 (sentences for users count from 1). If
    it equals the number of rounds, the fork begins at the trace's end. `forced` has pairs of a node
    in that round of the trace and a uniform draw in [0, 1). If `config` or `pair` drafts another
    tree, the draw applies to the node with the same path of tokens; if there is none, the decoder
    raises InputError. `config.max_new_tokens` counts the whole text, including the tokens before
    the fork.
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
            raise InputError(
                f"forced draws must belong to one of the trace's {count} rounds, but this fork "
                "begins after them"
            )
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
        """Return the state of the parent run from which the decoder continues."""
        return Departure.of(self.parent, self.round_index, dict(self.forced))

    @property
    def forks(self) -> tuple[ForkPoint, ...]:
        """Return the earlier forks of the parent trace, followed by this fork."""
        parent, index = self.parent, self.round_index
        before = (fork for fork in parent.main.forks if fork.round_index < index)
        nodes = parent.rounds[index].tree.nodes if self.forced else ()
        forced = tuple((nodes[node].token_id, u) for node, u in self.forced)
        return *before, ForkPoint(index, parent.config_of(index - 1), forced)


class Fork:
    """One fork, with the interface of a race: iterate over it once; `trace()` works at any time.

    The fork first repeats the parent's events up to the fork, and the parent's baseline, which does
    not run again. `header` and `trace()` carry the fork's setting, also for rounds that the parent
    made under its own setting. The lane's clock continues from the parent's clock. The time of the
    target's forward over the text so far does not count. The first new round includes the drafter's
    pass over that text, as the first round of any run does.
    """

    def __init__(self, request: ForkRequest, loaded: LoadedPair) -> None:
        """Prepare the decoder. Raises InputError if the pair cannot continue this text."""
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
            target,
            self._drafter,
            prompt_ids,
            config,
            loaded.codec.eos_ids,
            departure,
            loaded.grammar(config),
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
            reading=parent.reading,
        )

    def __iter__(self) -> Iterator[LaneEvent]:
        """Yield the events of all lanes: the parent's rounds, then new ones.

        The lane whose own clock is behind runs next.
        """
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
        """Return the trace of all events so far, with the whole copied baseline."""
        trace = self._recorder.fill(self.header)
        texts = dict(self.header.token_texts)
        texts |= {i: self.token_text(i) for i in self._recorder.token_ids}
        lanes = (self._copied, trace.main) if self._copied else trace.lanes
        return replace(trace, token_texts=tuple(sorted(texts.items())), lanes=lanes)

    def token_text(self, token_id: int) -> str:
        return self._codec.token_text(token_id)

    def close(self) -> None:
        """Free the decoder; a lane that has not ended stays unfinished in the trace."""
        self._decoder.close()  # type: ignore[attr-defined]
        # The decoder closes the drafter when it ends, but a decoder that never started does not.
        self._drafter.close()


def start_fork(request: ForkRequest) -> Fork:
    """Load the pair if it is not in memory, and prepare the fork.

    Raises InputError for an invalid request.
    """
    return Fork(request, load_request(request))


def _bias(header: Trace, kept: Sequence[Round], parent: Trace) -> float | None:
    """Return the measured distance of the fork's output from the target's distribution.

    If the fork's own rule is lossy, this is the distance of that rule. Otherwise it is the distance
    of the parent's rule if the fork keeps rounds that a lossy rule made, and None if all rounds are
    exact.
    """
    is_lossy = any(not rule_named(each.rule).is_lossless for each in kept)
    own = header.main.total_variation
    return parent.main.total_variation if own is None and is_lossy else own


def _check_goes_on(request: ForkRequest, end_ids: Collection[int]) -> None:
    if request.departure.written[-1] in end_ids:
        raise InputError(
            f"round must be before the end of the text, got {request.round_index + 1}: the text "
            "ends before that round"
        )
