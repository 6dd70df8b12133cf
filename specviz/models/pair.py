"""What a pair is: the sources of a target and of what can be beside it.

Knows nothing of which pairs there are, nor of loading.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and what can be beside it, each a folder or a Hub id ("": none).

    `name` is typed, `title` is shown. `claim` is what others say of the pair: nothing of it is
    measured here. `instruct` and `model_type` (the architecture in the words of a configuration, ""
    where unknown) are about the target, for what must be known before a download.
    """

    name: str
    title: str
    target: str
    draft: str
    note: str = ""
    claim: str = ""
    instruct: bool = False
    model_type: str = ""
    medusa: str = ""
    eagle: str = ""
    foreign_draft: str = ""
