"""Many prompts at once, each as if it were alone: rows accept different counts and end apart.

Knows no drafting method by name and nothing of text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from specviz.decoding.batch_options import BatchOptions, shares
from specviz.decoding.batch_step import BatchStep, batch_step
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.drafters.tree_budget import forward_curve
from specviz.decoding.lockstep import Lockstep
from specviz.decoding.ragged_target import RaggedTarget
from specviz.decoding.row import Row
from specviz.decoding.rows_time import rows_time
from specviz.decoding.speculation_limit import FixedLimit, MeasuredLimit, RowsTime
from specviz.decoding.target import Target
from specviz.decoding.target_rows import SeparateRows, TargetRows
from specviz.decoding.transfer import HostTransfer
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import as_batched
from specviz.records import BatchRound, DecodingConfig, Round


def decode(
    target: TargetRows,
    drafter: BatchDrafter,
    prompts: Sequence[Sequence[int]],
    configs: Sequence[DecodingConfig],
    end_ids: Collection[int] = (),
    options: BatchOptions | None = None,
) -> Iterator[BatchStep]:
    """Yield the prefill, then every round, until all rows have ended.

    `configs` differ in their seeds only. The drafter is closed with the generator.
    """
    try:
        run = BatchRun(target, drafter, prompts, configs, end_ids, options or BatchOptions())
        yield run.prefill()
        while run.is_going:
            yield run.round()
    finally:
        drafter.close()


class BatchRun:
    """The rows that are left, and what they may draft."""

    def __init__(
        self,
        target: TargetRows,
        drafter: BatchDrafter,
        prompts: Sequence[Sequence[int]],
        configs: Sequence[DecodingConfig],
        end_ids: Collection[int],
        options: BatchOptions,
    ) -> None:
        settings = enumerate(zip(prompts, configs, strict=True))
        rows = [Row(ids, config, end_ids, number) for number, (ids, config) in settings]
        self.target = target
        self._lockstep = Lockstep(rows, target, drafter)
        self._budget = options.draft_budget
        self._index = 0
        fixed = options.speculate_up_to
        self._limit = FixedLimit(fixed) if fixed else MeasuredLimit(len(rows), _rows_time(target))

    @property
    def is_going(self) -> bool:
        """Whether any row has not ended."""
        return any(row.finish is None for row in self._lockstep.rows)

    def prefill(self) -> BatchStep:
        """Run all prompts; the extra token of each is its first root."""
        return batch_step(self._lockstep.rows, self._lockstep.prefill(), self.target)

    def round(self) -> BatchStep:
        """One round of every row that is left."""
        self._lockstep.drop_finished()
        rows, limit = self._lockstep.rows, self._limit.rows
        rounds = self._lockstep.round(self._shares(limit))
        self._index += 1
        self._limit.add(rounds)
        noted = [self._noted(row, each, limit) for row, each in zip(rows, rounds, strict=True)]
        return batch_step(rows, noted, self.target)

    def _shares(self, limit: int) -> list[int] | None:
        """How much each row may draft, told before anything is drawn; None: what it likes."""
        rows = len(self._lockstep.rows)
        if rows > limit:
            return [0] * rows
        return shares(self._budget, rows, self._index) if self._budget else None

    def _noted(self, row: Row, record: Round, limit: int) -> Round:
        rows, target = len(self._lockstep.rows), self.target
        note = BatchRound(row.number, rows, target.tokens, target.padding, limit)
        return replace(record, notes=(*record.notes, note))


def batch_target(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    config: DecodingConfig,
    with_features: bool = False,
    shares_cache: bool = False,
) -> TargetRows:
    """One cache and one forward for all rows, unless the model or the drafter cannot have that.

    Raises InputError for a prompt that the model cannot take.
    """
    batched = None if shares_cache else as_batched(model)
    if batched is not None:
        return RaggedTarget(batched, prompts, config, with_features)
    transfer = HostTransfer()
    return SeparateRows(
        [Target.of(model, prompt, config, with_features, transfer) for prompt in prompts]
    )


def _rows_time(target: TargetRows) -> RowsTime:
    """The forward that this target really makes of so many rows."""
    model = target.model
    if isinstance(target, RaggedTarget):
        return partial(rows_time, target.model)
    return lambda rows, count: rows * forward_curve(model).at(count)
