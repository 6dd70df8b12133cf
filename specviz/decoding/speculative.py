"""Speculative decoding: draft a tree, verify it in one target forward, keep what is accepted.

`decode` is a generator of rounds; this stream is the only instrumentation there is. A round reads
on in four files: `drafters.base` (what a drafter proposes), `target` (the forward), `verification`
(acceptance, walk) and `row` (committed tokens, decisions, records). The host waits for the device
once a round; a method that must see its own draft on the host says so by `Method.host_copies`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import torch

from specviz.decoding.autoregressive import first_token
from specviz.decoding.clock import Stopwatch, mark
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Drafter, OverlappedWork, PrefilledPrompt, Proposal
from specviz.decoding.row import Decision, RoundTimes, Row, record_round, record_tree
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.target import Target
from specviz.decoding.verification import Rule, acceptance, judge, unpack
from specviz.models.language_model import ForwardOutput, LanguageModel
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

    With a `departure` the run continues a text that is partly written: no prefill is yielded, and
    `config.max_new_tokens` counts the tokens that are written already. The drafter is closed with
    the generator. Raises InputError for a prompt that does not fit.
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
    """One prompt's run. Between rounds the target's cache holds all tokens but the last.

    `rule` decides which drafted tokens are accepted, and what follows them.
    """

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        departure: Departure | None = None,
        rule: Rule = acceptance,
    ) -> None:
        self._rule = rule
        self.target = Target.of(model, prompt_ids, config, drafter.feature_layers)
        self._row = Row(prompt_ids, config, end_ids, departure=departure)
        self._drafter = drafter
        self._prompt_length = len(prompt_ids)
        self._prompt: PrefilledPrompt | None = None  # until the drafter has got it
        self._index = departure.index if departure else 0
        self._seconds = departure.seconds if departure else 0.0  # the lane's own clock

    @property
    def finish(self) -> FinishReason | None:
        """Why the run ended, once it has."""
        return self._row.finish

    @torch.inference_mode()
    def prefill(self) -> Prefill:
        """Run the prompt and draw the token after it, which is the first root."""
        started = mark(self.target.model.device)
        output = self._fill(self._row.committed)
        prefill = first_token(self._row, self.target, output.logits[0], started)
        self._seconds += prefill.seconds
        return prefill

    @torch.inference_mode()
    def resume(self) -> None:
        """Run the text that is written already; its last token is the first root.

        The lane's clock does not count it: the run that wrote these tokens has paid for them.
        """
        self._fill(self._row.committed[:-1])

    def _fill(self, token_ids: Sequence[int]) -> ForwardOutput:
        output = self.target.fill(token_ids)
        features = None if output.features is None else output.features[0]
        cache, transfer = self.target.cache, self.target.transfer
        held = partial(self.target.keys_values, min(self._prompt_length, len(token_ids)))
        self._prompt = PrefilledPrompt(tuple(token_ids), cache, features, transfer, held)
        return output

    @torch.inference_mode()
    def round(self) -> Round:
        """Draft, verify, accept or reject, commit."""
        stopwatch = Stopwatch(self.target.model.device)
        if self._prompt is not None:
            self._drafter.start(self._prompt)
            self._prompt = None
            if self._drafter.memory.has_caches:
                stopwatch.read()
        proposal = self._drafter.propose(self._row.committed, self._row.room, self._index)
        stopwatch.drafted()
        output = self.target.verify(self._row.root, proposal, self._row.end)
        packed = self._judge(proposal, output)
        stopwatch.verified()
        judgement = unpack(proposal, self.target.to_host(packed))  # the one wait for the device
        decision = self._row.decide(proposal, judgement)
        overlapped = self._commit(decision, output)
        return self._record(decision, stopwatch, overlapped)

    def _judge(self, proposal: Proposal, output: ForwardOutput) -> torch.Tensor:
        """Acceptance of every node, and a candidate for the extra token after every row."""
        tree, logits = proposal.topology, output.logits[0]  # [R + Q, V]
        # the draw of a row's extra token is that of its text position, which its depth gives
        by_depth = uniforms_on(logits.device, self._row.extra_draws(tree.height))
        return judge(proposal, logits, self.target.sampler, by_depth[tree.offsets], self._rule)

    def _commit(self, decision: Decision, output: ForwardOutput) -> OverlappedWork:
        """Append the new tokens, keep the cache slots of root and path, tell the drafter."""
        end = self._row.end  # the root is in slot end - 1, node i in slot end + i
        self.target.cache.keep(end, [end + node for node in decision.walk.path])
        self._row.append(decision.emitted_ids)
        return self._drafter.observe(decision.observation(output))

    def _record(
        self, decision: Decision, stopwatch: Stopwatch, overlapped: OverlappedWork
    ) -> Round:
        tree = record_tree(decision)
        times = RoundTimes.of(stopwatch, self._seconds)
        record = record_round(self._index, decision, tree, times, overlapped)
        self._index += 1
        self._seconds += record.seconds
        return record
