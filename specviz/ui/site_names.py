"""The names under which this server may be reached, and the pages that may call it.

In a DNS rebinding attack, a page of another site lets its own name resolve to this machine. A
browser then treats this server as the same origin, and only the name in `Host` reveals the attack.
A name can be rebound in this way, but an address cannot.
"""

from __future__ import annotations

import re
import socket
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from specviz.environment import Environment
from specviz.errors import short

FOREIGN = "a page of another site may link to this one, but not ask it"
_PORTS = {"http": 80, "https": 443}
# The pattern of a host. It is stricter than a parser of addresses, which would find a name in
# "evil.example@localhost" as well.
_HOST = re.compile(r"(\[[0-9a-f:.]+(%[\w.-]+)?\]|[\w.-]+)(:\d{0,5})?", re.ASCII | re.I)


def name_refusal(headers: Headers, environment: Environment) -> str:
    """Return why this server does not answer to the name in `Host`, or "" if it does.

    A public server accepts every name unless SPECVIZ_HOSTS lists some, because strangers may call
    it anyway.
    """
    host = headers.get("host")
    if host is None or (environment.is_public and not environment.hosts):
        return ""
    name = _name(f"//{host}") if _HOST.fullmatch(host) else ""
    if name and (_is_address(name) or _is_loopback(name) or name in _own_names(environment)):
        return ""
    return (
        f"this server does not answer to the name {short(host)}: open it as localhost or by its "
        "address, or add the name to SPECVIZ_HOSTS"
    )


def page_refusal(headers: Headers, environment: Environment) -> str:
    """Return why the calling page is refused, or "" if it may call.

    Programs and links send no origin, so they may always call.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is None:
        return ""
    # New browsers send the header Sec-Fetch-Site on safe connections. A proxy that changes Host
    # leaves this header unchanged.
    if site:
        return "" if site == "same-origin" else FOREIGN
    host = headers.get("host", "")
    scheme = origin.partition("://")[0]
    own, asked = _place(origin, scheme), _place(f"//{host}", scheme)
    if own[0] and (own == asked or own[0] in environment.hosts):
        return ""
    return (
        f"a page of {short(origin)} must not send requests to {short(host)}: if a proxy between "
        "them replaces Host, let it pass Host on or add the page's name to SPECVIZ_HOSTS"
    )


def _own_names(environment: Environment) -> set[str]:
    return {*environment.hosts, environment.host.lower(), environment.space_host, *_machine_names()}


@cache
def _machine_names() -> tuple[str, ...]:
    """Return the names of this machine in its local network."""
    name = socket.gethostname().lower()
    return name, f"{name.partition('.')[0]}.local"


def _place(address: str, scheme: str) -> tuple[str, int | None]:
    """Return the name and the port of an address.

    An address without a port gets the default port of its scheme.
    """
    try:
        return _name(address), urlsplit(address).port or _PORTS.get(scheme)
    except ValueError:  # the port in the address is no number
        return "", None


def _name(address: str) -> str:
    """Return the name in an address, in lower case, or "" if it has none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
