"""A benchmark of methods, tasks and draft lengths against plain decoding and Transformers.

A contender is one way to decode. In every pass each contender decodes the same prompts, and every
second pass runs in reverse order. If the machine slowly gets faster or slower, this affects all
contenders alike, and speedups compare runs that are close in time. All times are wall-clock times
of whole calls. The iterator yields after every contender, so that the caller can show progress and
stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

from specviz.decoding.drafters.registry import check_methods, method_named
from specviz.decoding.drafters.suffix_tree import SuffixTree
from specviz.errors import InputError
from specviz.experiments.benchmark.peers import ASSISTED, NEED_DRAFT, Assisted, LibraryPeer
from specviz.experiments.run.racing import RaceRequest, load_for_all, start_race
from specviz.experiments.run.repeats import DEFAULT_REPEATS, remark_of
from specviz.machine import processor_name, version
from specviz.metrics import acceptance_rate, block_efficiency, draft_utilization, exceeds
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import Framing, held_out_prompts
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig, Prompt, Round, prompt_text
from specviz.serving.engine_address import EngineAddress
from specviz.serving.llama_cpp.llama_cpp_process import ENGINE
from specviz.serving.llama_cpp.token_completion import complete
from specviz.slices import giving_way, own_time

WARM_UP_STEPS = 6
PLAIN = "prompt-lookup"
# (prompt ids, largest number of new tokens) -> new tokens.
Generate = Callable[[Sequence[int], int], list[int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings to measure: `prompts` is the number of held-out prompts per task.

    The user's own `texts` replace the held-out prompts; the only task is then None. `peers` are
    ways of Transformers to speculate, which run only at temperature 0. `engine` is a llama.cpp
    server of the pair's target. It decodes the same prompts in the same passes, also only at
    temperature 0. Suffix decoding may also copy from its last `earlier_outputs` outputs of the same
    pass. `method_settings` has further settings of all methods: pairs of a name and a value. A
    method that does not support one of them is refused.
    """

    pair: Pair
    tasks: tuple[str | None, ...]
    methods: tuple[str, ...]
    draft_lengths: tuple[int, ...]
    temperature: float = 0.0
    max_new_tokens: int = 128
    prompts: int = 3
    repeats: int = DEFAULT_REPEATS
    device: str = "auto"
    dtype: str = "float32"
    texts: tuple[Prompt, ...] = ()
    framing: Framing = Framing()
    peers: tuple[str, ...] = tuple(ASSISTED)
    engine: EngineAddress | None = None
    earlier_outputs: int = 0
    method_settings: tuple[tuple[str, Any], ...] = ()

    def config_of(self, method: str, draft_length: int) -> DecodingConfig:
        """Return the settings of one method, which the method may still refuse."""
        return method_named(method).usual(
            draft_length,
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            **dict(self.method_settings),
        )

    def prompts_of(self, task: str | None) -> tuple[Prompt, ...]:
        """Return the prompts of one task, with the requested system prompt and chat template."""
        return self.rows_of(task, min(self.prompts, self.known(task)))

    def rows_of(self, task: str | None, count: int) -> tuple[Prompt, ...]:
        """Return `count` prompts of a task.

        If the task has fewer, begin again with its first prompt.
        """
        known = self._known(task)
        return tuple(self.framing.of(known[row % len(known)]) for row in range(count))

    def known(self, task: str | None) -> int:
        """Return how many different prompts the task has."""
        return len(self._known(task))

    def _known(self, task: str | None) -> tuple[Prompt, ...]:
        if task is None:
            return self.texts
        return held_out_prompts(task, self.pair.is_asked_to_chat(task))


@dataclass(frozen=True, slots=True)
class BenchmarkStep:
    """A progress step: the contender that just ran, its pass, and the expected remaining seconds.

    `seconds_left` is None during the warm-up.
    """

    task: str | None
    doing: str
    repeat: int
    ends_pass: bool
    seconds_left: float | None
    draft_length: int | None = None

    def words(self, repeats: int) -> str:
        """Return the step as one line of text for a user who waits."""
        doing = self.doing if self.draft_length is None else f"{self.doing}, K {self.draft_length}"
        where = f"{self.task or 'your prompts'}, {doing}"
        if self.seconds_left is None:
            return f"warming up: {where}"
        left = time_left(self.seconds_left)
        return f"{where}: pass {self.repeat + 1} of {max(repeats, self.repeat + 1)}, {left}"


