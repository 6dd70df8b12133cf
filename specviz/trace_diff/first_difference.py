"""The first token in which two runs differ, and why: pure, from their traces alone.

Up to there both have the same text, so their distributions, their drafts and their draws in that
place can be set side by side. The first of these that differs is the reason, in this order: the
target's distribution, what was drafted, the draft's distribution, what the rule makes of these,
the draw. Knows nothing of how a run came about.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from specviz.errors import InputError
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.records import DecodingConfig, Trace
from specviz.trace_diff.arrival import (
    Arrival,
    Examined,
    arrival,
    draft_probs,
    residual_probs,
    target_probs,
)
from specviz.trace_diff.cause import (
    Cause,
    Distribution,
    OtherDistribution,
    OtherDraw,
    OtherPrompt,
    OtherProposal,
    Reason,
    TextEnded,
)

SAME_PROB = 1e-3  # rounding in float32 and in files stays far below; half precision may not
SAME_DRAW = 1e-5  # 6 digits in a file


@dataclass(frozen=True, slots=True)
class RunTotals:
    """A run as a whole; rates are None where nothing was drafted."""

    tokens: int
    rounds: int
    block_efficiency: float | None
    acceptance_rate: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """`index` is the first new token that differs (0: the first token), so many are the same.

    `a` and `b` tell what either run had there, None where its text had ended.
    """

    index: int
    cause: Cause
    a: Arrival | None
    b: Arrival | None
    totals: tuple[RunTotals, RunTotals]

    @property
    def reason(self) -> Reason:
        return self.cause.reason


def difference(a: Trace, b: Trace) -> Difference | None:
    """Where two texts first differ, None where nowhere.

    Raises InputError for traces of different tokenizers: their token ids cannot be compared.
    """
    shared_texts(a, b)
    pairs = enumerate(zip_longest(a.emitted_ids, b.emitted_ids))
    index = next((index for index, (one, other) in pairs if one != other), None)
    if index is None:
        return None
    here, there = arrival(a, index), arrival(b, index)
    return Difference(index, _cause(a, b, here, there), here, there, (totals(a), totals(b)))


def totals(trace: Trace) -> RunTotals:
    """The numbers of one run."""
    return RunTotals(
        tokens=len(trace.emitted_ids),
        rounds=len(trace.rounds),
        block_efficiency=block_efficiency(trace.rounds),
        acceptance_rate=acceptance_rate(trace.rounds),
    )


def shared_texts(a: Trace, b: Trace) -> dict[int, str]:
    """The texts of all tokens of both; InputError where one token has two."""
    texts = dict(a.token_texts)
    for token_id, text in b.token_texts:
        if texts.setdefault(token_id, text) != text:
            raise InputError(
                f"traces must have the same tokenizer, but token {token_id} is "
                f"{reprlib.repr(texts[token_id])} in a and {reprlib.repr(text)} in b"
            )
    return texts


def _cause(a: Trace, b: Trace, here: Arrival | None, there: Arrival | None) -> Cause:
    if a.prompt_ids != b.prompt_ids:
        return OtherPrompt()
    if here is None or there is None:
        return TextEnded("a", a.finish) if here is None else TextEnded("b", b.finish)
    configs = _config(a, here), _config(b, there)
    same_maker = (a.target, configs[0].sampling) == (b.target, configs[1].sampling)
    drawn = here.token_id, there.token_id
    gap = _widest(_p(here), _p(there), drawn)
    if gap and gap.size > SAME_PROB:
        return gap.distribution(Distribution.TARGET, same_maker)
    same_draft = same_maker and configs[0] == configs[1] and a.main.draft == b.main.draft
    parted = _parted(here, there, same_draft)
    return parted if parted else _other_extra(*configs, here, there, same_maker)


def _config(trace: Trace, there: Arrival) -> DecodingConfig:
    """The setting that brought a token."""
    return trace.config_of(-1 if there.round_index is None else there.round_index)


def _parted(here: Arrival, there: Arrival, same_draft: bool) -> Cause | None:
    """The first drafted token in that place that was another one, or fared otherwise."""
    for one, other in zip_longest(here.examined, there.examined):
        if one is None or other is None or one.token_id != other.token_id:
            return OtherProposal((_token_id(one), _token_id(other)))
        if one.verdict.outcome is not other.verdict.outcome:
            return _other_fate(one, other, same_draft)
    return None


def _token_id(drafted: Examined | None) -> int | None:
    return None if drafted is None else drafted.token_id


def _other_fate(one: Examined, other: Examined, same_draft: bool) -> Cause:
    """Why the same drafted token passed in one run and failed in the other."""
    draft = _Gap(one.token_id, one.verdict.draft_prob, other.verdict.draft_prob)
    rule = _Gap(one.token_id, one.verdict.acceptance_prob, other.verdict.acceptance_prob)
    if draft.size > SAME_PROB:
        return draft.distribution(Distribution.DRAFT, same_draft)
    if rule.size > SAME_PROB:
        return rule.distribution(Distribution.ACCEPTANCE, False)
    draws = one.verdict.uniform_draw, other.verdict.uniform_draw
    known = draws[0] is not None and draws[1] is not None
    if known and abs((draws[0] or 0.0) - (draws[1] or 0.0)) <= SAME_DRAW:
        return rule.distribution(Distribution.ACCEPTANCE, True)  # a near tie
    return OtherDraw(one.token_id, draws)


def _other_extra(
    a: DecodingConfig, b: DecodingConfig, here: Arrival, there: Arrival, same_maker: bool
) -> Cause:
    """Both drew a token of their own behind the same failed drafts.

    That draw is keyed by seed and place, so with the same seed only its distribution can differ.
    """
    drawn = here.token_id, there.token_id
    distributions = (
        (Distribution.DRAFT, _widest(_q(here), _q(there), drawn)),
        (Distribution.RESIDUAL, _widest(_left(here), _left(there), drawn)),
    )
    for distribution, gap in distributions:
        if gap and gap.size > SAME_PROB:
            return gap.distribution(distribution, False)
    target = _widest(_p(here), _p(there), drawn)
    if a.seed == b.seed and target and target.size > 0:
        return target.distribution(Distribution.TARGET, same_maker)
    return OtherDraw(None, (None, None))


@dataclass(frozen=True, slots=True)
class _Gap:
    """One token's probability in a and b."""

    token_id: int
    a: float
    b: float

    @property
    def size(self) -> float:
        return abs(self.a - self.b)

    def distribution(self, distribution: Distribution, same_setting: bool) -> OtherDistribution:
        return OtherDistribution(distribution, self.token_id, (self.a, self.b), same_setting)


def _widest(a: Mapping[int, float], b: Mapping[int, float], drawn: tuple[int, int]) -> _Gap | None:
    """The token that differs most, of those that both know: one of the two drawn, if they do."""
    gaps = [_Gap(token_id, a[token_id], b[token_id]) for token_id in a.keys() & b.keys()]
    own = [gap for gap in gaps if gap.token_id in drawn and gap.size > SAME_PROB]
    return max(own or gaps, key=lambda gap: (gap.size, -gap.token_id), default=None)


def _p(there: Arrival) -> dict[int, float]:
    drafted = {each.token_id: each.verdict.target_prob for each in there.examined}
    return drafted | (target_probs(there.position) if there.position else {})


def _q(there: Arrival) -> dict[int, float]:
    return draft_probs(there.position) if there.position else {}


def _left(there: Arrival) -> dict[int, float]:
    return residual_probs(there.position) if there.position else {}
