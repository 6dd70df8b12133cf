"""One sequence of a run: what is committed, its random draws, and what it makes of a judgement.

A run of one prompt has one row, a batch has many. Knows nothing of models, caches or drafters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Proposal
from specviz.decoding.judgement import Judgement
from specviz.decoding.recording import Verified
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.walk import walk
from specviz.records import DecodingConfig, ExtraToken, FinishReason


class Row:
    """The committed tokens and why they end; every draw is keyed by the row's own seed.

    So a row never notices its neighbours: it decides as a run of its prompt and seed alone does.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        number: int = 0,
        departure: Departure | None = None,
    ) -> None:
        """`departure`: the tokens that are written already count as new ones; room must be left."""
        self.number = number  # among the rows of a batch
        self.committed = [*prompt_ids, *(departure.written if departure else ())]
        self.finish: FinishReason | None = None
        self._end_ids = frozenset(end_ids)
        self._limit = len(prompt_ids) + config.max_new_tokens
        self._extra_draws = RandomStream(config.seed, Purpose.EXTRA)
        self._verify_draws = RandomStream(config.seed, Purpose.VERIFY)
        self._forced = departure.forced if departure else None  # until the first round is decided

    @property
    def end(self) -> int:
        """How many tokens are committed: the text position behind the root."""
        return len(self.committed)

    @property
    def root(self) -> int:
        """The last committed token; the target has not run it yet."""
        return self.committed[-1]

    @property
    def room(self) -> int:
        """How many tokens may be drafted; the extra token takes one of those that are left."""
        return self._limit - len(self.committed) - 1

    def extra_draws(self, height: int) -> list[float]:
        """The uniform of the extra token behind every depth, 0 to `height`.

        Behind a token of depth d it would stand at text position end + d.
        """
        return [self._extra_draws.uniform(self.end + depth) for depth in range(height + 1)]

    def decide(self, proposal: Proposal, judgement: Judgement) -> Verified:
        """Walk the tree; cut the path at an end-of-sequence token, else add the extra token."""
        shape = judgement.shape
        uniforms = self._uniforms(judgement)
        acceptance_probs = [node.acceptance_prob for node in judgement.nodes]
        walked = walk(shape.groups, acceptance_probs, uniforms)
        endings = [node for node in walked.path if judgement.nodes[node].token_id in self._end_ids]
        if cut := walked.cut(endings, shape.depths):
            return Verified(proposal, judgement, uniforms, cut, None, self.end)
        row, kind = judgement.row(walked.end), walked.extra_kind(shape.groups)
        extra = ExtraToken(row.extra_id, kind, walked.end, row.extra_prob)
        return Verified(proposal, judgement, uniforms, walked, extra, self.end)

    def _uniforms(self, judgement: Judgement) -> tuple[float, ...]:
        """Of every node: its own draw, or the one that was forced upon it."""
        shape = judgement.shape
        own = tuple(
            self._verify_draws.uniform(self.end + depth - 1, rank)
            for depth, rank in zip(shape.depths, shape.ranks, strict=True)
        )
        forced, self._forced = self._forced, None
        if forced is None:
            return own
        return forced.applied(shape, [node.token_id for node in judgement.nodes], own)

    def append(self, token_ids: Sequence[int]) -> None:
        """Commit new tokens (at least one); they may end the row."""
        self.committed.extend(token_ids)
        if token_ids[-1] in self._end_ids:
            self.finish = FinishReason.END_OF_SEQUENCE
        elif len(self.committed) >= self._limit:
            self.finish = FinishReason.LENGTH
