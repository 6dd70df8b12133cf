"""The mean number of tokens that two rules accept of a recorded draft, over all possible draws.

The two rules are token by token and block verification. A round that block verification judged has,
for every drafted token, p, q and the acceptance probability h of block verification. Both means can
therefore be computed exactly, and their difference does not depend on random draws.
"""

from __future__ import annotations

from specviz.records import Round


def expected_accepted(round_: Round) -> tuple[float, float]:
    """Return two means of accepted tokens: under token by token and under block verification.

    `round_` must have been judged by block verification. Token by token accepts at least i tokens
    with a probability that is the product of the first i values of min(1, p/q). Block verification
    accepts the longest prefix whose last token has a draw below its h.
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
