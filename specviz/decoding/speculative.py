"""Speculative decoding: draft a tree, judge it in one target forward, keep what passes.

`decode` is a generator of rounds; its stream is the instrumentation. Knows no drafting method by
name and nothing of text. One round blocks on the device exactly once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.row_drafters import RowDrafters
from specviz.decoding.lockstep import Lockstep
from specviz.decoding.row import Row
from specviz.decoding.target import Target
from specviz.decoding.target_rows import SeparateRows
from specviz.models.language_model import LanguageModel
from specviz.records import DecodingConfig, FinishReason, Prefill, Round


def decode(
    model: LanguageModel,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
    departure: Departure | None = None,
) -> Iterator[Prefill | Round | FinishReason]:
    """Yield the prefill, every round, and at last why the run ended.

    With a `departure` the run goes on behind tokens that are written already: no prefill is
    yielded, and `config.max_new_tokens` counts those tokens too. The drafter is closed with the
    generator. Raises InputError for a prompt that does not fit.
    """
    try:
        run = SpeculativeRun(model, drafter, prompt_ids, config, end_ids, departure)
        if departure is None:
            yield run.prefill()
        else:
            run.resume()
        while run.finish is None:
            yield run.round()
        yield run.finish
    finally:
        drafter.close()


class SpeculativeRun:
    """One prompt's run: a lockstep of one row."""

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        departure: Departure | None = None,
    ) -> None:
        self.target = Target.of(model, prompt_ids, config, drafter.needs_features)
        self._row = Row(prompt_ids, config, end_ids, departure=departure)
        rows, drafters = SeparateRows([self.target]), RowDrafters([drafter])
        self._lockstep = Lockstep([self._row], rows, drafters, departure)

    @property
    def finish(self) -> FinishReason | None:
        """Why the run ended, once it has."""
        return self._row.finish

    def prefill(self) -> Prefill:
        """Run the prompt; its extra token is the first root."""
        return self._lockstep.prefill()[0]

    def resume(self) -> None:
        """Start without drawing: the last committed token is the first root."""
        self._lockstep.resume()

    def round(self) -> Round:
        """Draft, verify, accept or reject, commit."""
        return self._lockstep.round()[0]
