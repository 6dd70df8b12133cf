"""What the lab puts into the decoding queue: a measurement with its pair and its messages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import ClassVar

from specviz.experiments.run.template_warning import pair_warning
from specviz.models.pair_catalog import Pair
from specviz.records import Prompt
from specviz.ui.messages import Message
from specviz.ui.turns import Work


class LabOrder(ABC):
    """One measurement of the lab, checked before it takes its place in the queue."""

    title: ClassVar[str]  # shown to others while they wait for it
    work: ClassVar[Work] = Work.LAB  # how it takes turns with others

    @property
    @abstractmethod
    def pair(self) -> Pair:
        """The models to load before it starts."""

    @abstractmethod
    def messages(self, stop: threading.Event) -> Generator[Message]:
        """Measure, yielding messages; once `stop` is set end soon and keep what there is."""


def prompt_warnings(
    pair: Pair, device: str, dtype: str, prompts: Sequence[Prompt]
) -> Iterator[Message]:
    """A `warning` where prompts of one's own hold the tokens of the model's chat template."""
    warning = pair_warning(pair, device, dtype, prompts) if prompts else None
    if warning:
        yield {"kind": "warning", "text": warning}
