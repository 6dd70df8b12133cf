"""What a short probe of a pair has measured: the plain numbers on which advice rests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_TREE_NODES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to speculate; an empty `branching` is a chain or a tree that chooses its own shape."""

    method: str
    draft_length: int
    branching: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """As it is shown.

        >>> Candidate("draft-tree", 5, (3, 2)).title
        'draft-tree, K = 5, branching 3,2'
        """
        shape = f", branching {','.join(map(str, self.branching))}" if self.branching else ""
        return f"{self.method}, K = {self.draft_length}{shape}"

    @property
    def node_count(self) -> int:
        """Of a tree of this branching, one child a node below it."""
        nodes, level = 0, 1
        for depth in range(self.draft_length):
            level *= self.branching[depth] if depth < len(self.branching) else 1
            nodes += level
        return nodes


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """One round of all rows together.

    `accepted` are the levels that passed, one per row that had room for the whole draft length;
    `nodes` counts the largest tree of any row. The drafter's reading of the prompt is no part of
    any.
    """

    accepted: tuple[int, ...]
    levels: int
    nodes: int
    draft_seconds: float
    verify_seconds: float
    host_seconds: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """Seconds of drafting, of verifying, of the rest."""
        return self.draft_seconds, self.verify_seconds, self.host_seconds

    @property
    def seconds(self) -> float:
        return sum(self.parts)

    @property
    def is_drafted(self) -> bool:
        """Whether any row had something to verify; a lookup that finds nothing has not."""
        return self.nodes > 0


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """The plain lane over some prompts: `steps` forwards behind the prefills.

    `first_seconds` is the mean prefill, `step_seconds` the median of the others, `total_seconds`
    all of them but for outliers. Runs of one `block` stand side by side in time.
    """

    block: int
    tokens: int
    first_seconds: float
    total_seconds: float
    steps: int
    step_seconds: float


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate over the prompts; `is_race`: at the output length that was asked for.

    `draft_prefill_seconds` is the mean time in which its drafter read a prompt (of a batch: those
    of all rows), beside the target's own `first_seconds`; both are part of `total_seconds`.
    """

    candidate: Candidate
    block: int
    tokens: int
    first_seconds: float
    total_seconds: float
    rounds: tuple[RoundSeen, ...]
    held_bytes: int  # weights and caches beside the target's
    prompts: tuple[str, ...]
    is_race: bool = False
    draft_prefill_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A method that this pair cannot run, and why.

    `shared_share`: where the vocabularies differ, the part of the target's tokens that both have.
    """

    method: str
    why: str
    shared_share: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload that the advice is for, and the memory that there is.

    `free_bytes` is None where the machine does not say.
    """

    batch_size: int
    max_new_tokens: int
    temperature: float
    prompt_tokens: float
    target_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Probe:
    """All that was measured.

    `batch_curve`: a target forward over so many tokens of each row of the batch; `row_curve`: of
    one row alone. `greedy` are runs at temperature 0 of what ran in the same block, on the same
    prompts, at the temperature asked for. `finalists` are those still racing after the last whole
    pass.
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
        """Every method that ran at each of these draft lengths, in the shape of its longest run.

        Trees of too many nodes are left out.
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
        """The plain run beside the others of a block."""
        return next(run for run in self.baselines if run.block == block)

    def step_of(self, block: int) -> float:
        """Seconds of a plain step there; the other blocks' where every prompt ended at once."""
        own = self.baseline_of(block)
        others = [run.step_seconds for run in self.baselines if run.steps]
        return own.step_seconds if own.steps or not others else median(others)