def none_runs(methods: Sequence[str], why: str) -> InputError:
    """Return the error for a benchmark in which no method can run.

    `why` says why the first of these methods cannot run.
    """
    named = ", ".join(methods)
    return InputError(
        f"methods must name one that this pair can run, got {named}; the first is refused: {why}"
    )


def time_left(seconds: float) -> str:
    """Return the remaining time as text, in seconds or minutes.

    >>> time_left(42.3), time_left(1750)
    ('42 s left', '29 min left')
    """
    return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


@dataclass(slots=True)
class Contender:
    """One way to decode, with the results of its passes.

    `run` takes a prompt and the number of steps or rounds after which to stop (None: at the text's
    end). It returns the number of emitted tokens. Every pass begins without earlier outputs.
    Otherwise suffix decoding could copy the same text from the pass before.
    """

    name: str
    draft_length: int | None
    run: Callable[[Prompt, int | None], int]
    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    forwards: int = 0  # number of target forwards in Transformers, which reports no rounds
    # Bytes of the weights that this contender needs in addition to the target's.
    extra_bytes: int | None = None
    earlier_outputs: int = 0
    earlier: SuffixTree | None = None  # the outputs of this pass, if methods may copy from them

    def pass_over(self, prompts: Sequence[Prompt]) -> None:
        if self.earlier_outputs:
            self.earlier = SuffixTree(most_texts=self.earlier_outputs)
        began = own_time()
        self.tokens.append(sum(self.run(prompt, None) for prompt in giving_way(prompts)))
        self.seconds.append(own_time() - began)

    @property
    def block_efficiency(self) -> float | None:
        """Return the tokens per target forward; for a library call, the prefill counts as well."""
        if self.forwards:
            return sum(self.tokens) / self.forwards
        return block_efficiency(self.rounds)

    @property
    def rates(self) -> list[float]:
        """Return the tokens per second of every pass, in the order of the passes."""
        return [count / spent for count, spent in zip(self.tokens, self.seconds, strict=True)]


class Benchmark:
    """One run of the benchmark: iterate over it once; `result()` may be called at any time."""

    def __init__(self, plan: Plan) -> None:
        """Load the models. Raises InputError for invalid settings."""
        self._plan = plan
        self._refusals: dict[str, str] = {}  # name of a refused contender -> the reason
        check_methods(plan.methods)
        check_prompts(plan, plan.prompts)
        peer = _library_peer(plan) if plan.temperature == 0 else None
        self._contenders = {task: _contenders(plan, task, peer) for task in plan.tasks}
        # Number of runs so far, and number of runs in additional passes. A pass is added if other
        # work disturbed the times.
        self._done = self._more = 0
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
            for repeat in range(2 * self._plan.repeats):
                if repeat >= self._plan.repeats:
                    if not self._is_disturbed(task):
                        break
                    self._more += len(self._contenders[task])
                yield from self._pass(task, repeat)

    def result(self) -> dict[str, Any]:
        """Return one row for each task and contender that has run, as JSON-ready values.

        A speedup compares with the baseline of the same pass. `rates` are the tokens per second of
        every pass, in order.
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
            **({"engine": self._engine_ratios()} if plan.engine else {}),
            "refusals": [{"method": name, "why": why} for name, why in self._refusals.items()],
            "processor": processor_name(),
            "made_by": f"specviz {version()}",
            "temperature": plan.temperature,
            "max_new_tokens": plan.max_new_tokens,
            **({"earlier_outputs": plan.earlier_outputs} if plan.earlier_outputs else {}),
            **dict(plan.method_settings),
        }

    def _engine_ratios(self) -> list[dict[str, Any]]:
        """Return, for each task, the tokens per second of specviz divided by those of the engine.

        Each ratio is the median over the passes.
        """
        found = []
        for task, contenders in self._contenders.items():
            ran = {each.name: each for each in contenders if each.seconds}
            if ENGINE not in ran or BASELINE not in ran:
                continue
            rates = ran[ENGINE].rates
            ours = [each for each in contenders if each.seconds and each.name in self._plan.methods]
            best = max(ours, key=lambda each: median(each.rates), default=None)
            found.append(
                {
                    "task": task,
                    "engine_tokens_per_second": median(rates),
                    "baseline_over_engine": _rates_ratio(ran[BASELINE].rates, rates),
                    "best_method": None if best is None else best.name,
                    "best_draft_length": None if best is None else best.draft_length,
                    "best_over_engine": None if best is None else _rates_ratio(best.rates, rates),
                }
            )
        return found

    def _can_run(self, contender: Contender, task: str | None) -> bool:
        """Run a few untimed steps on the longest prompt; if they are refused, record why.

        Returns whether the contender can run.
        """
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

    def _is_disturbed(self, task: str | None) -> bool:
        """Return whether some method's speedup is above its tokens per target forward.

        Such a speedup is impossible unless other work disturbed the measured times.
        """
        baseline, *others = self._contenders[task]
        rows = [_row(task, each, baseline) for each in others if each.rounds]
        return any(exceeds(row["speedup"], row["block_efficiency"]) for row in rows)

    def _check_methods(self) -> None:
        """Raise InputError if no method can run."""
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
        runs = self._plan.repeats * sum(map(len, self._contenders.values())) + self._more
        return (time.perf_counter() - self._began) / self._done * (runs - self._done)


def benchmark(plan: Plan, progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Run the whole benchmark, with one line of progress per contender and pass."""
    measuring = Benchmark(plan)
    for step in measuring:
        progress(step.words(plan.repeats))
    return measuring.result()


