"""Methods x tasks x draft lengths beside the baseline and the library's own decoding.

Every contender decodes the same prompts in one pass over all contenders, then in the reverse
order, and so on, so that a drift of the machine hits all alike; speedups compare neighbours in
time. Seconds are wall clock around whole calls, for all the same. Yields after every contender of a
pass, so that whoever iterates can show progress and stop at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError
from specviz.experiments.benchmark.peers import ASSISTED, NEED_DRAFT, Assisted, LibraryPeer
from specviz.experiments.run.racing import RaceRequest, load_for_all, start_race
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import Framing, held_out_prompts
from specviz.records import BASELINE, SPECULATIVE, Prompt, Round, prompt_text
from specviz.slices import letting_by, own_time

WARM_UP_STEPS = 6
PLAIN = "prompt-lookup"
Generate = Callable[[Sequence[int], int], list[int]]  # prompt ids, most new tokens -> new ones


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure; `prompts` counts the held-out prompts per task.

    `texts` of one's own take their place, the only task is then None. `peers` are the library's
    ways to speculate; they run at temperature 0 alone.
    """

    pair: Pair
    tasks: tuple[str | None, ...]
    methods: tuple[str, ...]
    draft_lengths: tuple[int, ...]
    temperature: float = 0.0
    max_new_tokens: int = 128
    prompts: int = 3
    repeats: int = 2
    device: str = "auto"
    dtype: str = "float32"
    texts: tuple[Prompt, ...] = ()
    framing: Framing = Framing()
    peers: tuple[str, ...] = tuple(ASSISTED)

    def prompts_of(self, task: str | None) -> tuple[Prompt, ...]:
        """Those of one task, framed."""
        return self.rows_of(task, min(self.prompts, self.known(task)))

    def rows_of(self, task: str | None, count: int) -> tuple[Prompt, ...]:
        """`count` of them, the first ones again behind the last."""
        known = self._known(task)
        return tuple(self.framing.of(known[row % len(known)]) for row in range(count))

    def known(self, task: str | None) -> int:
        """How many there are."""
        return len(self._known(task))

    def _known(self, task: str | None) -> tuple[Prompt, ...]:
        return self.texts if task is None else held_out_prompts(task, self.pair.instruct)


@dataclass(frozen=True, slots=True)
class BenchmarkStep:
    """Progress: what ran last in which pass; the seconds that are likely left, None in warm-up."""

    task: str | None
    doing: str
    repeat: int
    ends_pass: bool
    seconds_left: float | None
    draft_length: int | None = None

    def words(self, repeats: int) -> str:
        """One line for a person who waits."""
        doing = self.doing if self.draft_length is None else f"{self.doing}, K {self.draft_length}"
        where = f"{self.task or 'your prompts'}, {doing}"
        if self.seconds_left is None:
            return f"warming up: {where}"
        left = time_left(self.seconds_left)
        return f"{where}: pass {self.repeat + 1} of {repeats}, {left}"


def none_runs(methods: Sequence[str], why: str) -> InputError:
    """What is said where not one method could be measured; `why` the first could not."""
    named = ", ".join(methods)
    return InputError(f"methods must name one that this pair can run, got {named}: {why}")


def time_left(seconds: float) -> str:
    """In the unit that fits.

    >>> time_left(42.3), time_left(1750)
    ('42 s left', '29 min left')
    """
    return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


@dataclass(slots=True)
class Contender:
    """One way to decode: runs one prompt and returns its token count; collects its passes.

    `run` takes a prompt, and after how many steps or rounds to stop (None: at its end).
    """

    name: str
    draft_length: int | None
    run: Callable[[Prompt, int | None], int]
    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    forwards: int = 0  # of a peer's target, which shows no rounds
    extra_bytes: int | None = None  # weights beside the target's

    def pass_over(self, prompts: Sequence[Prompt]) -> None:
        began = own_time()
        self.tokens.append(sum(self.run(prompt, None) for prompt in letting_by(prompts)))
        self.seconds.append(own_time() - began)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per target forward; a peer's prefill counts as one."""
        if self.forwards:
            return sum(self.tokens) / self.forwards
        return block_efficiency(self.rounds)

    @property
    def rates(self) -> list[float]:
        """Tokens per second of every pass."""
        return [count / spent for count, spent in zip(self.tokens, self.seconds, strict=True)]


