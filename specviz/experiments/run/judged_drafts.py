"""The same drafts judged by two rules: how much more does block verification accept?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.target import cache_capacity
from specviz.metrics.expected_accepted import expected_accepted
from specviz.models.pair_loading import LoadedPair
from specviz.records import DecodingConfig, Round
from specviz.slices import giving_way

SAMPLES = 1000  # bootstrap samples for an interval
# Sums over the drafts of one prompt: the number of drafts, and the expected numbers of tokens that
# token-by-token verification and block verification accept.
Sums = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class RuleGain:
    """The expected accepted tokens per draft, token by token (`token`) and as a block (`block`).

    `low` and `high` are the ends of a 95 % interval of the gain `block` / `token` - 1, from
    bootstrap samples over the prompts. `drafts` is the number of drafts.
    """

    drafts: int
    token: float
    block: float
    low: float
    high: float


def drafted_rounds(loaded: LoadedPair, config: DecodingConfig, task: str, text: str) -> list[Round]:
    """Run one prompt and return those rounds in which at least one token was drafted."""
    ids = loaded.codec.encode(text, task)
    drafter = make_drafter(Setup(loaded.target, loaded.parts, config, cache_capacity(ids, config)))
    events = speculative.decode(loaded.target, drafter, ids, config, loaded.codec.eos_ids)
    return [each for each in giving_way(events) if isinstance(each, Round) and each.verdicts]


def sums_of(rounds: Sequence[Round]) -> Sums:
    """Return the sums over the drafts of one prompt."""
    both = [expected_accepted(each) for each in rounds]
    by_token, as_block = (sum(column) for column in zip(*both, strict=True)) if both else (0.0, 0.0)
    return float(len(rounds)), by_token, as_block


def rule_gain(prompts: Sequence[Sums]) -> RuleGain:
    """Compare the two verification rules by the sums of several prompts with at least one draft."""
    count, by_token, as_block = _total(prompts)
    choose = random.Random(0)
    gains = sorted(_gains(prompts, choose))
    low, high = (gains[int(SAMPLES * share)] for share in (0.025, 0.975))
    return RuleGain(int(count), by_token / count, as_block / count, low, high)


def _gains(prompts: Sequence[Sums], choose: random.Random) -> Iterator[float]:
    for _ in range(SAMPLES):
        _, by_token, as_block = _total(choose.choices(prompts, k=len(prompts)))
        yield as_block / by_token - 1 if by_token else 0.0


def _total(prompts: Sequence[Sums]) -> Sums:
    count, by_token, as_block = (sum(column) for column in zip(*prompts, strict=True))
    return count, by_token, as_block
