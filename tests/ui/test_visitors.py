"""A /48 network of IPv6, which has 256 visitors, is stopped at four times one visitor's limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from limits import RateLimitItemPerYear
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.testclient import TestClient

from specviz.errors import InputError
from specviz.ui import guard, room, runs
from specviz.ui.gradio_sessions import CALLS_OF_ADDRESS, MAX_CALLS, next_to_go
from specviz.ui.guard import Guard
from specviz.ui.room import Rooms
from specviz.ui.runs import Runs
from specviz.ui.spending import MOST_SECONDS, Spending
from specviz.ui.turns import QueuedOrder, Work
from specviz.ui.visitors import VisitorCounts, accounts_of, last_of_most, visitor_at
from tests.ui.clocked import Clock, Workshop
from tests.ui.test_guard import ASKED, size


def host(number: int, network: int = 7) -> str:
    """Return an address; `network` chooses a /48 network and `number` one of its /56 networks."""
    return f"2001:db8:{network:x}:{number:02x}00::1"


def visitor(number: int, network: int = 7) -> str:
    return visitor_at(host(number, network))


def stopped_at(take: Callable[[str], bool], most: int) -> int:
    """Return how many calls of `take` succeed, each for another visitor of one /48 network."""
    taken = 0
    while taken < most and take(visitor(taken % 256)):
        taken += 1
    assert take(visitor(0, 8)), "another network is not disturbed"
    assert take("192.0.2.1"), "nor is an IPv4 address"
    return taken


def test_only_ipv6_visitors_share_an_account() -> None:
    assert len({visitor(number) for number in range(256)}) == 256
    assert len({name for number in range(256) for name in accounts_of(visitor(number))}) == 257
    assert accounts_of(visitor(0)).keys().isdisjoint(accounts_of(visitor(0, 8)))
    for address in ("192.0.2.1", "::ffff:192.0.2.1"):
        assert accounts_of(visitor_at(address)) == {"192.0.2.1": 1}
    assert accounts_of("") == {"": 1}


def test_a_network_is_compared_by_a_quarter_of_its_amount() -> None:
    counts = VisitorCounts(visitor(number) for number in range(8))
    assert counts[visitor(0)] == counts[visitor(200)] == counts.largest() == 2
    assert counts[visitor(0, 8)] == counts["192.0.2.1"] == 0
    counts.add(visitor(0), 4)
    assert counts[visitor(0)] == 5 and counts.total() == 12
    counts.add(visitor(0), -5)
    for number in range(1, 8):
        counts.add(visitor(number), -1)
    assert counts.total() == counts.largest() == counts[visitor(0)] == 0


def test_a_network_has_four_times_the_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    spent = Spending(Clock())

    def take(name: str) -> bool:
        is_free = not spent.is_over(name)
        spent.add(name, MOST_SECONDS / 32)
        return is_free

    assert stopped_at(take, 999) == 4 * 32 + 1


def test_a_network_has_four_times_the_questions_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(guard, "PER_MINUTE", 5)
    monkeypatch.setattr(guard, "RateLimitItemPerMinute", RateLimitItemPerYear)
    app = Starlette(routes=[Route(ASKED, size, methods=["POST"])], middleware=[Middleware(Guard)])
    hosts = ["192.0.2.1", host(0, 8), *map(host, range(256))]
    clients = {visitor_at(each): TestClient(app, client=(each, 1)) for each in hosts}
    assert stopped_at(lambda name: clients[name].post(ASKED, json={}).is_success, 99) == 20


def test_a_network_has_four_times_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_OF_ADDRESS", 4)
    shop = Workshop()
    queue = Runs(shop.turns, shop.clock)
    errors: list[str] = []

    def take(name: str) -> bool:
        ticket = f"ticket-of-a-page-{len(errors):04d}"
        try:
            queue.join(ticket, QueuedOrder("a", Work.RACE, lambda order: iter(()), name))
        except InputError as error:
            errors.append(str(error))
            return False
        errors.append("")
        queue.look(ticket, 0)
        return True

    assert stopped_at(take, 99) == 16
    assert errors[16] == "16 runs from your network are running already: try again in a minute"


def test_a_network_has_four_times_the_classes() -> None:
    rooms, errors = Rooms(), []

    def take(name: str) -> bool:
        errors.append(rooms.open_room({"home": "http://x/", "address": name})["error"])
        return errors[-1] is None

    most = 4 * room.ROOMS_OF_ADDRESS
    assert stopped_at(take, 99) == most
    assert errors[most] == (
        f"{most} classes from your network are open already: end one of them first"
    )


def test_a_network_that_has_all_kept_calls_gives_one_to_another_visitor() -> None:
    owners = [visitor(number) for number in range(MAX_CALLS)]
    assert next_to_go(owners, visitor(0, 8)) == next_to_go(owners, "192.0.2.1") == 0
    many = [visitor(0, 8), *owners[: 4 * CALLS_OF_ADDRESS - 1]]
    assert next_to_go([*many, visitor(255)], visitor(254)) == 1, "its own network's oldest"
    assert next_to_go([str(number) for number in range(MAX_CALLS)], "new") is None


def test_a_network_that_fills_a_table_loses_an_entry_to_another_visitor() -> None:
    owners = {str(number): visitor(number) for number in range(200)}
    assert last_of_most(owners, owners, visitor(0, 8)) == "199"
    assert last_of_most(owners, owners, visitor(201)) == ""


def test_many_visitors_of_a_network_share_the_decoding_time_of_four() -> None:
    shop = Workshop()
    for number in range(16):
        shop.add("n", Work.LAB, 400, 0.5, visitor(number))
    shop.add("o", Work.LAB, 400, 0.5, visitor(0, 8))
    shop.run(200)
    assert 30 <= shop.moved.count("o") <= 50, "a fifth of the time, as next to four visitors"


def test_a_network_that_has_all_slots_gives_one_to_another_visitor() -> None:
    shop = Workshop(most_live=8)
    for number in range(8):
        shop.add("n", Work.LAB, 400, 0.5, visitor(number))
    shop.run(20)
    shop.add("o", Work.LAB, 400, 0.5, visitor(0, 8))
    shop.run(20)
    assert "o" in shop.moved