class Benchmark:
    """One run of the benchmark. Iterate it once; `result()` may be called at any time."""

    def __init__(self, plan: Plan) -> None:
        """Load the models. InputError for what a user can mend."""
        self._plan = plan
        self._refusals: dict[str, str] = {}  # of contenders by name
        for method in plan.methods:
            method_named(method)
        check_prompts(plan, plan.prompts)
        peer = _library_peer(plan) if plan.temperature == 0 else None
        self._contenders = {task: _contenders(plan, task, peer) for task in plan.tasks}
        self._done = 0
        self._began = 0.0

    def __iter__(self) -> Iterator[BenchmarkStep]:
        for task, contenders in self._contenders.items():
            for contender in tuple(contenders):
                if not self._can_run(contender, task):
                    contenders.remove(contender)
                    continue
                yield BenchmarkStep(task, contender.name, 0, False, None, contender.draft_length)
        self._check_methods()
        self._began = time.perf_counter()
        for task in self._contenders:
            for repeat in range(self._plan.repeats):
                yield from self._pass(task, repeat)

    def result(self) -> dict[str, Any]:
        """A row per task and contender that has run; speedups over the same pass's baseline.

        `rates` are the tokens per second of every pass, in order.
        """
        rows = [
            _row(task, each, contenders[0])
            for task, contenders in self._contenders.items()
            for each in contenders
            if each.seconds
        ]
        plan = self._plan
        return {
            "rows": rows,
            "refusals": [{"method": name, "why": why} for name, why in self._refusals.items()],
            "temperature": plan.temperature,
            "max_new_tokens": plan.max_new_tokens,
        }

    def _can_run(self, contender: Contender, task: str | None) -> bool:
        """Warm it up on the longest prompt, uncounted; what it lacks is noted as its refusal."""
        prompts = self._plan.prompts_of(task)
        longest = max(prompts, key=lambda prompt: len(prompt_text(prompt)))
        try:
            contender.run(longest, WARM_UP_STEPS)
        except InputError as error:
            if contender.name == BASELINE:
                raise
            self._refusals.setdefault(contender.name, " ".join(str(error).split()))
            return False
        contender.rounds.clear()
        contender.forwards = 0
        return True

    def _check_methods(self) -> None:
        """InputError where not one of the methods runs."""
        methods = self._plan.methods
        names = {each.name for listed in self._contenders.values() for each in listed}
        if methods and not names & set(methods):
            raise none_runs(methods, self._refusals[methods[0]])

    def _pass(self, task: str | None, repeat: int) -> Iterator[BenchmarkStep]:
        contenders = self._contenders[task][:: -1 if repeat % 2 else 1]
        for contender in contenders:
            contender.pass_over(self._plan.prompts_of(task))
            self._done += 1
            ends_pass = contender is contenders[-1]
            left, length = self._seconds_left, contender.draft_length
            yield BenchmarkStep(task, contender.name, repeat, ends_pass, left, length)

    @property
    def _seconds_left(self) -> float:
        runs = self._plan.repeats * sum(map(len, self._contenders.values()))
        return (time.perf_counter() - self._began) / self._done * (runs - self._done)


