"""The first token at which two runs differ, and the reason, computed from the traces alone.

Both texts are equal up to that token, so the distributions, drafts and draws at its position can be
compared. The reason is the first item of this list that differs: the target's distribution, the
drafted tokens, the draft's distribution, the acceptance probability, and the random draw.
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

# Probabilities that differ by at most SAME_PROB count as equal. This is much more than the rounding
# in float32 and in files, but rounding in half precision can be larger.
SAME_PROB = 1e-3
# Draws that differ by at most SAME_DRAW count as equal, because a file keeps 6 significant digits.
SAME_DRAW = 1e-5


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The numbers of tokens and rounds of a run, and its rates.

    A rate is None if it does not exist, for example if nothing was drafted.
    """

    tokens: int
    rounds: int
    block_efficiency: float | None
    acceptance_rate: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between two texts.

    `index` counts new tokens from 0, so it is also the number of equal tokens. `a` and `b` describe
    each run at that position; one of them is None if the text of its run had already ended.
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
    """Return the first difference between two runs, or None if the texts are equal.

    Raise InputError if the runs have different tokenizers, because token ids then cannot be
    compared.
    """
    shared_texts(a, b)
    pairs = enumerate(zip_longest(a.emitted_ids, b.emitted_ids))
    index = next((index for index, (one, other) in pairs if one != other), None)
    if index is None:
        return None
    here, there = arrival(a, index), arrival(b, index)
    return Difference(index, _cause(a, b, here, there), here, there, (totals(a), totals(b)))


def totals(trace: Trace) -> RunTotals:
    """Return the total numbers of a whole run, such as its rounds and its acceptance rate."""
    return RunTotals(
        tokens=len(trace.emitted_ids),
        rounds=len(trace.rounds),
        block_efficiency=block_efficiency(trace.rounds),
        acceptance_rate=acceptance_rate(trace.rounds),
    )


def shared_texts(a: Trace, b: Trace) -> dict[int, str]:
    """Return the texts of all tokens of both runs, keyed by token id.

    Raise InputError if one token id has different texts in the two runs.
    """
    texts = dict(a.token_texts)
    for token_id, text in b.token_texts:
        if texts.setdefault(token_id, text) != text:
            raise InputError(
                f"traces must have the same tokenizer, but token {token_id} is "
                f"{reprlib.repr(texts[token_id])} in the first trace and "
                f"{reprlib.repr(text)} in the second"
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
    """Return the settings of the round in which a token was decoded."""
    return trace.config_of(-1 if there.round_index is None else there.round_index)


def _parted(here: Arrival, there: Arrival, same_draft: bool) -> Cause | None:
    """Compare the drafted tokens at the first differing text position, and their verdicts.

    Return the first difference between the two runs as the cause, or None if there is none.
    `same_draft` is True if both runs have the same models and the same settings.
    """
    for one, other in zip_longest(here.examined, there.examined):
        if one is None or other is None or one.token_id != other.token_id:
            return OtherProposal((_token_id(one), _token_id(other)))
        if one.verdict.outcome is not other.verdict.outcome:
            return _other_fate(one, other, same_draft)
    return None


def _token_id(drafted: Examined | None) -> int | None:
    return None if drafted is None else drafted.token_id


def _other_fate(one: Examined, other: Examined, same_draft: bool) -> Cause:
    """Return why one run accepted a drafted token that the other run rejected.

    `same_draft` is True if both runs have the same models and the same settings.
    """
    draft = _Gap(one.token_id, one.verdict.draft_prob, other.verdict.draft_prob)
    rule = _Gap(one.token_id, one.verdict.acceptance_prob, other.verdict.acceptance_prob)
    if draft.size > SAME_PROB:
        return draft.distribution(Distribution.DRAFT, same_draft)
    if rule.size > SAME_PROB:
        return rule.distribution(Distribution.ACCEPTANCE, False)
    draws = one.verdict.uniform_draw, other.verdict.uniform_draw
    known = draws[0] is not None and draws[1] is not None
    if known and abs((draws[0] or 0.0) - (draws[1] or 0.0)) <= SAME_DRAW:
        # Probabilities and draws are equal: the draw is so near to the acceptance probability that
        # rounding decided the outcome.
        return rule.distribution(Distribution.ACCEPTANCE, True)
    return OtherDraw(one.token_id, draws)


def _other_extra(
    a: DecodingConfig, b: DecodingConfig, here: Arrival, there: Arrival, same_maker: bool
) -> Cause:
    """Return why the targets of the two runs drew different tokens at the same position.

    Before that, both runs rejected the same drafted tokens at this position. The random number of a
    draw depends only on the seed and the position, so with the same seed only the distributions can
    differ. `same_maker` is True if both runs have the same target and the same sampling settings.
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
    """One token, and its different probabilities in run a and run b."""

    token_id: int
    a: float
    b: float

    @property
    def size(self) -> float:
        return abs(self.a - self.b)

    def distribution(self, distribution: Distribution, same_setting: bool) -> OtherDistribution:
        return OtherDistribution(distribution, self.token_id, (self.a, self.b), same_setting)


def _widest(a: Mapping[int, float], b: Mapping[int, float], drawn: tuple[int, int]) -> _Gap | None:
    """Return the token whose probability differs most between the runs.

    `drawn` are the tokens that the two runs drew. If the probability of one of them differs by more
    than SAME_PROB, the function chooses only between these two tokens, because they explain the
    difference best. Only tokens that both runs have recorded are compared. Return None if there are
    no such tokens.
    """
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
