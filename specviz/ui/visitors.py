"""Grouping of addresses into visitors, and the choice of the entry to remove from a full table.

The app counts what visitors use in accounts, which have limits. Each visitor has an account. In
IPv6, one customer of a provider may have a whole /48 network, which contains 256 visitors (/56
networks). Each /48 network therefore has an account as well, with the limits of NETWORK_VISITORS
visitors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address

# endings of the names that stand for a visitor's network and for a provider's network in IPv6
_VISITOR, _NETWORK = "/56", "/48"
# The number of visitors whose limits one /48 network of IPv6 may use up together.
NETWORK_VISITORS = 4


def visitor_at(host: str) -> str:
    """Return the visitor of an address: a /56 network for IPv6, the address itself for IPv4."""
    try:
        address = ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return f"{int(address) >> 72:014x}{_VISITOR}"


def accounts_of(visitor: str) -> dict[str, int]:
    """Return the accounts of a visitor: name -> how many times a visitor's limit it may use.

    Every visitor has one account. A visitor of IPv6 also uses the account of its /48 network.

    >>> accounts_of("192.0.2.1")
    {'192.0.2.1': 1}
    >>> accounts_of(visitor_at("2001:db8:7:100::1"))
    {'20010db8000701/56': 1, '20010db80007/48': 4}
    """
    if not visitor.endswith(_VISITOR):
        return {visitor: 1}
    return {visitor: 1, visitor.removesuffix(_VISITOR)[:-2] + _NETWORK: NETWORK_VISITORS}


def account_word(visitors: int) -> str:
    """Return the word for an account in an error; `visitors` is its number from `accounts_of`."""
    return "address" if visitors == 1 else "network"


class VisitorCounts:
    """A number of items for each visitor, such as its open connections, to compare with a limit.

    This number is called the visitor's amount.

    The amount of a visitor is the larger of two numbers: the visitor's own amount, and a quarter of
    the amount of its /48 network. A comparison with one visitor's limit thus stops a network at
    four times the limit.
    """

    def __init__(self, visitors: Iterable[str] = ()) -> None:
        """Begin with an amount of 1 for every entry of `visitors`, which may repeat a visitor."""
        self._own: Counter[str] = Counter()
        self._all: Counter[str] = Counter()  # account -> amount
        for visitor in visitors:
            self.add(visitor)

    def __getitem__(self, visitor: str) -> float:
        return max(self._all[name] / visitors for name, visitors in accounts_of(visitor).items())

    def add(self, visitor: str, amount: int = 1) -> None:
        """Change the visitor's amount by `amount`, which may be negative.

        An account whose amount becomes 0 is forgotten.
        """
        for counts, names in ((self._own, (visitor,)), (self._all, accounts_of(visitor))):
            for name in names:
                counts[name] += amount
                if not counts[name]:
                    del counts[name]

    def total(self) -> int:
        return self._own.total()

    def largest(self) -> float:
        """Return the amount of the visitor with the largest amount, or 0 without any visitor."""
        return max((self[visitor] for visitor in self._own), default=0)


def last_of_most(owners: Mapping[str, str], names: Iterable[str], visitor: str) -> str:
    """Return the last entry of the visitor who has the largest number of entries in a full table.

    An entry is, for example, a member of a class. The caller removes the returned entry and adds a
    new entry of `visitor`. `owners` maps entries to visitors, and only an entry in `names` may be
    returned. With the new entry, `visitor` would have n entries. If no entry in `names` belongs to
    a visitor with more than n entries, nothing is removed, and the result is "".
    """
    counts = VisitorCounts(owners.values())
    last = max(reversed([*names]), key=lambda name: counts[owners[name]], default="")
    return last if last and counts[owners[last]] > counts[visitor] + 1 else ""
