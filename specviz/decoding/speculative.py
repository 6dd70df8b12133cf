"""Speculative decoding: draft a tree, judge it in one target forward, keep what passes.

`decode` is a generator of rounds; its stream is the instrumentation. Knows no drafting method by
name and nothing of text. One round blocks on the device exactly once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from specviz.decoding.clock import Stopwatch, mark
from specviz.decoding.drafters.base import Beside, Drafter, Observation, Opening, Proposal
from specviz.decoding.judgement import Judgement, judge, unpack
from specviz.decoding.recording import Verified, record_round
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.target import Target
from specviz.decoding.verification import Walk, walk
from specviz.models.language_model import ForwardOutput, LanguageModel
from specviz.records import DecodingConfig, ExtraKind, ExtraToken, FinishReason, Prefill, Round


def decode(
    model: LanguageModel,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
) -> Iterator[Prefill | Round | FinishReason]:
    """Yield the prefill, every round, and at last why the run ended.

    The drafter is closed with the generator. Raises InputError for a prompt that does not fit.
    """
    try:
        run = SpeculativeRun(model, drafter, prompt_ids, config, end_ids)
        yield run.prefill()
        while run.finish is None:
            yield run.round()
        yield run.finish
    finally:
        drafter.close()


class SpeculativeRun:
    """One run's state between rounds: the committed tokens, all but the last in the cache."""

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
    ) -> None:
        self.target = Target.of(model, prompt_ids, config, drafter.needs_features)
        self.finish: FinishReason | None = None
        self._drafter = drafter
        self._opening: Opening | None = None  # until the drafter has been told
        self._end_ids = frozenset(end_ids)
        self._verify_draws = RandomStream(config.seed, Purpose.VERIFY)
        self._committed = list(prompt_ids)
        self._limit = len(prompt_ids) + config.max_new_tokens
        self._index = 0
        self._seconds = 0.0  # the lane's own clock

    @torch.inference_mode()
    def prefill(self) -> Prefill:
        """Run the prompt; its extra token is the first root."""
        started = mark(self.target.model.device)
        output = self._open(self._committed)
        prefill = self.target.first_token(self._committed, output.logits[0], started)
        self._seconds += prefill.seconds
        self._append([prefill.extra.token_id])
        return prefill

    @torch.inference_mode()
    def resume(self) -> None:
        """Start without drawing: the prompt's last token is the first root.

        The law of the first round's tokens is then the target's law after the prompt.
        """
        self._open(self._committed[:-1])

    def _open(self, token_ids: Sequence[int]) -> ForwardOutput:
        target = self.target
        output = target.fill(token_ids)
        features = None if output.features is None else output.features[0]
        self._opening = Opening(tuple(token_ids), target.cache, features, target.transfer)
        return output

    @torch.inference_mode()
    def round(self) -> Round:
        """Draft, verify, accept or reject, commit."""
        stopwatch = Stopwatch(self.target.model.device)
        proposal = self._propose()
        stopwatch.drafted()
        output = self.target.verify(self._committed[-1], proposal, len(self._committed))
        packed = self._judge(proposal, output.logits[0])
        stopwatch.verified()
        values = self.target.to_host(packed)
        verified = self._decide(proposal, unpack(proposal, values))
        beside = self._commit(verified, output)
        record = record_round(self._index, verified, stopwatch, self._seconds, beside)
        self._index += 1
        self._seconds += record.seconds
        return record

    def _propose(self) -> Proposal:
        if self._opening is not None:
            self._drafter.start(self._opening)
            self._opening = None
        room = self._limit - len(self._committed) - 1  # the extra token takes one
        return self._drafter.propose(self._committed, room, self._index)

    def _judge(self, proposal: Proposal, logits: Tensor) -> Tensor:
        """Pack the round's one copy. logits [R + Q, V]"""
        tree, end = proposal.topology, len(self._committed)
        # the extra token behind a row of depth d would stand at text position end + d
        draws = [self.target.extra_draws.uniform(end + depth) for depth in range(tree.height + 1)]
        uniforms = uniforms_on(logits.device, draws)[tree.offsets]
        return judge(proposal, logits, self.target.sampler, uniforms)

    def _decide(self, proposal: Proposal, judgement: Judgement) -> Verified:
        """Walk the tree; cut the path at an end-of-sequence token, else add the extra token."""
        shape, end = judgement.shape, len(self._committed)
        uniforms = tuple(
            self._verify_draws.uniform(end + depth - 1, rank)
            for depth, rank in zip(shape.depths, shape.ranks, strict=True)
        )
        acceptance_probs = [node.acceptance_prob for node in judgement.nodes]
        walked = walk(shape.groups, acceptance_probs, uniforms)
        for length, node in enumerate(walked.path, start=1):
            if judgement.nodes[node].token_id in self._end_ids:
                cut = Walk(walked.path[:length], walked.rejected_before(length, shape.depths))
                return Verified(proposal, judgement, uniforms, cut, None, end)
        row = judgement.row(walked.end)
        kind = ExtraKind.RECOVERED if shape.groups[walked.end + 1] else ExtraKind.BONUS
        extra = ExtraToken(row.extra_id, kind, walked.end, row.extra_prob)
        return Verified(proposal, judgement, uniforms, walked, extra, end)

    def _commit(self, verified: Verified, output: ForwardOutput) -> Beside:
        """Keep the accepted slots of every cache and append the new tokens."""
        path, end = verified.walk.path, len(self._committed)
        self.target.cache.keep(end, [end + node for node in path])
        self._append(verified.emitted_ids)
        return self._drafter.observe(
            Observation(
                path=path,
                origins=tuple(verified.judgement.nodes[node].origin for node in path),
                token_ids=verified.emitted_ids,
                features=None if output.features is None else output.features[0],
                query_ids=verified.judgement.query_ids,
            )
        )

    def _append(self, token_ids: Sequence[int]) -> None:
        self._committed.extend(token_ids)
        if token_ids[-1] in self._end_ids:
            self.finish = FinishReason.END_OF_SEQUENCE
        elif len(self._committed) >= self._limit:
            self.finish = FinishReason.LENGTH
