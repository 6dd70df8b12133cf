"""Whose an address is, and who gives way where few have taken all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address


def visitor_at(host: str) -> str:
    """Who counts as one: of IPv6 a household, to whom its first 56 bits belong."""
    try:
        address = ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, IPv4Address):
        return host
    return str(address.ipv4_mapped or int(address) >> 72)


def last_of_most(owners: Mapping[str, str], names: Iterable[str], visitor: str) -> str:
    """The last of these names that belongs to who has most; "" unless that is more than
    `visitor` would have with one more.
    """
    counts = Counter(owners.values())
    last = max(reversed([*names]), key=lambda name: counts[owners[name]], default="")
    return last if last and counts[owners[last]] > counts[visitor] + 1 else ""
