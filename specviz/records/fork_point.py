"""Where a run was forked from another one.

Knows only settings; it imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records.decoding_config import DecodingConfig


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """`round_index` is the first round that was decoded anew; `config` made the rounds before it.

    `forced` are the draws that were forced in that round: the id of a drafted token, and its u.
    """

    round_index: int
    config: DecodingConfig
    forced: tuple[tuple[int, float], ...] = ()
