"""Decide which engines a page may contact for a visitor.

A public page may contact only the servers that its owner lists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.serving.engine_address import EngineAddress

LONGEST_KEY = 1_000


def permitted(url: Any, key: Any) -> EngineAddress:
    """Return the address for a visitor's request, with the key to send.

    The owner's key is sent only to the owner's servers, and only if the visitor gives no key.
    Raises InputError if the address is not allowed.
    """
    environment = Environment.read()
    if not isinstance(url, str) or not url.strip():
        raise InputError(
            f"url must be the address of a server, such as http://127.0.0.1:8000, got {short(url)}"
        )
    is_key = isinstance(key, str) and len(key) <= LONGEST_KEY
    if not is_key or any(not "!" <= each <= "~" for each in key):
        raise InputError("key must be printable ASCII without spaces, got something else")
    address, allowed = EngineAddress.of(url, key), _allowed(environment)
    if str(address) in allowed:
        return replace(address, key=key or environment.engine_key)
    if environment.is_public:
        named = f"one of {', '.join(allowed)}" if allowed else "empty: its owner allows no server"
        raise InputError(f"url on this public page must be {named}, got {short(url)}")
    return address


def permitted_addresses() -> list[str] | None:
    """Return the addresses that the owner of a public page allows.

    If the page is not public, return None, which means that every address is allowed. Raises
    InputError for an invalid address in the owner's list.
    """
    environment = Environment.read()
    allowed = _allowed(environment)
    return allowed if environment.is_public else None


def _allowed(environment: Environment) -> list[str]:
    try:
        return [str(EngineAddress.of(each)) for each in environment.allowed_engines]
    except InputError as error:
        rule = str(error).removeprefix("url ")
        raise InputError(f"each address in SPECVIZ_ENGINES_ALLOWED {rule}") from None