def check_prompts(plan: Plan, count: int) -> None:
    """Raise InputError if one of the first `count` prompts leaves no room for the output."""
    for task in plan.tasks:
        prompts = plan.rows_of(task, min(count, plan.known(task)))
        load_for_all(partial(_request, plan, task), prompts)


def _library_peer(plan: Plan) -> LibraryPeer:
    """Load the pair in specviz, which downloads missing files, then in Transformers.

    Return the pair as Transformers loaded it from the same files.
    """
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
    if peer is not None:
        listed += _peer_contenders(plan, task, peer)
    if plan.engine is not None:
        listed.append(_engine_contender(plan, task, plan.engine))
    return listed


def _engine_contender(plan: Plan, task: str | None, engine: EngineAddress) -> Contender:
    """Return llama.cpp as a contender that, like specviz, reuses no cache of an earlier prompt."""
    codec = load_pair(plan.pair, plan.device, plan.dtype, frozenset()).codec

    def run(prompt: Prompt, steps: int | None) -> int:
        most = min(plan.max_new_tokens, steps or plan.max_new_tokens)
        return len(complete(engine, codec.encode(prompt, task), most).ids)

    return Contender(ENGINE, None, run)


def _rates_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    # If the user stopped the benchmark, one contender may have run one pass more than the other.
    return median(a / b for a, b in zip(ours, theirs, strict=False))


def _method_contender(plan: Plan, task: str | None, method: str, draft_length: int) -> Contender:
    contender = Contender(method, draft_length, _nothing, earlier_outputs=plan.earlier_outputs)

    def run(prompt: Prompt, steps: int | None) -> int:
        request = _request(plan, task, prompt)
        config = plan.config_of(method, draft_length)
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
            # Transformers refuses the pair, for example because the two tokenizers differ.
            except ValueError as error:
                raise InputError(f"transformers refuses this setting: {error}") from None
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
    """Return a request without drafts; its method is a placeholder that needs only the target."""
    sampling = {"temperature": plan.temperature, "max_new_tokens": plan.max_new_tokens}
    config = method_named(PLAIN).usual(1, **sampling)
    return RaceRequest(plan.pair, prompt, config, task, plan.device, plan.dtype)


def _nothing(prompt: Prompt, steps: int | None) -> int:
    return 0


def _decode(request: RaceRequest, lane: str, contender: Contender, steps: int | None) -> int:
    race = start_race(request, contender.earlier)
    try:
        events = giving_way(islice(race.run_lane(lane), steps))
        contender.rounds += [each for each in events if isinstance(each, Round)]
    finally:
        race.close()
    contender.extra_bytes = race.header.main.drafter_bytes if lane == SPECULATIVE else None
    return len(race.emitted_ids(lane))


def _row(task: str | None, contender: Contender, baseline: Contender) -> dict[str, Any]:
    # If the user stopped the benchmark, one contender may have run one pass more than the other.
    pairs = zip(contender.rates, baseline.rates, strict=False)
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
        "draft_utilization": draft_utilization(contender.rounds),
        "block_efficiency": contender.block_efficiency,
        "remark": remark_of(max(ratios), contender.block_efficiency if contender.rounds else None),
        "extra_bytes": contender.extra_bytes,
    }
