"""Speculative decoding: draft a tree, judge it in one target forward, keep what passes.

`decode` is a generator of rounds; its stream is the instrumentation. Knows no drafting method by
name and nothing of text. One round blocks on the device exactly once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from specviz.decoding.clock import Stopwatch
from specviz.decoding.drafters.base import Drafter, Proposal
from specviz.decoding.judgement import Judgement, judge, unpack
from specviz.decoding.recording import Verified, record_round
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.target import Target
from specviz.decoding.verification import Walk, walk
from specviz.models.language_model import LanguageModel
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
        self.target = Target.of(model, prompt_ids, config)
        self.finish: FinishReason | None = None
        self._drafter = drafter
        self._end_ids = frozenset(end_ids)
        self._verify_draws = RandomStream(config.seed, Purpose.VERIFY)
        self._committed = list(prompt_ids)
        self._limit = len(prompt_ids) + config.max_new_tokens
        self._index = 0
        self._seconds = 0.0  # the lane's own clock

    @torch.inference_mode()
    def prefill(self) -> Prefill:
        """Run the prompt; its extra token is the first root."""
        prefill = self.target.prefill(self._committed)
        self._seconds += prefill.seconds
        self._append([prefill.extra.token_id])
        return prefill

    @torch.inference_mode()
    def resume(self) -> None:
        """Start without drawing: the prompt's last token is the first root.

        The law of the first round's tokens is then the target's law after the prompt.
        """
        self.target.fill(self._committed[:-1])

    @torch.inference_mode()
    def round(self) -> Round:
        """Draft, verify, accept or reject, commit."""
        device = self.target.model.device
        stopwatch = Stopwatch(device)
        room = self._limit - len(self._committed) - 1  # the extra token takes one
        proposal = self._drafter.propose(self._committed, room, self._index)
        stopwatch.drafted()
        packed = self._verify(proposal)
        stopwatch.verified()
        values = self.target.to_host(packed)
        verified = self._decide(proposal, unpack(proposal, values))
        self._commit(verified)
        record = record_round(self._index, verified, stopwatch, self._seconds)
        self._index += 1
        self._seconds += record.seconds
        return record

    def _verify(self, proposal: Proposal) -> Tensor:
        """One target forward over the root and all nodes, judged on the device."""
        model, tree, end = self.target.model, proposal.topology, len(self._committed)
        root = torch.tensor(self._committed[-1:]).to(model.device, non_blocking=True)
        tokens = torch.cat([root, proposal.token_ids])[None]
        positions = (tree.offsets + (end - 1))[None]
        mask = None if tree.is_chain else tree.mask
        logits = model.forward(tokens, positions, self.target.cache, mask).logits[0]
        # the extra token behind a row of depth d would stand at text position end + d
        draws = [self.target.extra_draws.uniform(end + depth) for depth in range(tree.height + 1)]
        uniforms = uniforms_on(model.device, [draws[0], *(draws[depth] for depth in tree.depths)])
        return judge(proposal, logits, self.target.sampler, uniforms)

    def _decide(self, proposal: Proposal, judgement: Judgement) -> Verified:
        """Walk the tree; cut the path at an end-of-sequence token, else add the extra token."""
        tree, end = proposal.topology, len(self._committed)
        uniforms = tuple(
            self._verify_draws.uniform(end + depth - 1, rank)
            for depth, rank in zip(tree.depths, tree.ranks, strict=True)
        )
        acceptance_probs = [node.acceptance_prob for node in judgement.nodes]
        walked = walk(tree.groups, acceptance_probs, uniforms)
        for length, node in enumerate(walked.path, start=1):
            if judgement.nodes[node].token_id in self._end_ids:
                cut = Walk(walked.path[:length], walked.rejected_before(length, tree.depths))
                return Verified(proposal, judgement, uniforms, cut, None, end)
        row = judgement.row(walked.end)
        kind = ExtraKind.RECOVERED if tree.groups[walked.end + 1] else ExtraKind.BONUS
        extra = ExtraToken(row.extra_id, kind, walked.end, row.extra_prob)
        return Verified(proposal, judgement, uniforms, walked, extra, end)

    def _commit(self, verified: Verified) -> None:
        """Keep the accepted slots of every cache and append the new tokens."""
        path, end = verified.walk.path, len(self._committed)
        self.target.cache.keep(end, [end + node for node in path])
        self._drafter.observe(path)
        self._append(verified.emitted_ids)

    def _append(self, token_ids: Sequence[int]) -> None:
        self._committed.extend(token_ids)
        if token_ids[-1] in self._end_ids:
            self.finish = FinishReason.END_OF_SEQUENCE
        elif len(self._committed) >= self._limit:
            self.finish = FinishReason.LENGTH