def benchmark(plan: Plan, progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Run it to the end, with a line of progress per contender and pass."""
    measuring = Benchmark(plan)
    for step in measuring:
        progress(step.words(plan.repeats))
    return measuring.result()


def check_prompts(plan: Plan, count: int) -> None:
    """InputError for one of the first `count` prompts of a task that leaves the output no room."""
    for task in plan.tasks:
        prompts = plan.rows_of(task, min(count, plan.known(task)))
        load_for_all(partial(_request, plan, task), prompts)


def _library_peer(plan: Plan) -> LibraryPeer:
    """After our own models, which are fetched where they are not on this machine yet."""
    needs = frozenset({Need.DRAFT}) if plan.pair.draft else frozenset[Need]()
    load_pair(plan.pair, plan.device, plan.dtype, needs)
    return LibraryPeer(plan.pair, plan.device, plan.dtype)


def _contenders(plan: Plan, task: str | None, peer: LibraryPeer | None) -> list[Contender]:
    baseline = Contender(BASELINE, None, _nothing)
    baseline.run = lambda prompt, steps: _decode(
        _request(plan, task, prompt), BASELINE, baseline, steps
    )
    listed = [baseline]
    for method in plan.methods:
        listed += [_method_contender(plan, task, method, k) for k in plan.draft_lengths]
    return listed if peer is None else listed + _peer_contenders(plan, task, peer)


def _method_contender(plan: Plan, task: str | None, method: str, draft_length: int) -> Contender:
    contender = Contender(method, draft_length, _nothing)

    def run(prompt: Prompt, steps: int | None) -> int:
        request = _request(plan, task, prompt)
        config = method_named(method).usual(draft_length, **request.config.beside_method)
        return _decode(replace(request, config=config), SPECULATIVE, contender, steps)

    contender.run = run
    return contender


def _peer_contenders(plan: Plan, task: str | None, peer: LibraryPeer) -> list[Contender]:
    codec = load_pair(plan.pair, plan.device, plan.dtype, frozenset()).codec

    def contender(name: str, draft_length: int | None, generate: Generate) -> Contender:
        made = Contender(name, draft_length, _nothing)

        def run(prompt: Prompt, steps: int | None) -> int:
            most = min(plan.max_new_tokens, steps or plan.max_new_tokens)
            try:
                tokens = generate(codec.encode(prompt, task), most)
            except ValueError as error:  # such as two tokenizers
                raise InputError(f"the library refuses: {error}") from None
            made.forwards += peer.target_forwards
            return len(tokens)

        made.run = run
        return made

    return [
        contender("generate()", None, peer.generate),
        *(
            contender(name, k, _of_length(generate, peer, k))
            for name, generate in ASSISTED.items()
            if name in plan.peers and (plan.pair.draft or name not in NEED_DRAFT)
            for k in plan.draft_lengths
        ),
    ]


def _of_length(generate: Assisted, peer: LibraryPeer, draft_length: int) -> Generate:
    return lambda ids, limit: generate(peer, ids, limit, draft_length)


def _request(plan: Plan, task: str | None, prompt: Prompt) -> RaceRequest:
    """Of a method that needs nothing beside the target, for lanes that draft nothing."""
    sampling = {"temperature": plan.temperature, "max_new_tokens": plan.max_new_tokens}
    config = method_named(PLAIN).usual(1, **sampling)
    return RaceRequest(plan.pair, prompt, config, task, plan.device, plan.dtype)


def _nothing(prompt: Prompt, steps: int | None) -> int:
    return 0


def _decode(request: RaceRequest, lane: str, contender: Contender, steps: int | None) -> int:
    race = start_race(request)
    try:
        events = letting_by(islice(race.run_lane(lane), steps))
        contender.rounds += [each for each in events if isinstance(each, Round)]
    finally:
        race.close()
    contender.extra_bytes = race.header.main.drafter_bytes if lane == SPECULATIVE else None
    return len(race.emitted_ids(lane))


def _row(task: str | None, contender: Contender, baseline: Contender) -> dict[str, Any]:
    pairs = zip(contender.rates, baseline.rates, strict=False)  # a pass may be cut off
    ratios = [ours / base for ours, base in pairs]
    return {
        "task": task,
        "method": contender.name,
        "draft_length": contender.draft_length,
        "tokens_per_second": median(contender.rates),
        "rates": contender.rates,
        "speedup": median(ratios),
        "speedup_spread": [min(ratios), max(ratios)],
        "acceptance_rate": acceptance_rate(contender.rounds),
        "block_efficiency": contender.block_efficiency,
        "extra_bytes": contender.extra_bytes,
    }
