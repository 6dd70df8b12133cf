"""Rows that draft, verify and commit together: one forward of the target a round, one copy.

A run of one prompt is the case of one row. What is decided of a row depends on that row alone.
Knows no drafting method by name and nothing of text. Letters: R rows of a tree (its root, then its
nodes), Q extra queries, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.clock import Stopwatch, mark
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Beside, Observation, Opening, Proposal
from specviz.decoding.drafters.first_nodes import first_nodes
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.first_tokens import first_tokens
from specviz.decoding.forest import Forest
from specviz.decoding.recording import Timing, Verified, record_round, show
from specviz.decoding.row import Row
from specviz.decoding.target_rows import TargetRows
from specviz.models.language_model import ForwardOutput
from specviz.records import Prefill, Round


class Lockstep:
    """The state between rounds: of every row all tokens but the last are in the target's cache."""

    def __init__(
        self,
        rows: Sequence[Row],
        target: TargetRows,
        drafter: BatchDrafter,
        departure: Departure | None = None,
    ) -> None:
        """`departure` is that of all rows."""
        self.rows = list(rows)
        self.target = target
        self._drafter = drafter
        self._openings: list[Opening] = []  # until the drafter has been told
        self._index = departure.index if departure else 0
        self._seconds = departure.seconds if departure else 0.0  # the lane's own clock

    @torch.inference_mode()
    def prefill(self) -> list[Prefill]:
        """Run the prompts; the extra token of each is its first root."""
        started = mark(self.target.model.device)
        outputs = self._open([tuple(row.committed) for row in self.rows])
        logits = [output.logits[0] for output in outputs]
        prefills = first_tokens(self.rows, self.target, logits, started)
        self._seconds += prefills[0].seconds
        return prefills

    @torch.inference_mode()
    def resume(self) -> None:
        """Start without drawing: the last committed token of each row is its first root.

        The distribution of the first round's tokens is then the target's distribution behind what
        is committed. The lane's clock does not count it: whoever wrote those tokens has paid for
        them.
        """
        self._open([tuple(row.committed[:-1]) for row in self.rows])

    def _open(self, prompts: list[tuple[int, ...]]) -> list[ForwardOutput]:
        outputs = self.target.fill(prompts)
        for index, (ids, output) in enumerate(zip(prompts, outputs, strict=True)):
            features = None if output.features is None else output.features[0]
            cache = self.target.cache(index)
            self._openings.append(Opening(ids, cache, features, self.target.transfer))
        return outputs

    @torch.inference_mode()
    def round(self, limits: Sequence[int] | None = None) -> list[Round]:
        """Draft, verify, accept or reject, commit; one record per row.

        `limits`: at most so many drafted tokens for each row.
        """
        stopwatch = Stopwatch(self.target.model.device)
        proposals = self._propose(limits)
        stopwatch.drafted()
        roots, ends = [row.root for row in self.rows], [row.end for row in self.rows]
        outputs = self.target.verify(roots, proposals, ends)
        forest = Forest(proposals)
        packed = self._judge(forest, proposals, outputs)
        stopwatch.verified()
        judgements = forest.unpack(self.target.to_host(packed))
        decided = zip(self.rows, proposals, judgements, strict=True)
        verified = [row.decide(proposal, judgement) for row, proposal, judgement in decided]
        besides = self._commit(verified, outputs)
        return self._record(verified, stopwatch, besides)

    def _propose(self, limits: Sequence[int] | None) -> list[Proposal]:
        if self._openings:
            self._drafter.start(self._openings)
            self._openings = []
        committed = [row.committed for row in self.rows]
        rooms = [row.room for row in self.rows]
        if limits is None:
            return self._drafter.propose(committed, rooms, self._index)
        rooms = [min(room, limit) for room, limit in zip(rooms, limits, strict=True)]
        proposals = self._drafter.propose(committed, rooms, self._index)
        return [first_nodes(each, limit) for each, limit in zip(proposals, limits, strict=True)]

    def _judge(
        self, forest: Forest, proposals: Sequence[Proposal], outputs: Sequence[ForwardOutput]
    ) -> Tensor:
        """Pack the round's one copy."""
        heights = zip(self.rows, proposals, strict=True)
        draws = [row.extra_draws(each.topology.height) for row, each in heights]
        logits = [output.logits[0] for output in outputs]  # [R + Q, V]
        return forest.judge(logits, self.target.sampler, draws)

    def _commit(
        self, verified: Sequence[Verified], outputs: Sequence[ForwardOutput]
    ) -> list[Beside]:
        """Keep the accepted slots of every cache and append the new tokens."""
        ends = [row.end for row in self.rows]
        self.target.keep(ends, [each.walk.path for each in verified])
        for row, each in zip(self.rows, verified, strict=True):
            row.append(each.emitted_ids)
        told = zip(verified, outputs, strict=True)
        return self._drafter.observe([_observation(each, output) for each, output in told])

    def _record(
        self, verified: Sequence[Verified], stopwatch: Stopwatch, besides: Sequence[Beside]
    ) -> list[Round]:
        shown = [show(each) for each in verified]
        timing = Timing.of(stopwatch, self._seconds)
        parts = zip(verified, shown, besides, strict=True)
        records = [record_round(self._index, *each[:2], timing, each[2]) for each in parts]
        self._index += 1
        self._seconds += records[0].seconds
        return records

    def drop_finished(self) -> None:
        """Rows that have ended leave every cache; at least one must be left."""
        going = [index for index, row in enumerate(self.rows) if row.finish is None]
        if len(going) < len(self.rows):
            self.rows = [self.rows[index] for index in going]
            self._openings = [self._openings[index] for index in going if self._openings]
            self.target.select(going)
            self._drafter.select(going)


def _observation(verified: Verified, output: ForwardOutput) -> Observation:
    path = verified.walk.path
    return Observation(
        path=path,
        origins=tuple(verified.judgement.nodes[node].origin for node in path),
        token_ids=verified.emitted_ids,
        features=None if output.features is None else output.features[0],
        query_ids=verified.judgement.query_ids,
    )
