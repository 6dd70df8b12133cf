"""How many tokens of a recorded draft two rules accept on average, over all verification draws.

A round under block verification has p, q and h of every token of its draft, whatever was accepted.
So both expectations are exact for this draft, and their difference contains no chance of the draws.
"""

from __future__ import annotations

from specviz.records import Round


def expected_accepted(round_: Round) -> tuple[float, float]:
    """Return the expected number of accepted tokens: token by token, and as a block.

    Token by token accepts i tokens or more with the product of the first i values of min(1, p/q).
    Block verification accepts the longest prefix whose draw is below its threshold h.
    """
    by_token, reached = 0.0, 1.0
    for each in round_.verdicts:
        reached *= min(1.0, each.target_prob / each.draft_prob) if each.draft_prob else 0.0
        by_token += reached
    as_block, none_longer = 0.0, 1.0
    for length in range(len(round_.verdicts), 0, -1):
        threshold = round_.verdicts[length - 1].acceptance_prob
        as_block += length * threshold * none_longer
        none_longer *= 1 - threshold
    return by_token, as_block
