"""The numbers that a short probe of a pair measures, from which the advice is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_TREE_NODES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method with its draft length and tree.

    `branching` is empty for a chain, and for a method that shapes its tree itself.
    """

    method: str
    draft_length: int
    branching: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """Return the candidate's title, as users see it.

        >>> Candidate("draft-tree", 5, (3, 2)).title
        'draft-tree, K = 5, branching 3,2'
        """
        shape = f", branching {','.join(map(str, self.branching))}" if self.branching else ""
        return f"{self.method}, K = {self.draft_length}{shape}"

    @property
    def node_count(self) -> int:
        """Return the number of nodes in the candidate's tree.

        Below the depths of `branching`, each node has one child.
        """
        nodes, level = 0, 1
        for depth in range(self.draft_length):
            level *= self.branching[depth] if depth < len(self.branching) else 1
            nodes += level
        return nodes


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """One round of all rows of a batch together.

    `accepted` holds the number of levels passed, for each row that had room for the whole draft
    length. `nodes` is the size of the largest tree among the rows. The times exclude the drafter's
    prefill.
    """

    accepted: tuple[int, ...]
    levels: int
    nodes: int
    draft_seconds: float
    verify_seconds: float
    host_seconds: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """Return the seconds of a round's parts: drafting, verifying, and the work of the host."""
        return self.draft_seconds, self.verify_seconds, self.host_seconds

    @property
    def seconds(self) -> float:
        return sum(self.parts)

    @property
    def is_drafted(self) -> bool:
        """Return whether any sequence had a draft to verify.

        A lookup, for example, may find nothing.
        """
        return self.nodes > 0


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """Plain decoding of some prompts, with `steps` forwards after the prefills.

    `first_seconds` is the mean time of a prefill, and `step_seconds` the median time of the other
    forwards. `total_seconds` is the sum of all times without outliers. Runs with the same `block`
    ran close together in time.
    """

    block: int
    tokens: int
    first_seconds: float
    total_seconds: float
    steps: int
    step_seconds: float


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate's run over some prompts.

    `is_race` means that it ran at the output length of the user's request. `draft_prefill_seconds`
    is the mean time in which the drafter read a prompt (in a batch, the prompts of all rows). It
    comes in addition to the target's `first_seconds`; `total_seconds` includes both.
    """

    candidate: Candidate
    block: int
    tokens: int
    first_seconds: float
    total_seconds: float
    rounds: tuple[RoundSeen, ...]
    held_bytes: int  # bytes of weights and caches in addition to the target's
    prompts: tuple[str, ...]
    is_race: bool = False
    draft_prefill_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A method that this pair cannot run, and the reason.

    If the two vocabularies differ, `shared_share` is the share of the target's tokens that are in
    both.
    """

    method: str
    why: str
    shared_share: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """The kind of request that the advice is for, and the machine's memory.

    `free_bytes` is None if the machine does not report it.
    """

    batch_size: int
    max_new_tokens: int
    temperature: float
    prompt_tokens: float
    target_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Probe:
    """All measurements of the probe.

    Each curve maps the number of tokens per sequence to the time of a target forward: `batch_curve`
    for the whole batch, `row_curve` for a single sequence. `greedy` holds runs at temperature 0
    that repeat earlier runs on the same prompts. `finalists` are the candidates that were still
    racing after the last complete pass.
    """

    workload: Workload
    row_curve: ForwardCurve
    batch_curve: ForwardCurve
    baselines: tuple[BaselineRun, ...] = ()
    runs: tuple[CandidateRun, ...] = ()
    greedy: tuple[CandidateRun, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    finalists: tuple[Candidate, ...] = ()

    def options(self, lengths: Sequence[int]) -> tuple[Candidate, ...]:
        """Return one candidate for each method that ran and each draft length in `lengths`.

        A candidate has the tree shape of its method's longest run. Trees with too many nodes are
        left out.
        """
        longest = {
            run.candidate.method: run.candidate
            for run in sorted(self.runs, key=lambda each: each.candidate.draft_length)
        }
        sized = (
            replace(each, draft_length=length, branching=each.branching[:length])
            for each in longest.values()
            for length in lengths
        )
        return tuple(each for each in sized if each.node_count <= MAX_TREE_NODES)

    def of_method(self, method: str) -> tuple[CandidateRun, ...]:
        return tuple(run for run in self.runs if run.candidate.method == method)

    def baseline_of(self, block: int) -> BaselineRun:
        """Return the run of plain decoding in this block of runs."""
        return next(run for run in self.baselines if run.block == block)

    def step_of(self, block: int) -> float:
        """Return the seconds of a plain step in this block of runs.

        If every prompt of the block ended with its prefill, the median of the other blocks is
        returned.
        """
        own = self.baseline_of(block)
        others = [run.step_seconds for run in self.baselines if run.steps]
        return own.step_seconds if own.steps or not others else median(others)
