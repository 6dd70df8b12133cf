"""What the lab puts into the decoding queue: a measurement with its pair and its messages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from specviz.models.pair_catalog import Pair
from specviz.ui.batches import Message


class LabOrder(ABC):
    """One measurement of the lab, checked before it takes its place in the queue."""

    title: ClassVar[str]  # shown to others while they wait for it

    @property
    @abstractmethod
    def pair(self) -> Pair:
        """The models to load before it starts."""

    @abstractmethod
    def messages(self, stop: threading.Event) -> Iterator[Message]:
        """Measure, yielding messages; once `stop` is set end soon and keep what there is."""
