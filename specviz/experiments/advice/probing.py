"""Functions that decode a few prompts in one lane and return the numbers behind the advice.

If the batch size is 1, the prompts are decoded one after the other; otherwise they are decoded
together in batches. This module does not know how the numbers are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, median
from typing import TypeVar

from specviz.advisor.calm import calm_seconds
from specviz.advisor.measured_before import MeasuredBefore
from specviz.advisor.probe import BaselineRun, Candidate, CandidateRun, Probe, RoundSeen, Workload
from specviz.decoding.drafters.registry import DRAFTERS, check_methods, method_named
from specviz.decoding.forward_times import forward_curve, rows_time
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.experiments.run.batch_race import run_rows
from specviz.experiments.run.racing import RaceRequest, load_for_all
from specviz.forward_curve import ForwardCurve
from specviz.metrics.round_totals import levels
from specviz.models.files.survey import survey_pair_of
from specviz.models.library_model import as_batched
from specviz.models.memory import free_bytes
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import LoadedPair
from specviz.models.parts import Need
from specviz.models.text.vocabulary import difference, match_vocabularies
from specviz.records import (
    BASELINE,
    BATCH,
    SPECULATIVE,
    DecodingConfig,
    Lane,
    Prompt,
    Round,
    Trace,
    prompt_text,
)

Row = TypeVar("Row")
# A request must name a method, even if only the baseline runs. Such a request names prompt lookup,
# because it loads no model except the target.
PLAIN = "prompt-lookup"
BATCH_COUNTS = (1, 2, 4, 8)  # new tokens per sequence in the timed forwards of a batch


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """The workload to give advice for: a pair, prompts like the user's own, and the settings.

    `config` gives the sampling settings, the seed and the output length; its method is ignored.
    With a batch size of B, B prompts are decoded together, and prompts repeat if there are too few.
    `before` is the fastest setting of an earlier sweep, which is probed first, at its own draft
    length.
    """

    pair: Pair
    prompts: tuple[Prompt, ...]
    config: DecodingConfig = DecodingConfig()
    task: str | None = None
    batch_size: int = 1
    methods: tuple[str, ...] = tuple(DRAFTERS)
    device: str = "auto"
    dtype: str = "float32"
    before: MeasuredBefore | None = None

    @staticmethod
    def methods_of(text: str) -> tuple[str, ...]:
        """Return the method names in a text, separated by commas; an empty text means all.

        >>> AdviceRequest.methods_of(" eagle, medusa ")
        ('eagle', 'medusa')
        """
        words = (word.strip() for word in (text.strip() or ",".join(DRAFTERS)).split(","))
        return tuple(dict.fromkeys(word for word in words if word))

    def __post_init__(self) -> None:
        if not self.prompts:
            raise InputError("prompts must have at least one text, got none")
        BATCH["batch_size"].check(self.batch_size)
        if not self.methods:
            raise InputError("methods must name at least one method, got none")
        check_methods(self.methods)
        self.race(Candidate(PLAIN, 1), self.prompts[0], 1)

    def race(self, candidate: Candidate, prompt: Prompt, tokens: int) -> RaceRequest:
        """Return the race request for one prompt and candidate.

        It ends after `tokens` new tokens.
        """
        changes = {"branching": candidate.branching, "max_new_tokens": tokens}
        config = method_named(candidate.method).usual(
            candidate.draft_length, **(self.config.beside_method | changes)
        )
        return RaceRequest(self.pair, prompt, config, self.task, self.device, self.dtype)

    def texts(self, count: int, first: int = 0) -> tuple[Prompt, ...]:
        """Return `count` prompts from index `first` on.

        If the request has too few prompts, they repeat from the first one.
        """
        return tuple(self.prompts[(first + i) % len(self.prompts)] for i in range(count))


def candidate_of(method: str, draft_length: int) -> Candidate:
    """Return the candidate for a method at a draft length, with the method's default tree."""
    return Candidate(method, draft_length, method_named(method).usual_branching(draft_length))


def _workload(request: AdviceRequest, loaded: LoadedPair) -> Workload:
    lengths = [len(loaded.codec.encode(text, request.task)) for text in request.prompts[:8]]
    return Workload(
        request.batch_size,
        request.config.max_new_tokens,
        request.config.temperature,
        fmean(lengths),
        loaded.target.info.bytes,
        free_bytes(loaded.target.device),
    )


def first_probe(request: AdviceRequest) -> Probe:
    """Return a probe that has only the workload and the forward times, before any decoding."""
    tokens = request.config.max_new_tokens
    loaded, _ = load_for_all(
        lambda prompt: request.race(Candidate(PLAIN, 1), prompt, tokens), request.prompts
    )
    target = loaded.target
    row, rows = forward_curve(target), request.batch_size
    batched = as_batched(target)
    if rows == 1:
        batch = row
    elif batched is None:
        batch = ForwardCurve(row.token_counts, tuple(rows * each for each in row.seconds))
    else:
        seconds = [rows_time(batched, rows, count) for count in BATCH_COUNTS]
        least = tuple(min(seconds[index:]) for index in range(len(seconds)))
        batch = ForwardCurve(BATCH_COUNTS, least)
    return Probe(_workload(request, loaded), row, batch)


