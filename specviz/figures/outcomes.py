"""The colours, marks and names of each outcome of a token, for charts, text and tables.

Only this module defines them: figures import them, and the page gets them from `outcome_table`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specviz.records import ExtraKind, Outcome


@dataclass(frozen=True, slots=True)
class Look:
    """The appearance of one outcome.

    Colour-blind readers can tell the colours apart, and each outcome has a mark as well.

    - `light`, `dark`: the colour in the light and in the dark theme.
    - `mark`: the mark in a text; `symbol` is Plotly's name of it, and `size` its pixels in a tree.
    - `word`: the share of the colour in coloured words; the rest is the colour of normal text, so
      that the words stay readable.
    - `title`, `short`: the name of such a token on the page, and its shorter name in a legend.
    - `origin`: the name of such a token in a description of the decoded text; "" if the token does
      not become part of the text.
    - `term`: the glossary term that explains the outcome, or "".
    - `underline`, `tint`: the style of such a token in the decoded text.
    - `cell`: the style of a cell in the strip of rounds.
    """

    light: str
    dark: str
    mark: str
    symbol: str
    size: int
    word: str
    title: str
    short: str
    term: str = ""
    origin: str = ""
    underline: str = "0"
    tint: str = "0%"
    cell: str = "plain"


LOOKS = {
    Outcome.ACCEPTED.value: Look(
        light="#0072B2",
        dark="#4AA8E0",
        mark="●",
        symbol="circle",
        size=13,
        word="80%",
        title="accepted guess",
        short="accepted guess",
        term="accepted",
        origin="accepted guess",
        underline="2px solid",
        tint="12%",
    ),
    Outcome.REJECTED.value: Look(
        light="#D55E00",
        dark="#FF8C4A",
        mark="✕",
        symbol="x",
        size=11,
        word="70%",
        title="rejected",
        short="rejected",
        term="rejected",
        cell="crossed",
    ),
    ExtraKind.RECOVERED.value: Look(
        light="#E69F00",
        dark="#F5B942",
        mark="◆",
        symbol="diamond",
        size=13,
        word="48%",
        title="recovered: the target's token after a rejection",
        short="recovered",
        term="recovered_token",
        origin="recovered from the residual",
        underline="2px dashed",
        tint="20%",
    ),
    ExtraKind.BONUS.value: Look(
        light="#009E73",
        dark="#35C796",
        mark="★",
        symbol="star",
        size=16,
        word="60%",
        title="bonus: all accepted (of a tree a whole path), one on top",
        short="bonus",
        term="bonus_token",
        origin="bonus token",
        underline="4px double",
        tint="15%",
    ),
    ExtraKind.PLAIN.value: Look(
        light="#4a5563",
        dark="#b4bcc8",
        mark="■",
        symbol="square",
        size=12,
        word="80%",
        title="nothing drafted: the target alone",
        short="target alone",
        term="target",
        origin="written by the target alone",
    ),
    Outcome.UNREACHED.value: Look(
        light="#999999",
        dark="#868d97",
        mark="○",
        symbol="circle-open",
        size=11,
        word="60%",
        title="drafted, never examined",
        short="never examined",
        term="unreached",
        cell="faint",
    ),
}


def outcome_table() -> list[dict[str, Any]]:
    """Return the appearance of all outcomes for the page, in the order of its legend."""
    return [{"name": name, **asdict(look)} for name, look in LOOKS.items()]
