"""A run of the decoder with one part replaced: the proposals, the rule, or the target's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from torch import Tensor

from specviz.decoding.drafters.base import Drafter, Proposal
from specviz.decoding.rules.token_by_token import RULE
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.topology import topology
from specviz.experiments.bug_zoo.wrong_rules import ExactRule
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.records import DecodingConfig


def ruled_run(
    rule: ExactRule,
    model: LanguageModel,
    drafter: Drafter,
    context: Sequence[int],
    config: DecodingConfig,
) -> SpeculativeRun:
    """Return a run of the decoder under a rule of the zoo.

    If the rule drafts a chain, `config` must also draft a chain. Any other rule that changes the
    proposals drafts only one level. The run adds a bonus token even if the rule of the zoo takes
    none.
    """
    if not rule.rolls_back:
        return SpeculativeRun(
            cast(LanguageModel, _HoardingModel(model)), drafter, context, config, ()
        )
    ruled = cast(Drafter, _RuledDrafter(drafter, rule, config))
    parts = replace(RULE, accept=rule.accept, walk=rule.walk, reads_ahead=rule.reads_ahead)
    return SpeculativeRun(model, ruled, context, config, (), rule=parts)


class _Around:
    """A wrapper around an object: it passes on every attribute that it does not define itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _HoardingModel(_Around):
    """A model whose caches wrongly keep every token that ran, including rejected tokens."""

    def new_cache(self, capacity: int) -> KeyValueCache:
        cache: KeyValueCache = self._inner.new_cache(capacity)
        cache.keep = _keep_all  # type: ignore[method-assign] # a model refuses a wrapped cache
        return cache


def _keep_all(start: int, slots: Sequence[int]) -> None:
    """Keep the cache entries of all tokens, including those of rejected tokens."""


class _RuledDrafter(_Around):
    """A drafter whose q and guesses a rule of the zoo may change.

    It uses the same random draws as the drafter of a static tree.
    """

    def __init__(self, drafter: Drafter, rule: ExactRule, config: DecodingConfig) -> None:
        super().__init__(drafter)
        self._rule = rule
        self._draws = RandomStream(config.seed, Purpose.DRAFT)

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        proposal: Proposal = self._inner.propose(committed, room, round_index)
        if proposal.distributions is None or proposal.raw_distributions is None:
            return proposal
        if self._rule.is_chain:
            return self._cut(proposal, proposal.distributions, proposal.raw_distributions)
        rule, q, raw_q = self._rule, proposal.distributions[0], proposal.raw_distributions[0]
        keys = [self._draws.uniform(round_index, 1, rank) for rank in range(rule.siblings)]
        guesses = rule.guesses(q, uniforms_on(q.device, keys)[None])
        token_ids = guesses[rule.examined(guesses, q.expand(1, rule.siblings, -1))]
        given_q = rule.given_q(q, raw_q)
        return replace(
            proposal,
            drawing=rule.drawing,
            topology=topology((-1,) * len(token_ids), q.device),
            token_ids=token_ids,
            distributions=None if given_q is None else given_q[None],
        )

    def _cut(self, proposal: Proposal, q: Tensor, raw_q: Tensor) -> Proposal:
        """Return a drafted chain without the first guess that the rule does not verify.

        The guesses after it are removed as well. `q` and `raw_q` have one row of the vocabulary's
        size for each guess.
        """
        is_examined = self._rule.examined(proposal.token_ids[None], q[None])[0]
        length = int(is_examined.cumprod(0).sum())
        return replace(
            proposal,
            topology=topology(tuple(range(-1, length - 1)), q.device),
            token_ids=proposal.token_ids[:length],
            distributions=q[:length],
            raw_distributions=raw_q[:length],
        )
