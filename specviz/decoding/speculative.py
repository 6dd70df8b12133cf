"""Speculative decoding: draft a tree, verify it in one target forward, keep the accepted part.

`decode` is a generator of rounds. This stream of rounds is the only instrumentation there is.

Four modules contain the parts of a round: `drafters.base` (the proposal of a drafter),
`judged_tree` (the forward and the judgement), `rules` (acceptance and walk) and `row` (committed
tokens, decisions and records). The host waits for the device once per round. If a drafting method
must read its own draft on the host, the host waits more often; `Method.host_copies` says how often.
With a grammar, the host reads every draft, because it must know which tokens may follow each node.

In shapes, R is the number of rows of a draft tree's tables (the root, then the nodes), Q the number
of extra queries, V the size of the vocabulary and F W the width of the features of one token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from specviz.decoding.autoregressive import first_token
from specviz.decoding.clock import Stopwatch, mark
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Drafter, OverlappedWork, PrefilledPrompt, Proposal
from specviz.decoding.judged_tree import JudgedTree, ProposalForm, changing_tensors
from specviz.decoding.masks import tree_masks, with_forced
from specviz.decoding.row import Decision, RoundTimes, Row, record_round, record_tree
from specviz.decoding.rules.rule import Rule
from specviz.decoding.rules.rule_table import rule_named
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.target import Target
from specviz.decoding.verification import judge, unpack
from specviz.models.graphs.captured_model import run_work
from specviz.models.language_model import ForwardOutput, LanguageModel
from specviz.models.sequence_work import HostNumbers
from specviz.models.text.grammar import Grammar
from specviz.records import DecodingConfig, FinishReason, Prefill, Round


def decode(
    model: LanguageModel,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    config: DecodingConfig,
    end_ids: Collection[int] = (),
    departure: Departure | None = None,
    grammar: Grammar | None = None,
) -> Iterator[Prefill | Round | FinishReason]:
    """Yield the prefill, then every round, and finally the reason why the run ended.

    With a `departure`, the run continues a text that is partly written. It then yields no prefill,
    and `config.max_new_tokens` includes the tokens that are already written. `grammar` is the
    compiled grammar of `config`. The generator closes the drafter when it ends. Raises InputError
    for a prompt that does not fit into the context.
    """
    try:
        run = SpeculativeRun(
            model, drafter, prompt_ids, config, end_ids, departure, grammar=grammar
        )
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
    """Speculative decoding of one prompt.

    Between rounds, the target's cache holds all committed tokens except the last one. If `rule` is
    given, it verifies the drafts instead of the rule that `config` names.
    """

    def __init__(
        self,
        model: LanguageModel,
        drafter: Drafter,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        departure: Departure | None = None,
        rule: Rule | None = None,
        grammar: Grammar | None = None,
    ) -> None:
        self._rule = rule or rule_named(config.rule)
        self.target = Target.of(model, prompt_ids, config, drafter.feature_layers)
        self._row = Row(
            prompt_ids, config, end_ids, departure=departure, rule=self._rule, grammar=grammar
        )
        self._drafter = drafter
        self._prompt_length = len(prompt_ids)
        # the prompt, which is kept until the drafter has read it
        self._prompt: PrefilledPrompt | None = None
        self._index = departure.index if departure else 0
        # seconds that the run has decoded so far
        self._seconds = departure.seconds if departure else 0.0

    @property
    def finish(self) -> FinishReason | None:
        """Return the reason why the run ended, or None if it has not ended."""
        return self._row.finish

    @torch.inference_mode()
    def prefill(self) -> Prefill:
        """Run the prompt and draw the first new token, which is the root of the first tree."""
        started = mark(self.target.model.device)
        output = self._fill(self._row.committed)
        prefill = first_token(self._row, self.target, output.logits[0], started)
        self._seconds += prefill.seconds
        return prefill

    @torch.inference_mode()
    def resume(self) -> None:
        """Run the text that is already written through the target.

        The last token of the text is the root of the first tree. The time of this call is not
        counted. Instead, the clock starts with the seconds that writing the text originally took.
        """
        self._fill(self._row.committed[:-1])

    def _fill(self, token_ids: Sequence[int]) -> ForwardOutput:
        output = self.target.fill(token_ids)
        features = output.row_features
        cache, transfer = self.target.cache, self.target.transfer
        held = partial(self.target.keys_values, min(self._prompt_length, len(token_ids)))
        self._prompt = PrefilledPrompt(tuple(token_ids), cache, features, transfer, held)
        return output

    @torch.inference_mode()
    def round(self) -> Round:
        """Run one round: draft, verify, accept or reject, and commit."""
        stopwatch = Stopwatch(self.target.model.device)
        if self._prompt is not None:
            self._drafter.start(self._prompt)
            self._prompt = None
            if self._drafter.memory.has_caches:
                stopwatch.read()
        proposal = self._draft()
        stopwatch.drafted()
        packed, features = self._verify(proposal)
        stopwatch.verified()
        # The host waits for the device only here, once per round.
        judgement = unpack(proposal, self.target.to_host(packed))
        decision = self._row.decide(proposal, judgement)
        overlapped = self._commit(decision, features)
        return self._record(decision, stopwatch, overlapped)

    def _draft(self) -> Proposal:
        """Return the drafter's proposal, or the tokens that the grammar forces if there are any."""
        row, forced = self._row, self._row.forced
        room = 0 if forced else row.room
        return with_forced(self._drafter.propose(row.committed, room, self._index), forced)

    def _verify(self, proposal: Proposal) -> tuple[Tensor, Tensor | None]:
        """Run the target over the tree; decide about every node, and draw an extra token per row.

        The first result is one tensor with all decisions and extra tokens, so that one copy to the
        host is enough. The second result has the features [R, F W] of all rows, or is None if the
        drafter needs no features.
        """
        target, tree, root = self.target, proposal.topology, self._row.root
        draws = self._row.extra_draws(tree.height)
        is_usual = proposal.is_whole and proposal.partial is None and proposal.queries is None
        if is_usual and self._row.grammar is None:
            layers = tuple(target.feature_layers)
            work = JudgedTree(ProposalForm.of(proposal), target.sampler, self._rule, layers)
            numbers, inputs = HostNumbers((root,), draws), changing_tensors(proposal)
            packed, *features = run_work(target.model, target.cache, work, numbers, inputs)
            return packed, features[0] if features else None
        output = target.verify(root, proposal, self._row.end)
        logits = output.logits[0]  # [R + Q, V]
        # The draw of the extra token depends on its text position. All rows of one depth share that
        # position, so they share the draw.
        uniforms = uniforms_on(logits.device, draws)[tree.offsets]
        (allowed,) = tree_masks([self._row], [proposal], target.transfer) or (None,)
        packed = judge(proposal, logits, target.sampler, uniforms, self._rule, allowed)
        return packed, output.row_features

    def _commit(self, decision: Decision, features: Tensor | None) -> OverlappedWork:
        """Commit the new tokens, keep their cache slots, and report the decision to the drafter."""
        # index of the first cache slot after the committed tokens: the root is in slot end - 1,
        # node i in slot end + i
        end = self._row.end
        self.target.cache.keep(end, [end + node for node in decision.walk.path])
        self._row.append(decision.emitted_ids)
        return self._drafter.observe(decision.observation(features))

    def _record(
        self, decision: Decision, stopwatch: Stopwatch, overlapped: OverlappedWork
    ) -> Round:
        tree = record_tree(decision)
        times = RoundTimes.of(stopwatch, self._seconds)
        record = record_round(self._index, decision, tree, times, overlapped)
        self._index += 1
        self._seconds += record.seconds
        return record
