"""A queue of simple work on a fake clock, which advances only when a step of the work runs."""

from __future__ import annotations

from collections.abc import Iterator

from specviz.ui.messages import Message
from specviz.ui.turns import QueuedOrder, Turns, Work

BUDGETS = {Work.RACE: 100.0, Work.ASK: 100.0, Work.LAB: 100.0}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Workshop:
    """A queue of visitors' work on a fake clock.

    `moved` has one entry for each step that has run, in order: the name of the work.
    """

    def __init__(self, most_live: int = 48, budgets: dict[Work, float] | None = None) -> None:
        self.clock = Clock()
        self.turns = Turns(budgets or BUDGETS, most_live, self.clock)
        self.moved: list[str] = []
        self.closed: list[str] = []

    def order(
        self,
        name: str,
        work: Work = Work.RACE,
        steps: int = 3,
        seconds: float = 0.1,
        visitor: str = "an address",
    ) -> QueuedOrder:
        """Return work of `steps` steps.

        Each step takes `seconds` seconds of the fake clock. The work can be stopped between two
        steps.
        """

        def make(order: QueuedOrder) -> Iterator[Message | None]:
            for _ in range(steps):
                if order.stop.is_set():
                    break
                while order.gate.take_turn().value == "held":
                    yield None
                self.clock.now += seconds
                self.moved.append(name)
                yield {"kind": "event", "type": "round", "name": name}
            self.closed.append(name)
            yield {"kind": "end", "reason": "stopped" if order.stop.is_set() else "done"}

        return QueuedOrder(name, work, make, visitor, request=name)

    def add(self, name: str, *given: object) -> QueuedOrder:
        order = self.order(name, *given)  # type: ignore[arg-type]
        self.turns.add(order)
        return order

    def run(self, turns: int = 10_000) -> None:
        """Run at most `turns` steps of the queue; stop earlier if no work can take a step."""
        for _ in range(turns):
            if not self.turns.move():
                return
