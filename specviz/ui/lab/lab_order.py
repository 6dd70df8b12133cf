"""What the lab asks the decoding queue for: a pair, and messages until it is done or stopped.

Knows no experiment.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from specviz.models.pair_catalog import Pair
from specviz.ui.batches import Message


class LabOrder(ABC):
    """One measurement of the lab, checked before it takes its place in the queue."""

    title: ClassVar[str]  # what others are told who wait for it

    @property
    @abstractmethod
    def pair(self) -> Pair:
        """What is loaded first."""

    @abstractmethod
    def messages(self, stop: threading.Event) -> Iterator[Message]:
        """Measure and tell; once `stop` is set end soon, keeping what there is."""