def run_baseline(
    request: AdviceRequest, prompts: Sequence[Prompt], tokens: int, block: int
) -> BaselineRun:
    """Decode all prompts without speculation and return the run's numbers."""
    traces = _decode(request, Candidate(PLAIN, 1), prompts, tokens, BASELINE)
    lanes = [trace.lane(BASELINE) for trace in traces]
    firsts = [lane.prefill.seconds for lane in lanes if lane.prefill is not None]
    groups = [_longest(group) for group in _groups(lanes, request.batch_size)]
    steps = [step.seconds for lane in groups for step in lane.steps]
    prefills = fmean(firsts) * len(groups)
    return BaselineRun(
        block,
        sum(len(lane.emitted_ids) for lane in lanes),
        fmean(firsts),
        prefills + calm_seconds(steps),
        len(steps),
        median(steps) if steps else fmean(firsts),
    )


def run_candidate(
    request: AdviceRequest,
    candidate: Candidate,
    prompts: Sequence[Prompt],
    tokens: int,
    block: int,
    is_race: bool = False,
) -> CandidateRun:
    """Decode all prompts speculatively and return the run's numbers.

    Raises InputError if the pair cannot run the method.
    """
    traces = _decode(request, candidate, prompts, tokens, SPECULATIVE)
    firsts = [trace.prefill.seconds for trace in traces if trace.prefill is not None]
    groups = list(_groups(traces, request.batch_size))
    reads = [max(map(_draft_prefill_seconds, group)) for group in groups]
    rounds = [seen for group in groups for seen in _rounds(group, candidate, tokens)]
    return CandidateRun(
        candidate,
        block,
        sum(len(trace.emitted_ids) for trace in traces),
        fmean(firsts),
        (fmean(firsts) + fmean(reads)) * len(groups) + _calm_rounds(rounds),
        tuple(rounds),
        max(trace.main.held_bytes for trace in traces),
        tuple(map(prompt_text, prompts)),
        is_race,
        fmean(reads),
    )


def _draft_prefill_seconds(trace: Trace) -> float:
    """Return the seconds that the drafter took to read the prompt.

    In a batch, the drafter reads the prompts of all rows together, and the trace of each row has
    the time for all of them. A row whose answer has only one token has no round: the drafter does
    not read its prompt, and the result is 0.
    """
    return sum(each.draft_prefill_seconds for each in trace.rounds)


def _calm_rounds(rounds: Sequence[RoundSeen]) -> float:
    """Return the seconds of all rounds together, with the help of `calm_seconds`.

    That function limits the time of a round that other work delayed to OUTLIER times the median of
    the rounds. Rounds with a draft and rounds without one have separate medians, because one kind
    takes longer than the other.
    """
    kinds = ([each.seconds for each in rounds if each.is_drafted is kind] for kind in (True, False))
    return sum(map(calm_seconds, kinds))


def _decode(
    request: AdviceRequest, candidate: Candidate, prompts: Sequence[Prompt], tokens: int, lane: str
) -> list[Trace]:
    races = [request.race(candidate, prompt, tokens) for prompt in prompts]
    groups = _groups(races, request.batch_size)
    return [trace for group in groups for trace in run_rows(group, lane)]


def _groups(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def _longest(group: Sequence[Lane]) -> Lane:
    return max(group, key=lambda lane: len(lane.steps))


def _rounds(group: Sequence[Trace], candidate: Candidate, tokens: int) -> Iterator[RoundSeen]:
    lefts = [tokens - 1] * len(group)
    for rounds in zip_longest(*(trace.rounds for trace in group)):
        going = [(row, each) for row, each in enumerate(rounds) if each is not None]
        roomy = [each for row, each in going if lefts[row] > candidate.draft_length]
        yield _seen([each for _, each in going], roomy)
        for row, each in going:
            lefts[row] -= len(each.emitted_ids)


def _seen(going: Sequence[Round], roomy: Sequence[Round]) -> RoundSeen:
    return RoundSeen(
        tuple(levels(each).passed for each in roomy),
        max(levels(each).drafted for each in going),
        max(len(each.tree.nodes) for each in going),
        going[0].draft_seconds,
        going[0].verify_seconds,
        going[0].host_seconds,
    )


def shared_share(request: AdviceRequest, method: str) -> float | None:
    """Return the share of the target's tokens that the draft's vocabulary contains as well.

    The result is None for a method without a draft model, and if the vocabularies are equal.
    """
    if Need.DRAFT not in method_named(method).needs or not request.pair.draft:
        return None
    try:
        both = survey_pair_of(request.pair.target, request.pair.draft, Environment.read())
    except InputError:
        return None
    target, draft = (survey.codec for survey in both)
    if difference(target, draft) is None:
        return None
    return match_vocabularies(target, draft).target_share
