"""A measurement in the decoding queue, with its models and its messages."""

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
    """A measurement for the decoding queue; its setting is checked before it enters the queue."""

    # the title that other users read while they wait until this measurement ends
    title: ClassVar[str]
    # The class of work, which decides how the measurement takes turns with other jobs.
    work: ClassVar[Work] = Work.LAB

    @property
    @abstractmethod
    def pair(self) -> Pair:
        """Return the pair whose models are loaded before the measurement starts."""

    @abstractmethod
    def messages(self, stop: threading.Event) -> Generator[Message]:
        """Measure and yield messages.

        When `stop` is set, end soon and keep the results so far.
        """


def prompt_warnings(
    pair: Pair, device: str, dtype: str, prompts: Sequence[Prompt]
) -> Iterator[Message]:
    """Yield a `warning` if the user's own prompts contain tokens of the model's chat template."""
    warning = pair_warning(pair, device, dtype, prompts) if prompts else None
    if warning:
        yield {"kind": "warning", "text": warning}
