"""How much to draft in a round: length policies, and the entropy stop.

A length policy uses the results of complete rounds, and the entropy stop uses the draft's
distributions. Both decide whether a token is drafted, so neither may look at that token. Suppose
that a drafter draws x from q, and then keeps only the x that it prefers. The kept tokens no longer
have the distribution q, but the rule still judges them with q, so the preferred tokens appear in
the text too often. Whether the i-th token is drafted may therefore depend on the text, on earlier
rounds, on the drafted tokens 1 to i - 1, and on the q from which the i-th token would be drawn, but
not on the i-th token or on anything that is drawn after it.

A new policy needs a class and an entry in the table here. In shapes, M is the number of
distributions and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specviz.errors import InputError, short
from specviz.records import DecodingConfig

# NEWEST is the weight of the newest round in the average of accepted tokens. SLACK is how far this
# average must be below the middle between two lengths before the length falls. Both are SGLang's
# default values.
NEWEST = 0.2
SLACK = 0.25
# The factor of the entropy in the formula of `EntropyStop`. With a threshold t, drafting stops at
# the entropy (1 - t)^2 / GAMMA, so another factor would only move the useful thresholds.
GAMMA = 0.2


class DraftLength(Protocol):
    """A length policy of one sequence: the complete rounds decide how much the next one drafts."""

    def within(self, room: int) -> int:
        """Return how many tokens the next round may draft; at most `room` fit into the text."""
        ...

    def add(self, drafted: int, accepted: int) -> None:
        """Learn how many tokens along one path a round drafted, and how many were accepted."""
        ...


class FixedLength:
    """A policy that sets no limit: every round drafts K tokens, as the settings say."""

    def __init__(self, longest: int) -> None:
        """Do nothing: the drafters read K from the settings."""

    def within(self, room: int) -> int:
        return room

    def add(self, drafted: int, accepted: int) -> None:
        """Do nothing, because rounds do not change a fixed length."""


class AdaptiveLength:
    """A length from 1 to K that follows the average number of accepted tokens.

    The length L rises by 1 while the average is above L - 0.5, so a round tries about one token
    more than it expects to be accepted. L falls by 1 while the average is at most L - 1.5 - SLACK.
    Between the two, L stays, so that it does not swing with every round. The newest round has the
    weight NEWEST; in the first rounds, all rounds have the same weight. A run begins with half of
    K.

    This is the rule of SGLang's `--speculative-adaptive`, which has the lengths 1, 3, 5 and 7,
    begins with its usual length, waits for ten rounds, and then changes the length only after every
    fifth round. The texts in this app are too short for that.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._length = (longest + 1) // 2
        self._average, self._rounds = 0.0, 0

    def within(self, room: int) -> int:
        return min(room, self._length)

    def add(self, drafted: int, accepted: int) -> None:
        if not drafted:
            return
        self._rounds += 1
        self._average += max(NEWEST, 1 / self._rounds) * (accepted - self._average)
        while self._length > 1 and self._average <= self._length - 1.5 - SLACK:
            self._length -= 1
        while self._length < self._longest and self._average > self._length - 0.5:
            self._length += 1


@dataclass(frozen=True, slots=True)
class LengthPolicy:
    """An entry in the table of length policies.

    `start` creates the policy of one sequence from the draft length K.
    """

    name: str
    title: str
    summary: str
    start: Callable[[int], DraftLength]


FIXED = LengthPolicy("fixed", "fixed", "Every round may draft K tokens.", FixedLength)
ADAPTIVE = LengthPolicy(
    "adaptive",
    "adaptive",
    "A round drafts 1 to K tokens: about one more than earlier rounds accepted on average.",
    AdaptiveLength,
)
POLICIES = {policy.name: policy for policy in (FIXED, ADAPTIVE)}


def policy_named(name: str) -> LengthPolicy:
    """Return the length policy with this name.

    If there is none, raise InputError. The message lists all policies.
    """
    if name not in POLICIES:
        raise InputError(f"length_policy must be one of {', '.join(POLICIES)}, got {short(name)}")
    return POLICIES[name]


def draft_length(config: DecodingConfig) -> DraftLength:
    """Return a new length policy for one sequence, of the kind that the settings name."""
    return policy_named(config.length_policy).start(config.draft_length)


@dataclass(frozen=True, slots=True)
class EntropyStop:
    """End a draft before a token whose q has a high entropy (AdaEDL, arXiv 2410.18351).

    In the paper, 1 - sqrt(GAMMA * H(q)) is a lower bound of the probability that a token from q is
    accepted. Drafting stops where this bound is below `threshold`.
    """

    threshold: float

    @classmethod
    def of(cls, config: DecodingConfig) -> EntropyStop | None:
        """Return the entropy stop that the settings describe, or None if they turn it off."""
        return cls(config.entropy_threshold) if config.entropy_threshold else None

    def stops(self, raw: Tensor) -> Tensor:
        """Return, for each q, whether drafting must stop before a draw from it. [M, V] -> [M] bool

        `raw` has the draft's distributions without the sampling settings. With these settings, the
        entropy would always be 0 at temperature 0.
        """
        entropy = raw.clamp(min=1e-30).log().mul_(raw).sum(-1).neg_().clamp_(min=0)
        return 1 - (GAMMA * entropy).sqrt() < self.threshold
